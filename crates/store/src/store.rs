//! The interface and the errors of all stores.

use crate::{NodeFault, StateId};
use povmeter_delta_root::{NodeHash, NodeSource, Root, RootUpdate};
use std::path::PathBuf;

/// A store of the nodes and the root of one committed state. A new store holds the state without
/// entries, [`Root::EMPTY`]. [`StateHistory`](crate::StateHistory) keeps several states.
pub trait NodeStore: NodeSource {
    /// Returns the root of the state that the store holds, or of the newest state if it keeps
    /// several.
    fn root(&self) -> Root;

    /// Moves the store to the state after `update`: adds up the references that each node gains and
    /// loses, drops the nodes without references, and sets the root to `update.root`.
    ///
    /// Added nodes can be read at once. A store with a queue may still return removed nodes until
    /// the queue is empty.
    ///
    /// # Errors
    /// If the update starts from another root, removes references that the store lacks, adds a node
    /// without its encoding, or ends in a root without a node; if the store keeps several states; or
    /// if the disk is nearly full or the database failed. After an error the store is unchanged.
    ///
    /// # Cost
    /// Proportional to the number of changes and references in the update, not to the size of the
    /// state.
    fn commit(&mut self, update: &RootUpdate) -> Result<(), StoreError>;
}

/// Why a store refused an update. The store is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The update starts from a state other than the store's.
    #[error("the store is at root {expected}, the update starts from root {found}")]
    ParentRoot {
        /// Root of the store.
        expected: Root,
        /// Root from which the update starts.
        found: Root,
    },
    /// The update starts from another state than the kept one on which it was to be committed.
    #[error("state {state} is at root {expected}, the update starts from root {found}")]
    KeptRoot {
        /// The state that the caller named.
        state: StateId,
        /// Root of this state.
        expected: Root,
        /// Root from which the update starts.
        found: Root,
    },
    /// The update removes more references to a node than the store holds.
    #[error("node {hash} loses {lost} references, the store holds {held}")]
    MissingReferences {
        /// Hash of the node.
        hash: NodeHash,
        /// References that the update removes, net.
        lost: u64,
        /// References that the store holds, zero if the node is absent.
        held: u64,
    },
    /// A node would have more references than the store can count.
    #[error(
        "node {hash} gains {gained} references to the {held} it has, the store counts to {limit}"
    )]
    TooManyReferences {
        /// Hash of the node.
        hash: NodeHash,
        /// References that the update adds, net.
        gained: u64,
        /// References that the store holds.
        held: u64,
        /// The most references that the store can count for one node.
        limit: u64,
    },
    /// The update adds references to a node but lacks its encoding.
    #[error("node {hash} gains references, but the update holds no encoding of it")]
    MissingEncoding {
        /// Hash of the node.
        hash: NodeHash,
    },
    /// The store would have no node for the new root.
    #[error("the update ends in root {root}, but neither it nor the store holds that node")]
    MissingRoot {
        /// Root in which the update ends.
        root: Root,
    },
    /// The store keeps several states, but a commit needs a store with one. Use
    /// [`StateHistory`](crate::StateHistory), or prune to one state first.
    #[error("expected a store with one state, found {kept} kept states")]
    SeveralStates {
        /// Number of states that the store keeps.
        kept: usize,
    },
    /// The state is not kept: it never was, or it was pruned or discarded.
    #[error("expected a kept state, found state {id}, which is not kept")]
    UnknownState {
        /// Name of the state.
        id: StateId,
    },
    /// The base cannot be discarded, because all other states are built on it.
    #[error("expected a state to discard, found the base, state {id}")]
    BaseState {
        /// Name of the base.
        id: StateId,
    },
    /// A record about the kept states is missing or damaged, or in RocksDB the entry of a node.
    /// Restore the store from a backup, or make it again.
    #[error("damaged store: expected the record `{key}`, found {}", record_text(*bytes))]
    DamagedRecord {
        /// Name of the record.
        key: String,
        /// Length of what was found; zero if the record is missing.
        bytes: usize,
    },
    /// A backup lacks a node of a kept state, because the store does not have it, or has other bytes in its place. Run
    /// [`verify`](crate::verify), and restore the store from a backup, or make it again.
    #[error("damaged store: node {hash} of state {state} is {fault}")]
    DamagedNode {
        /// A state that has the node.
        state: StateId,
        /// Hash of the node.
        hash: NodeHash,
        /// What is wrong with the node in the copy.
        #[source]
        fault: NodeFault,
    },
    /// The disk is nearly full. Nothing was written. Free space and commit again.
    #[error("{available} bytes are free on the disk of {}, the commit needs {needed}", path.display())]
    DiskFull {
        /// Folder of the store.
        path: PathBuf,
        /// Free bytes.
        available: u64,
        /// Bytes that must be free for this commit, most of them a reserve.
        needed: u64,
    },
    /// The store's database failed.
    #[error("the database could not {task}: {source}")]
    Database {
        /// The task in which the database failed.
        task: &'static str,
        /// Error of the database.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What was found in place of a record, if it has `bytes` bytes.
pub(crate) fn record_text(bytes: usize) -> String {
    match bytes {
        0 => "none".to_owned(),
        _ => format!("{bytes} bytes that are none"),
    }
}
