//! The state machine: a block and what its runtime produces besides state changes.

use crate::{
    accesses::Accesses,
    externalities::Ext,
    layered::Layered,
    sizes::{recorded_bytes, Question, ReplayError, SizeSource, Sizes},
};
use povmeter::{
    Accounting, Attributed, BlockError, BlockPool, Consensus, EarlierNodes, EstimatePolicy,
    NodeSource, PooledBlock, ProofSize, Root, SealError, SealedBlock, SizeBound, StorageProof,
    TrieId, Untold,
};
use povmeter_overlay::{Overlay, TransactionError};
use povmeter_parallel::ParallelError;
use povmeter_proof_size::RootedProofSizeExt;
use sp_core::{
    offchain::{OffchainOverlayedChange, STORAGE_PREFIX},
    storage::StateVersion,
};
use sp_externalities::{Extension, Extensions, TransactionType};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    any::{Any, TypeId},
    sync::Arc,
};

/// Why a runtime was not executed or its block was not sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// A call on the block failed.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The record of sizes does not fit the block.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Calls in parallel failed.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// The machine has failed, with the [failure](StateMachine::failure) that it keeps.
    #[error("the machine has failed: {message}")]
    Failed {
        /// What the failure says.
        message: String,
    },
    /// A call into the runtime did not end, because it or the host's decision about it panicked.
    #[error("expected that each call into the runtime has ended, found one that panicked")]
    Unfinished,
    /// Calls in parallel cannot share extensions that the host has registered.
    #[error("expected no extensions of the host beside those for proof sizes, found {found}")]
    Extensions {
        /// How many there are.
        found: usize,
    },
}

impl MachineError {
    /// The error of a later call on a machine that has failed with this one.
    fn again(&self) -> Self {
        match self {
            Self::Unfinished => Self::Unfinished,
            Self::Failed { message } => Self::Failed {
                message: message.clone(),
            },
            failure => Self::Failed {
                message: failure.to_string(),
            },
        }
    }
}

impl<S, A: Accounting> From<SealError<StateMachine<S, A>, MachineError>> for MachineError {
    fn from(refused: SealError<StateMachine<S, A>, MachineError>) -> Self {
        refused.into_parts().1
    }
}

impl From<TransactionError> for MachineError {
    fn from(error: TransactionError) -> Self {
        Self::Block(error.into())
    }
}

/// An operation on the database's transaction index, made by the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexOperation {
    /// Store the last bytes of an extrinsic under a hash.
    Insert {
        /// Index of the extrinsic in the block.
        extrinsic: u32,
        /// Hash of the data.
        hash: Vec<u8>,
        /// Length of the data in bytes.
        size: u32,
    },
    /// Keep data that an earlier block stored.
    Renew {
        /// Index of the extrinsic in the block.
        extrinsic: u32,
        /// Hash of the data.
        hash: Vec<u8>,
    },
}

/// A change of the offchain database: prefix, key, and the change.
pub type OffchainChange = ((Vec<u8>, Vec<u8>), OffchainOverlayedChange);

/// A sealed block and what its runtime produced besides state changes.
#[derive(Debug)]
#[non_exhaustive]
pub struct SealedMachine {
    /// The block, with root, changes, and proof.
    pub block: SealedBlock,
    /// Offchain changes, ordered by key.
    pub offchain: Vec<OffchainChange>,
    /// Operations on the transaction index, in the order of the calls.
    pub transaction_index: Vec<IndexOperation>,
    /// The proof sizes that the runtime got, in order.
    pub sizes: Vec<u64>,
}

/// A block and the runtime that executes on it.
///
/// The host opens and closes transactions here. [`Self::execute`] runs a call into the runtime with
/// this machine as its externalities. The proof-size extensions are registered from the start, unless
/// the machine is [`SizeSource::Unrecorded`].
#[derive(Debug)]
pub struct StateMachine<S, A: Accounting = Consensus> {
    pub(crate) block: PooledBlock<Layered<S>, A>,
    pub(crate) offchain: Overlay,
    pub(crate) transaction_index: Vec<IndexOperation>,
    pub(crate) sizes: Sizes,
    pub(crate) accesses: Accesses,
    pub(crate) extensions: ExtensionBox,
    pub(crate) parent: Root,
    /// The first error below the runtime. The interface cannot return it to the runtime.
    pub(crate) failure: Option<MachineError>,
    /// Whether a call into the runtime, or a batch of them, has begun and not ended.
    pub(crate) inside: bool,
}

/// [`Extensions`] with a `Debug` implementation, which the type itself lacks.
pub(crate) struct ExtensionBox(pub(crate) Extensions);

impl core::fmt::Debug for ExtensionBox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Extensions")
    }
}

impl<S: NodeSource> StateMachine<S> {
    /// A machine for a block on top of the state that `parent` commits to and `source` holds, with
    /// [`Consensus`] accounting. It answers the runtime's questions for the proof size from `sizes`.
    pub fn new(source: S, parent: Root, sizes: SizeSource) -> Self {
        Self::pooled(Arc::default(), source, parent, sizes)
    }

    /// As [`Self::new`], but reuses the memory of an earlier block of `pool`, if there is one. The
    /// memory returns to the pool however the machine ends; see also [`BlockPool::recycle`].
    pub fn pooled(pool: Arc<BlockPool>, source: S, parent: Root, sizes: SizeSource) -> Self {
        Self::with_accounting(pool, source, parent, sizes, Consensus)
    }
}

impl<S: NodeSource, A: Accounting> StateMachine<S, A> {
    /// As [`StateMachine::pooled`], but with `accounting`.
    ///
    /// With [`Advisory`](povmeter::Advisory) accounting, use [`SizeSource::Reads`] for blocks that others check: a proof
    /// lacks the nodes of estimates then, so a validator could not repeat those of [`SizeSource::Estimate`].
    pub fn with_accounting(
        pool: Arc<BlockPool>,
        source: S,
        parent: Root,
        sizes: SizeSource,
        accounting: A,
    ) -> Self {
        let mut extensions = Extensions::new();
        let recorded = sizes != SizeSource::Unrecorded;
        let mut block = PooledBlock::new(pool, Layered::new(source), parent, accounting);
        if sizes == SizeSource::Reads {
            block.count_roots_in_key_order();
        }
        let sizes = Sizes::new(sizes);
        if recorded {
            extensions.register(ProofSizeExt::new(sizes.provider()));
            extensions.register(RootedProofSizeExt::new(0));
        }
        Self {
            block,
            offchain: Overlay::new(),
            transaction_index: Vec::new(),
            sizes,
            accesses: Accesses::default(),
            extensions: ExtensionBox(extensions),
            parent,
            failure: None,
            inside: false,
        }
    }

    /// Ignores the nodes that earlier blocks of the same PoV brought; see [`Block::ignore`].
    ///
    /// # Errors
    /// [`MachineError::Block`] if there are more nodes than a block can load.
    ///
    /// [`Block::ignore`]: povmeter::Block::ignore
    pub fn ignore(&mut self, earlier: &EarlierNodes) -> Result<(), MachineError> {
        Ok(self.block.ignore(earlier)?)
    }

    /// Registers an extension for the runtime. A [`ProofSizeExt`] or [`RootedProofSizeExt`] replaces
    /// the machine's own: the machine then neither computes nor records the sizes that it returns.
    pub fn register_extension<E: Extension>(&mut self, extension: E) {
        if let Some(question) = Question::asked_by(extension.type_id()) {
            self.sizes.leave_to_others(question);
        }
        self.extensions.0.register(extension);
    }

    /// Counts reads and writes from now on, for benchmarks.
    pub fn track_accesses(&mut self) {
        self.accesses.enable();
    }

    /// Returns the result of `call`, run with this machine as the externalities of the thread.
    /// Transactions that `call` leaves open are rolled back, and it cannot close those of the host.
    ///
    /// # Errors
    /// [`MachineError`] if the machine has failed, or the runtime already executes.
    ///
    /// # Panics
    /// If `call` panics, the parent state cannot be read, or a replay does not fit. The interface
    /// between runtime and host has no errors, and an invented value would be worse. The machine then
    /// stays failed: [`Self::failure`] says why, and it cannot be sealed. If `call` itself panics, there
    /// is no failure, but the machine stays inside the runtime: it executes no other call, and it cannot be
    /// sealed either.
    pub fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, MachineError> {
        self.check_usable()?;
        self.enter_runtime()?;
        let mut ext = Ext::new(self);
        let result = sp_externalities::set_and_run_with_externalities(&mut ext, call);
        ext.end()?;
        Ok(result)
    }

    /// Stores the answer to `question` in its extension, where the runtime then reads it.
    pub(crate) fn answer(&mut self, question: Question) -> Result<(), MachineError> {
        let Self {
            block,
            sizes,
            extensions,
            ..
        } = self;
        let recorded = recorded_bytes::<A>(block.recorded_size());
        let size = sizes.answer(question, recorded, || {
            Ok::<_, MachineError>(block.proof_size()?.total_bytes())
        })?;
        if let (Some(size), Question::Rooted) = (size, question) {
            let rooted = extensions.0.get_mut(TypeId::of::<RootedProofSizeExt>());
            if let Some(rooted) = rooted.and_then(<dyn Any>::downcast_mut::<RootedProofSizeExt>) {
                *rooted = RootedProofSizeExt::new(size);
            }
        }
        Ok(())
    }

    /// Length of the compact proof of the nodes recorded so far, in bytes; 0 if there are none,
    /// `None` if they are not a proof of the parent state.
    pub(crate) fn recorded_compact_bytes(&self) -> Option<u64> {
        let proof = self.block.recorded_proof();
        if proof.nodes().is_empty() {
            return Some(0);
        }
        let compact = proof.to_compact(self.block.parent_root()).ok()?;
        Some(compact.encoded_bytes())
    }

    /// Checks that all calls so far have ended, without a failure.
    pub(crate) fn check_usable(&self) -> Result<(), MachineError> {
        match &self.failure {
            Some(failure) => Err(failure.again()),
            None if self.inside => Err(MachineError::Unfinished),
            None => Ok(()),
        }
    }

    fn enter_runtime(&mut self) -> Result<(), MachineError> {
        self.block.enter_runtime()?;
        self.inside = true;
        Ok(self.offchain.enter_runtime()?)
    }

    /// Returns how many transactions the runtime left open, which are rolled back.
    pub(crate) fn exit_runtime(&mut self) -> Result<usize, MachineError> {
        let open = self.block.exit_runtime()?;
        self.offchain.exit_runtime()?;
        self.inside = false;
        Ok(open)
    }

    /// Opens a transaction of the host.
    pub fn start_transaction(&mut self) {
        self.block.start_transaction();
        self.offchain.start_transaction();
        self.sizes.start_host_transaction();
        self.extensions.0.start_transaction(TransactionType::Host);
    }

    /// Commits the innermost transaction of the host.
    ///
    /// # Errors
    /// [`MachineError::Block`] if none is open.
    pub fn commit_transaction(&mut self) -> Result<(), MachineError> {
        self.block.commit_transaction()?;
        self.offchain.commit_transaction()?;
        self.sizes.commit_host_transaction();
        self.extensions.0.commit_transaction(TransactionType::Host);
        Ok(())
    }

    /// Rolls back the innermost transaction of the host, counts and sizes included.
    ///
    /// # Errors
    /// [`MachineError::Block`] if none is open.
    pub fn rollback_transaction(&mut self) -> Result<(), MachineError> {
        self.block.rollback_transaction()?;
        self.offchain.rollback_transaction()?;
        self.sizes.roll_back_host_transaction();
        self.extensions
            .0
            .rollback_transaction(TransactionType::Host);
        Ok(())
    }

    /// Size of the proof if the block ended now. This is the host's question, so the size is not
    /// recorded. With [`Consensus`] accounting it does not affect the sizes that the runtime gets.
    ///
    /// # Errors
    /// [`MachineError::Block`] if a node cannot be loaded.
    pub fn proof_size(&mut self) -> Result<ProofSize, MachineError> {
        if A::PROVEN {
            Ok(self.block.peek_proof_size()?)
        } else {
            Ok(self.block.proof_size()?)
        }
    }

    /// Length in bytes of the encoded compact proof if the block ended now, a question of the host, too. With
    /// [`Consensus`] accounting it does not affect the sizes that the runtime gets.
    ///
    /// # Errors
    /// As [`Block::peek_compact_proof_bytes`](povmeter::Block::peek_compact_proof_bytes).
    pub fn compact_proof_bytes(&mut self) -> Result<u64, MachineError> {
        if A::PROVEN {
            Ok(self.block.peek_compact_proof_bytes()?)
        } else {
            Ok(self.block.compact_proof_bytes()?)
        }
    }

    /// Loads the nodes of keys that are known in advance, such as those of the next extrinsic. Counts nothing; see
    /// [`Block::prefetch_for`](povmeter::Block::prefetch_for).
    ///
    /// # Errors
    /// [`MachineError::Block`] for the first node that can't be loaded. A caller may ignore the error, because a later
    /// call that needs the node fails, too.
    pub fn prefetch_for(
        &mut self,
        trie: TrieId<'_>,
        read: &[impl AsRef<[u8]>],
        changed: &[impl AsRef<[u8]>],
    ) -> Result<(), MachineError> {
        Ok(self.block.prefetch_for(trie, read, changed)?)
    }

    /// The root after the changes so far, which the host may compute before it seals the block. As when the runtime
    /// asks for it, the nodes that it needs are in the proof from now on, so later sizes depend on the call: author
    /// and importer must make it at the same points, or once nothing asks for a size any more.
    ///
    /// # Errors
    /// [`MachineError::Block`] if a node can't be loaded. The call can be repeated.
    pub fn root(&mut self, version: StateVersion) -> Result<Root, MachineError> {
        Ok(self.block.root(state_version(version))?.root)
    }

    /// The nodes recorded so far.
    pub fn recorded_proof(&self) -> StorageProof {
        self.block.recorded_proof()
    }

    /// Size of the nodes recorded so far; counts nothing new.
    pub fn recorded_size(&self) -> ProofSize {
        self.block.recorded_size()
    }

    /// Number of parent nodes loaded so far, and the bytes of memory in their arena.
    pub fn loaded(&self) -> (usize, usize) {
        (self.block.loaded_nodes(), self.block.loaded_bytes())
    }

    /// The proof sizes that the runtime got so far.
    pub fn sizes(&self) -> &[u64] {
        self.sizes.handed_out()
    }

    /// Why a call into the runtime panicked, or calls in parallel failed; `None` if the runtime itself panicked, or
    /// nothing did.
    pub fn failure(&self) -> Option<&MachineError> {
        self.failure.as_ref()
    }

    /// Returns the sealed block and what its runtime produced. Computes the root if the runtime has
    /// not asked for it in `version`.
    ///
    /// # Errors
    /// [`SealError`], which holds the machine: with the [failure](Self::failure) of the machine, if it has one; with
    /// another [`MachineError`] if a call into the runtime panicked, a replay has sizes left over, a transaction is
    /// open, or a node can't be loaded. In the last two cases the machine can be sealed once the cause is gone.
    pub fn seal(
        mut self,
        version: StateVersion,
    ) -> Result<SealedMachine, SealError<Self, MachineError>> {
        let offchain = match self.offchain_changes() {
            Ok(changes) => changes,
            Err(error) => return Err(SealError::new(self, error)),
        };
        match self.block.seal(state_version(version)) {
            Ok(block) => Ok(SealedMachine {
                block,
                offchain,
                transaction_index: self.transaction_index,
                sizes: self.sizes.handed_out().to_vec(),
            }),
            Err(refused) => {
                let (block, error) = refused.into_parts();
                Err(SealError::new(Self { block, ..self }, error.into()))
            }
        }
    }

    /// The changes of the offchain database, if the machine can be sealed, unless its root can't be computed. A
    /// failure is handed out, and the machine stays failed.
    fn offchain_changes(&mut self) -> Result<Vec<OffchainChange>, MachineError> {
        if let Some(failure) = self.failure.take() {
            self.failure = Some(failure.again());
            return Err(failure);
        }
        self.check_usable()?;
        self.sizes.finish()?;
        let (changes, _) = self.offchain.to_owned_changes()?.into_parts();
        let changes = changes.into_iter().map(|(key, value)| {
            let change = value.map_or(
                OffchainOverlayedChange::Remove,
                OffchainOverlayedChange::SetValue,
            );
            ((STORAGE_PREFIX.to_vec(), key), change)
        });
        Ok(changes.collect())
    }

    /// Commits all changes in memory and continues on that state, for benchmarks.
    pub(crate) fn commit_in_memory(&mut self) -> Result<(), MachineError> {
        while self.block.transaction_depth() > 0 {
            self.block.commit_transaction()?;
            self.offchain.commit_transaction()?;
        }
        let version = state_version(StateVersion::default());
        let update = self.block.root(version)?.clone();
        self.note_writes();
        let root = update.root;
        self.rebase(root, |source| source.commit(&update))
    }

    /// Drops all changes, including the committed ones.
    pub(crate) fn wipe(&mut self) -> Result<(), MachineError> {
        self.accesses.reset();
        self.rebase(self.parent, Layered::wipe)
    }

    /// Starts a new block on `root` within the same call into the runtime.
    fn rebase(
        &mut self,
        root: Root,
        change: impl FnOnce(&mut Layered<S>),
    ) -> Result<(), MachineError> {
        self.block.rebase(root, change);
        self.offchain = Overlay::new();
        self.transaction_index.clear();
        self.enter_runtime()
    }
}

impl<S: NodeSource, A: Untold> StateMachine<S, A> {
    /// The proof size if the block ended now, or an upper bound, as `policy` says; see
    /// [`Block::proof_size_within`](povmeter::Block::proof_size_within).
    ///
    /// # Errors
    /// [`MachineError::Block`] if it estimates exactly and a node can't be loaded.
    pub fn proof_size_within(&mut self, policy: EstimatePolicy) -> Result<SizeBound, MachineError> {
        Ok(self.block.proof_size_within(policy)?)
    }
}

impl<S: NodeSource, A: Accounting> StateMachine<S, Attributed<A>> {
    /// Begins the next part of the block, such as an extrinsic, and returns its number; see
    /// [`Block::begin_part`](povmeter::Block::begin_part). The result is in the sealed block's
    /// [`attribution`](SealedBlock::attribution).
    pub fn begin_part(&mut self) -> u32 {
        self.block.begin_part()
    }
}

impl<S: NodeSource, A: Accounting> StateMachine<S, A> {
    pub(crate) fn set_offchain(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.offchain.set(TrieId::Top, key, value),
            None => {
                self.offchain.remove(TrieId::Top, key);
            }
        }
    }

    /// Root of the child trie `storage_key` after the changes so far.
    pub(crate) fn child_root(
        &mut self,
        storage_key: &[u8],
        version: StateVersion,
    ) -> Result<Root, MachineError> {
        Ok(self.block.child_root(storage_key, state_version(version))?)
    }
}

/// Converts a state version to povmeter's type.
pub fn state_version(version: StateVersion) -> povmeter::StateVersion {
    match version {
        StateVersion::V0 => povmeter::StateVersion::V0,
        StateVersion::V1 => povmeter::StateVersion::V1,
    }
}
