//! What a block is built under: one state machine, as the author sees it.

use codec::Encode;
use sp_core::H256;
use sp_state_machine::{ChildStorageCollection, StorageCollection};
use sp_trie::{CompactProof, PrefixedMemoryDB, StorageProof};
use std::error::Error;

use crate::runtime::Hashing;
use povmeter_attribution::BlockPart;

/// One state machine with a block in the making.
///
/// The author calls [`execute`](Self::execute) for each entry into the runtime, with a transaction
/// around each extrinsic, and [`finish`](Self::finish) after the runtime has computed the root.
pub trait Host: Sized {
    /// What [`finish`](Self::finish) returns. Turning it into [`Built`] is not timed.
    type Finished: Into<Built>;

    /// What `call` returns, run as the runtime on this state.
    ///
    /// # Errors
    /// A [`HostError`] if the host cannot enter or leave the runtime, or failed inside it.
    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError>;

    /// Opens, commits or rolls back a transaction of the host.
    ///
    /// # Errors
    /// [`HostError::NoOpenTransaction`] if there is none to close.
    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError>;

    /// How large the proof would be if the block ended now; `None` if the host does not estimate.
    ///
    /// # Errors
    /// A [`HostError`] if the estimate fails.
    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError>;

    /// Takes note that what follows is this part of the block. Does nothing under a host that does
    /// not tell parts apart.
    fn begin(&mut self, _: BlockPart) {}

    /// What was recorded so far, in the unit of the peer's recorder, in bytes: of every distinct
    /// node the SCALE length prefix and the node.
    fn recorded(&self) -> u64;

    /// The proof sizes that the runtime was told so far, in order, in bytes; empty if the host keeps no
    /// record of them.
    fn told(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The root with all that belongs to it.
    ///
    /// # Errors
    /// A [`HostError`] if a transaction is open or the root cannot be computed.
    fn finish(self) -> Result<Self::Finished, HostError>;
}

/// What happens to a transaction of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// It is opened, inside the one that is open already.
    Start,
    /// Its changes become those of the one around it.
    Commit,
    /// Its changes are forgotten, and what it recorded.
    Rollback,
}

/// The size of the proof at a boundary, in the unit of [`Host::recorded`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundarySize {
    /// What was read so far.
    pub recorded: u64,
    /// What the computation of the root would read besides.
    pub root_adds: u64,
}

impl BoundarySize {
    /// Both together: the estimate.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.recorded + self.root_adds
    }
}

/// A block's outcome as the host sees it.
#[derive(Debug)]
pub struct Built {
    /// The state root after the block.
    pub root: H256,
    /// What the block does to the nodes of the parent state.
    pub update: RootUpdate,
    /// The nodes of the parent state that the block needs.
    pub proof: StorageProof,
    /// The changed keys, sorted, with their new values.
    pub main_changes: StorageCollection,
    /// The same for each child trie, by its storage key without the well-known prefix.
    pub child_changes: ChildStorageCollection,
    /// The proof sizes that the runtime was told, in order, in bytes; `None` if the host keeps no
    /// record of them.
    pub told: Option<Vec<u64>>,
}

/// What a block does to the nodes of the parent state; sorted, and nothing in it that cancels out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootUpdate {
    nodes: Vec<NodeChange>,
}

/// A node which is inserted or removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeChange {
    /// The prefixed key of the node: key space, path and hash.
    pub key: Vec<u8>,
    /// References added, or removed if negative. Never zero.
    pub count: i32,
    /// The encoded node; empty if it is removed.
    pub node: Vec<u8>,
}

impl RootUpdate {
    /// The update with these `changes`; those with a count of zero are dropped, and what a removed
    /// node consisted of is, too.
    pub fn new(changes: impl IntoIterator<Item = NodeChange>) -> Self {
        let mut nodes: Vec<_> = changes
            .into_iter()
            .filter(|change| change.count != 0)
            .collect();
        for removed in nodes.iter_mut().filter(|change| change.count < 0) {
            removed.node = Vec::new();
        }
        nodes.sort();
        Self { nodes }
    }

    /// The update that the peer hands to its database.
    pub fn of_transaction(mut nodes: PrefixedMemoryDB<Hashing>) -> Self {
        let nodes = nodes.drain().into_iter();
        Self::new(nodes.map(|(key, (node, count))| NodeChange { key, count, node }))
    }

    /// The changes, by key.
    pub fn nodes(&self) -> &[NodeChange] {
        &self.nodes
    }
}

/// The sizes of one proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofSizes {
    /// By the recorder's own count, in bytes; see [`Host::recorded`].
    pub recorded: u64,
    /// SCALE encoded, in bytes: the recorder's count and the length of the list.
    pub encoded: u64,
    /// SCALE encoded in the compact form that leaves out hashes, in bytes.
    pub compact: u64,
    /// The number of nodes.
    pub nodes: u64,
}

impl ProofSizes {
    /// The sizes of `proof`, and its compact form. Costs milliseconds for thousands of nodes.
    ///
    /// # Errors
    /// [`HostError::State`] if the nodes are not a proof of the state with root `parent`.
    pub fn measure(
        proof: &StorageProof,
        recorded: u64,
        parent: H256,
    ) -> Result<(Self, CompactProof), HostError> {
        let compact = proof
            .to_compact_proof::<Hashing>(parent)
            .map_err(HostError::state)?;
        let sizes = Self {
            recorded,
            encoded: proof.encoded_size() as u64,
            compact: compact.encoded_size() as u64,
            nodes: proof.len() as u64,
        };
        Ok((sizes, compact))
    }
}

/// Why a host could not do what the author asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Something was to be closed that was not open.
    #[error("expected an open transaction to {step:?}, found none")]
    NoOpenTransaction {
        /// What was to happen to the transaction.
        step: TransactionStep,
    },
    /// The block was finished with transactions of the host still open.
    #[error("expected no open transaction at the end of the block, found {depth}")]
    OpenTransactions {
        /// How many are open.
        depth: usize,
    },
    /// The runtime was entered while it ran, or left while it did not.
    #[error("expected the runtime to be {expected}, found the opposite")]
    Runtime {
        /// Where it should have been: `"outside"` or `"inside"`.
        expected: &'static str,
    },
    /// The state machine failed.
    #[error("the state machine failed")]
    State(#[source] Box<dyn Error + Send + Sync>),
}

impl HostError {
    /// The failure of a state machine.
    pub fn state(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::State(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_net_and_sorted() {
        let change = |key: u8, count, node: &[u8]| NodeChange {
            key: vec![key],
            count,
            node: node.to_vec(),
        };
        let update = RootUpdate::new([change(3, 1, b"c"), change(2, 0, b"b"), change(1, -1, b"a")]);
        assert_eq!(update.nodes(), [change(1, -1, b""), change(3, 1, b"c")]);
    }

    #[test]
    fn nodes_without_the_root_are_no_proof() {
        let error = ProofSizes::measure(&StorageProof::empty(), 0, H256::repeat_byte(1));
        assert!(matches!(error, Err(HostError::State(_))));
    }
}
