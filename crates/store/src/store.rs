//! What every store does.

use povmeter_delta_root::{NodeHash, NodeSource, Root, RootUpdate};

/// The nodes of one committed state and its root. A store that was just made holds the state
/// without entries, [`Root::EMPTY`].
pub trait NodeStore: NodeSource {
    /// Root of the state that the store holds.
    fn root(&self) -> Root;

    /// Moves the store on to the state after `update`: adds up the references that each node gains
    /// and loses, keeps the nodes that are still referred to, and makes `update.root` the root.
    ///
    /// Nodes gained can be read at once. A store may go on answering with nodes that were lost until
    /// it has worked through its queue.
    ///
    /// # Errors
    /// The update starts from another root, loses references that are not there, gains a node
    /// without bringing its encoding, or ends in a root that nothing is stored for; or the store
    /// below failed. In every case the store is as it was.
    ///
    /// # Cost
    /// Proportional to the number of changes and of the references in them, whatever the size of the
    /// state.
    fn commit(&mut self, update: &RootUpdate) -> Result<(), StoreError>;
}

/// Why a store did not take an update. It is then as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The update was made for another state than the one in the store.
    #[error("the store is at root {expected}, the update starts from root {found}")]
    ParentRoot {
        /// Root of the store.
        expected: Root,
        /// Root the update starts from.
        found: Root,
    },
    /// The update removes a node more often than it is there.
    #[error("node {hash} loses {lost} references, the store holds {held}")]
    MissingReferences {
        /// Hash of the node.
        hash: NodeHash,
        /// References it should lose, all places taken together.
        lost: u64,
        /// References the store holds, zero if it does not have the node.
        held: u64,
    },
    /// A node would have more references than the store can count.
    #[error(
        "node {hash} gains {gained} references to the {held} it has, the store counts to {limit}"
    )]
    TooManyReferences {
        /// Hash of the node.
        hash: NodeHash,
        /// References it should gain, all places taken together.
        gained: u64,
        /// References the store holds.
        held: u64,
        /// The most references that the store can hold for one node.
        limit: u64,
    },
    /// The update adds references to a node but does not bring the node.
    #[error("node {hash} gains references, but the update holds no encoding of it")]
    MissingEncoding {
        /// Hash of the node.
        hash: NodeHash,
    },
    /// After the update the store would have no node for the new root.
    #[error("the update ends in root {root}, but neither it nor the store holds that node")]
    MissingRoot {
        /// Root the update ends in.
        root: Root,
    },
    /// The database below the store failed.
    #[error("the database could not {task}: {source}")]
    Database {
        /// What was asked of it.
        task: &'static str,
        /// What it answered.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
