//! What a block does to the node store.

use crate::{NodeHash, NodePrefix, Root};
use alloc::vec::Vec;
use bytes::Bytes;

/// One node whose number of references changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// Whole bytes of the path above the node, after the child's storage key in a child trie.
    pub path: Bytes,
    /// Last nibble of a path with an odd number of nibbles, in the high half.
    pub odd_nibble: Option<u8>,
    /// Hash of the node.
    pub hash: NodeHash,
    /// References gained (above zero) or lost (below zero); never zero.
    pub references: i32,
    /// The encoded node where references are gained, else empty.
    pub encoded: Bytes,
}

impl NodeChange {
    /// Position of the node, for stores that key by it.
    pub fn prefix(&self) -> NodePrefix<'_> {
        (&self.path, self.odd_nibble)
    }
}

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
    /// Changes, ordered by hash, path and last nibble, each triple once. Their paths and nodes share
    /// the memory of two buffers.
    pub nodes: Vec<NodeChange>,
}

impl RootUpdate {
    /// Nodes the store gains.
    pub fn inserted(&self) -> impl Iterator<Item = &NodeChange> {
        self.nodes.iter().filter(|node| node.references > 0)
    }

    /// Nodes the store loses.
    pub fn removed(&self) -> impl Iterator<Item = &NodeChange> {
        self.nodes.iter().filter(|node| node.references < 0)
    }
}
