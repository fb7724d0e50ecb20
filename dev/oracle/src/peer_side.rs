//! The peer's side of a case.

use super::net::NetChanges;
use codec::Encode;
use povmeter_dev_ladder::{estimate, Changed, Ephemeral, TouchLog, Tracked, Writes};
use povmeter_dev_runtime::{
    runtime::Hashing, BlockRecorder, Finished, Host, HostError, Parent, Peer, PeerBlock,
    SplitRecorder, TransactionStep,
};
use povmeter_vectors::{Answer, Hex, Op, TrieName};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    H256,
};
use sp_externalities::{Externalities, MultiRemovalResults};
use sp_state_machine::{Backend, Ext};
use sp_trie::{recorder::Recorder, PrefixedMemoryDB, StorageProof};

/// sp-state-machine with its recorder, and the upstream strategy beside it.
pub(super) struct PeerSide {
    peer: Peer,
    version: StateVersion,
    block: PeerBlock<SplitRecorder>,
    log: TouchLog,
    upstream: Ephemeral,
}

/// The result of the block if it ended now.
pub(super) struct Truth {
    /// The root.
    pub(super) root: H256,
    /// Nodes with their references.
    pub(super) update: PrefixedMemoryDB<Hashing>,
    /// All nodes of the parent state needed: those recorded, and those of the root computation.
    pub(super) proof: StorageProof,
    /// Bytes of the proof in the recorder's unit.
    pub(super) bytes: u64,
}

impl PeerSide {
    pub(super) fn new(parent: Parent, version: StateVersion) -> Self {
        let peer = Peer::new(parent.clone(), version);
        let block = PeerBlock::<SplitRecorder>::new(&peer);
        let notes = block.recorder.clone();
        let upstream = Ephemeral::new(parent, version, notes, Writes::Get, None);
        Self {
            peer,
            version,
            block,
            log: TouchLog::default(),
            upstream,
        }
    }

    /// Returns the bytes recorded by reads.
    pub(super) fn read_bytes(&self) -> u64 {
        self.block.recorder.peer().estimate_encoded_size() as u64
    }

    /// Returns the nodes read.
    pub(super) fn read_proof(&self) -> StorageProof {
        self.block.recorder.peer().to_storage_proof()
    }

    /// Returns the peer's answer to `op`.
    pub(super) fn ask(&mut self, op: &Op) -> Result<Answer, HostError> {
        match op {
            Op::HostStart => self.step(TransactionStep::Start)?,
            Op::HostCommit => self.step(TransactionStep::Commit)?,
            Op::HostRollback => {
                self.step(TransactionStep::Rollback)?;
                // The peer's backend caches the roots of child tries, so that the paths to them
                // are not recorded again. A fresh backend caches none.
                self.block.backend = self.peer.backend(self.block.recorder.clone());
            }
            Op::Enter => {
                let inside = |_| HostError::Runtime {
                    expected: "outside",
                };
                self.block.overlay.enter_runtime().map_err(inside)?;
            }
            Op::Exit => self.exit()?,
            Op::Boundary => {}
            Op::Root | Op::ChildRoot { .. } => {
                // An append does not reset the cached root, and with one a child's root is only read.
                self.forget_cached_root()?;
                return Ok(self.call(op));
            }
            _ => return Ok(self.call(op)),
        }
        Ok(Answer::Done)
    }

    fn step(&mut self, step: TransactionStep) -> Result<(), HostError> {
        self.block.transaction(step)?;
        self.log.follow(step);
        Ok(())
    }

    fn exit(&mut self) -> Result<(), HostError> {
        let outside = |_| HostError::Runtime { expected: "inside" };
        self.block.overlay.exit_runtime().map_err(outside)?;
        self.log
            .roll_back_to(self.block.overlay.transaction_depth());
        // Child tries touched only in rolled back transactions stay listed until the next rollback.
        self.forget_cached_root()
    }

    /// Rolls back an empty transaction, because that resets the overlay's cached root and its list of
    /// child tries.
    fn forget_cached_root(&mut self) -> Result<(), HostError> {
        let step = TransactionStep::Rollback;
        let none = |_| HostError::NoOpenTransaction { step };
        self.block.overlay.start_transaction();
        self.block.overlay.rollback_transaction().map_err(none)
    }

    fn call(&mut self, op: &Op) -> Answer {
        let PeerBlock {
            overlay,
            backend,
            extensions,
            ..
        } = &mut self.block;
        let mut ext = Ext::new(overlay, &*backend, Some(extensions));
        let mut ext = Tracked {
            inner: &mut ext,
            log: &mut self.log,
        };
        ask_externalities(&mut ext, op, self.version)
    }

    /// Returns the net changes so far.
    pub(super) fn net_changes(&mut self) -> NetChanges {
        NetChanges::new(&mut self.block.overlay)
    }

    /// The result of the block if it ended now. The block's recorder records none of this computation.
    pub(super) fn truth(&mut self, net: &NetChanges) -> Result<Truth, HostError> {
        let extra = Recorder::<Hashing>::default();
        let backend = self.peer.backend(extra.clone());
        // Only look up the keys whose deletion the peer's trie may get wrong.
        for (child, key) in net.left_out() {
            match child {
                None => backend.storage(key).map(drop),
                Some(child) => backend.child_storage(child, key).map(drop),
            }
            .map_err(HostError::state)?;
        }
        let children = net.children();
        let children = children.map(|(child, entries)| (child, entries.into_iter()));
        let (root, update) = backend.full_storage_root(net.top(), children, self.version);
        let proof = StorageProof::merge([self.read_proof(), extra.to_storage_proof()]);
        let bytes = proof.iter_nodes().map(|node| node.encoded_size() as u64);
        Ok(Truth {
            root,
            update,
            bytes: bytes.sum(),
            proof,
        })
    }

    /// Does what the peer does when it is asked for the root of `child`, but with the changes of the child in `net`
    /// alone, and without recording a node.
    pub(super) fn child_root(
        &mut self,
        net: &NetChanges,
        child: &Hex,
    ) -> Result<Answer, HostError> {
        let info = ChildInfo::new_default(&child.0);
        let of_child = |net: &NetChanges| {
            net.children()
                .any(|(of, changes)| *of == info && !changes.is_empty())
        };
        if !of_child(&self.net_changes()) {
            let child = child.clone();
            return self.ask(&Op::ChildRoot { child });
        }
        let changes = net.children().find(|(of, _)| **of == info);
        let changes = changes.map_or(Vec::new(), |(_, changes)| changes);
        let backend = self.peer.backend(Recorder::<Hashing>::default());
        let (root, is_empty, _) =
            backend.child_storage_root(&info, changes.into_iter(), self.version);
        let root = root.as_bytes().to_vec();
        let key = info.into_prefixed_storage_key().into_inner();
        let written = (!is_empty).then(|| root.clone());
        self.block.overlay.set_storage(key, written);
        Ok(Answer::Root(root))
    }

    /// Returns the block that the peer built.
    pub(super) fn finish(mut self) -> Result<Finished, HostError> {
        self.forget_cached_root()?;
        self.block.finish()
    }

    /// Returns the size by the upstream strategy.
    pub(super) fn upstream_size(&mut self) -> Result<u64, HostError> {
        let changed = Changed::new(self.log.take(), &mut self.block.overlay);
        estimate(&changed, &mut self.block, &mut self.upstream, None)?;
        Ok(self.read_bytes() + self.block.recorder.root_adds())
    }
}

/// Returns the answer of `ext` to a call of the runtime. For other ops it makes no call and returns
/// [`Answer::Done`].
///
/// # Panics
/// If `op` appends in a child trie, which no runtime can.
pub fn ask_externalities(
    ext: &mut (impl Externalities + ?Sized),
    op: &Op,
    version: StateVersion,
) -> Answer {
    match op {
        Op::Start => ext.storage_start_transaction(),
        Op::Commit => {
            let _ = ext.storage_commit_transaction();
        }
        Op::Rollback => {
            let _ = ext.storage_rollback_transaction();
        }
        Op::Set { trie, key, value } => match child_info(trie) {
            None => ext.set_storage(key.clone(), value.clone()),
            Some(child) => ext.set_child_storage(&child, key.clone(), value.clone()),
        },
        Op::Remove { trie, key } => match child_info(trie) {
            None => ext.clear_storage(key),
            Some(child) => ext.clear_child_storage(&child, key),
        },
        Op::Append { trie, key, element } => {
            assert_eq!(*trie, TrieName::Top, "expected a call of a runtime: {op}");
            ext.storage_append(key.clone(), element.clone());
        }
        _ => return read(ext, op, version),
    }
    Answer::Done
}

/// [`ask_externalities`] for the calls that have a result.
fn read(ext: &mut (impl Externalities + ?Sized), op: &Op, version: StateVersion) -> Answer {
    match op {
        Op::Get { trie, key } => Answer::Value(match child_info(trie) {
            None => ext.storage(key),
            Some(child) => ext.child_storage(&child, key),
        }),
        Op::Hash { trie, key } => Answer::Hash(match child_info(trie) {
            None => ext.storage_hash(key),
            Some(child) => ext.child_storage_hash(&child, key),
        }),
        Op::Exists { trie, key } => Answer::Exists(match child_info(trie) {
            None => ext.exists_storage(key),
            Some(child) => ext.exists_child_storage(&child, key),
        }),
        Op::Next { trie, key } => Answer::Key(match child_info(trie) {
            None => ext.next_storage_key(key),
            Some(child) => ext.next_child_storage_key(&child, key),
        }),
        Op::Clear {
            trie,
            prefix,
            limit,
            cursor,
        } => {
            let cursor = cursor.as_deref();
            removed(match child_info(trie) {
                None => ext.clear_prefix(prefix, *limit, cursor),
                Some(child) if prefix.is_empty() => ext.kill_child_storage(&child, *limit, cursor),
                Some(child) => ext.clear_child_prefix(&child, prefix, *limit, cursor),
            })
        }
        Op::Root => Answer::Root(ext.storage_root(version)),
        Op::ChildRoot { child } => {
            Answer::Root(ext.child_storage_root(&ChildInfo::new_default(&child.0), version))
        }
        _ => Answer::Done,
    }
}

/// Returns the child trie in the peer's form; `None` for the top trie.
fn child_info(trie: &TrieName) -> Option<ChildInfo> {
    match trie {
        TrieName::Top => None,
        TrieName::Child(storage_key) => Some(ChildInfo::new_default(storage_key)),
    }
}

fn removed(results: MultiRemovalResults) -> Answer {
    Answer::Removed {
        cursor: results.maybe_cursor,
        from_parent: results.backend,
        unique: results.unique,
        visited: results.loops,
    }
}
