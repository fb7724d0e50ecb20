//! What a root update costs: ours in every mode beside the peer's, for the same changes in one run.
//!
//! ```text
//! for each number of changes: some draws of keys; every contender updates all of them in a row
//! for each round:             the contenders take turns, another one first each time
//! a row:                      the median over rounds of processor time of the thread, for one update
//! ```
//! What is there before the clock starts: ours with the nodes loaded, as after a boundary, or for
//! [`RootRow::COLD`] nothing; the peer's backend, which in [`RootRow::PEER_NODE`] has a recorder and a
//! warm shared cache and has read the keys, as in a block of a node.

use super::{
    measure::{median, ratio},
    shadow::{Change, Shadow},
    state::BigState,
};
use crate::{
    oracle::RootMode,
    peer::{Peer, PeerBackend},
    povmeter_host::StateError,
    runtime::Hashing,
    Plan, PlanError, PlanOptions, Signatures, Spent,
};
use povmeter::{state_update, LoadError, RootError, RootUpdate, ShadowState};
use povmeter_delta_root::NodeHash;
use povmeter_substrate::state_version;
use rand::{rngs::SmallRng, seq::index, RngCore, SeedableRng};
use serde::Serialize;
use sp_core::H256;
use sp_state_machine::Backend;
use sp_trie::recorder::Recorder;
use std::hint::black_box;

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
    /// Microseconds of an update.
    pub us: f64,
    /// How many times as long the peer takes without recorder and cache.
    pub ratio_to_peer_plain: f64,
    /// How many times as long the peer takes as nodes run it.
    pub ratio_to_peer_node: f64,
    /// Allocations.
    pub allocations_per_change: f64,
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
            let arena = Arena {
                state: &state,
                plain: Peer::new(state.parent(), version),
                node: Peer::new(state.parent(), version).with_cache(),
                draws: draws(&state, changes, options.seed),
                allocations: &allocations,
            };
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

/// Who computes the root.
#[derive(Clone, Copy)]
enum Contender {
    PeerPlain,
    PeerNode,
    Loaded(RootMode),
    Cold,
}

impl Contender {
    fn name(self) -> &'static str {
        match self {
            Self::PeerPlain => RootRow::PEER_PLAIN,
            Self::PeerNode => RootRow::PEER_NODE,
            Self::Loaded(mode) => mode.name,
            Self::Cold => RootRow::COLD,
        }
    }
}

/// What was measured of one contender.
#[derive(Default)]
struct Samples {
    us: Vec<f64>,
    allocations: u64,
}

/// Where contenders meet.
struct Arena<'a, F> {
    state: &'a BigState,
    plain: Peer,
    node: Peer,
    draws: Vec<Draw>,
    allocations: &'a F,
}

impl<F: Fn() -> u64> Arena<'_, F> {
    fn measure(
        &self,
        rounds: usize,
        modes: &[RootMode],
        report: &mut RootSpeedReport,
    ) -> Result<(), RootSpeedError> {
        let mut contenders = vec![Contender::PeerPlain, Contender::PeerNode];
        contenders.extend(modes.iter().copied().map(Contender::Loaded));
        contenders.push(Contender::Cold);
        // Also fills the cache.
        let mut expected = Vec::new();
        for &contender in &contenders {
            let found = self.update(contender, &mut Samples::default())?;
            if expected.is_empty() {
                expected = found;
                continue;
            }
            for (&expected, found) in expected.iter().zip(found) {
                if expected != found {
                    let mode = contender.name();
                    return Err(RootSpeedError::Differs {
                        mode,
                        expected,
                        found,
                    });
                }
            }
        }
        let mut samples: Vec<_> = contenders.iter().map(|_| Samples::default()).collect();
        for round in 0..rounds {
            for place in 0..contenders.len() {
                let which = (place + round) % contenders.len();
                self.update(contenders[which], &mut samples[which])?;
            }
        }
        let us: Vec<_> = samples.iter_mut().map(|s| median(&mut s.us)).collect();
        let changes = self.draws.first().map_or(0, Vec::len);
        for ((contender, samples), &took) in contenders.iter().zip(&samples).zip(&us) {
            let all = rounds * self.draws.len() * changes;
            report.rows.push(RootRow {
                keys: self.state.keys.len(),
                changes,
                mode: contender.name(),
                us: took,
                ratio_to_peer_plain: us[0] / took,
                ratio_to_peer_node: us[1] / took,
                allocations_per_change: ratio(samples.allocations as f64, all as f64),
            });
        }
        Ok(())
    }

    /// Has `contender` update all draws; returns the roots.
    fn update(
        &self,
        contender: Contender,
        samples: &mut Samples,
    ) -> Result<Vec<H256>, RootSpeedError> {
        match contender {
            Contender::PeerPlain => self.update_by_peer(samples, || self.plain.plain_backend()),
            Contender::PeerNode => self.update_by_peer(samples, || {
                self.node.backend(Recorder::<Hashing>::default())
            }),
            Contender::Loaded(mode) => {
                let mut shadows = Vec::new();
                for draw in &self.draws {
                    let mut shadow = Shadow::hashed_by(self.state, mode.hashing);
                    shadow.read(draw)?;
                    shadow.estimate(draw)?;
                    shadows.push((shadow, draw));
                }
                let version = self.version();
                let updates = self.time(samples, &mut shadows, |(shadow, draw)| {
                    shadow.update(draw, version)
                });
                our_roots(updates)
            }
            Contender::Cold => {
                let source = self.state.nodes.clone();
                let version = self.version();
                let mut draws: Vec<_> = self.draws.iter().collect();
                let updates = self.time(samples, &mut draws, |draw| {
                    let mut state = ShadowState::new(&source, self.state.root);
                    state_update(&mut state, &Shadow::changes(draw), version, &mut ())
                });
                our_roots(updates)
            }
        }
    }

    fn update_by_peer<R>(
        &self,
        samples: &mut Samples,
        backend: impl Fn() -> PeerBackend<R>,
    ) -> Result<Vec<H256>, RootSpeedError>
    where
        R: sp_trie::TrieRecorderProvider<Hashing> + Send + Sync,
    {
        let mut backends = Vec::new();
        for draw in &self.draws {
            let backend = backend();
            for (key, _) in draw {
                let read = backend.storage(key);
                black_box(read.map_err(|error| RootSpeedError::Peer(error.to_string()))?);
            }
            backends.push((backend, draw));
        }
        let version = self.plain.version();
        let updates = self.time(samples, &mut backends, |(backend, draw)| {
            let delta = draw.iter();
            let delta = delta.map(|(key, value)| (key.as_slice(), value.as_deref()));
            backend.storage_root(delta, version)
        });
        Ok(updates.into_iter().map(|(root, _)| root).collect())
    }

    fn version(&self) -> povmeter::StateVersion {
        state_version(self.plain.version())
    }

    /// What `update` makes of each of `inputs`. Nothing is dropped while the clock runs.
    fn time<T, R>(
        &self,
        samples: &mut Samples,
        inputs: &mut [T],
        mut update: impl FnMut(&mut T) -> R,
    ) -> Vec<R> {
        let mut results = Vec::with_capacity(inputs.len());
        let mut spent = Spent::default();
        let before = (self.allocations)();
        spent.during(|| results.extend(inputs.iter_mut().map(&mut update)));
        samples.allocations += (self.allocations)() - before;
        let us = spent.cpu.as_secs_f64() * 1e6;
        samples.us.push(ratio(us, inputs.len() as f64));
        results
    }

    /// Hashes the nodes of the first draw's update.
    fn hashing(
        &self,
        rounds: usize,
        modes: &[RootMode],
        report: &mut RootSpeedReport,
    ) -> Result<(), RootSpeedError> {
        let Some(draw) = self.draws.first() else {
            return Ok(());
        };
        let mut state = ShadowState::new(&self.state.nodes, self.state.root);
        let changes = Shadow::changes(draw);
        let update = state_update(&mut state, &changes, self.version(), &mut ())?;
        let nodes: Vec<&[u8]> = update.inserted().map(|node| &node.encoded[..]).collect();
        let blocks = nodes.iter().map(|node| node.len().div_ceil(128).max(1));
        let compressions: usize = blocks.sum();
        let repeated = (TIMED_CHANGES / draw.len()).max(1);
        let mut hashes = vec![NodeHash::default(); nodes.len()];
        let mut us = vec![Vec::new(); modes.len()];
        for _ in 0..rounds {
            for (mode, us) in modes.iter().zip(&mut us) {
                let mut spent = Spent::default();
                spent.during(|| {
                    for _ in 0..repeated {
                        let nodes = black_box(&nodes);
                        mode.hashing.hash_all(nodes.iter().copied(), &mut hashes);
                        black_box(&hashes);
                    }
                });
                us.push(ratio(spent.cpu.as_secs_f64() * 1e6, repeated as f64));
            }
        }
        for (mode, mut us) in modes.iter().zip(us) {
            report.hashing.push(HashRow {
                keys: self.state.keys.len(),
                changes: draw.len(),
                mode: mode.name,
                nodes: nodes.len(),
                compressions,
                us: median(&mut us),
            });
        }
        Ok(())
    }
}

fn our_roots(updates: Vec<Result<RootUpdate, RootError>>) -> Result<Vec<H256>, RootSpeedError> {
    let roots = updates.into_iter();
    let roots = roots.map(|update| Ok(H256(*update?.root.as_bytes())));
    roots.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_is_measured() {
        let options = RootSpeedOptions {
            keys: vec![500],
            changes: vec![10, 100, 1_000],
            rounds: 2,
            seed: 1,
        };
        let modes = RootMode::all(|_| {});
        let report = measure_roots(&options, &modes, || 0, |_| {}).unwrap();
        // No thousand changes of five hundred keys.
        assert_eq!(report.rows.len(), 2 * (3 + modes.len()));
        assert_eq!(report.hashing.len(), 2 * modes.len());
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
