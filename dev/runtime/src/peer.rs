//! The peer: sp-state-machine and sp-trie, assembled as in a node.

use crate::{
    author::build_block, author::AuthorError, host::BoundarySize, host::Built, host::Host,
    host::HostError, host::RootUpdate, host::TransactionStep, plan::Plan, recorder::BlockRecorder,
    runtime::Hashing,
};
use sp_core::{
    storage::{StateVersion, Storage},
    H256,
};
use sp_externalities::{set_and_run_with_externalities, Extensions, TransactionType};
use sp_state_machine::{
    Backend, DBValue, Ext, OverlayedChanges, StorageChanges, TrieBackend, TrieBackendBuilder,
};
use sp_trie::{
    cache::{CacheSize, LocalTrieCache, SharedTrieCache},
    proof_size_extension::{
        ProofSizeExt, RecordedProofSizeEstimations, RecordingProofSizeProvider,
        ReplayProofSizeProvider,
    },
    recorder::Recorder,
    CompactProof, GenericMemoryDB, KeyFunction, ProofSizeProvider,
};
use std::{
    any::Any,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

/// The node store of a parent state.
pub type NodeStore = Arc<dyn sp_state_machine::Storage<Hashing>>;

/// The backend of one block over a parent state.
pub type PeerBackend<R> = TrieBackend<NodeStore, Hashing, LocalTrieCache<Hashing>, R>;

/// A parent state.
#[derive(Clone)]
pub struct Parent {
    /// The state's root.
    pub root: H256,
    /// The state's nodes.
    pub nodes: NodeStore,
}

impl Parent {
    /// Makes the state with the keys and values of `storage`, with its nodes in memory.
    pub fn in_memory(storage: &Storage, version: StateVersion) -> Self {
        let empty = sp_state_machine::InMemoryBackend::<Hashing>::default();
        let top = storage
            .top
            .iter()
            .map(|(key, value)| (&key[..], Some(&value[..])));
        let children = storage.children_default.values().map(|child| {
            let pairs = child
                .data
                .iter()
                .map(|(key, value)| (&key[..], Some(&value[..])));
            (&child.child_info, pairs)
        });
        let (root, nodes) = empty.full_storage_root(top, children, version);
        Self {
            root,
            nodes: Arc::new(MemoryNodes(nodes)),
        }
    }
}

/// Nodes in memory.
#[derive(Clone)]
pub struct MemoryNodes<F: KeyFunction<Hashing>>(pub GenericMemoryDB<Hashing, F>);

impl<F: KeyFunction<Hashing> + Send + Sync> sp_state_machine::Storage<Hashing> for MemoryNodes<F> {
    fn get(&self, key: &H256, prefix: hash_db::Prefix) -> Result<Option<DBValue>, String> {
        Ok(hash_db::HashDB::get(&self.0, key, prefix))
    }
}

/// The peer over one parent state.
pub struct Peer {
    parent: Parent,
    version: StateVersion,
    cache: Option<SharedTrieCache<Hashing>>,
}

impl Peer {
    /// Size in bytes of the cache that a node keeps between blocks.
    pub const CACHE_BYTES: usize = 256 * 1024 * 1024;

    /// Makes the peer over the parent state of `plan`, with all nodes in memory and no cache.
    ///
    /// # Errors
    /// [`HostError::State`] if the nodes do not have the root that the plan expects.
    pub fn in_memory(plan: &Plan) -> Result<Self, HostError> {
        let version = plan.options().state_version;
        let parent = Parent::in_memory(plan.genesis(), version);
        let expected = plan.parent().state_root;
        if parent.root != expected {
            let found = parent.root;
            let reason = format!("expected the parent root {expected:?}, found {found:?}");
            return Err(HostError::state(reason));
        }
        Ok(Self::new(parent, version))
    }

    /// Makes the peer over `parent`, without a cache.
    pub fn new(parent: Parent, version: StateVersion) -> Self {
        Self {
            parent,
            version,
            cache: None,
        }
    }

    /// Adds a warm cache, filled by building the block of `plan` once over the same parent. From then
    /// on each block has a local cache, as in a node.
    ///
    /// # Errors
    /// [`AuthorError`] if that block cannot be built.
    pub fn warmed(mut self, plan: &Plan) -> Result<Self, AuthorError> {
        self = self.with_cache();
        build_block(self.block(), plan, |_| {})?;
        Ok(self)
    }

    /// Adds an empty cache.
    pub fn with_cache(self) -> Self {
        let cache = Some(SharedTrieCache::new(
            CacheSize::new(Self::CACHE_BYTES),
            None,
        ));
        Self { cache, ..self }
    }

    /// Returns the parent state.
    pub fn parent(&self) -> &Parent {
        &self.parent
    }

    /// Makes a block on the parent state, as a node without estimates builds it.
    pub fn block(&self) -> PeerBlock {
        PeerBlock::new(self)
    }

    /// Makes a block on the parent state that records the proof sizes its runtime gets, as the author
    /// of a parachain's block does.
    pub fn block_recording_sizes(&self) -> PeerBlock {
        let block = self.block();
        let recorder = block.recorder.clone();
        block.telling(recorder)
    }

    /// Makes a block on the parent state whose runtime gets `sizes` in order, as an importer with the
    /// author's record of sizes does. After the last size the runtime gets zero.
    pub fn block_told(&self, sizes: &[u64]) -> PeerBlock {
        let recorded = sizes
            .iter()
            .map(|size| usize::try_from(*size).unwrap_or(usize::MAX));
        let recorded = RecordedProofSizeEstimations(recorded.collect());
        let provider = ReplayProofSizeProvider::from_recorded(recorded);
        self.block().telling(provider)
    }

    /// Returns the state version of the blocks.
    pub fn version(&self) -> StateVersion {
        self.version
    }

    /// Makes a local cache for one user of this parent state; `None` if the peer has no cache.
    pub fn local_cache(&self) -> Option<LocalTrieCache<Hashing>> {
        self.cache
            .as_ref()
            .map(SharedTrieCache::local_cache_trusted)
    }

    /// Makes a backend for one user of this parent state.
    pub fn backend<R>(&self, recorder: R) -> PeerBackend<R>
    where
        R: sp_trie::TrieRecorderProvider<Hashing> + Send + Sync,
    {
        TrieBackendBuilder::new_with_cache(self.parent.nodes.clone(), self.parent.root, ())
            .with_optional_cache(self.local_cache())
            .with_optional_recorder(Some(recorder))
            .build()
    }

    /// Makes a backend without recorder and cache.
    pub fn plain_backend(&self) -> PeerBackend<Recorder<Hashing>> {
        TrieBackendBuilder::new_with_cache(self.parent.nodes.clone(), self.parent.root, ())
            .with_optional_cache(None)
            .with_optional_recorder(None)
            .build()
    }

    /// Returns the root after the block of `plan`, executed on `proof` alone, as a validator does.
    ///
    /// # Errors
    /// [`ValidateError`] if the proof is not one of the parent state, lacks a node, or leads to a root
    /// other than that in the header of the executed block.
    pub fn validate_from_compact(
        &self,
        plan: &Plan,
        proof: &CompactProof,
    ) -> Result<H256, ValidateError> {
        validate(plan, proof, None, self.parent.root)
    }

    /// As [`Self::validate_from_compact`], with a runtime that gets `sizes` in order.
    ///
    /// # Errors
    /// Those of [`Self::validate_from_compact`].
    pub fn validate_told(
        &self,
        plan: &Plan,
        proof: &CompactProof,
        sizes: &[u64],
    ) -> Result<H256, ValidateError> {
        validate(plan, proof, Some(sizes), self.parent.root)
    }
}

/// Why a block was not validated on a proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidateError {
    /// The proof is not one of the parent state.
    #[error("expected a compact proof of the state {parent:?}: {reason}")]
    Proof {
        /// The root of the parent state.
        parent: H256,
        /// Message of the decoder.
        reason: String,
    },
    /// The runtime panicked, most likely because a node is missing.
    #[error("the runtime panicked: {0}")]
    Panicked(String),
    /// The block cannot be executed.
    #[error("the block cannot be executed")]
    Author(#[from] AuthorError),
}

/// Executes the block of `plan` on the nodes in `proof`.
fn validate(
    plan: &Plan,
    proof: &CompactProof,
    told: Option<&[u64]>,
    parent: H256,
) -> Result<H256, ValidateError> {
    let (nodes, root) =
        proof
            .to_memory_db::<Hashing>(&parent)
            .map_err(|error| ValidateError::Proof {
                parent,
                reason: error.to_string(),
            })?;
    let parent = Parent {
        root,
        nodes: Arc::new(MemoryNodes(nodes)),
    };
    let peer = Peer::new(parent, plan.options().state_version);
    // The peer panics at a missing node. Only the message outlives the panic.
    let block = told.map_or_else(|| peer.block(), |sizes| peer.block_told(sizes));
    catch_unwind(AssertUnwindSafe(|| build_block(block, plan, |_| {})))
        .map_err(|panic| ValidateError::Panicked(panic_message(&*panic)))?
        .map(|outcome| outcome.built.root)
        .map_err(ValidateError::from)
}

/// Returns the message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (_, Some(text)) => (*text).to_owned(),
        _ => "something that is no text".to_owned(),
    }
}

/// A block that the peer builds: its overlay, backend, recorder and extensions.
///
/// The runtime gets the recorded size, from the extension that a collator registers.
pub struct PeerBlock<R: BlockRecorder = Recorder<Hashing>> {
    /// Changes of the block.
    pub overlay: OverlayedChanges<Hashing>,
    /// The parent state.
    pub backend: PeerBackend<R>,
    /// Recorder of the nodes read.
    pub recorder: R,
    /// Extensions for the runtime.
    pub extensions: Extensions,
    /// Proof sizes that the runtime got, if they are recorded.
    told: Option<RecordingProofSizeProvider>,
    version: StateVersion,
}

impl<R: BlockRecorder> PeerBlock<R> {
    /// Makes a block on the parent state of `peer`.
    pub fn new(peer: &Peer) -> Self {
        let recorder = R::default();
        let mut extensions = Extensions::new();
        extensions.register(ProofSizeExt::new(recorder.peer().clone()));
        Self {
            overlay: OverlayedChanges::default(),
            backend: peer.backend(recorder.clone()),
            recorder,
            extensions,
            told: None,
            version: peer.version,
        }
    }

    /// Makes `provider` the source of the runtime's proof sizes, and records these sizes.
    fn telling(mut self, provider: impl ProofSizeProvider + Send + Sync + 'static) -> Self {
        let provider = RecordingProofSizeProvider::new(provider);
        self.told = Some(provider.clone());
        self.extensions.register(ProofSizeExt::new(provider));
        self
    }

    /// Returns the result of `enter`, which gets this block's externalities as the runtime does.
    pub fn inside<T>(
        &mut self,
        enter: impl FnOnce(&mut Ext<'_, Hashing, PeerBackend<R>>) -> T,
    ) -> Result<T, HostError> {
        self.overlay
            .enter_runtime()
            .map_err(|_| HostError::Runtime {
                expected: "outside",
            })?;
        let result = enter(&mut Ext::new(
            &mut self.overlay,
            &self.backend,
            Some(&mut self.extensions),
        ));
        self.overlay
            .exit_runtime()
            .map_err(|_| HostError::Runtime { expected: "inside" })?;
        Ok(result)
    }
}

impl<R: BlockRecorder> Host for PeerBlock<R> {
    type Finished = Finished;

    fn execute<T>(&mut self, call: impl FnOnce() -> T) -> Result<T, HostError> {
        self.inside(|ext| set_and_run_with_externalities(ext, call))
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        let none = |_| HostError::NoOpenTransaction { step };
        match step {
            TransactionStep::Start => {
                self.overlay.start_transaction();
                self.recorder.start();
                self.extensions.start_transaction(TransactionType::Host);
            }
            TransactionStep::Commit => {
                self.overlay.commit_transaction().map_err(none)?;
                self.recorder.commit();
                self.extensions.commit_transaction(TransactionType::Host);
            }
            TransactionStep::Rollback => {
                self.overlay.rollback_transaction().map_err(none)?;
                self.recorder.roll_back();
                self.extensions.rollback_transaction(TransactionType::Host);
            }
        }
        Ok(())
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        Ok(None)
    }

    fn recorded(&self) -> u64 {
        self.recorder.peer().estimate_encoded_size() as u64
    }

    fn told(&self) -> Vec<u64> {
        let told = self.told.as_ref();
        let told = told.map_or_else(Vec::new, RecordingProofSizeProvider::recorded_estimations);
        told.into_iter().map(|size| size as u64).collect()
    }

    fn finish(mut self) -> Result<Finished, HostError> {
        let told = self.told.is_some().then(|| self.told());
        let depth = self.overlay.transaction_depth();
        if depth != 0 {
            return Err(HostError::OpenTransactions { depth });
        }
        let changes = self
            .overlay
            .drain_storage_changes(&self.backend, self.version)
            .map_err(HostError::state)?;
        Ok(Finished {
            changes,
            proof: self.recorder.peer().clone().drain_storage_proof(),
            told,
        })
    }
}

/// A finished block, as the peer passes it to the rest of a node.
pub struct Finished {
    changes: StorageChanges<Hashing>,
    proof: sp_trie::StorageProof,
    told: Option<Vec<u64>>,
}

impl From<Finished> for Built {
    fn from(finished: Finished) -> Self {
        let Finished {
            changes,
            proof,
            told,
        } = finished;
        let StorageChanges {
            mut main_storage_changes,
            mut child_storage_changes,
            transaction,
            transaction_storage_root: root,
            ..
        } = changes;
        main_storage_changes.sort();
        child_storage_changes.sort();
        let update = RootUpdate::of_transaction(transaction);
        let (main_changes, child_changes) = (main_storage_changes, child_storage_changes);
        Self {
            root,
            update,
            proof,
            main_changes,
            child_changes,
            told,
        }
    }
}
