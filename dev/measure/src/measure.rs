//! The measurement of estimates: rounds, turns and medians.

use super::{
    peer_trie::PeerTrie,
    shadow::{Change, Memory, Shadow},
    state::BigState,
    transfers::transfer_changes,
    Flatness, ShadowMemory, SpeedCase, SpeedReport, SpeedRow,
};
use povmeter::LoadError;
use povmeter_dev_runtime::{
    AuthorError, CallKind, HostError, Plan, PlanError, PlanOptions, Signatures, Spent, StateError,
};
use rand::{rngs::SmallRng, seq::index, SeedableRng};
use std::{cell::Cell, hint::black_box};

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct SpeedOptions {
    /// Numbers of accounts in the parent states, at least 10,000 each.
    pub keys: Vec<usize>,
    /// Number of dirty keys of a boundary, except for transfers.
    pub dirty_keys: usize,
    /// Number of rounds. Blocks of transfers are a quarter as many, at least three.
    pub rounds: usize,
    /// Seed of the random keys.
    pub seed: u64,
}

impl Default for SpeedOptions {
    fn default() -> Self {
        Self {
            keys: vec![10_000, 1_000_000],
            dirty_keys: 2_000,
            rounds: 20,
            seed: 1,
        }
    }
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpeedError {
    /// The block of transfers cannot be planned.
    #[error("the block of transfers cannot be planned: {0}")]
    Plan(#[from] PlanError),
    /// The block of transfers cannot be built.
    #[error("the block of transfers cannot be built: {0}")]
    Transfers(#[from] AuthorError),
    /// The parent state cannot be made.
    #[error("the parent state cannot be made: {0}")]
    State(#[from] StateError),
    /// povmeter failed to estimate.
    #[error("povmeter failed to estimate: {0}")]
    Load(#[from] LoadError),
    /// The peer failed to estimate.
    #[error("the peer failed to estimate: {0}")]
    Peer(#[from] HostError),
}

/// Number of accounts of the plan for the transfers.
const PLAN_ACCOUNTS: u32 = 10_000;
/// Number of transfers timed together, because a clock reading costs as much as an estimate.
const BATCH: usize = 50;
/// Number of transfers of the block, so that one batch follows the 5,000th.
const TRANSFERS: u32 = 5_050;
/// Numbers of transfers before the two batches whose times are compared.
const EARLY: usize = 50;
const LATE: usize = 5_000;

/// Measures the cost of estimates. `allocations` returns the number of allocations of this thread so
/// far; `progress` gets a line for each step.
///
/// # Errors
/// [`SpeedError`] if a block cannot be built or a side fails.
pub fn measure(
    options: &SpeedOptions,
    allocations: impl Fn() -> u64,
    mut progress: impl FnMut(String),
) -> Result<SpeedReport, SpeedError> {
    progress("building a block of transfers".to_owned());
    let plan = Plan::new(PlanOptions {
        accounts: PLAN_ACCOUNTS,
        transfers: TRANSFERS,
        call: CallKind::TransferKeepAlive,
        signatures: Signatures::Free,
        seed: options.seed,
        ..PlanOptions::default()
    })?;
    let mut transfers = transfer_changes(&plan)?;
    // Drop the first boundary, that of the inherent.
    transfers.drain(..transfers.len().saturating_sub(TRANSFERS as usize));
    let mut report = SpeedReport::default();
    for &keys in &options.keys {
        progress(format!("making a state of {keys} keys"));
        let state = BigState::new(&plan, keys)?;
        let lane = Lane {
            state: &state,
            plan: &plan,
            options,
            allocations: &allocations,
            memory: Cell::default(),
        };
        progress(format!("estimates in a state of {keys} keys"));
        lane.boundaries(&mut report)?;
        progress(format!("transfers in a state of {keys} keys"));
        lane.transfers(&transfers, &mut report)?;
    }
    Ok(report)
}

/// The measurement on one parent state.
struct Lane<'a, F> {
    state: &'a BigState,
    plan: &'a Plan,
    options: &'a SpeedOptions,
    allocations: &'a F,
    /// Memory of the block before, for the next one.
    memory: Cell<Memory>,
}

/// The samples of one case.
#[derive(Default)]
struct Samples {
    peer: Vec<f64>,
    ours: Vec<f64>,
    allocations: u64,
    keys: usize,
}

impl Samples {
    fn row(mut self, case: SpeedCase, keys: usize) -> SpeedRow {
        SpeedRow {
            case,
            keys,
            peer_ns: (!self.peer.is_empty()).then(|| median(&mut self.peer)),
            ours_ns: median(&mut self.ours),
            allocations_per_key: ratio(self.allocations as f64, self.keys as f64),
        }
    }
}

impl<F: Fn() -> u64> Lane<'_, F> {
    /// Measures all cases except transfers.
    fn boundaries(&self, report: &mut SpeedReport) -> Result<(), SpeedError> {
        let cases = [
            SpeedCase::Loaded,
            SpeedCase::Cold,
            SpeedCase::Counted,
            SpeedCase::Rollback,
        ];
        let mut samples = cases.map(|_| Samples::default());
        let mut dice = SmallRng::seed_from_u64(self.options.seed);
        for round in 0..self.options.rounds {
            for (case, samples) in cases.iter().zip(&mut samples) {
                let changes = self.changes(&mut dice);
                if round % 2 == 0 {
                    self.ours(*case, &changes, samples)?;
                }
                if *case != SpeedCase::Rollback {
                    self.peers(*case, changes.clone(), samples)?;
                }
                if round % 2 == 1 {
                    self.ours(*case, &changes, samples)?;
                }
            }
        }
        let keys = self.state.keys.len();
        let rows = cases.iter().zip(samples);
        let rows = rows.map(|(case, samples)| samples.row(*case, keys));
        report.rows.extend(rows);
        Ok(())
    }

    /// Dirty keys in random order; every eighth is deleted.
    fn changes(&self, dice: &mut SmallRng) -> Vec<Change> {
        let keys = &self.state.keys;
        let amount = self.options.dirty_keys.min(keys.len());
        let chosen = index::sample(dice, keys.len(), amount).into_iter();
        let fate = |at: usize| (!at.is_multiple_of(8)).then(Vec::new);
        let changes = chosen.enumerate();
        changes
            .map(|(at, key)| (keys[key].clone(), fate(at)))
            .collect()
    }

    fn peers(
        &self,
        case: SpeedCase,
        mut changes: Vec<Change>,
        samples: &mut Samples,
    ) -> Result<(), SpeedError> {
        changes.sort();
        let mut spent = Spent::default();
        let mut trie = self.peer_trie();
        // Its recorder has what ours has.
        match case {
            SpeedCase::Loaded => trie.read(&changes)?,
            SpeedCase::Counted => trie.estimate(&changes)?,
            _ => {}
        }
        spent.during(|| trie.estimate(&changes))?;
        samples.peer.push(per(spent, changes.len()));
        Ok(())
    }

    fn peer_trie(&self) -> PeerTrie {
        PeerTrie::new(self.state.parent(), self.plan.options().state_version)
    }

    fn ours(
        &self,
        case: SpeedCase,
        changes: &[Change],
        samples: &mut Samples,
    ) -> Result<(), SpeedError> {
        let mut shadow = Shadow::new(self.state, self.memory.take());
        let mark = shadow.mark();
        let numbered = shadow.number(changes);
        match case {
            SpeedCase::Loaded => shadow.read(changes)?,
            SpeedCase::Counted | SpeedCase::Rollback => {
                shadow.estimate(&numbered)?;
            }
            SpeedCase::Cold | SpeedCase::Transfer => {}
        }
        let mut spent = Spent::default();
        let before = (self.allocations)();
        spent.during(|| match case {
            SpeedCase::Rollback => {
                shadow.roll_back(mark);
                Ok(0)
            }
            _ => shadow.estimate(&numbered),
        })?;
        samples.allocations += (self.allocations)() - before;
        samples.keys += changes.len();
        samples.ours.push(per(spent, changes.len()));
        black_box(&shadow);
        self.memory.set(shadow.into_memory());
        Ok(())
    }

    /// Measures blocks of transfers, with a boundary after each.
    fn transfers(
        &self,
        transfers: &[Vec<Change>],
        report: &mut SpeedReport,
    ) -> Result<(), SpeedError> {
        let keys = self.state.keys.len();
        let mut samples = Samples::default();
        let mut loaded = (0, 0);
        for round in 0..(self.options.rounds / 4).max(3) {
            let mut shadow = Shadow::new(self.state, self.memory.take());
            let mut trie = self.peer_trie();
            for (at, batch) in transfers.chunks(BATCH).enumerate() {
                if (at + round) % 2 == 0 {
                    peers_batch(&mut trie, batch, &mut samples)?;
                }
                self.our_batch(&mut shadow, batch, &mut samples)?;
                if (at + round) % 2 == 1 {
                    peers_batch(&mut trie, batch, &mut samples)?;
                }
            }
            loaded = shadow.loaded();
            self.memory.set(shadow.into_memory());
        }
        report.rows.push(samples.row(SpeedCase::Transfer, keys));
        report.flatness.push(self.flatness(transfers)?);
        let (loaded_nodes, arena_bytes) = loaded;
        report.memory.push(ShadowMemory {
            keys,
            loaded_nodes,
            arena_bytes,
            arena_bytes_per_node: ratio(arena_bytes as f64, loaded_nodes as f64),
        });
        Ok(())
    }

    /// Measures the blocks without turns of the peer, because these evict the processor's cache.
    fn flatness(&self, transfers: &[Vec<Change>]) -> Result<Flatness, SpeedError> {
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            let mut shadow = Shadow::new(self.state, self.memory.take());
            for (at, batch) in transfers.chunks(BATCH).enumerate() {
                let spent = self.our_batch(&mut shadow, batch, &mut Samples::default())?;
                match at * BATCH {
                    EARLY => early.push(per(spent, batch.len())),
                    LATE => late.push(per(spent, batch.len())),
                    _ => {}
                }
            }
            self.memory.set(shadow.into_memory());
        }
        let (after_50_ns, after_5000_ns) = (median(&mut early), median(&mut late));
        Ok(Flatness {
            keys: self.state.keys.len(),
            after_50_ns,
            after_5000_ns,
            ratio: ratio(after_5000_ns, after_50_ns),
        })
    }

    fn our_batch(
        &self,
        shadow: &mut Shadow,
        batch: &[Vec<Change>],
        samples: &mut Samples,
    ) -> Result<Spent, SpeedError> {
        let mut numbered = Vec::with_capacity(batch.len());
        for changes in batch {
            shadow.read(changes)?;
            numbered.push(shadow.number(changes));
        }
        let mut spent = Spent::default();
        let before = (self.allocations)();
        spent.during(|| {
            let mut boundaries = numbered.iter();
            boundaries.try_for_each(|changes| shadow.estimate(changes).map(drop))
        })?;
        samples.allocations += (self.allocations)() - before;
        let keys = batch.iter().map(Vec::len).sum();
        samples.keys += keys;
        samples.ours.push(per(spent, keys));
        Ok(spent)
    }
}

fn peers_batch(
    trie: &mut PeerTrie,
    batch: &[Vec<Change>],
    samples: &mut Samples,
) -> Result<(), SpeedError> {
    for changes in batch {
        trie.read(changes)?;
    }
    let mut spent = Spent::default();
    spent.during(|| {
        let mut boundaries = batch.iter();
        boundaries.try_for_each(|changes| trie.estimate(changes))
    })?;
    let keys = batch.iter().map(Vec::len).sum();
    samples.peer.push(per(spent, keys));
    Ok(())
}

/// Nanoseconds of processor time per item of `count`.
fn per(spent: Spent, count: usize) -> f64 {
    ratio(spent.cpu.as_secs_f64() * 1e9, count as f64)
}

pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    part / whole.max(1.0)
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured() {
        let options = SpeedOptions {
            keys: vec![10_000],
            dirty_keys: 50,
            rounds: 2,
            seed: 1,
        };
        let report = measure(&options, || 0, |_| {}).unwrap();
        assert_eq!(report.rows.len(), 5);
        for row in &report.rows {
            assert!(row.ours_ns > 0.0, "{row:?}");
            assert_eq!(row.peer_ns.is_some(), row.case != SpeedCase::Rollback);
            assert_eq!(row.keys, 10_000);
        }
        assert!(report.flatness[0].after_5000_ns > 0.0);
        assert!(
            report.memory[0].loaded_nodes > 10_000,
            "{:?}",
            report.memory
        );
    }

    #[test]
    fn medians() {
        assert!((median(&mut [3.0, 1.0, 100.0]) - 3.0).abs() < 1e-9);
        assert!((median(&mut [4.0, 1.0, 100.0, 2.0]) - 3.0).abs() < 1e-9);
    }
}
