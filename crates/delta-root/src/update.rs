//! The changes of a block to the node store.

use crate::{NodeChange, NodeChanges, Root};
use alloc::vec::Vec;

/// The step from one committed state to the next: the new root, and the nodes that are inserted into
/// and removed from the store. These are net changes: a node that is removed and inserted at the same
/// place does not appear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootUpdate {
    /// Root of the state that the update starts from.
    pub parent: Root,
    /// Root of the state after the update.
    pub root: Root,
    /// The new root of each child trie in the changes, ordered by storage key; [`Root::EMPTY`] if a child
    /// has no entry left.
    pub children: Vec<(Vec<u8>, Root)>,
    /// The nodes inserted and removed.
    pub nodes: NodeChanges,
}

impl RootUpdate {
    /// Nodes inserted.
    pub fn inserted(&self) -> impl Iterator<Item = NodeChange<'_>> {
        self.nodes.iter().filter(|node| node.references > 0)
    }

    /// Nodes removed.
    pub fn removed(&self) -> impl Iterator<Item = NodeChange<'_>> {
        self.nodes.iter().filter(|node| node.references < 0)
    }
}
