//! The interface between the block author and a state machine.

use codec::Encode;
use sp_core::H256;
use sp_state_machine::{ChildStorageCollection, StorageCollection};
use sp_trie::{CompactProof, PrefixedMemoryDB, StorageProof};
use std::error::Error;

use crate::runtime::Hashing;
use povmeter_attribution::BlockPart;

/// A state machine that builds one block.
///
/// The author calls [`execute`](Self::execute) for each call into the runtime, with a transaction
/// around each extrinsic, and [`finish`](Self::finish) after the runtime has computed the root.
pub trait Host: Sized {
    /// What [`finish`](Self::finish) returns. The conversion to [`Built`] is not timed.
    type Finished: Into<Built>;

    /// Returns the result of `call`, run as the runtime on this state.
    ///
    /// # Errors
    /// A [`HostError`] if the host cannot enter or leave the runtime, or failed inside it.
    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError>;

    /// Opens, commits or rolls back a transaction of the host.
    ///
    /// # Errors
    /// [`HostError::NoOpenTransaction`] if there is none to close.
    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError>;

    /// Returns the size of the proof if the block ended now; `None` if the host does not estimate.
    ///
    /// # Errors
    /// A [`HostError`] if the estimate fails.
    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError>;

    /// Begins a part of the block. Does nothing on a host without attribution.
    fn begin(&mut self, _: BlockPart) {}

    /// Returns the size recorded so far in bytes, as the peer's recorder counts it: for every
    /// distinct node, the SCALE length prefix and the node.
    fn recorded(&self) -> u64;

    /// Returns the proof sizes that the runtime got so far, in order, in bytes; empty if the host
    /// does not record them.
    fn told(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Ends the block and returns its root, nodes, proof and changes.
    ///
    /// # Errors
    /// A [`HostError`] if a transaction is open or the root cannot be computed.
    fn finish(self) -> Result<Self::Finished, HostError>;
}

/// A step of a transaction of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// Opens a transaction inside the innermost open one.
    Start,
    /// Commits the innermost transaction: its changes become those of the transaction around it.
    Commit,
    /// Rolls the innermost transaction back: drops its changes, and the nodes that it recorded.
    Rollback,
}

/// The size of the proof at a boundary, in the unit of [`Host::recorded`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundarySize {
    /// Nodes read so far.
    pub recorded: u64,
    /// Further nodes that the root computation would read.
    pub root_adds: u64,
}

impl BoundarySize {
    /// Returns the estimate: the sum of both sizes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.recorded + self.root_adds
    }
}

/// A built block as the host returns it.
#[derive(Debug)]
pub struct Built {
    /// The state root after the block.
    pub root: H256,
    /// The changes of the parent state's nodes.
    pub update: RootUpdate,
    /// The nodes of the parent state that the block needs.
    pub proof: StorageProof,
    /// The changed keys, sorted, with their new values.
    pub main_changes: StorageCollection,
    /// The changed keys of each child trie, by its storage key without the well-known prefix.
    pub child_changes: ChildStorageCollection,
    /// The proof sizes that the runtime got, in order, in bytes; `None` if the host keeps no record
    /// of them.
    pub told: Option<Vec<u64>>,
}

/// The net changes of the parent state's nodes, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootUpdate {
    nodes: Vec<NodeChange>,
}

/// The insertion or removal of a node.
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
    /// Makes an update of `changes`, added up by key. Drops changes with a count of zero, and the
    /// encoding of removed nodes.
    ///
    /// Two places of a trie can have one key, because `hash-db` writes an odd nibble as a byte: a node
    /// below the nibble `f`, and a value node with the key `f0`. If both hold the same bytes, a database
    /// sees one change.
    pub fn new(changes: impl IntoIterator<Item = NodeChange>) -> Self {
        let mut nodes: Vec<NodeChange> = changes.into_iter().collect();
        nodes.sort();
        nodes.dedup_by(|next, kept| {
            let same = next.key == kept.key;
            if same {
                kept.count = kept.count.saturating_add(next.count);
                if !next.node.is_empty() {
                    kept.node = std::mem::take(&mut next.node);
                }
            }
            same
        });
        nodes.retain(|change| change.count != 0);
        for removed in nodes.iter_mut().filter(|change| change.count < 0) {
            removed.node = Vec::new();
        }
        Self { nodes }
    }

    /// Converts the transaction that the peer passes to its database.
    pub fn of_transaction(mut nodes: PrefixedMemoryDB<Hashing>) -> Self {
        let nodes = nodes.drain().into_iter();
        Self::new(nodes.map(|(key, (node, count))| NodeChange { key, count, node }))
    }

    /// Returns the changes, sorted by key.
    pub fn nodes(&self) -> &[NodeChange] {
        &self.nodes
    }
}

/// The sizes of one proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofSizes {
    /// Bytes as the recorder counts them; see [`Host::recorded`].
    pub recorded: u64,
    /// Bytes of the SCALE encoding: the recorder's count plus the length prefix of the list.
    pub encoded: u64,
    /// Bytes of the SCALE encoding of the compact proof.
    pub compact: u64,
    /// The number of nodes.
    pub nodes: u64,
}

impl ProofSizes {
    /// Returns the sizes of `proof` and its compact form. Costs milliseconds for thousands of nodes.
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
    /// There is no open transaction to close.
    #[error("expected an open transaction to {step:?}, found none")]
    NoOpenTransaction {
        /// The refused step.
        step: TransactionStep,
    },
    /// The block was finished with transactions of the host still open.
    #[error("expected no open transaction at the end of the block, found {depth}")]
    OpenTransactions {
        /// Number of open transactions.
        depth: usize,
    },
    /// The runtime was entered while it executed, or left while it did not.
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
    /// Makes the error of a state machine.
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
        let moved = [
            change(5, 1, b"e"),
            change(5, -1, b""),
            change(6, -1, b""),
            change(6, 2, b"f"),
        ];
        assert_eq!(RootUpdate::new(moved).nodes(), [change(6, 1, b"f")]);
    }

    #[test]
    fn nodes_without_the_root_are_no_proof() {
        let error = ProofSizes::measure(&StorageProof::empty(), 0, H256::repeat_byte(1));
        assert!(matches!(error, Err(HostError::State(_))));
    }
}
