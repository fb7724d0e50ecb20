//! The contenders on one parent state.

use super::{
    super::{
        measure::{median, ratio},
        shadow::{Change, Memory, Shadow},
        state::BigState,
        turns::Turns,
    },
    Draw, HashRow, RootRow, RootSpeedError, RootSpeedReport, TIMED_CHANGES,
};
use povmeter::{RootError, RootUpdate};
use povmeter_delta_root::NodeHash;
use povmeter_delta_root::{state_update, ShadowState};
use povmeter_dev_oracle::{PeersUpdate, RootMode};
use povmeter_dev_runtime::{runtime::Hashing, Peer, PeerBackend, Spent};
use povmeter_substrate::state_version;
use sp_core::H256;
use sp_state_machine::Backend;
use sp_trie::{recorder::Recorder, PrefixedMemoryDB};
use std::{cell::RefCell, hint::black_box, time::Duration};

/// A way to compute the root.
#[derive(Clone)]
enum Contender {
    PeerPlain,
    PeerNode,
    Loaded(RootMode),
    Cold,
}

impl Contender {
    fn is_threaded(&self) -> bool {
        matches!(self, Self::Loaded(mode) if mode.is_threaded())
    }

    fn name(&self) -> &'static str {
        match self {
            Self::PeerPlain => RootRow::PEER_PLAIN,
            Self::PeerNode => RootRow::PEER_NODE,
            Self::Loaded(mode) => mode.name,
            Self::Cold => RootRow::COLD,
        }
    }
}

/// The samples of one contender.
#[derive(Default)]
struct Samples {
    cpu_us: Vec<f64>,
    wall_us: Vec<f64>,
    allocations: u64,
}

/// A parent state, the draws of changes, and the peer on that state.
pub(super) struct Arena<'a, F> {
    state: &'a BigState,
    plain: Peer,
    node: Peer,
    draws: Vec<Draw>,
    /// Memory of finished blocks, for the next ones.
    memories: RefCell<Vec<Memory>>,
    allocations: &'a F,
}

impl<'a, F: Fn() -> u64> Arena<'a, F> {
    pub(super) fn new(
        state: &'a BigState,
        version: sp_core::storage::StateVersion,
        draws: Vec<Draw>,
        allocations: &'a F,
    ) -> Self {
        Self {
            state,
            plain: Peer::new(state.parent(), version),
            node: Peer::new(state.parent(), version).with_cache(),
            draws,
            memories: RefCell::default(),
            allocations,
        }
    }

    /// Checks that the update of one draw is the peer's, to the last node.
    pub(super) fn check(&self, modes: &[RootMode]) -> Result<(), RootSpeedError> {
        let draw = self.draws.first().map_or(&[][..], Vec::as_slice);
        let (root, transaction) = storage_root(&self.plain.plain_backend(), draw, &self.plain);
        let parent = self.state.root;
        let peers = PeersUpdate {
            parent,
            root,
            transaction,
        };
        let (nodes, changes) = (&self.state.nodes, Shadow::changes(draw));
        peers.compare(&nodes, &changes, self.version(), modes)?;
        Ok(())
    }

    /// Adds a row for each contender.
    pub(super) fn measure(
        &self,
        rounds: usize,
        modes: &[RootMode],
        report: &mut RootSpeedReport,
    ) -> Result<(), RootSpeedError> {
        let mut contenders = vec![Contender::PeerPlain, Contender::PeerNode];
        contenders.extend(modes.iter().cloned().map(Contender::Loaded));
        contenders.push(Contender::Cold);
        // The first pass checks the roots, and also fills the cache.
        let mut expected = Vec::new();
        for contender in &contenders {
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
        let mut turns = Turns::of(contenders.len());
        for _ in 0..rounds {
            for which in turns.next_round() {
                self.update(&contenders[which], &mut samples[which])?;
            }
        }
        let medians = |samples: &mut Samples| {
            let (cpu, wall) = (&mut samples.cpu_us, &mut samples.wall_us);
            (median(cpu), median(wall))
        };
        let us: Vec<_> = samples.iter_mut().map(medians).collect();
        let changes = self.draws.first().map_or(0, Vec::len);
        let all = rounds * self.draws.len() * changes;
        for ((contender, samples), us_of) in contenders.iter().zip(&samples).zip(&us) {
            // With threads compare wall-clock time, because they save no processor time.
            let threaded = contender.is_threaded();
            let took = |(cpu, wall): (f64, f64)| if threaded { wall } else { cpu };
            let allocations = ratio(samples.allocations as f64, all as f64);
            report.rows.push(RootRow {
                keys: self.state.keys.len(),
                changes,
                mode: contender.name().to_owned(),
                us: took(*us_of),
                ratio_to_peer_plain: took(us[0]) / took(*us_of),
                ratio_to_peer_node: took(us[1]) / took(*us_of),
                allocations_per_change: (!threaded).then_some(allocations),
            });
        }
        Ok(())
    }

    /// Makes `contender` update all draws; returns the roots.
    fn update(
        &self,
        contender: &Contender,
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
                    let memory = self.memories.borrow_mut().pop().unwrap_or_default();
                    let mut shadow = Shadow::in_mode(self.state, mode, memory);
                    shadow.read(draw)?;
                    let numbered = shadow.number(draw);
                    shadow.estimate(&numbered)?;
                    shadows.push((shadow, draw));
                }
                let version = self.version();
                let update = |(shadow, draw): &mut (Shadow, &Draw)| shadow.update(draw, version);
                let count = shadows.len();
                // One switch to the threads for all draws: it costs as much as a small update.
                let updates = self.time_all(samples, count, |updates| {
                    mode.run(|| updates.extend(shadows.iter_mut().map(update)));
                });
                let updates = updates.into_iter().collect::<Result<Vec<_>, _>>()?;
                let roots = updates.iter().map(|update| H256(update.root.into()));
                let roots = roots.collect();
                for ((shadow, _), update) in shadows.into_iter().zip(updates) {
                    let mut memory = shadow.into_memory();
                    memory.recycle(update);
                    self.memories.borrow_mut().push(memory);
                }
                Ok(roots)
            }
            Contender::Cold => {
                let source = self.state.nodes.clone();
                let one_thread = RootMode::one_thread(Default::default());
                let version = self.version();
                let mut draws: Vec<_> = self.draws.iter().collect();
                let updates = self.time(samples, &mut draws, |draw| {
                    let state = ShadowState::new(&source, self.state.root);
                    let mut state = one_thread.prepare(state);
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
        let updates = self.time(samples, &mut backends, |(backend, draw)| {
            storage_root(backend, draw, &self.plain)
        });
        Ok(updates.into_iter().map(|(root, _)| root).collect())
    }

    fn version(&self) -> povmeter::StateVersion {
        state_version(self.plain.version())
    }

    /// Returns the results of `update` for `inputs`, timed. Nothing is dropped while the clock runs.
    fn time<T, R>(
        &self,
        samples: &mut Samples,
        inputs: &mut [T],
        update: impl FnMut(&mut T) -> R,
    ) -> Vec<R> {
        let count = inputs.len();
        self.time_all(samples, count, |results| {
            results.extend(inputs.iter_mut().map(update));
        })
    }

    /// Returns the `count` results of `update_all`, timed.
    fn time_all<R>(
        &self,
        samples: &mut Samples,
        count: usize,
        update_all: impl FnOnce(&mut Vec<R>),
    ) -> Vec<R> {
        let mut results = Vec::with_capacity(count);
        let mut spent = Spent::default();
        let before = (self.allocations)();
        spent.during(|| update_all(&mut results));
        samples.allocations += (self.allocations)() - before;
        samples.cpu_us.push(per(spent.cpu, count));
        samples.wall_us.push(per(spent.wall, count));
        results
    }

    /// Adds a row for each mode that hashes the nodes of the first draw's update.
    pub(super) fn hashing(
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
        let nodes: Vec<&[u8]> = update.inserted().map(|node| node.encoded).collect();
        let blocks = nodes.iter().map(|node| node.len().div_ceil(128).max(1));
        let compressions: usize = blocks.sum();
        let repeated = (TIMED_CHANGES / draw.len()).max(1);
        let mut hashes = vec![NodeHash::default(); nodes.len()];
        // Threads use the hashing of the best mode, so leave them out.
        let modes = modes.iter().filter(|mode| !mode.is_threaded());
        let modes: Vec<_> = modes.collect();
        let mut us = vec![Vec::new(); modes.len()];
        for _ in 0..rounds {
            for (mode, us) in modes.iter().zip(&mut us) {
                let mut spent = Spent::default();
                spent.during(|| {
                    for _ in 0..repeated {
                        let nodes = black_box(&nodes);
                        mode.hashing().hash_all(nodes.iter().copied(), &mut hashes);
                        black_box(&hashes);
                    }
                });
                us.push(per(spent.cpu, repeated));
            }
        }
        for (mode, mut us) in modes.iter().zip(us) {
            report.hashing.push(HashRow {
                keys: self.state.keys.len(),
                changes: draw.len(),
                mode: mode.name.to_owned(),
                nodes: nodes.len(),
                compressions,
                us: median(&mut us),
            });
        }
        Ok(())
    }
}

/// Computes the root update of `draw` with the peer, on `backend`.
fn storage_root<R>(
    backend: &PeerBackend<R>,
    draw: &[Change],
    peer: &Peer,
) -> (H256, PrefixedMemoryDB<Hashing>)
where
    R: sp_trie::TrieRecorderProvider<Hashing> + Send + Sync,
{
    let delta = draw.iter();
    let delta = delta.map(|(key, value)| (key.as_slice(), value.as_deref()));
    backend.storage_root(delta, peer.version())
}

/// Microseconds per item of `count`.
fn per(spent: Duration, count: usize) -> f64 {
    ratio(spent.as_secs_f64() * 1e6, count as f64)
}

fn our_roots(updates: Vec<Result<RootUpdate, RootError>>) -> Result<Vec<H256>, RootSpeedError> {
    let roots = updates.into_iter();
    let roots = roots.map(|update| Ok(H256(*update?.root.as_bytes())));
    roots.collect()
}
