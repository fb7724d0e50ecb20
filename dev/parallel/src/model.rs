//! A model of the scheduler, as a simulation of events, for more processors than this machine has.
//!
//! ```text
//! a free worker:   starts the next transaction in the window, which needs `ahead`
//!                  workers other than 0 leave it some transactions in a row, and the next ones once it has
//!                  begun the last of them
//!                  no other transaction in the window: starts one of those left to worker 0
//!                  none of those either: idle until a commit moves the window
//! worker 0, if the transaction whose turn it is
//!     was executed after all that it depends on:    commits it, which needs `commit`; the window grows
//!     was executed before that:                     executes it, which needs `in_order`; the window shrinks
//!     is being executed:                            works as the others do, or waits for it
//!     else:                                         executes it, which needs `in_order`
//! ```
//! The model knows nothing of caches, of locks that threads wait for, of validations before the turn, or of
//! memory that processors share. So its speedups are upper bounds, and reports call it a model.

use crate::{Mode, Report, Touched, Workload};
use povmeter_parallel::Parallel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    num::NonZeroUsize,
    time::Duration,
};

/// The measured costs of a transaction, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// To execute it on a plain block, and to compute its proof size.
    pub in_order_us: f64,
    /// To execute it ahead of its turn.
    pub ahead_us: f64,
    /// To commit it after it was executed ahead.
    pub commit_us: f64,
}

/// The curve of a workload by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRow {
    /// The workload.
    pub workload: Workload,
    /// The computing time of a transaction, in microseconds of one processor.
    pub cost_us: u32,
    /// The measured costs, which are the input of the model.
    pub costs: Model,
    /// The speedup for each number of workers.
    pub curve: Vec<Modelled>,
}

/// The speedup with a number of workers, by the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Modelled {
    /// The number of workers, each on a processor of its own.
    pub workers: u32,
    /// Time of sequential execution divided by the time with these workers.
    pub speedup: f64,
}

const WORKERS: [u32; 6] = [1, 2, 4, 8, 12, 16];
/// Longer blocks have the same curve.
const MOST_TRANSACTIONS: u32 = 2_000;

impl Model {
    /// The curves of all workloads and costs for which `report` has rows of one worker.
    pub fn of_rows(report: &Report) -> Vec<ModelRow> {
        let transactions = report.options.transactions;
        let ahead = report.rows.iter();
        let ahead = ahead.filter(|row| row.workers == 1 && row.mode == Mode::EachAhead);
        let modelled = ahead.filter_map(|ahead| {
            let (workload, cost_us) = (ahead.workload, ahead.cost_us);
            let costs = Self::of_measured(
                per_transaction(report, workload, cost_us)?,
                micros(ahead.ms, transactions),
                Self::commit_us(report, workload)?,
            );
            Some(ModelRow {
                workload,
                cost_us,
                costs,
                curve: costs.curve(workload, transactions.min(MOST_TRANSACTIONS), &WORKERS),
            })
        });
        modelled.collect()
    }

    /// The time of a commit: that of a plain execution without its cost, because a commit repeats the rest.
    /// It is taken from the least cost, where the rest is most of the time.
    fn commit_us(report: &Report, workload: Workload) -> Option<f64> {
        let least = *report.options.costs_us.iter().min()?;
        let plain_us = per_transaction(report, workload, least)?;
        Some((plain_us - f64::from(least)).max(0.1))
    }

    /// The costs of a transaction that needs `in_order_us` on a plain block, and `both_us` if one thread
    /// executes it ahead and commits it.
    fn of_measured(in_order_us: f64, both_us: f64, commit_us: f64) -> Self {
        Self {
            in_order_us,
            ahead_us: (both_us - commit_us).max(0.1),
            commit_us,
        }
    }

    /// The speedup of a block of `transactions` transactions of `workload`, for each number of workers.
    pub fn curve(&self, workload: Workload, transactions: u32, workers: &[u32]) -> Vec<Modelled> {
        let depends = dependencies(workload, transactions);
        let in_order = self.in_order_us * f64::from(transactions.max(1));
        let modelled = |&workers| Modelled {
            workers,
            speedup: match workers {
                0 | 1 => 1.0,
                _ => in_order / Simulation::new(*self, &depends, workers as usize).micros(),
            },
        };
        workers.iter().map(modelled).collect()
    }
}

/// A block that is being executed.
struct Simulation<'d> {
    costs: Model,
    /// For each transaction, the last earlier one that writes what it reads.
    depends: &'d [Option<usize>],
    /// When each worker is free.
    free: BinaryHeap<Reverse<(Duration, usize)>>,
    /// Workers that find nothing in the window.
    idle: Vec<usize>,
    window: usize,
    /// The window while executions are in vain, and while they are of use.
    windows: (usize, usize),
    /// How many transactions in a row are left to worker 0.
    together: usize,
    /// When each transaction was begun, and was or will be done.
    spans: Vec<Option<(Duration, Duration)>>,
    committed: usize,
    next: usize,
    /// The first of the transactions that are left to worker 0.
    left: Option<usize>,
}

impl<'d> Simulation<'d> {
    fn new(costs: Model, depends: &'d [Option<usize>], workers: usize) -> Self {
        let at_start = (0..workers).map(|worker| Reverse((Duration::ZERO, worker)));
        let parallel = Parallel::new(NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN));
        let windows = (
            parallel.window() as usize,
            parallel.greatest_window() as usize,
        );
        Self {
            costs,
            depends,
            free: at_start.collect(),
            idle: Vec::new(),
            window: windows.0,
            windows,
            together: parallel.left_to_block() as usize,
            spans: vec![None; depends.len()],
            committed: 0,
            next: 0,
            left: None,
        }
    }

    /// Microseconds until the last transaction is committed.
    fn micros(mut self) -> f64 {
        let mut last = Duration::ZERO;
        while self.committed < self.depends.len() {
            let Some(Reverse((now, worker))) = self.free.pop() else {
                break;
            };
            if worker == 0 {
                if let Some(until) = self.commit(now) {
                    last = until;
                    self.free.push(Reverse((until, 0)));
                    let woken = self.idle.drain(..);
                    self.free
                        .extend(woken.map(|worker| Reverse((until, worker))));
                    continue;
                }
            }
            match (self.begin(now, worker), worker) {
                (Some(until), _) => self.free.push(Reverse((until, worker))),
                (None, 0) => {
                    let done = self.spans[self.committed].map_or(now, |(_, done)| done);
                    self.free.push(Reverse((done, 0)));
                }
                (None, _) => self.idle.push(worker),
            }
        }
        last.as_secs_f64() * 1e6
    }

    /// Commits the transaction whose turn it is, and returns when that is done; `None` if a worker still
    /// executes it.
    fn commit(&mut self, now: Duration) -> Option<Duration> {
        let turn = self.committed;
        let right = match self.spans[turn] {
            None => false,
            Some((_, done)) if done > now => return None,
            Some((begun, _)) => {
                let known = |on: usize| self.spans[on].is_some_and(|(_, done)| done <= begun);
                self.depends[turn].is_none_or(known)
            }
        };
        if self.spans[turn].is_some() {
            let (least, greatest) = self.windows;
            self.window = match right {
                true => greatest.min(self.window + 1),
                false => least.max(self.window / 2),
            };
        }
        let until = match right {
            true => after(now, self.costs.commit_us),
            false => after(now, self.costs.in_order_us),
        };
        if !right {
            self.spans[turn] = Some((now, until));
        }
        let together = self.together;
        self.left = self.left.filter(|left| left + together > turn + 1);
        self.committed += 1;
        Some(until)
    }

    /// Begins the next transaction in the window, and returns when it is done; `None` if there is none.
    fn begin(&mut self, now: Duration, worker: usize) -> Option<Duration> {
        self.next = self.next.max(self.committed);
        let end = self.depends.len().min(self.committed + self.window);
        let mut leaves = worker != 0;
        loop {
            while self.next < end && self.spans[self.next].is_some() {
                self.next += 1;
            }
            if self.next >= end {
                self.next = self.left.take()?;
                leaves = false;
            } else if leaves
                && self
                    .left
                    .is_none_or(|left| left + self.together > self.next)
            {
                self.left.get_or_insert(self.next);
                self.next += 1;
            } else {
                break;
            }
        }
        let done = after(now, self.costs.ahead_us);
        self.spans[self.next] = Some((now, done));
        Some(done)
    }
}

/// Microseconds of a transaction on a plain block.
fn per_transaction(report: &Report, workload: Workload, cost_us: u32) -> Option<f64> {
    let plain = report.row(workload, cost_us, 1, Mode::Sequential)?;
    Some(micros(plain.ms, report.options.transactions))
}

/// Microseconds of each of `transactions` that take `ms` together.
fn micros(ms: f64, transactions: u32) -> f64 {
    ms * 1e3 / f64::from(transactions.max(1))
}

/// `us` microseconds after `now`.
fn after(now: Duration, us: f64) -> Duration {
    now + Duration::from_secs_f64(us.max(0.0) * 1e-6)
}

fn dependencies(workload: Workload, transactions: u32) -> Vec<Option<usize>> {
    let mut writers = HashMap::new();
    let touched = workload.touched(transactions);
    let of = |(index, touched): (usize, Touched)| {
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

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Model = Model {
        in_order_us: 12.0,
        ahead_us: 11.0,
        commit_us: 1.0,
    };

    fn speedups(costs: Model, workload: Workload) -> Vec<f64> {
        let curve = costs.curve(workload, 2_000, &[1, 2, 4, 8]);
        curve.into_iter().map(|modelled| modelled.speedup).collect()
    }

    #[test]
    fn without_conflicts_workers_add_up() {
        let found = speedups(COSTS, Workload::NoConflict);
        let bounds = [(1.0, 1.0), (1.8, 2.1), (3.5, 4.1), (6.0, 8.1)];
        for (found, (least, most)) in found.into_iter().zip(bounds) {
            assert!((least..=most).contains(&found), "{found}");
        }
    }

    /// Worker 0 executes some transactions in order, which need no commit.
    #[test]
    fn some_are_left_to_the_block() {
        let costs = Model {
            in_order_us: 16.0,
            ahead_us: 17.0,
            commit_us: 5.0,
        };
        let found = speedups(costs, Workload::NoConflict)[1];
        let all_ahead = 2.0 * costs.in_order_us / (costs.ahead_us + costs.commit_us);
        assert!(
            (1.1 * all_ahead..1.2 * all_ahead).contains(&found),
            "{found}"
        );
    }

    #[test]
    fn a_chain_gains_nothing() {
        let found = speedups(COSTS, Workload::Worst);
        assert!(found.into_iter().all(|found| found < 1.2));
    }

    /// One thread commits, so commits bound what more workers gain.
    #[test]
    fn commits_are_the_limit() {
        let costs = Model {
            commit_us: 6.0,
            ..COSTS
        };
        let found = speedups(costs, Workload::NoConflict);
        assert!(found.iter().all(|found| *found <= 2.0), "{found:?}");
        assert!(found[3] > 1.9, "{found:?}");
    }

    #[test]
    fn costs_are_those_measured() {
        let costs = Model::of_measured(14.0, 20.0, 4.0);
        let expected = Model {
            in_order_us: 14.0,
            ahead_us: 16.0,
            commit_us: 4.0,
        };
        assert_eq!(costs, expected);
    }
}
