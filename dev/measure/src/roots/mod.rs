//! What a root update costs: ours in every mode beside the peer's, for the same changes in one run.
//!
//! ```text
//! for each number of changes: some draws of keys; every contender updates all of them in a row
//! for each round:             the contenders take turns, another one first each time
//! a row:                      the median over rounds of processor time of the thread, for one update
//! ```
//! What is there before the clock starts: ours with the nodes loaded, as after a boundary, in memory of
//! earlier blocks as a `BlockPool` hands it out, or for [`RootRow::COLD`] nothing of either; the peer's backend, which in [`RootRow::PEER_NODE`] has a recorder and a
//! warm shared cache and has read the keys, as in a block of a node.

mod arena;

use super::{shadow::Change, state::BigState};
use arena::Arena;
use povmeter::{LoadError, RootError};
use povmeter_dev_oracle::{RootMismatch, RootMode};
use povmeter_dev_runtime::{Plan, PlanError, PlanOptions, Signatures, StateError};
use rand::{rngs::SmallRng, seq::index, RngCore, SeedableRng};
use serde::Serialize;
use sp_core::H256;

/// What to measure.
#[derive(Clone, Debug)]
pub struct RootSpeedOptions {
    /// Accounts in the parent states.
    pub keys: Vec<usize>,
    /// Changes of an update.
    pub changes: Vec<usize>,
    /// Rounds.
    pub rounds: usize,
    /// What keys are drawn from.
    pub seed: u64,
}

impl Default for RootSpeedOptions {
    fn default() -> Self {
        Self {
            keys: vec![10_000, 1_000_000],
            changes: vec![10, 100, 1_000, 10_000],
            rounds: 15,
            seed: 1,
        }
    }
}

/// What one contender takes.
#[derive(Clone, Debug, Serialize)]
pub struct RootRow {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Changes of the update.
    pub changes: usize,
    /// The contender: a mode of ours, or one of the constants.
    pub mode: &'static str,
    /// Microseconds of an update: of processor time, on the wall if there are several threads. So are
    /// those of the peer that they are compared with.
    pub us: f64,
    /// How many times as long the peer takes without recorder and cache.
    pub ratio_to_peer_plain: f64,
    /// How many times as long the peer takes as nodes run it.
    pub ratio_to_peer_node: f64,
    /// Allocations; not counted on other threads.
    pub allocations_per_change: Option<f64>,
}

impl RootRow {
    /// The peer without recorder and cache.
    pub const PEER_PLAIN: &'static str = "peer_plain";
    /// The peer with recorder and warm cache.
    pub const PEER_NODE: &'static str = "peer_node";
    /// Ours in the best mode, with nothing loaded.
    pub const COLD: &'static str = "cold";
}

/// What hashing the nodes of an update takes, and nothing else: all of them together, in one mode.
#[derive(Clone, Debug, Serialize)]
pub struct HashRow {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Changes of the update.
    pub changes: usize,
    /// The mode.
    pub mode: &'static str,
    /// New nodes.
    pub nodes: usize,
    /// Blocks of 128 bytes that they have.
    pub compressions: usize,
    /// Microseconds.
    pub us: f64,
}

/// What root updates cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RootSpeedReport {
    /// By parent state, number of changes and contender.
    pub rows: Vec<RootRow>,
    /// By parent state, number of changes and mode.
    pub hashing: Vec<HashRow>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootSpeedError {
    /// There is no account to make the states of.
    #[error("there is no state to begin with: {0}")]
    Plan(#[from] PlanError),
    /// The parent state can't be made.
    #[error("the state can't be made: {0}")]
    State(#[from] StateError),
    /// The parent state can't be read.
    #[error("the state can't be read: {0}")]
    Load(#[from] LoadError),
    /// Ours has no root.
    #[error("povmeter has no root: {0}")]
    Root(#[from] RootError),
    /// The peer can't read the state.
    #[error("the peer can't read the state: {0}")]
    Peer(String),
    /// The update differs from the peer's.
    #[error("the update differs from the peer's: {0}")]
    Update(#[from] RootMismatch),
    /// The contenders differ.
    #[error("expected root {expected:?}, as of the peer, found {found:?} of {mode}")]
    Differs {
        /// The contender.
        mode: &'static str,
        /// The peer's root.
        expected: H256,
        /// The contender's.
        found: H256,
    },
}

/// Changes that are timed together: reading the clock costs as much as some changes.
const TIMED_CHANGES: usize = 1_000;
/// Of as many changes one is a deletion and one an insertion, the others write over.
const RARE: usize = 16;

/// What root updates cost in all of `modes`. `allocations` says how often this thread has allocated so
/// far; `progress` is told what is being done.
///
/// # Errors
/// A [`RootSpeedError`].
pub fn measure_roots(
    options: &RootSpeedOptions,
    modes: &[RootMode],
    allocations: impl Fn() -> u64,
    mut progress: impl FnMut(String),
) -> Result<RootSpeedReport, RootSpeedError> {
    let plan = Plan::new(PlanOptions {
        accounts: 100,
        transfers: 0,
        signatures: Signatures::Free,
        seed: options.seed,
        ..PlanOptions::default()
    })?;
    let version = plan.options().state_version;
    let mut report = RootSpeedReport::default();
    for &keys in &options.keys {
        progress(format!("making a state of {keys} keys"));
        let state = BigState::new(&plan, keys)?;
        for &changes in options.changes.iter().filter(|changes| **changes <= keys) {
            progress(format!("{changes} changes of {keys} keys"));
            let draws = draws(&state, changes, options.seed);
            let arena = Arena::new(&state, version, draws, &allocations);
            arena.check(modes)?;
            arena.measure(options.rounds, modes, &mut report)?;
            arena.hashing(options.rounds, modes, &mut report)?;
        }
    }
    Ok(report)
}

/// Changes of one update, sorted.
type Draw = Vec<Change>;

/// As many draws of `changes` changes as are timed together.
fn draws(state: &BigState, changes: usize, seed: u64) -> Vec<Draw> {
    let mut dice = SmallRng::seed_from_u64(seed);
    let keys = &state.keys;
    let mut draw = || {
        let chosen = index::sample(&mut dice, keys.len(), changes).into_iter();
        let mut draw: Draw = chosen
            .enumerate()
            .map(|(at, chosen)| {
                let mut key = keys[chosen].clone();
                let mut value = vec![0; state.value_bytes];
                dice.fill_bytes(&mut value);
                match at % RARE {
                    1 => return (key, None),
                    2 => {
                        let end = key.len() - 16;
                        dice.fill_bytes(&mut key[end..]);
                    }
                    _ => {}
                }
                (key, Some(value))
            })
            .collect();
        draw.sort();
        draw
    };
    let count = (TIMED_CHANGES / changes).max(1);
    (0..count).map(|_| draw()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter_dev_oracle::SPLIT_FROM;

    #[test]
    fn every_contender_is_measured() {
        let options = RootSpeedOptions {
            keys: vec![500],
            changes: vec![10, 100, 1_000],
            rounds: 2,
            seed: 1,
        };
        let modes = RootMode::for_speed(SPLIT_FROM, |_| {}).unwrap();
        let report = measure_roots(&options, &modes, || 0, |_| {}).unwrap();
        // No thousand changes of five hundred keys.
        assert_eq!(report.rows.len(), 2 * (3 + modes.len()));
        let hashing = modes.iter().filter(|mode| !mode.is_threaded());
        assert_eq!(report.hashing.len(), 2 * hashing.count());
        for row in &report.rows {
            assert!(row.us > 0.0 && row.keys == 500, "{row:?}");
            let is_peer = row.mode == RootRow::PEER_PLAIN;
            assert_eq!(
                (row.ratio_to_peer_plain - 1.0).abs() < 1e-9,
                is_peer,
                "{row:?}"
            );
        }
        assert!(report.hashing[0].compressions >= report.hashing[0].nodes);
    }
}
