//! Compares the root update of a case, in every mode, with the peer's.

use super::{case::Case, peer_side::PeerSide, Op, ParentNodes};
use povmeter::{NodeSource, Root, RootError, StateVersion};
use povmeter_delta_root::{state_update, Changes, ShadowState};
use povmeter_delta_root::{HashMode, UnsupportedMode};
use povmeter_dev_runtime::{runtime::Hashing, HostError, RootUpdate};
use povmeter_substrate::{from_prefixed_memory_db, to_prefixed_memory_db, NodesError};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use sp_core::H256;
use sp_trie::PrefixedMemoryDB;
use std::{ops::AddAssign, sync::Arc};

/// A way to compute roots.
#[derive(Clone, Debug)]
pub struct RootMode {
    /// The name of the mode.
    pub name: &'static str,
    hashing: povmeter_delta_root::Hashing,
    /// The threads of the mode; `None` for the calling thread.
    pool: Option<Arc<ThreadPool>>,
    split_from: usize,
}

/// The fewest changes for which several threads compute a random case's root: random cases have
/// few.
const FEW_CHANGES: usize = 2;
/// The numbers of threads that are measured, with the names of their modes.
const CURVE: [(usize, &str); 5] = [
    (1, "threads_1"),
    (2, "threads_2"),
    (4, "threads_4"),
    (8, "threads_8"),
    (16, "threads_16"),
];
/// Number of threads for random cases, on every machine.
const THREADS: usize = 3;

/// Makes this process compute root updates on one thread, except in the pools of [`RootMode`]s,
/// because most measurements are of one thread.
///
/// # Errors
/// [`ThreadPoolBuildError`] if the process already computed an update.
pub fn on_one_thread() -> Result<(), ThreadPoolBuildError> {
    ThreadPoolBuilder::new().num_threads(1).build_global()
}

impl RootMode {
    /// Returns the mode of one thread that hashes with `hashing`.
    pub fn one_thread(hashing: povmeter_delta_root::Hashing) -> Self {
        let split_from = usize::MAX;
        let (name, pool) = (hashing.mode().name(), None);
        Self {
            name,
            hashing,
            pool,
            split_from,
        }
    }

    /// Returns a mode called `name`, with this number of `threads`, which share updates of `split_from`
    /// changes or more. It hashes in the best mode.
    ///
    /// # Errors
    /// [`ThreadPoolBuildError`] if the threads can't be started.
    pub fn threads(
        threads: usize,
        split_from: usize,
        name: &'static str,
    ) -> Result<Self, ThreadPoolBuildError> {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Self {
            name,
            hashing: povmeter_delta_root::Hashing::best(),
            pool: Some(Arc::new(pool)),
            split_from,
        })
    }

    /// Returns the modes of one thread, the slowest first, and one of several threads. Calls `missing`
    /// for each mode that the machine does not support.
    ///
    /// # Errors
    /// [`ThreadPoolBuildError`] if threads can't be started.
    pub fn all(missing: impl FnMut(UnsupportedMode)) -> Result<Vec<Self>, ThreadPoolBuildError> {
        let mut modes = Self::of_one_thread(missing);
        modes.push(Self::threads(THREADS, FEW_CHANGES, "threads")?);
        Ok(modes)
    }

    /// Returns the modes to measure: those of one thread, and 1, 2, 4, 8 and 16 threads, as far as the
    /// machine has them, which share updates of `split_from` changes or more.
    ///
    /// # Errors
    /// Those of [`Self::all`].
    pub fn for_speed(
        split_from: usize,
        missing: impl FnMut(UnsupportedMode),
    ) -> Result<Vec<Self>, ThreadPoolBuildError> {
        let mut modes = Self::of_one_thread(missing);
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        for (threads, name) in CURVE {
            if threads <= most {
                modes.push(Self::threads(threads, split_from, name)?);
            }
        }
        Ok(modes)
    }

    /// As [`Self::all`], without the mode of several threads.
    pub fn of_one_thread(mut missing: impl FnMut(UnsupportedMode)) -> Vec<Self> {
        let modes = HashMode::ALL.into_iter().filter_map(|mode| {
            let hashing = povmeter_delta_root::Hashing::new(mode);
            hashing.map_err(&mut missing).ok().map(Self::one_thread)
        });
        modes.collect()
    }

    /// Returns the hashing of the nodes.
    pub fn hashing(&self) -> povmeter_delta_root::Hashing {
        self.hashing
    }

    /// Returns whether other threads than the calling one compute the root.
    pub fn is_threaded(&self) -> bool {
        self.pool.is_some()
    }

    /// Returns `state`, set up to compute its root in this mode.
    pub fn prepare<S>(&self, state: ShadowState<S>) -> ShadowState<S> {
        let state = state.with_hashing(self.hashing);
        state.with_split_from(self.split_from)
    }

    /// Returns the result of `compute`, run on the threads of this mode.
    pub fn run<R: Send>(&self, compute: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            None => compute(),
            Some(pool) => pool.install(compute),
        }
    }
}

/// Sums over cases that agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootCounts {
    /// Cases; 1 for a single case.
    pub cases: u64,
    /// Keys changed, in all tries.
    pub changes: u64,
    /// Nodes that gained references.
    pub inserted: u64,
    /// Nodes that lost references.
    pub removed: u64,
}

impl AddAssign for RootCounts {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.changes += other.changes;
        self.inserted += other.inserted;
        self.removed += other.removed;
    }
}

/// How the root updates of a case differ.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootMismatch {
    /// The peer has no root.
    #[error("expected a root by sp-state-machine, found an error")]
    Peer(#[from] HostError),
    /// Our side has no root.
    #[error("expected a root by {mode}, found an error")]
    Ours {
        /// The mode.
        mode: &'static str,
        /// Why it has none.
        source: RootError,
    },
    /// The roots differ.
    #[error("expected root {expected:?}, found {found:?} by {mode}")]
    Root {
        /// The mode.
        mode: &'static str,
        /// The peer's root.
        expected: H256,
        /// Our root.
        found: H256,
    },
    /// The nodes inserted or removed differ, by place and hash, or in their counts.
    #[error("expected sp-state-machine's inserted and removed nodes, found others by {mode}")]
    Nodes {
        /// The mode.
        mode: &'static str,
    },
    /// The nodes cannot be converted to the peer's form or back.
    #[error("can't convert the nodes to sp-state-machine's form and back")]
    Form(#[from] NodesError),
    /// The nodes are different after conversion to the peer's form and back.
    #[error("expected the same nodes after conversion to sp-state-machine's form and back, found others")]
    Back,
}

/// Compares the root update of the changes of `case` with the peer's, in all of `modes`: the root,
/// and the nodes inserted and removed, by place and hash, with the net counts of their references.
///
/// # Errors
/// The first [`RootMismatch`].
pub fn compare_roots(case: &Case, modes: &[RootMode]) -> Result<RootCounts, RootMismatch> {
    let nodes = ParentNodes::new(&case.parent);
    let mut peer = PeerSide::new(nodes.parent(), case.version);
    for op in case.ops.iter().filter(|op| **op != Op::Root) {
        peer.ask(op)?;
    }
    let all = peer.net_changes();
    let mut trusted = all.clone();
    trusted.leave_out_absent(&case.parent);
    let truth = peer.truth(&trusted)?;
    let peers = PeersUpdate {
        parent: nodes.root(),
        root: truth.root,
        transaction: truth.update,
    };
    peers.compare(&nodes, &all.ours(), case.our_version(), modes)
}

/// The peer's root update for changes to a parent state.
pub struct PeersUpdate {
    /// The root before.
    pub parent: Root,
    /// The root after.
    pub root: H256,
    /// Nodes with their references.
    pub transaction: PrefixedMemoryDB<Hashing>,
}

impl PeersUpdate {
    /// Compares this update with ours in all of `modes`.
    ///
    /// # Errors
    /// The first [`RootMismatch`].
    pub fn compare<S: NodeSource + Clone + Sync>(
        &self,
        source: &S,
        changes: &Changes<'_>,
        version: StateVersion,
        modes: &[RootMode],
    ) -> Result<RootCounts, RootMismatch> {
        let mut first: Option<povmeter::RootUpdate> = None;
        for mode in modes {
            let update = mode.run(|| {
                let state = ShadowState::new(source.clone(), self.parent);
                state_update(&mut mode.prepare(state), changes, version, &mut ())
            });
            let mode = mode.name;
            let update = update.map_err(|source| RootMismatch::Ours { mode, source })?;
            match &first {
                None => {
                    self.compare_update(&update, mode)?;
                    first = Some(update);
                }
                Some(first) if *first == update => {}
                Some(_) => return Err(RootMismatch::Nodes { mode }),
            }
        }
        let in_children = changes.children.iter().map(|(_, changes)| changes.len());
        let count = |nodes: usize| nodes as u64;
        Ok(RootCounts {
            cases: 1,
            changes: count(changes.top.len() + in_children.sum::<usize>()),
            inserted: count(first.as_ref().map_or(0, |update| update.inserted().count())),
            removed: count(first.as_ref().map_or(0, |update| update.removed().count())),
        })
    }

    fn compare_update(
        &self,
        update: &povmeter::RootUpdate,
        mode: &'static str,
    ) -> Result<(), RootMismatch> {
        let (expected, found) = (self.root, H256(*update.root.as_bytes()));
        if expected != found {
            return Err(RootMismatch::Root {
                mode,
                expected,
                found,
            });
        }
        let theirs = RootUpdate::of_transaction(self.transaction.clone());
        if theirs != RootUpdate::of_transaction(to_prefixed_memory_db(update)?) {
            return Err(RootMismatch::Nodes { mode });
        }
        let (parent, children) = (update.parent, update.children.clone());
        let transaction = self.transaction.clone();
        let back = from_prefixed_memory_db(parent, update.root, children, transaction)?;
        if theirs != RootUpdate::of_transaction(to_prefixed_memory_db(&back)?) {
            return Err(RootMismatch::Back);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run_roots;

    fn peers(root: H256, transaction: PrefixedMemoryDB<Hashing>) -> PeersUpdate {
        PeersUpdate {
            parent: Root::EMPTY,
            root,
            transaction,
        }
    }

    #[test]
    fn random_cases_agree_in_all_modes() {
        let modes = RootMode::all(|missing| println!("skipped: {missing}")).unwrap();
        let tally = run_roots(0, 300, &modes, || {});
        assert!(tally.failures.is_empty(), "{:?}", tally.failures);
        for counts in [tally.version_0, tally.version_1] {
            assert_eq!(counts.cases, 300);
            assert!(counts.inserted > 1_000, "{counts:?}");
            assert!(counts.removed > 1_000, "{counts:?}");
        }
    }

    #[test]
    fn every_difference_is_found() {
        let modes = RootMode::all(|_| {}).unwrap();
        let source = ParentNodes::new(&Default::default());
        let changes = Changes {
            top: vec![(b"key", Some(&[7; 40]))],
            children: Vec::new(),
        };
        let compare =
            |peers: &PeersUpdate| peers.compare(&source, &changes, StateVersion::V1, &modes);
        let mut state = ShadowState::new(source.clone(), Root::EMPTY);
        let update = state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap();
        let (root, nodes) = (
            H256(*update.root.as_bytes()),
            to_prefixed_memory_db(&update).unwrap(),
        );
        let counts = compare(&peers(root, nodes.clone())).unwrap();
        assert_eq!((counts.changes, counts.inserted), (1, 2));
        let other = H256([1; 32]);
        let found = compare(&peers(other, nodes.clone()));
        assert!(matches!(found, Err(RootMismatch::Root { .. })), "{found:?}");
        let mut more = nodes;
        sp_trie::HashDBT::insert(&mut more, (&[], None), b"another node");
        let found = compare(&peers(root, more));
        assert!(
            matches!(found, Err(RootMismatch::Nodes { .. })),
            "{found:?}"
        );
    }
}
