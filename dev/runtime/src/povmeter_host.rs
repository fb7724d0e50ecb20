//! povmeter under the block author.

use crate::{
    entries::Entries, host::BoundarySize, host::Built, host::Host, host::HostError,
    host::NodeChange, host::RootUpdate, host::TransactionStep, peer::Parent, plan::Plan,
    runtime::Hashing,
};
use bytes::Bytes;
use povmeter::{
    Accounting, BlockPool, Change, Consensus, NodeBatch, NodeHash, NodePrefix, NodeSource,
    ProofError, ProofNodes, Root, RootError, SourceError,
};
use povmeter_delta_root::{state_update, Changes, KeyChanges, ShadowState};
use povmeter_store::{NodeStore, StoreError};
use povmeter_substrate::{state_version, MachineError, SealedMachine, SizeSource, StateMachine};
use sp_core::{storage::StateVersion, H256};
use std::{
    collections::BTreeMap,
    panic::{catch_unwind, resume_unwind, AssertUnwindSafe},
    sync::Arc,
};

/// Nodes that several blocks read, povmeter's and the peer's. A clone is another handle.
#[derive(Clone)]
pub struct SharedNodes(Arc<dyn NodeSource + Send + Sync>);

impl SharedNodes {
    /// The nodes of `source`.
    pub fn new(source: impl NodeSource + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// The state with the given root as the peer's parent state, read from these nodes.
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

/// Why a state could not be put into a store. The store is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The root of the state could not be computed.
    #[error("the root of the state could not be computed: {0}")]
    Compute(#[from] RootError),
    /// The state is not the one that was meant.
    #[error("expected a state with root {expected}, found {found}")]
    Root {
        /// The root that the state should have.
        expected: Root,
        /// The root it has.
        found: Root,
    },
    /// The store did not take the state.
    #[error("the store did not take the state: {0}")]
    Store(#[from] StoreError),
}

/// The root of the state with the entries `top` and the child tries `children`, which is in `store`
/// from now on. The store must be empty. The root has to be `expected`, if that is given.
///
/// # Errors
/// A [`StateError`] if the root is another, or the store holds a state already or fails.
pub fn commit_state(
    store: &mut impl NodeStore,
    top: &Entries,
    children: &BTreeMap<Vec<u8>, Entries>,
    version: StateVersion,
    expected: Option<Root>,
) -> Result<Root, StateError> {
    let changes = Changes {
        top: all_set(top),
        children: children
            .iter()
            .map(|(key, entries)| (key.as_slice(), all_set(entries)))
            .collect(),
    };
    let mut empty = ShadowState::new(&*store, Root::EMPTY);
    let update = state_update(&mut empty, &changes, state_version(version), &mut ())?;
    let found = update.root;
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        return Err(StateError::Root { expected, found });
    }
    store.commit(&update)?;
    Ok(found)
}

/// The changes that make `entries` of an empty trie.
fn all_set(entries: &Entries) -> KeyChanges<'_> {
    let set = entries
        .iter()
        .map(|(key, value)| (key.as_slice(), Some(value.as_slice())));
    set.collect()
}

/// The root of the parent state of `plan`, which is in the empty `store` from now on.
///
/// # Errors
/// As [`commit_state`]; the root has to be the one that the plan expects.
pub fn commit_parent(store: &mut impl NodeStore, plan: &Plan) -> Result<Root, StateError> {
    let storage = plan.genesis();
    let children = storage
        .children_default
        .iter()
        .map(|(key, child)| (key.clone(), child.data.clone()));
    let version = plan.options().state_version;
    commit_state(
        store,
        &storage.top,
        &children.collect(),
        version,
        Some(parent_root(plan)),
    )
}

/// The root of the state that the block of `plan` starts from.
pub(crate) fn parent_root(plan: &Plan) -> Root {
    Root::from(plan.parent().state_root.0)
}

/// When a block estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimates {
    /// After every extrinsic, and whenever the runtime asks. What an author does.
    Everywhere,
    /// Whenever the runtime asks. What a validator does.
    InRuntime,
    /// Never: the runtime is told the size of its reads, as the peer's is.
    Nowhere,
}

/// A block that povmeter builds, with the accounting `A`.
pub struct PovmeterBlock<S, A: Accounting = Consensus> {
    /// `None` once it has failed.
    machine: Option<StateMachine<S, A>>,
    /// Where its memory comes from, and goes to.
    pool: Arc<BlockPool>,
    estimates: Estimates,
    version: StateVersion,
    depth: usize,
}

impl<S: NodeSource> PovmeterBlock<S> {
    /// A new block on the parent state of `plan`, whose nodes are in `source`.
    pub fn new(source: S, plan: &Plan, estimates: Estimates) -> Self {
        Self::pooled(Arc::default(), source, plan, estimates)
    }

    /// The same in the memory of an earlier block of `pool`, to which it goes back in the end: for
    /// whoever builds one block after the other.
    pub fn pooled(pool: Arc<BlockPool>, source: S, plan: &Plan, estimates: Estimates) -> Self {
        let sizes = match estimates {
            Estimates::Everywhere | Estimates::InRuntime => SizeSource::Estimate,
            Estimates::Nowhere => SizeSource::Reads,
        };
        let version = plan.options().state_version;
        let parent = parent_root(plan);
        Self {
            machine: Some(StateMachine::pooled(
                Arc::clone(&pool),
                source,
                parent,
                sizes,
            )),
            pool,
            estimates,
            version,
            depth: 0,
        }
    }

    /// A new block on the state with root `parent`, whose nodes are in `source`; its runtime is told
    /// `sizes`, whatever is estimated besides.
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
    /// As [`PovmeterBlock::on`], with the accounting of choice.
    pub fn with_accounting(
        source: S,
        parent: Root,
        version: StateVersion,
        estimates: Estimates,
        sizes: SizeSource,
    ) -> Self {
        let pool: Arc<BlockPool> = Arc::default();
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
        }
    }

    /// The state machine of the block.
    ///
    /// # Errors
    /// A [`HostError`] if the block has failed before.
    pub fn machine(&mut self) -> Result<&mut StateMachine<S, A>, HostError> {
        self.machine.as_mut().ok_or_else(gone)
    }

    /// What the machine failed of, after its runtime unwound with `panic`.
    ///
    /// # Panics
    /// With `panic`, if it was not the machine that failed.
    fn fail(&mut self, panic: Box<dyn std::any::Any + Send>) -> HostError {
        let failed = self
            .machine
            .take()
            .filter(|machine| machine.failure().is_some());
        // A machine that has failed seals nothing: it says why.
        match failed.map(|machine| machine.seal(self.version)) {
            Some(Err(error)) => HostError::state(error),
            _ => resume_unwind(panic),
        }
    }
}

impl PovmeterBlock<ProofNodes> {
    /// A new block on the parent state of `plan` as far as it is in the SCALE encoded compact
    /// `proof`, and on nothing else.
    ///
    /// # Errors
    /// A [`ProofError`] if that is no proof of the parent state.
    pub fn from_compact(
        proof: &[u8],
        plan: &Plan,
        estimates: Estimates,
    ) -> Result<Self, ProofError> {
        let nodes = povmeter::CompactProof::decode(proof)?.to_source(parent_root(plan))?;
        Ok(Self::new(nodes, plan, estimates))
    }
}

/// The error for a block that is asked for more after it has failed.
fn gone() -> HostError {
    HostError::state("expected a block in the making, found one that has failed")
}

impl<S: NodeSource + 'static, A: Accounting + 'static> Host for PovmeterBlock<S, A> {
    type Finished = PovmeterFinished;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        let machine = self.machine()?;
        // The machine unwinds from under the runtime if the parent state can't be read. It is not
        // used any more then, so it does not matter what state it is left in.
        match catch_unwind(AssertUnwindSafe(|| machine.execute(call))) {
            // An executor of wasm keeps the panic to itself.
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
            TransactionStep::Start => machine.start_transaction(),
            TransactionStep::Commit => machine.commit_transaction().map_err(HostError::state)?,
            TransactionStep::Rollback => {
                machine.rollback_transaction().map_err(HostError::state)?;
            }
        }
        match step {
            TransactionStep::Start => self.depth += 1,
            TransactionStep::Commit | TransactionStep::Rollback => self.depth -= 1,
        }
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

    /// What was recorded so far. The nodes that estimates touched are part of the proof, and of this.
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
        let sealed = machine.seal(self.version);
        let sealed = sealed.map_err(|error: MachineError| HostError::state(error))?;
        Ok(PovmeterFinished {
            sealed,
            pool: self.pool,
        })
    }
}

/// What povmeter hands to the rest of a node when a block is built.
pub struct PovmeterFinished {
    /// The sealed block, with its offchain changes.
    pub sealed: SealedMachine,
    pool: Arc<BlockPool>,
}

impl From<PovmeterFinished> for Built {
    fn from(PovmeterFinished { sealed, pool }: PovmeterFinished) -> Self {
        let block = &sealed.block;
        let update = block.update();
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
        // The node has copies of all that it needs.
        pool.recycle(sealed.block);
        built
    }
}

/// The key of a node in a database that keys by place and hash.
fn prefixed_key(prefix: NodePrefix<'_>, hash: &NodeHash) -> Vec<u8> {
    let (path, odd_nibble) = prefix;
    let odd_nibble = odd_nibble.as_ref().map(std::slice::from_ref);
    [path, odd_nibble.unwrap_or_default(), hash.as_bytes()].concat()
}
