//! Measures blocks.
//!
//! ```text
//! for each workload and cost:
//!     for each round: each way to execute the block, in turn    time, root, proof size
//!     each way once more, under a count of allocations          not timed, because the count takes time
//! ```

use crate::{
    compare_shapes, target::number, CountAllocations, Mode, Model, Report, Row, Transfers, Workload,
};
use povmeter::{Block, BlockError, ProofSize, Root, StateVersion};
use povmeter_dev_allocations::AllThreads;
use povmeter_parallel::{Parallel, ParallelError, Statistics, Strategy};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, seq::SliceRandom, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

/// The settings of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Transactions in a block.
    pub transactions: u32,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The computing times of a transaction, in microseconds of one processor.
    pub costs_us: Vec<u32>,
    /// The numbers of threads.
    pub workers: Vec<u32>,
    /// Rounds of each row. A row has the median of its rounds.
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

/// Why the measurement failed.
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

/// Called before each part of the work: its number, the number of all parts, and what it is.
pub type Progress<'p> = dyn FnMut(usize, usize, &str) + 'p;

/// The root and the proof size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockResult {
    root: Root,
    size: ProofSize,
}

/// Measures blocks in every mode, and multi-version stores alone. `count` counts what the program
/// allocates, if it can.
///
/// # Errors
/// [`MeasureError`].
pub fn measure(
    settings: &Settings,
    count: Option<CountAllocations>,
    progress: &mut Progress<'_>,
) -> Result<Report, MeasureError> {
    let (mut rows, mut shapes) = (Vec::new(), Vec::new());
    let parts = settings.workloads.len() * (settings.costs_us.len() + 1);
    let mut part = 0;
    for &workload in &settings.workloads {
        let store = workload.parent_state(settings.transactions);
        let store = store.map_err(MeasureError::Parent)?;
        for &cost_us in &settings.costs_us {
            progress(part, parts, workload.name());
            part += 1;
            let measured = Measured {
                workload,
                cost_us,
                transfers: Transfers::new(workload, settings.transactions, cost_us),
                store: &store,
                settings,
            };
            rows.extend(measured.rows(count)?);
        }
        progress(part, parts, workload.name());
        part += 1;
        shapes.extend(compare_shapes(workload, settings, count));
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut report = Report {
        options: settings.clone(),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        rows,
        shapes,
        model: Vec::new(),
        targets: Vec::new(),
    };
    report.model = Model::of_rows(&report);
    report.targets = report.evaluate();
    Ok(report)
}

/// One workload at one cost.
struct Measured<'m> {
    workload: Workload,
    cost_us: u32,
    transfers: Transfers,
    store: &'m MemoryStore,
    settings: &'m Settings,
}

/// A way to execute the block, and its measurements.
struct Way {
    mode: Mode,
    workers: u32,
    times: Vec<Duration>,
    statistics: Statistics,
    same: bool,
}

/// A block that was executed, before its seal.
struct Run<'s> {
    block: Block<&'s MemoryStore>,
    statistics: Statistics,
    time: Duration,
}

impl Run<'_> {
    fn seal(self) -> Result<BlockResult, BlockError> {
        let sealed = self.block.seal(StateVersion::V1);
        let sealed = sealed.map_err(|error| error.into_parts().1)?;
        Ok(BlockResult {
            root: sealed.update().root,
            size: sealed.size(),
        })
    }
}

impl<'m> Measured<'m> {
    fn rows(&self, count: Option<CountAllocations>) -> Result<Vec<Row>, MeasureError> {
        let mut ways = self.ways();
        // Not timed: the first block also pays for memory that later ones use again.
        let expected = self.run(Mode::Sequential, 1)?.seal()?;
        // Each round has an order of its own, because a block finds memory and caches as the block before it
        // left them: after a block that executes each transaction ahead, blocks were up to a tenth slower
        // than after a plain block.
        let mut order: Vec<usize> = (0..ways.len()).collect();
        let mut rng = SmallRng::seed_from_u64(0);
        for _ in 0..self.settings.rounds.max(1) {
            order.shuffle(&mut rng);
            for &index in &order {
                let way = &mut ways[index];
                let run = self.run(way.mode, way.workers)?;
                way.times.push(run.time);
                way.statistics = run.statistics;
                way.same &= run.seal()? == expected;
            }
        }
        let rows = ways.into_iter();
        rows.map(|way| self.row(way, expected, count)).collect()
    }

    /// The ways to execute the block: plain, and in two modes for each number of workers.
    fn ways(&self) -> Vec<Way> {
        let of_workers = |&workers: &u32| {
            let second = match workers {
                1 => Mode::EachAhead,
                _ => Mode::Always,
            };
            [(Mode::Adaptive, workers), (second, workers)]
        };
        let parallel = self.settings.workers.iter().flat_map(of_workers);
        let all = std::iter::once((Mode::Sequential, 1)).chain(parallel);
        let way = |(mode, workers)| Way {
            mode,
            workers,
            times: Vec::new(),
            statistics: Statistics::default(),
            same: true,
        };
        all.map(way).collect()
    }

    fn row(
        &self,
        way: Way,
        expected: BlockResult,
        count: Option<CountAllocations>,
    ) -> Result<Row, MeasureError> {
        let Way {
            mode,
            workers,
            mut times,
            statistics,
            mut same,
        } = way;
        let allocated = match count {
            None => AllThreads::default(),
            Some(count) => {
                let mut run = None;
                let allocated = count(&mut || run = Some(self.run(mode, workers)));
                if let Some(run) = run {
                    same &= run?.seal()? == expected;
                }
                allocated
            }
        };
        let transactions = f64::from(self.settings.transactions.max(1));
        let executions = statistics.speculations + statistics.in_order;
        Ok(Row {
            workload: self.workload,
            cost_us: self.cost_us,
            workers,
            mode,
            ms: median_ms(&mut times),
            bytes: allocated.bytes,
            allocations: allocated.calls,
            executions_per_tx: number(executions) / transactions,
            validations_per_tx: number(statistics.validations) / transactions,
            same_as_sequential: same,
        })
    }

    fn run(&self, mode: Mode, workers: u32) -> Result<Run<'m>, MeasureError> {
        let mut block = Block::new(self.store, self.store.root());
        let started = Instant::now();
        let statistics = self.execute(&mut block, mode, workers)?;
        Ok(Run {
            time: started.elapsed(),
            block,
            statistics,
        })
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
                let mut statistics = Statistics::default();
                statistics.in_order = u64::from(self.settings.transactions);
                return Ok(statistics);
            }
            Mode::Adaptive => Strategy::Adaptive,
            Mode::Always => Strategy::Always,
            Mode::EachAhead => Strategy::EachAhead,
        };
        let workers = NonZeroUsize::new(workers as usize).ok_or(MeasureError::NoWorker)?;
        let parallel = Parallel::new(workers).with_strategy(strategy);
        let transactions = self.settings.transactions;
        let batch = parallel.execute(block, self.store, &self.transfers, transactions);
        let batch = batch.map_err(ParallelError::from)?;
        Ok(batch.statistics)
    }
}

/// The median in milliseconds; NaN if there are no times.
pub(crate) fn median_ms(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    let at = |place: usize| times.get(place).map_or(f64::NAN, Duration::as_secs_f64);
    // Of an even number of times, the mean of the two in the middle.
    (at(times.len().saturating_sub(1) / 2) + at(times.len() / 2)) / 2.0 * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (seconds, expected) in [(&[3][..], 3e3), (&[3, 1], 2e3), (&[9, 1, 2], 2e3)] {
            let times = seconds.iter().copied().map(Duration::from_secs);
            let median = median_ms(&mut times.collect::<Vec<_>>());
            assert!((median - expected).abs() < 1e-9, "{seconds:?}: {median}");
        }
        assert!(median_ms(&mut []).is_nan());
    }

    #[test]
    fn each_way_has_a_row_and_the_result_of_the_plain_block() {
        let settings = Settings {
            transactions: 80,
            costs_us: vec![0, 10],
            workers: vec![1, 2, 10],
            rounds: 1,
            ..Settings::default()
        };
        let count: CountAllocations = |work| {
            work();
            AllThreads { bytes: 7, calls: 3 }
        };
        let mut parts = Vec::new();
        let report = measure(&settings, Some(count), &mut |part, of, _| {
            parts.push((part, of));
        });
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.rows.len(), 7 * 2 * 7);
        assert_eq!(report.shapes.len(), 7 * 5);
        assert!(parts.iter().copied().eq((0..21).map(|part| (part, 21))));
        assert!(report.same_as_sequential());
        assert!(report
            .rows
            .iter()
            .all(|row| (row.bytes, row.allocations) == (7, 3)));
        assert_eq!(report.model.len(), 7 * 2);
        // 10 of the store, 10 of extra memory, 9 of one thread, 2 of threads.
        assert_eq!(report.targets.len(), 31);
        let same_bytes = &report.targets[0];
        assert!(!same_bytes.met && (same_bytes.found - 1.0).abs() < 1e-9);
    }

    #[test]
    fn no_worker_is_an_error() {
        let settings = Settings {
            transactions: 1,
            workers: vec![0],
            ..Settings::default()
        };
        let measured = measure(&settings, None, &mut |_, _, _| ());
        assert!(matches!(measured, Err(MeasureError::NoWorker)));
    }
}
