//! A povmeter host for the block author.

use crate::{
    host::BoundarySize, host::Built, host::Host, host::HostError, host::NodeChange,
    host::RootUpdate, host::TransactionStep, parent_state::parent_root, peer::Parent, plan::Plan,
    runtime::Hashing,
};
use bytes::Bytes;
use povmeter::{
    Accounting, BlockPool, Change, Consensus, NodeBatch, NodeHash, NodePrefix, NodeSource,
    ProofError, ProofNodes, Root, SourceError,
};
use povmeter_substrate::{MachineError, SealedMachine, SizeSource, StateMachine};
use sp_core::{storage::StateVersion, H256};
use std::{
    panic::{catch_unwind, resume_unwind, AssertUnwindSafe},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Nodes that blocks of povmeter and of the peer share. A clone is another handle.
#[derive(Clone)]
pub struct SharedNodes(Arc<dyn NodeSource + Send + Sync>);

impl SharedNodes {
    /// Shares the nodes of `source`.
    pub fn new(source: impl NodeSource + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// Returns a parent state for the peer: the state with this root, read from these nodes.
    pub fn parent(&self, root: H256) -> Parent {
        Parent {
            root,
            nodes: Arc::new(self.clone()),
        }
    }
}

impl NodeSource for SharedNodes {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.0.node(hash, prefix)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        self.0.nodes(batch);
    }
}

impl sp_state_machine::Storage<Hashing> for SharedNodes {
    fn get(&self, key: &H256, prefix: hash_db::Prefix) -> Result<Option<Vec<u8>>, String> {
        let node = self.0.node(&NodeHash::from(key.0), prefix);
        node.map(|node| node.map(Vec::from))
            .map_err(|error| error.to_string())
    }
}

/// When a block estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimates {
    /// After every extrinsic and when the runtime asks, as an author does.
    Everywhere,
    /// When the runtime asks, as a validator does.
    InRuntime,
    /// Never: the runtime gets the recorded size, as from the peer.
    Nowhere,
}

/// A block that povmeter builds, with the accounting `A`.
pub struct PovmeterBlock<S, A: Accounting = Consensus> {
    /// `None` once the block has failed.
    machine: Option<StateMachine<S, A>>,
    /// The pool that lends the memory and gets it back.
    pool: Arc<BlockPool>,
    estimates: Estimates,
    version: StateVersion,
    depth: usize,
    update: Option<SealedUpdate>,
}

/// Where a finished block leaves its root update, for a store. A clone is another handle.
#[derive(Clone, Debug, Default)]
pub struct SealedUpdate(Arc<Mutex<Option<povmeter::RootUpdate>>>);

impl SealedUpdate {
    /// Takes the update, if a block left one.
    pub fn take(&self) -> Option<povmeter::RootUpdate> {
        self.slot().take()
    }

    /// Locks the update. A poisoned lock does no harm, because no change under it can be left half
    /// done.
    fn slot(&self) -> MutexGuard<'_, Option<povmeter::RootUpdate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: NodeSource> PovmeterBlock<S> {
    /// Makes a block on the parent state of `plan`, whose nodes are in `source`.
    pub fn new(source: S, plan: &Plan, estimates: Estimates) -> Self {
        Self::pooled(Arc::default(), source, plan, estimates)
    }

    /// As [`Self::new`], but reuses the memory of an earlier block of `pool` and returns it there at
    /// the end. For programs that build many blocks.
    pub fn pooled(pool: Arc<BlockPool>, source: S, plan: &Plan, estimates: Estimates) -> Self {
        let sizes = match estimates {
            Estimates::Everywhere | Estimates::InRuntime => SizeSource::Estimate,
            Estimates::Nowhere => SizeSource::Reads,
        };
        let version = plan.options().state_version;
        Self::in_pool(pool, source, parent_root(plan), version, estimates, sizes)
    }

    /// Makes a block on the state with root `parent`, whose nodes are in `source`. Its runtime gets
    /// `sizes`, independent of `estimates`.
    pub fn on(
        source: S,
        parent: Root,
        version: StateVersion,
        estimates: Estimates,
        sizes: SizeSource,
    ) -> Self {
        Self::with_accounting(source, parent, version, estimates, sizes)
    }
}

impl<S: NodeSource, A: Accounting> PovmeterBlock<S, A> {
    /// As [`PovmeterBlock::on`], with the accounting `A`.
    pub fn with_accounting(
        source: S,
        parent: Root,
        version: StateVersion,
        estimates: Estimates,
        sizes: SizeSource,
    ) -> Self {
        Self::in_pool(Arc::default(), source, parent, version, estimates, sizes)
    }

    fn in_pool(
        pool: Arc<BlockPool>,
        source: S,
        parent: Root,
        version: StateVersion,
        estimates: Estimates,
        sizes: SizeSource,
    ) -> Self {
        Self {
            machine: Some(StateMachine::with_accounting(
                Arc::clone(&pool),
                source,
                parent,
                sizes,
                A::default(),
            )),
            pool,
            estimates,
            version,
            depth: 0,
            update: None,
        }
    }

    /// Returns this block, which leaves its root update in `update` once it is finished and
    /// converted to [`Built`].
    #[must_use]
    pub fn keeping_update(mut self, update: &SealedUpdate) -> Self {
        self.update = Some(update.clone());
        self
    }

    /// Returns the state machine of the block.
    ///
    /// # Errors
    /// [`HostError`] if the block has failed before.
    pub fn machine(&mut self) -> Result<&mut StateMachine<S, A>, HostError> {
        self.machine.as_mut().ok_or_else(gone)
    }

    /// Returns the failure of the machine after its runtime unwound with `panic`.
    ///
    /// # Panics
    /// With `panic`, if the machine did not fail.
    fn fail(&mut self, panic: Box<dyn std::any::Any + Send>) -> HostError {
        let failed = self
            .machine
            .take()
            .filter(|machine| machine.failure().is_some());
        // Sealing a failed machine returns the failure.
        match failed.map(|machine| machine.seal(self.version)) {
            Some(Err(refused)) => HostError::state(MachineError::from(refused)),
            _ => resume_unwind(panic),
        }
    }
}

impl PovmeterBlock<ProofNodes> {
    /// Makes a block on the parent state of `plan` with the nodes of the SCALE encoded compact
    /// `proof` alone.
    ///
    /// # Errors
    /// [`ProofError`] if `proof` is not a proof of the parent state.
    pub fn from_compact(
        proof: &[u8],
        plan: &Plan,
        estimates: Estimates,
    ) -> Result<Self, ProofError> {
        let nodes = povmeter::CompactProof::decode(proof)?.to_source(parent_root(plan))?;
        Ok(Self::new(nodes, plan, estimates))
    }
}

/// Returns the error of a call on a block that has failed.
fn gone() -> HostError {
    HostError::state("expected an unfinished block, found one that has failed")
}

impl<S: NodeSource + 'static, A: Accounting + 'static> Host for PovmeterBlock<S, A> {
    type Finished = PovmeterFinished;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        let machine = self.machine()?;
        // The machine unwinds through the runtime if the parent state cannot be read. It is not used
        // again, so its inner state does not matter.
        match catch_unwind(AssertUnwindSafe(|| machine.execute(call))) {
            // The wasm executor swallows the panic.
            Ok(_) if machine.failure().is_some() => Err(self.fail(Box::new("a failed machine"))),
            Ok(result) => result.map_err(HostError::state),
            Err(panic) => Err(self.fail(panic)),
        }
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        if step != TransactionStep::Start && self.depth == 0 {
            return Err(HostError::NoOpenTransaction { step });
        }
        let machine = self.machine()?;
        match step {
            TransactionStep::Start => {
                machine.start_transaction();
                self.depth += 1;
                return Ok(());
            }
            TransactionStep::Commit => machine.commit_transaction(),
            TransactionStep::Rollback => machine.rollback_transaction(),
        }
        .map_err(HostError::state)?;
        self.depth -= 1;
        Ok(())
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        if self.estimates != Estimates::Everywhere {
            return Ok(None);
        }
        let size = self.machine()?.proof_size().map_err(HostError::state)?;
        Ok(Some(BoundarySize {
            recorded: size.read_bytes,
            root_adds: size.root_bytes,
        }))
    }

    /// Includes the nodes that estimates counted. With [`Consensus`] accounting these are the
    /// runtime's estimates, whose nodes are in the proof.
    fn recorded(&self) -> u64 {
        let machine = self.machine.as_ref();
        machine.map_or(0, |machine| machine.recorded_size().total_bytes())
    }

    fn told(&self) -> Vec<u64> {
        let machine = self.machine.as_ref();
        machine.map_or_else(Vec::new, |machine| machine.sizes().to_vec())
    }

    fn finish(self) -> Result<PovmeterFinished, HostError> {
        if self.depth != 0 {
            return Err(HostError::OpenTransactions { depth: self.depth });
        }
        let machine = self.machine.ok_or_else(gone)?;
        let sealed = machine.seal(self.version).map_err(MachineError::from);
        let sealed = sealed.map_err(HostError::state)?;
        Ok(PovmeterFinished {
            sealed,
            pool: self.pool,
            update: self.update,
        })
    }
}

/// A finished block, as povmeter passes it to the rest of a node.
pub struct PovmeterFinished {
    /// The sealed block, with its offchain changes.
    pub sealed: SealedMachine,
    pool: Arc<BlockPool>,
    update: Option<SealedUpdate>,
}

impl From<PovmeterFinished> for Built {
    fn from(finished: PovmeterFinished) -> Self {
        let PovmeterFinished {
            sealed,
            pool,
            update: kept,
        } = finished;
        let block = &sealed.block;
        let update = block.update();
        if let Some(kept) = kept {
            *kept.slot() = Some(update.clone());
        }
        let nodes = update.nodes.iter().map(|change| NodeChange {
            key: prefixed_key(change.prefix(), &change.hash),
            count: change.references,
            node: change.encoded.to_vec(),
        });
        let owned = |(key, value): Change<'_>| (key.to_vec(), value.map(<[u8]>::to_vec));
        let child_changes = block.child_changes();
        let built = Self {
            root: H256(update.root.into()),
            update: RootUpdate::new(nodes),
            proof: sp_trie::StorageProof::new(
                block.proof().nodes().iter().map(|node| node.to_vec()),
            ),
            main_changes: block.top_changes().map(owned).collect(),
            child_changes: child_changes
                .map(|(key, changes)| (key.to_vec(), changes.map(owned).collect()))
                .collect(),
            told: Some(sealed.sizes),
        };
        // `built` has copies of all that it needs.
        pool.recycle(sealed.block);
        built
    }
}

/// Returns the key of a node in a database that keys by position and hash.
fn prefixed_key(prefix: NodePrefix<'_>, hash: &NodeHash) -> Vec<u8> {
    let (path, odd_nibble) = prefix;
    let odd_nibble = odd_nibble.as_ref().map(std::slice::from_ref);
    [path, odd_nibble.unwrap_or_default(), hash.as_bytes()].concat()
}
