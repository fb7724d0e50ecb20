//! The executor of the workloads.

use crate::workload::{absent_key, balance_key, nonce_key, Touched, Workload, LARGE_VALUE};
use povmeter::{Accounting, Block, BlockError, NodeSource, TrieId::Top};
use povmeter_parallel::{Executor, Interrupt, Stopped, View};
use std::{hint::black_box, time::Instant};

/// Executes the transactions of a [`Workload`], each with a cost of its own.
#[derive(Clone, Debug)]
pub struct Transfers {
    workload: Workload,
    touched: Vec<Touched>,
    spins: u64,
}

impl Transfers {
    /// `transactions` transactions of `workload`. Each computes for `cost_us` microseconds, on this machine
    /// when it does nothing else.
    pub fn new(workload: Workload, transactions: u32, cost_us: u32) -> Self {
        Self {
            workload,
            touched: workload.touched(transactions),
            spins: spins_of(cost_us),
        }
    }

    fn run<S: State>(&self, index: u32, state: &mut S) -> Result<(), S::Error> {
        let Touched { from, to } = self.touched[index as usize];
        match self.workload {
            Workload::SameValue => rewrite(state, &balance_key(from))?,
            Workload::Existence => {
                for step in 0..6 {
                    state.exists(&balance_key((from + step) % 10_000))?;
                    state.exists(&absent_key((from + step) % 10_000))?;
                }
                state.set(&balance_key(to), &u128::from(index).to_le_bytes())?;
            }
            Workload::Iterate => {
                let mut key = balance_key(from).to_vec();
                for _ in 0..6 {
                    match state.next(&key)? {
                        Some(next) => key = next,
                        None => break,
                    }
                }
                transfer(state, from, to)?;
            }
            _ => transfer(state, from, to)?,
        }
        spin(self.spins);
        Ok(())
    }

    /// Executes the transactions on `block`, one after the other, without this repository's parallel
    /// execution. Every other way is compared with this one.
    ///
    /// # Errors
    /// Those of the block.
    pub fn run_sequentially<S: NodeSource, A: Accounting>(
        &self,
        block: &mut Block<S, A>,
    ) -> Result<(), BlockError> {
        for (_, index) in self.touched.iter().zip(0..) {
            block.start_transaction();
            self.run(index, &mut Plain(&mut *block))?;
            block.commit_transaction()?;
            block.proof_size()?;
        }
        Ok(())
    }
}

fn transfer<S: State>(state: &mut S, from: u32, to: u32) -> Result<(), S::Error> {
    let (nonce, paid, received) = (nonce_key(from), balance_key(from), balance_key(to));
    let mut number = [0; 4];
    state.read(&nonce, &mut number)?;
    state.set(&nonce, &(u32::from_le_bytes(number) + 1).to_le_bytes())?;
    for (key, by) in [(&paid, -1_i128), (&received, 1)] {
        let mut balance = [0; 16];
        state.read(key, &mut balance)?;
        let balance = u128::from_le_bytes(balance).wrapping_add_signed(by);
        state.set(key, &balance.to_le_bytes())?;
    }
    Ok(())
}

/// Reads a large value and writes it again. Not inlined, because a function with a large value on its stack
/// touches all of it on each call, and no other workload should pay for that.
#[inline(never)]
fn rewrite<S: State>(state: &mut S, key: &[u8]) -> Result<(), S::Error> {
    let mut large = [0; LARGE_VALUE];
    state.read(key, &mut large)?;
    state.set(key, &large)
}

impl Executor for Transfers {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        Ok(self.run(index, view)?)
    }
}

/// The calls of the transactions, on a view and on a block.
trait State {
    type Error;
    fn read(&mut self, key: &[u8], value: &mut [u8]) -> Result<(), Self::Error>;
    fn exists(&mut self, key: &[u8]) -> Result<bool, Self::Error>;
    fn next(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
}

fn copy(found: Option<&[u8]>, value: &mut [u8]) {
    if let Some(found) = found.filter(|found| found.len() == value.len()) {
        value.copy_from_slice(found);
    }
}

impl State for View<'_> {
    type Error = Stopped;

    fn read(&mut self, key: &[u8], value: &mut [u8]) -> Result<(), Stopped> {
        self.get(Top, key).map(|found| copy(found, value))
    }

    fn exists(&mut self, key: &[u8]) -> Result<bool, Stopped> {
        View::exists(self, Top, key)
    }

    fn next(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.next_key(Top, key)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stopped> {
        View::set(self, Top, key, value)
    }
}

struct Plain<'b, S, A: Accounting>(&'b mut Block<S, A>);

impl<S: NodeSource, A: Accounting> State for Plain<'_, S, A> {
    type Error = BlockError;

    fn read(&mut self, key: &[u8], value: &mut [u8]) -> Result<(), BlockError> {
        self.0.get(Top, key).map(|found| copy(found, value))
    }

    fn exists(&mut self, key: &[u8]) -> Result<bool, BlockError> {
        self.0.exists(Top, key)
    }

    fn next(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, BlockError> {
        self.0.next_key(Top, key)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), BlockError> {
        self.0.set(Top, key, value)
    }
}

/// Computes for some time, without memory. Counts rounds, because the clock also runs while a thread waits
/// for a processor. Not inlined, because all ways to execute a block have to compute equally long, and copies
/// of the loop differ by a tenth of its time, by where they lie and what they keep on the stack.
#[inline(never)]
fn spin(spins: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..spins {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    black_box(state);
}

fn spins_of(cost_us: u32) -> u64 {
    const SPINS: u64 = 1 << 18;
    if cost_us == 0 {
        return 0;
    }
    let round = |_| {
        let started = Instant::now();
        spin(SPINS);
        started.elapsed()
    };
    // The shortest round was not interrupted.
    let shortest = (0..16).map(round).min().unwrap_or_default();
    let nanos = u64::try_from(shortest.as_nanos())
        .unwrap_or(u64::MAX)
        .max(1);
    SPINS * u64::from(cost_us) * 1_000 / nanos
}
