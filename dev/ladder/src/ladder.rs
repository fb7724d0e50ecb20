//! A block that the peer builds, with an estimate after every extrinsic.

use crate::{
    snapshot::Changed, snapshot::Seen, strategy::Strategy, touched::TouchLog, touched::Tracked,
    trial::Committing, trial::Ephemeral, trial::Trial, trial::Writes, FakeHasher,
};
use povmeter_dev_runtime::{
    runtime::Hashing, BoundarySize, EstimateRecorder, Finished, Host, HostError, Peer, PeerBackend,
    PeerBlock, SplitRecorder, TransactionStep,
};
use sp_core::storage::{ChildInfo, StateVersion};
use sp_externalities::set_and_run_with_externalities;
use sp_state_machine::{Backend, TrieBackendBuilder};

/// A block that the peer builds with a [`Strategy`] for estimates.
pub struct LadderBlock {
    block: PeerBlock<SplitRecorder>,
    log: TouchLog,
    estimator: Estimator,
}

/// The state of a strategy between boundaries.
enum Estimator {
    None,
    Root {
        backend: Box<PeerBackend<EstimateRecorder>>,
        version: StateVersion,
    },
    Trial {
        trial: Box<dyn Trial>,
        seen: Option<Seen>,
    },
}

impl LadderBlock {
    /// Makes a block on the parent state of `peer`, with `strategy` for estimates. Estimates have a
    /// cache if the peer has one.
    pub fn new(peer: &Peer, strategy: Strategy) -> Self {
        let block = PeerBlock::<SplitRecorder>::new(peer);
        let estimator = Estimator::new(peer, strategy, &block.recorder);
        Self {
            block,
            log: TouchLog::default(),
            estimator,
        }
    }

    /// As [`Self::new`], but passes the changed keys of each boundary to `trial`.
    pub fn with_trial(peer: &Peer, trial: Box<dyn Trial>) -> Self {
        let seen = None;
        Self {
            block: PeerBlock::<SplitRecorder>::new(peer),
            log: TouchLog::default(),
            estimator: Estimator::Trial { trial, seen },
        }
    }
}

impl Estimator {
    fn new(peer: &Peer, strategy: Strategy, recorder: &SplitRecorder) -> Self {
        let (parent, version) = (peer.parent().clone(), peer.version());
        let notes = recorder.clone();
        let ephemeral = |writes| -> Box<dyn Trial> {
            let (parent, notes) = (parent.clone(), notes.clone());
            Box::new(Ephemeral::new(
                parent,
                version,
                notes,
                writes,
                peer.local_cache(),
            ))
        };
        let trial: Box<dyn Trial> = match strategy {
            Strategy::None => return Self::None,
            Strategy::RootEachTx => {
                return Self::Root {
                    backend: Box::new(peer.backend(recorder.estimates())),
                    version,
                }
            }
            Strategy::Incremental => Box::new(Committing::<Hashing>::new(
                parent.clone(),
                version,
                notes.clone(),
            )),
            Strategy::FakeHasher | Strategy::EachKeyOnce => Box::new(
                Committing::<FakeHasher>::new(parent.clone(), version, notes.clone()),
            ),
            Strategy::Forget => ephemeral(Writes::Insert),
            Strategy::GetForWrites | Strategy::Upstream => ephemeral(Writes::Get),
        };
        Self::Trial {
            trial,
            seen: strategy.hands_over_once().then(Seen::default),
        }
    }
}

impl Host for LadderBlock {
    type Finished = Finished;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        let Self { block, log, .. } = self;
        let depth = log.depth();
        let result = block.inside(|ext| {
            set_and_run_with_externalities(
                &mut Tracked {
                    inner: ext,
                    log: &mut *log,
                },
                call,
            )
        })?;
        // The overlay rolls back the transactions that the runtime left open.
        while log.depth() > depth {
            log.roll_back();
        }
        Ok(result)
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        self.block.transaction(step)?;
        match step {
            TransactionStep::Start => self.log.start(),
            TransactionStep::Commit => self.log.commit(),
            TransactionStep::Rollback => self.log.roll_back(),
        }
        Ok(())
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        let Self {
            block,
            log,
            estimator,
        } = self;
        let touches = log.take();
        match estimator {
            Estimator::None => return Ok(None),
            Estimator::Root { backend, version } => {
                block.overlay.storage_root(&**backend, *version);
                // Roll back an empty transaction to clear the overlay's cached root, because an
                // append does not clear it.
                block.overlay.start_transaction();
                let step = TransactionStep::Rollback;
                let none = |_| HostError::NoOpenTransaction { step };
                block.overlay.rollback_transaction().map_err(none)?;
            }
            Estimator::Trial { trial, seen } => {
                let changed = Changed::new(touches, &mut block.overlay);
                estimate(&changed, block, trial.as_mut(), seen.as_mut())?;
            }
        }
        Ok(Some(BoundarySize {
            recorded: block.recorded(),
            root_adds: block.recorder.root_adds(),
        }))
    }

    fn recorded(&self) -> u64 {
        self.block.recorded()
    }

    fn finish(self) -> Result<Finished, HostError> {
        self.block.finish()
    }
}

/// Passes the `changed` keys to `trial`: those of child tries first, then those of the top trie
/// together with the new roots of the child tries.
pub fn estimate(
    changed: &Changed,
    block: &mut PeerBlock<SplitRecorder>,
    trial: &mut dyn Trial,
    mut seen: Option<&mut Seen>,
) -> Result<(), HostError> {
    let values = trial.wants_values();
    let mut roots = Vec::new();
    for child in changed.children() {
        let changes = changed.of_child(child, &mut block.overlay, values, seen.as_deref_mut());
        if !changes.is_empty() {
            let parent = child_root(block, child)?;
            let root = trial.child(child, parent, &changes)?;
            let key = child.prefixed_storage_key().into_inner();
            roots.push((key, root.map(|root| root.as_bytes().to_vec())));
        }
    }
    let mut changes = changed.of_top(&mut block.overlay, values, seen);
    changes.extend(roots);
    changes.sort();
    trial.top(&changes)
}

/// Reads the root of a child trie from the parent state, without recording it.
fn child_root(
    block: &PeerBlock<SplitRecorder>,
    child: &ChildInfo,
) -> Result<Option<sp_core::H256>, HostError> {
    let nodes = block.backend.backend_storage().clone();
    let silent: PeerBackend<EstimateRecorder> =
        TrieBackendBuilder::new_with_cache(nodes, *block.backend.root(), ())
            .with_optional_recorder(None)
            .with_optional_cache(None)
            .build();
    let key = child.prefixed_storage_key();
    let root = silent.storage(key.as_slice()).map_err(HostError::state)?;
    root.map(|root| {
        let bytes = <[u8; 32]>::try_from(&root[..]);
        bytes.map(Into::into).map_err(|_| {
            HostError::state(format!(
                "expected a child root of 32 bytes, found {}",
                root.len()
            ))
        })
    })
    .transpose()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter_dev_runtime::{NodeStore, Parent};
    use sp_core::{storage::Storage, H256};
    use std::sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    };
    use StateVersion::V1;

    /// A value so long that its leaf is not inlined.
    const VALUE: [u8; 32] = [7; 32];

    fn child() -> ChildInfo {
        ChildInfo::new_default(b"child")
    }

    /// A state with `keys` in the top trie and in a child trie. The key of the child trie itself
    /// begins with 0x3a.
    fn state(keys: &[&[u8]]) -> Storage {
        let mut storage = Storage::default();
        // All values differ, because equal leaves would be counted once.
        let value = |key: &[u8]| [key, &VALUE[key.len()..]].concat();
        let pairs = || keys.iter().map(|key| (key.to_vec(), value(key)));
        storage.top.extend(pairs());
        let data = pairs().collect();
        let child = sp_core::storage::StorageChild {
            data,
            child_info: child(),
        };
        storage.children_default.insert(b"child".to_vec(), child);
        storage
    }

    /// Returns the estimates after each of `extrinsics`, and the bytes recorded after the root.
    fn run(strategy: Strategy, keys: &[&[u8]], extrinsics: &[fn()]) -> (Vec<BoundarySize>, u64) {
        let peer = Peer::new(Parent::in_memory(&state(keys), V1), V1);
        let mut block = LadderBlock::new(&peer, strategy);
        let sizes = extrinsics.iter().filter_map(|extrinsic| {
            block.transaction(TransactionStep::Start).unwrap();
            block.execute(extrinsic).unwrap();
            block.transaction(TransactionStep::Commit).unwrap();
            block.boundary().unwrap()
        });
        let sizes = sizes.collect();
        block.execute(|| sp_io::storage::root(V1)).unwrap();
        let recorded = block.recorded();
        block.finish().unwrap();
        (sizes, recorded)
    }

    /// Bytes by which the last estimate of each strategy falls short.
    fn lacks(keys: &[&[u8]], extrinsics: &[fn()]) -> Vec<(Strategy, i64)> {
        let lack = |strategy| {
            let (sizes, recorded) = run(strategy, keys, extrinsics);
            let last = sizes.last()?.total();
            Some((
                strategy,
                i64::try_from(recorded).unwrap() - i64::try_from(last).unwrap(),
            ))
        };
        Strategy::ALL.into_iter().filter_map(lack).collect()
    }

    /// Asserts that exactly `short` underestimate, and that the others are exact.
    #[track_caller]
    fn assert_short(keys: &[&[u8]], extrinsics: &[fn()], short: &[Strategy]) {
        for (strategy, lack) in lacks(keys, extrinsics) {
            assert_eq!(
                lack > 0,
                short.contains(&strategy),
                "{strategy} lacks {lack}"
            );
            assert!(lack >= 0, "{strategy} has {} too many", -lack);
        }
    }

    const FRESH: [Strategy; 3] = [Strategy::Forget, Strategy::GetForWrites, Strategy::Upstream];
    const CUMULATIVE: [Strategy; 3] = [
        Strategy::Incremental,
        Strategy::FakeHasher,
        Strategy::EachKeyOnce,
    ];

    #[test]
    fn two_deletions_of_three_siblings() {
        let keys: [&[u8]; 4] = [b"\x51", b"\x52", b"\x53", b"\x60"];
        let extrinsics: [fn(); 2] = [
            || sp_io::storage::clear(b"\x51"),
            || sp_io::storage::clear(b"\x52"),
        ];
        assert_short(&keys, &extrinsics, &FRESH);
    }

    #[test]
    fn a_sibling_that_is_there_before_the_deletion_but_sorts_after_it() {
        let keys: [&[u8]; 3] = [b"\x51", b"\x53", b"\x60"];
        let extrinsics: [fn(); 2] = [
            || sp_io::storage::set(b"\x52", &VALUE),
            || sp_io::storage::clear(b"\x51"),
        ];
        assert_short(&keys, &extrinsics, &CUMULATIVE);
    }

    #[test]
    fn prefixes_and_child_tries() {
        let keys: [&[u8]; 4] = [b"\x51", b"\x52", b"\x53", b"\x60"];
        fn set(key: &[u8]) {
            sp_io::default_child_storage::set(b"child", key, &VALUE);
        }
        assert_short(&keys, &[|| set(b"\x51"), || set(b"\x75")], &[]);
        assert_short(
            &keys,
            &[|| sp_io::default_child_storage::clear(b"child", b"\x51")],
            &[],
        );
        let extrinsics: [fn(); 2] = [
            || {
                let _ = sp_io::storage::clear_prefix(b"\x51", None);
            },
            || {
                let _ = sp_io::default_child_storage::clear_prefix(b"child", b"\x60", None);
            },
        ];
        assert_short(&keys, &extrinsics, &[]);
        // The whole child trie, and a key that did not exist.
        let extrinsics: [fn(); 2] = [
            || {
                let _ = sp_io::default_child_storage::storage_kill(b"child", None);
            },
            || sp_io::default_child_storage::set(b"new", b"key", &VALUE),
        ];
        assert_short(&keys, &extrinsics, &[]);
    }

    #[test]
    fn what_the_runtime_rolls_back_is_not_estimated() {
        let keys: [&[u8]; 4] = [b"\x51", b"\x52", b"\x53", b"\x60"];
        let extrinsics: [fn(); 1] = [|| {
            sp_io::storage::set(b"\x60", &VALUE);
            sp_io::storage::start_transaction();
            sp_io::storage::clear(b"\x51");
            sp_io::storage::rollback_transaction();
            // Left open, so the host rolls it back.
            sp_io::storage::start_transaction();
            sp_io::storage::clear(b"\x52");
        }];
        assert_short(&keys, &extrinsics, &[]);
    }

    #[test]
    fn an_append_after_an_estimate_is_in_the_root() {
        let keys: [&[u8]; 1] = [b"\x51"];
        let parent = || Peer::new(Parent::in_memory(&state(&keys), V1), V1);
        let root = |strategy| {
            let mut block = LadderBlock::new(&parent(), strategy);
            for _ in 0..2 {
                block
                    .execute(|| sp_io::storage::append(b"list", vec![1]))
                    .unwrap();
                block.boundary().unwrap();
            }
            block.execute(|| sp_io::storage::root(V1)).unwrap()
        };
        for strategy in Strategy::ALL {
            assert_eq!(root(strategy), root(Strategy::None), "{strategy}");
        }
    }

    /// A node store that fails while the flag is set.
    struct Failing(NodeStore, Arc<AtomicBool>);

    impl sp_state_machine::Storage<Hashing> for Failing {
        fn get(&self, key: &H256, prefix: hash_db::Prefix) -> Result<Option<Vec<u8>>, String> {
            if self.1.load(Ordering::Relaxed) {
                return Err("the disk is gone".to_owned());
            }
            self.0.get(key, prefix)
        }
    }

    #[test]
    fn a_failing_node_store_is_an_error() {
        for strategy in CUMULATIVE.into_iter().chain(FRESH) {
            let Parent { root, nodes } = Parent::in_memory(&state(&[b"\x51", b"\x60"]), V1);
            let off = Arc::new(AtomicBool::new(false));
            let nodes: NodeStore = Arc::new(Failing(nodes, off.clone()));
            let mut block = LadderBlock::new(&Peer::new(Parent { root, nodes }, V1), strategy);
            block.execute(|| sp_io::storage::clear(b"\x51")).unwrap();
            off.store(true, Ordering::Relaxed);
            let error = block.boundary().unwrap_err();
            assert!(matches!(&error, HostError::State(e) if e.to_string() == "the disk is gone"));
        }
    }

    #[test]
    fn transactions_must_balance() {
        let peer = Peer::new(Parent::in_memory(&state(&[]), V1), V1);
        let mut block = LadderBlock::new(&peer, Strategy::Incremental);
        for step in [TransactionStep::Commit, TransactionStep::Rollback] {
            let error = block.transaction(step).unwrap_err();
            assert!(matches!(error, HostError::NoOpenTransaction { step: s } if s == step));
        }
        block.transaction(TransactionStep::Start).unwrap();
        let error = block.finish().map(drop).unwrap_err();
        assert!(matches!(error, HostError::OpenTransactions { depth: 1 }));
    }
}
