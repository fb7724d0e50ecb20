//! A model of the scheduler, as a simulation of events: what more processors than this machine has would do.
//!
//! ```text
//! a worker that is free:   starts the next transaction within the window; done after `ahead`
//! worker 0, if the transaction whose turn it is
//!     was executed, and all that it depends on had been when it began:  commits it, in `commit`
//!     is being executed:                                                works as the others do
//!     else:                                                             executes it, in `in_order`
//! ```
//! It knows nothing of caches, of locks that threads wait for, of validations before the turn, or of memory
//! that is shared by processors. So it is an upper bound, and named a model where it is shown.

use crate::{Transfers, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

/// Measured costs of a transaction, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// On a plain block, with its size.
    pub in_order_us: f64,
    /// Ahead of its turn.
    pub ahead_us: f64,
    /// To commit one that was executed ahead.
    pub commit_us: f64,
}

/// What the model says of some workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Modelled {
    /// How many workers, each with a processor of its own.
    pub workers: u32,
    /// How many times as fast as one transaction after the other.
    pub speedup: f64,
}

const WINDOW: usize = 6;

impl Model {
    /// Blocks of `transactions` of `workload` with each number of workers.
    pub fn curve(&self, workload: Workload, transactions: u32, workers: &[u32]) -> Vec<Modelled> {
        let depends = dependencies(workload, transactions);
        let in_order = self.in_order_us * f64::from(transactions);
        let modelled = |&workers| Modelled {
            workers,
            speedup: in_order / self.simulate(&depends, workers as usize),
        };
        workers.iter().map(modelled).collect()
    }

    /// Microseconds of a block. `depends` has for each transaction the last one before that writes what it
    /// reads.
    fn simulate(&self, depends: &[Option<usize>], workers: usize) -> f64 {
        if workers < 2 {
            return self.in_order_us * depends.len().max(1) as f64;
        }
        let mut free: BinaryHeap<Reverse<(Duration, usize)>> = (0..workers)
            .map(|worker| Reverse((Duration::ZERO, worker)))
            .collect();
        let mut spans: Vec<Option<(Duration, Duration)>> = vec![None; depends.len()];
        let (mut committed, mut next, mut last) = (0, 0, Duration::ZERO);
        while committed < depends.len() {
            let Some(Reverse((now, worker))) = free.pop() else {
                break;
            };
            let busy = if worker == 0 {
                match spans[committed] {
                    Some((begun, done)) if done <= now => {
                        let known = |on: usize| spans[on].is_some_and(|(_, done)| done <= begun);
                        let right = depends[committed].is_none_or(known);
                        let cost = if right {
                            self.commit_us
                        } else {
                            self.in_order_us
                        };
                        let until = after(now, cost);
                        if !right {
                            spans[committed] = Some((now, until));
                        }
                        committed += 1;
                        last = until;
                        Some(until)
                    }
                    None => {
                        let until = after(now, self.in_order_us);
                        spans[committed] = Some((now, until));
                        committed += 1;
                        last = until;
                        Some(until)
                    }
                    Some(_) => None,
                }
            } else {
                None
            };
            let until = busy.unwrap_or_else(|| {
                next = next.max(committed);
                while next < depends.len() && spans[next].is_some() {
                    next += 1;
                }
                if next < depends.len().min(committed + WINDOW * workers) {
                    let done = after(now, self.ahead_us);
                    spans[next] = Some((now, done));
                    done
                } else {
                    after(now, 0.2)
                }
            });
            free.push(Reverse((until, worker)));
        }
        last.as_secs_f64() * 1e6
    }
}

/// `us` microseconds after `now`.
fn after(now: Duration, us: f64) -> Duration {
    now + Duration::from_secs_f64(us.max(0.0) * 1e-6)
}

fn dependencies(workload: Workload, transactions: u32) -> Vec<Option<usize>> {
    let mut writers = HashMap::new();
    let touched = workload.touched(transactions);
    let of = |(index, touched): (usize, crate::Touched)| {
        if matches!(workload, Workload::SameValue | Workload::Existence) {
            return None;
        }
        let accounts = [touched.from, touched.to];
        let last = accounts
            .iter()
            .filter_map(|account| writers.get(account).copied())
            .max();
        accounts
            .into_iter()
            .for_each(|account| _ = writers.insert(account, index));
        last
    };
    touched.into_iter().enumerate().map(of).collect()
}

impl Transfers {
    /// Whether transactions of the workload depend on each other.
    pub fn conflicts(workload: Workload, transactions: u32) -> bool {
        dependencies(workload, transactions)
            .iter()
            .any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Model = Model {
        in_order_us: 12.0,
        ahead_us: 11.0,
        commit_us: 1.0,
    };

    fn speedups(workload: Workload) -> Vec<f64> {
        let curve = COSTS.curve(workload, 2_000, &[1, 2, 4, 8]);
        curve.into_iter().map(|modelled| modelled.speedup).collect()
    }

    #[test]
    fn without_conflicts_workers_add_up() {
        let found = speedups(Workload::NoConflict);
        let bounds = [(1.0, 1.0), (1.8, 2.1), (3.5, 4.1), (6.0, 8.1)];
        for (found, (least, most)) in found.into_iter().zip(bounds) {
            assert!((least..=most).contains(&found), "{found}");
        }
        assert!(!Transfers::conflicts(Workload::NoConflict, 2_000));
    }

    #[test]
    fn a_chain_gains_nothing() {
        assert!(speedups(Workload::Worst)
            .into_iter()
            .all(|found| found < 1.2));
        assert!(Transfers::conflicts(Workload::Worst, 2_000));
    }
}
