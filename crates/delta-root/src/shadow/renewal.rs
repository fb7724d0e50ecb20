//! The loaded part of one trie becomes that of another.
//!
//! ```text
//! renew(new root):                        every node of the update is in the table
//!     pending = [the root, with its new bytes]
//!     for each pending node, with its new bytes:
//!         decode these in place of the old ones
//!         if the node was a branch with the same partial key:
//!             for each child that both have, where the old one is loaded:
//!                 the same hash:          keep the child, and all that is loaded below it
//!                 else, in the table:     the child is pending, with the bytes in the table
//! ```
//! Children that are dropped stay in the arena until [`ShadowTrie::retained`] copies the rest of it.

use super::{
    cursor::Cursor,
    decode, decoded, hash_at,
    node::{Branch, ChildSlot, Node},
    ShadowNode, ShadowTrie, Value,
};
use crate::{index::Index, NodeId, NodeTable, Root, HASH_LENGTH};
use alloc::vec::Vec;

impl ShadowTrie {
    /// Becomes the trie under `root`: keeps the loaded nodes that did not change, and loads the nodes in
    /// `table` that replace loaded ones. Every entry is live.
    pub(crate) fn renew(&mut self, root: Root, table: &NodeTable) {
        self.revive();
        self.cursor = Cursor::default();
        self.root = root;
        if self.nodes.is_empty() {
            return;
        }
        let mut pending = Vec::new();
        pending.extend(
            table
                .find(&root.node_hash())
                .map(|id| (ShadowNode::ROOT, id)),
        );
        if pending.is_empty() {
            return self.unload();
        }
        while let Some((at, id)) = pending.pop() {
            if self.renew_node(at, id, table, &mut pending).is_none() {
                // The bytes are no node. The next walk to them returns the error.
                return self.unload();
            }
        }
    }

    /// Forgets all loaded nodes.
    fn unload(&mut self) {
        self.nodes.clear();
        self.branches.clear();
    }

    /// Puts the node `id` in the place of `at`, and adds its loaded children that changed to `pending`.
    /// Returns `None` if the bytes are no node.
    fn renew_node(
        &mut self,
        at: ShadowNode,
        id: NodeId,
        table: &NodeTable,
        pending: &mut Vec<(ShadowNode, NodeId)>,
    ) -> Option<()> {
        let data = table.bytes(id);
        let old = &self.nodes[at.index()];
        let place = old.parent().map(|parent| (parent, old.nibble));
        let (mut new, branch) = decoded(id, 0..data.len(), place, table).ok()?;
        let old_branch = old.branch();
        if let Some(mut branch) = branch {
            match old_branch {
                Some(index) => {
                    // First, because where the partial key begins depends on it.
                    new.set_branch(Index::new(index)?, branch.count());
                    let old_partial = old.partial(table.bytes(old.data)).bytes();
                    let stays = old.partial_nibbles() == new.partial_nibbles()
                        && old_partial == new.partial(data).bytes();
                    if stays {
                        self.keep_children(index, &mut branch, data, table, pending);
                    }
                    self.branches[index] = branch;
                }
                None => self.push_branch(&mut new, branch).ok()?,
            }
        }
        link_value(&mut new, table);
        self.nodes[at.index()] = new;
        Some(())
    }

    /// Links the children that are loaded at `old` to `new`, the branch of the node `data`.
    fn keep_children(
        &self,
        old: usize,
        new: &mut Branch,
        data: &[u8],
        table: &NodeTable,
        pending: &mut Vec<(ShadowNode, NodeId)>,
    ) {
        let old = &self.branches[old];
        for nibble in 0..16 {
            let (ChildSlot::Loaded(child), ChildSlot::At(offset)) =
                (old.slot(nibble), new.slot(nibble))
            else {
                continue;
            };
            if decode::child_length(data, offset) != HASH_LENGTH {
                continue;
            }
            let hash = hash_at(data, offset);
            let node = &self.nodes[child.index()];
            if node.inlined() || *table.hash(node.data) != hash {
                let Some(id) = table.find(&hash) else {
                    continue;
                };
                pending.push((child, id));
            }
            new.set_loaded(nibble, child);
        }
    }

    /// Copies the loaded nodes that the table `into` has together with all their ancestors, but no nodes
    /// inside their parents.
    pub(crate) fn retained(&self, table: &NodeTable, into: &NodeTable) -> Self {
        let mut trie = Self::new(self.root, self.keyspace.clone());
        let mut pending = Vec::new();
        pending.extend((!self.nodes.is_empty()).then_some((ShadowNode::ROOT, None)));
        while let Some((at, parent)) = pending.pop() {
            let node = &self.nodes[at.index()];
            let id = into.find(table.hash(node.data)).filter(|_| !node.inlined());
            // A node that can't be decoded is not loaded. The next walk to it returns the error.
            let copy = id.and_then(|id| {
                let length = into.bytes(id).len();
                trie.add(id, 0..length, parent, into).ok()
            });
            let Some(copy) = copy else { continue };
            link_value(&mut trie.nodes[copy.index()], into);
            if let Some((parent, nibble)) = parent {
                if let Some(branch) = trie.nodes[parent.index()].branch() {
                    trie.branches[branch].set_loaded(nibble, copy);
                }
            }
            pending.extend((0..16).filter_map(|nibble| match self.slot(at, nibble) {
                ChildSlot::Loaded(child) => Some((child, Some((copy, nibble)))),
                ChildSlot::Empty | ChildSlot::At(_) => None,
            }));
        }
        trie
    }
}

/// Links the value of `node`, if the value is a node of its own that `table` has.
fn link_value(node: &mut Node, table: &NodeTable) {
    if let Value::Hashed { start, .. } = node.value() {
        let hash = hash_at(table.bytes(node.data), start.get());
        if let Some(value) = table.find(&hash) {
            node.set_loaded_value(value);
        }
    }
}
