//! Measurements of root updates: ours in every mode beside the peer's, for the same changes in one run.
//!
//! ```text
//! for each number of changes: some draws of keys; every contender updates all of them in a row
//! for each round:             the contenders take turns, another one first each time
//! a row:                      the median over rounds of processor time of the thread, for one update
//! ```
//! Before the clock starts, our side has loaded the nodes, as after a boundary, and has memory of
//! earlier blocks, as from a `BlockPool`; for [`RootRow::COLD`] it has neither. The peer has read the
//! keys, for [`RootRow::PEER_NODE`] with a recorder and a warm shared cache, as in a node.

mod arena;

use super::{shadow::Change, state::BigState};
use arena::Arena;
use povmeter::{LoadError, RootError};
use povmeter_dev_oracle::{RootMismatch, RootMode};
use povmeter_dev_runtime::{Plan, PlanError, PlanOptions, Signatures, StateError};
use rand::{rngs::SmallRng, seq::index, RngCore, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sp_core::H256;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct RootSpeedOptions {
    /// Numbers of accounts in the parent states; a smaller number than [`Self::LEAST_KEYS`] counts as that.
    pub keys: Vec<usize>,
    /// Numbers of changes of an update.
    pub changes: Vec<usize>,
    /// Number of rounds.
    pub rounds: usize,
    /// Seed of the random keys.
    pub seed: u64,
}

impl RootSpeedOptions {
    /// The least number of accounts in a parent state: those of the plan that all states are made from.
    pub const LEAST_KEYS: u32 = 100;
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

/// The cost of one contender.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RootRow {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Changes of the update.
    pub changes: usize,
    /// peer_plain and peer_node are sp-state-machine, without and with its cache; the others are
    /// povmeter.
    pub mode: String,
    /// Processor time in microseconds, or wall-clock time of modes with threads; median. The ratios use
    /// the same clock for both sides.
    pub us: f64,
    /// How many times as long peer_plain takes.
    pub ratio_to_peer_plain: f64,
    /// How many times as long peer_node takes.
    pub ratio_to_peer_node: f64,
    /// Allocations for each change; null where they are not counted, on threads.
    #[serde(deserialize_with = "Option::deserialize")]
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

/// The cost of hashing the nodes of an update, all together, in one mode.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HashRow {
    /// Accounts in the parent state.
    pub keys: usize,
    /// Changes of the update.
    pub changes: usize,
    /// How they are hashed.
    pub mode: String,
    /// Nodes hashed.
    pub nodes: usize,
    /// Blocks of 128 bytes in these nodes.
    pub compressions: usize,
    /// Processor time in microseconds, median.
    pub us: f64,
}

/// The cost of root updates.
#[derive(Clone, Debug, Default)]
pub struct RootSpeedReport {
    /// By parent state, number of changes and contender.
    pub rows: Vec<RootRow>,
    /// By parent state, number of changes and mode.
    pub hashing: Vec<HashRow>,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootSpeedError {
    /// An update without changes was asked for.
    #[error("expected updates of one change at least, found 0")]
    NoChanges,
    /// The parent states cannot be planned.
    #[error("the parent states cannot be planned: {0}")]
    Plan(#[from] PlanError),
    /// The parent state cannot be made.
    #[error("the parent state cannot be made: {0}")]
    State(#[from] StateError),
    /// povmeter cannot read the parent state.
    #[error("povmeter cannot read the parent state: {0}")]
    Load(#[from] LoadError),
    /// povmeter failed to compute the root.
    #[error("povmeter failed to compute the root: {0}")]
    Root(#[from] RootError),
    /// The peer cannot read the parent state.
    #[error("the peer cannot read the parent state: {0}")]
    Peer(String),
    /// The update differs from the peer's.
    #[error("the update differs from the peer's: {0}")]
    Update(#[from] RootMismatch),
    /// The root of a contender differs from the peer's.
    #[error("expected the peer's root {expected:?}, found {found:?} of {mode}")]
    Differs {
        /// The contender.
        mode: &'static str,
        /// The peer's root.
        expected: H256,
        /// The contender's root.
        found: H256,
    },
}

/// Number of changes timed together, because a clock reading costs as much as some changes.
const TIMED_CHANGES: usize = 1_000;
/// Of this many changes one is a deletion and one an insertion; the others overwrite.
const RARE: usize = 16;

/// Measures the cost of root updates in all of `modes`. `allocations` returns the number of allocations
/// of this thread so far; `progress` gets a line for each step.
///
/// # Errors
/// [`RootSpeedError`] if an update is to have no changes, a state cannot be made, a side fails, or the updates
/// differ.
pub fn measure_roots(
    options: &RootSpeedOptions,
    modes: &[RootMode],
    allocations: impl Fn() -> u64,
    mut progress: impl FnMut(String),
) -> Result<RootSpeedReport, RootSpeedError> {
    // Times are divided by the changes.
    if options.changes.contains(&0) {
        return Err(RootSpeedError::NoChanges);
    }
    let plan = Plan::new(PlanOptions {
        accounts: RootSpeedOptions::LEAST_KEYS,
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

/// The changes of one update, sorted.
type Draw = Vec<Change>;

/// Draws of `changes` changes each, as many as are timed together.
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
        // 500 keys are too few for a thousand changes.
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

    #[test]
    fn an_update_without_changes_is_an_error() {
        let options = RootSpeedOptions {
            keys: vec![500],
            changes: vec![10, 0],
            rounds: 1,
            seed: 1,
        };
        let refused = measure_roots(&options, &[], || 0, |_| {});
        assert!(
            matches!(refused, Err(RootSpeedError::NoChanges)),
            "{refused:?}"
        );
    }
}
