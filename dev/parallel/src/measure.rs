//! Measures blocks.

use crate::{compare_shapes, Allocated, CountAllocations, Mode, Report, Row, Transfers, Workload};
use povmeter::{Block, BlockError, ProofSize, Root, StateVersion};
use povmeter_parallel::{Parallel, ParallelError, Statistics, Strategy};
use povmeter_store::{MemoryStore, NodeStore};
use std::{num::NonZeroUsize, time::Instant};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Transactions of a block.
    pub transactions: u32,
    /// Which workloads.
    pub workloads: Vec<Workload>,
    /// Which costs of a transaction, in microseconds.
    pub costs_us: Vec<u32>,
    /// Which numbers of workers.
    pub workers: Vec<u32>,
    /// Rounds of each row; the median counts.
    pub rounds: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            transactions: 10_000,
            workloads: Workload::ALL.to_vec(),
            costs_us: vec![0, 1, 10, 125],
            workers: vec![1, 2, 5, 10, 15, 20],
            rounds: 3,
        }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The parent state can't be made.
    #[error("the parent state can't be made: {0}")]
    Parent(Box<dyn std::error::Error + Send + Sync>),
    /// A block failed.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A block in parallel failed.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// The number of workers is 0.
    #[error("expected one worker at least, found 0")]
    NoWorker,
}

/// What a block came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockResult {
    root: Root,
    size: ProofSize,
}

/// Measures blocks in every mode, and multi-version stores alone. `allocated` tells what the program has
/// allocated, if it counts that.
///
/// # Errors
/// [`MeasureError`].
pub fn measure(
    settings: &Settings,
    allocated: Option<CountAllocations>,
) -> Result<Report, MeasureError> {
    let mut report = Report {
        transactions: settings.transactions,
        ..Report::default()
    };
    for &workload in &settings.workloads {
        let store = workload.parent_state(settings.transactions);
        let store = store.map_err(MeasureError::Parent)?;
        for &cost_us in &settings.costs_us {
            let measured = Measured {
                workload,
                cost_us,
                transfers: Transfers::new(workload, settings.transactions, cost_us),
                store: &store,
                settings,
                allocated,
            };
            report.rows.extend(measured.rows()?);
        }
        report
            .shapes
            .extend(compare_shapes(workload, settings, allocated));
    }
    Ok(report)
}

/// One workload at one cost.
struct Measured<'m> {
    workload: Workload,
    cost_us: u32,
    transfers: Transfers,
    store: &'m MemoryStore,
    settings: &'m Settings,
    allocated: Option<CountAllocations>,
}

impl Measured<'_> {
    fn rows(&self) -> Result<Vec<Row>, MeasureError> {
        let (mut sequential, expected) = self.row(Mode::Sequential, 1)?;
        sequential.same_as_sequential = true;
        let mut rows = vec![sequential];
        for &workers in &self.settings.workers {
            let modes: &[Mode] = match workers {
                1 => &[Mode::Adaptive, Mode::EachAhead],
                _ => &[Mode::Adaptive, Mode::Always],
            };
            for &mode in modes {
                let (mut row, found) = self.row(mode, workers)?;
                row.same_as_sequential = found == expected;
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn row(&self, mode: Mode, workers: u32) -> Result<(Row, BlockResult), MeasureError> {
        let mut times = Vec::new();
        let mut last = None;
        for _ in 0..self.settings.rounds.max(1) {
            let mut block = Block::new(self.store, self.store.root());
            let before = self
                .allocated
                .map(|allocated| allocated())
                .unwrap_or_default();
            let started = Instant::now();
            let statistics = self.execute(&mut block, mode, workers)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            let after = self
                .allocated
                .map(|allocated| allocated())
                .unwrap_or_default();
            let sealed = block
                .seal(StateVersion::V1)
                .map_err(|error| error.into_parts().1)?;
            let result = BlockResult {
                root: sealed.update().root,
                size: sealed.size(),
            };
            last = Some((statistics, allocated_between(before, after), result));
        }
        let (statistics, allocated, result) = last.unwrap_or_default();
        times.sort_by(f64::total_cmp);
        let transactions = f64::from(self.settings.transactions.max(1));
        let row = Row {
            workload: self.workload,
            cost_us: self.cost_us,
            workers,
            mode,
            ms: times[times.len() / 2],
            bytes: allocated.bytes,
            allocations: allocated.allocations,
            executions_per_tx: count(statistics.speculations + statistics.in_order) / transactions,
            validations_per_tx: count(statistics.validations) / transactions,
            same_as_sequential: false,
        };
        Ok((row, result))
    }

    fn execute(
        &self,
        block: &mut Block<&MemoryStore>,
        mode: Mode,
        workers: u32,
    ) -> Result<Statistics, MeasureError> {
        let strategy = match mode {
            Mode::Sequential => {
                self.transfers.run_sequentially(block)?;
                return Ok(Statistics {
                    in_order: u64::from(self.settings.transactions),
                    ..Statistics::default()
                });
            }
            Mode::Adaptive => Strategy::Adaptive,
            Mode::Always => Strategy::Always,
            Mode::EachAhead => Strategy::EachAhead,
        };
        let workers = NonZeroUsize::new(workers as usize).ok_or(MeasureError::NoWorker)?;
        let parallel = Parallel::new(workers).with_strategy(strategy);
        let transactions = self.settings.transactions;
        let batch = parallel.execute(block, self.store, &self.transfers, transactions)?;
        Ok(batch.statistics)
    }
}

impl Default for BlockResult {
    fn default() -> Self {
        Self {
            root: Root::EMPTY,
            size: ProofSize::default(),
        }
    }
}

pub(crate) fn allocated_between(before: Allocated, after: Allocated) -> Allocated {
    Allocated {
        bytes: after.bytes - before.bytes,
        allocations: after.allocations - before.allocations,
    }
}

/// A count of events as a number to divide: exact, because there are fewer than 2^52.
#[allow(clippy::cast_precision_loss)]
fn count(events: u64) -> f64 {
    events as f64
}
