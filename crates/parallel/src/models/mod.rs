//! Tests that try orders of threads. `.ci/run threads` runs them.
//!
//! | tool | what it tries | on what |
//! |---|---|---|
//! | loom | every order within a bound of preemptions, with the values that weak memory may show | the bell; the store; the scheduler with two transactions |
//! | shuttle | many orders by chance, and by PCT, which finds faults that need few switches | the bell; the store; the scheduler; whole blocks |

mod bell;
#[cfg(povmeter_shuttle)]
mod blocks;
mod scheduler;
mod store;

/// Tries orders of the threads of `test`.
#[cfg(povmeter_loom)]
fn try_orders(_: usize, test: fn()) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(test);
}

/// Tries `orders` random orders of the threads of `test`, and as many by PCT.
#[cfg(povmeter_shuttle)]
fn try_orders(orders: usize, test: fn()) {
    shuttle::check_random(test, orders);
    shuttle::check_pct(test, orders, 3);
}
