//! What a block does to the node store.

use crate::{NodeChange, NodeChanges, Root};
use alloc::vec::Vec;

/// The step from one committed state to the next: the new root, and the nodes that the store gains
/// and loses by it. Net: a node that is removed and inserted at the same place does not appear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootUpdate {
    /// Root of the state the update starts from.
    pub parent: Root,
    /// Root of the state after it.
    pub root: Root,
    /// Roots after it of the child tries that changes were made in, by storage key, ordered by it;
    /// [`Root::EMPTY`] of a child that has no entry left.
    pub children: Vec<(Vec<u8>, Root)>,
    /// The nodes that come and go.
    pub nodes: NodeChanges,
}

impl RootUpdate {
    /// Nodes the store gains.
    pub fn inserted(&self) -> impl Iterator<Item = NodeChange<'_>> {
        self.nodes.iter().filter(|node| node.references > 0)
    }

    /// Nodes the store loses.
    pub fn removed(&self) -> impl Iterator<Item = NodeChange<'_>> {
        self.nodes.iter().filter(|node| node.references < 0)
    }
}
