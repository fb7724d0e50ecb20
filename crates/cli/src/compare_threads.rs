//! The rows of `povmeter compare block --workers`: the block with its extrinsics on several threads.

use crate::{
    checks::expect_none_refused,
    contender::Arena,
    error::CliError,
    spread::{median, Spread},
};
use povmeter::{Advisory, Consensus};
use povmeter_dev_measure::Turns;
use povmeter_dev_runtime::{
    execute_plan, parallel_of, runtime_rules, Execution, HostError, PlanBlock,
};
use povmeter_parallel::Experience;
use povmeter_substrate::{SizeSource, StorageRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{iter::once, num::NonZeroUsize, sync::Arc, time::Duration};

/// A block whose extrinsics are executed by one thread or by several. Times are wall times.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct ThreadsRow {
    /// Threads; one executes the extrinsics in order.
    pub(crate) workers: usize,
    /// Whether the runtime asks for the proof size, as it does to reclaim weight.
    pub(crate) asks_for_sizes: bool,
    /// Time of the whole block in milliseconds, median of the rounds.
    pub(crate) wall_ms: f64,
    /// Time of its signed extrinsics in milliseconds, median of the rounds.
    pub(crate) extrinsics_wall_ms: f64,
    /// How many times as fast as one thread the signed extrinsics are executed, by the medians.
    pub(crate) times_as_fast: f64,
    /// Its range in the middle half of the rounds, against the median of one thread; null for fewer than four
    /// rounds.
    pub(crate) times_as_fast_spread: Option<Spread>,
    /// Throughput of the whole block in percent of peer-none, by wall time.
    pub(crate) percent_of_peer_none: f64,
    /// Extrinsics of the last round that were executed ahead of their turn, at least until they asked for the
    /// size, and committed, or whose signature was checked ahead.
    pub(crate) ahead: u64,
}

impl ThreadsRow {
    pub(crate) fn name(&self) -> String {
        match self.workers {
            1 => "1 thread".to_owned(),
            workers => format!("{workers} threads"),
        }
    }

    pub(crate) fn asks(&self) -> &'static str {
        match self.asks_for_sizes {
            true => "yes",
            false => "no",
        }
    }

    /// How many times as fast, with the range in the middle half of the rounds.
    pub(crate) fn times_as_fast(&self) -> String {
        let times = format!("{:.2}", self.times_as_fast);
        match self.times_as_fast_spread {
            Some(Spread { low, high }) => format!("{times} ({low:.2} to {high:.2})"),
            None => times,
        }
    }
}

/// Builds the blocks of the rows, and keeps their times.
pub(crate) struct Threads<'a> {
    arena: &'a Arena<'a>,
    rules: StorageRules,
    groups: Vec<Group>,
    equal: bool,
}

/// The rows of a runtime that asks for sizes, or of one that does not.
struct Group {
    asks_for_sizes: bool,
    /// The block of one thread, which all other blocks must equal.
    expected: PlanBlock,
    ways: Vec<Way>,
    turns: Turns,
}

struct Way {
    workers: NonZeroUsize,
    /// Measured speeds of the last block, for the next one.
    experience: Option<Experience>,
    /// For each round, the time of the whole block and of its signed extrinsics.
    spent: Vec<(Duration, Duration)>,
    /// [`ThreadsRow::ahead`] of the last round.
    ahead: u64,
}

impl<'a> Threads<'a> {
    /// Prepares a row for one thread and for each number of `workers` above one; none without such a number.
    /// Builds the expected block of each kind of runtime.
    ///
    /// # Errors
    /// [`CliError::Workers`] if a block can't be built, [`CliError::Full`] if the runtime refused an extrinsic.
    pub(crate) fn new(arena: &'a Arena<'a>, workers: &[u16]) -> Result<Self, CliError> {
        let rules = runtime_rules().map_err(|error| CliError::Workers(HostError::state(error)))?;
        let mut several: Vec<u16> = workers.iter().copied().filter(|&count| count > 1).collect();
        several.sort_unstable();
        several.dedup();
        let mut threads = Self {
            arena,
            rules,
            groups: Vec::new(),
            equal: true,
        };
        if several.is_empty() {
            return Ok(threads);
        }
        for asks_for_sizes in [false, true] {
            let counts = once(1).chain(several.iter().copied());
            let way = |workers: u16| {
                Some(Way {
                    workers: NonZeroUsize::new(workers.into())?,
                    experience: None,
                    spent: Vec::new(),
                    ahead: 0,
                })
            };
            let ways: Vec<_> = counts.filter_map(way).collect();
            let group = Group {
                asks_for_sizes,
                expected: threads.build(asks_for_sizes, NonZeroUsize::MIN, None)?,
                turns: Turns::of(ways.len()),
                ways,
            };
            threads.groups.push(group);
        }
        Ok(threads)
    }

    /// How many blocks a round builds.
    pub(crate) fn blocks(&self) -> usize {
        self.groups.iter().map(|group| group.ways.len()).sum()
    }

    /// Builds the block of each row, and calls `step` after each.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub(crate) fn round(&mut self, mut step: impl FnMut()) -> Result<(), CliError> {
        for number in 0..self.groups.len() {
            for which in self.groups[number].turns.next_round() {
                let group = &self.groups[number];
                let Way {
                    workers,
                    experience,
                    ..
                } = group.ways[which];
                let block = self.build(group.asks_for_sizes, workers, experience)?;
                self.equal &= block.is_same_as(&group.expected);
                let way = &mut self.groups[number].ways[which];
                way.experience = block.experience;
                way.spent.push((block.took, block.extrinsics_took));
                way.ahead = block.ahead();
                step();
            }
        }
        Ok(())
    }

    /// Returns the rows, and whether all blocks equal the block of one thread. The peer's block takes
    /// `peer_wall_ms`.
    pub(crate) fn finish(self, peer_wall_ms: f64) -> (Vec<ThreadsRow>, bool) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut rows = Vec::new();
        for group in &self.groups {
            let extrinsics = |way: &Way| median(way.spent.iter().map(|spent| ms(spent.1)));
            let Some(in_order) = group.ways.first().map(extrinsics) else {
                continue;
            };
            rows.extend(group.ways.iter().map(|way| {
                let wall_ms = median(way.spent.iter().map(|spent| ms(spent.0)));
                let gains = way.spent.iter().map(|spent| in_order / ms(spent.1));
                ThreadsRow {
                    workers: way.workers.get(),
                    asks_for_sizes: group.asks_for_sizes,
                    wall_ms,
                    extrinsics_wall_ms: extrinsics(way),
                    times_as_fast: in_order / extrinsics(way),
                    times_as_fast_spread: Spread::of(gains),
                    percent_of_peer_none: (peer_wall_ms / wall_ms) * 100.0,
                    ahead: way.ahead,
                }
            }));
        }
        (rows, self.equal)
    }

    fn build(
        &self,
        asks_for_sizes: bool,
        workers: NonZeroUsize,
        experience: Option<Experience>,
    ) -> Result<PlanBlock, CliError> {
        let Arena {
            plan,
            state,
            runtime,
            pool,
            ..
        } = self.arena;
        let pool = Arc::clone(pool);
        let sizes = match asks_for_sizes {
            true => SizeSource::Estimate,
            false => SizeSource::Unrecorded,
        };
        let execution = match workers.get() {
            1 => Execution::InOrder,
            _ => {
                let parallel = parallel_of(*runtime, &sizes, workers);
                Execution::Parallel(parallel.with_experience(experience), &self.rules)
            }
        };
        let built = match asks_for_sizes {
            true => execute_plan::<_, Consensus>(
                *runtime,
                &state.as_stored,
                plan,
                sizes,
                execution,
                pool,
            ),
            false => execute_plan::<_, Advisory>(
                *runtime,
                &state.as_stored,
                plan,
                sizes,
                execution,
                pool,
            ),
        };
        let block = built.map_err(CliError::Workers)?;
        let results = block.extrinsics.iter();
        let refused = results.filter(|(result, _)| result.is_err()).count();
        expect_none_refused(refused, plan.extrinsics().len())?;
        Ok(block)
    }
}
