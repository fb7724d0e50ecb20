//! The loaded nodes, for the root computation.

use super::{
    hash_at,
    node::{ChildSlot, Node, Value},
    ShadowNode, ShadowTrie,
};
use crate::{decode, nibbles::Partial, NodeHash, NodeTable, HASH_LENGTH};

/// A value as the parent state has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldValue<'t> {
    None,
    Inline(&'t [u8]),
    /// The value is a node of its own, of this hash.
    Hash(&'t [u8]),
}

/// A loaded node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldNode<'t> {
    pub(crate) partial: Partial<'t>,
    pub(crate) value: OldValue<'t>,
    /// Whether it has children.
    pub(crate) is_branch: bool,
}

/// A place for a child in a loaded branch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OldChild<'t> {
    Empty,
    /// The reference in the branch: the child's hash, or the child itself.
    Unloaded(&'t [u8]),
    Loaded(ShadowNode),
}

impl ShadowTrie {
    /// The root node, if anything is loaded.
    pub(crate) fn loaded_root(&self) -> Option<ShadowNode> {
        (!self.nodes.is_empty()).then_some(ShadowNode::ROOT)
    }

    pub(crate) fn parent_of(&self, at: ShadowNode) -> Option<ShadowNode> {
        self.nodes[at.index()].parent()
    }

    pub(crate) fn keyspace(&self) -> &[u8] {
        &self.keyspace
    }

    pub(crate) fn old<'t>(&self, at: ShadowNode, table: &'t NodeTable) -> OldNode<'t> {
        let node = &self.nodes[at.index()];
        let data = table.bytes(node.data);
        OldNode {
            is_branch: node.branch().is_some(),
            partial: node.partial(data),
            value: match node.value() {
                Value::None => OldValue::None,
                Value::Inline { start, length } => {
                    OldValue::Inline(&data[Node::range(start, length.get())])
                }
                Value::Hashed { start, .. } => {
                    OldValue::Hash(&data[Node::range(start, HASH_LENGTH)])
                }
            },
        }
    }

    /// The hash of `at`, `None` for a node inside its parent.
    pub(crate) fn old_hash(&self, at: ShadowNode, table: &NodeTable) -> Option<NodeHash> {
        let node = &self.nodes[at.index()];
        (!node.inlined()).then(|| *table.hash(node.data))
    }

    /// The bytes of `at`, the offset of its children in them, and the bitmap of its children, if `at` is a
    /// branch with a hash and all its children are hashes: 33 bytes each, in order.
    pub(crate) fn uniform_branch<'t>(
        &self,
        at: ShadowNode,
        table: &'t NodeTable,
    ) -> Option<(&'t [u8], usize, u16)> {
        let node = &self.nodes[at.index()];
        if node.inlined() || node.branch().is_none() {
            return None;
        }
        let data = table.bytes(node.data);
        let bitmap_at = node.partial_end();
        let bitmap = u16::from_le_bytes([data[bitmap_at], data[bitmap_at + 1]]);
        let start = match node.value() {
            Value::None => bitmap_at + 2,
            Value::Inline { start, length } => Node::range(start, length.get()).end,
            Value::Hashed { start, .. } => Node::range(start, HASH_LENGTH).end,
        };
        let children = &data[start..];
        // The length alone is not enough, because bytes behind the last child are not an error.
        let uniform = children.len() == bitmap.count_ones() as usize * (1 + HASH_LENGTH)
            && children
                .iter()
                .step_by(1 + HASH_LENGTH)
                .all(|length| *length == decode::HASH_LENGTH_BYTE);
        uniform.then_some((data, start, bitmap))
    }

    /// The place for the child of `at` at `nibble`.
    pub(crate) fn old_child<'t>(
        &self,
        at: ShadowNode,
        nibble: u8,
        table: &'t NodeTable,
    ) -> OldChild<'t> {
        let node = &self.nodes[at.index()];
        let Some(branch) = node.branch() else {
            return OldChild::Empty;
        };
        match self.branches[branch].slot(nibble) {
            ChildSlot::Empty => OldChild::Empty,
            ChildSlot::Loaded(child) => OldChild::Loaded(child),
            ChildSlot::At(offset) => {
                let data = table.bytes(node.data);
                let length = decode::child_length(data, offset);
                OldChild::Unloaded(&data[offset..offset + length])
            }
        }
    }

    /// The reference to `at` in its parent: the hash of `at`, or the node itself.
    pub(crate) fn reference<'t>(&self, at: ShadowNode, table: &'t NodeTable) -> &'t [u8] {
        let node = &self.nodes[at.index()];
        if node.inlined() {
            let (data, start) = (table.bytes(node.data), node.start());
            &data[start..start + decode::child_length(data, start)]
        } else {
            table.hash(node.data).as_ref()
        }
    }
}

/// The hash in `reference`, or zero if it is a node.
pub(crate) fn referred_hash(reference: &[u8]) -> NodeHash {
    if reference.len() == HASH_LENGTH {
        hash_at(reference, 0)
    } else {
        NodeHash::default()
    }
}
