//! Which entries of the parent state are live after the block's changes.
//!
//! An entry is live unless the changes delete it; a node is live if its value or a child is live; a child
//! that is not loaded is live, because deleting an entry below it would have loaded it. Inserted keys do
//! not matter here. Each change of an entry costs a walk up through the nodes that become live or dead by
//! it, usually one node.

use super::{hash_at, node::ChildSlot, Loader, Observer, ShadowNode, ShadowTrie};
use crate::{
    decode, nibbles::BackwardPath, LoadError, NodeHash, NodeId, NodeSource, NodeTable, HASH_LENGTH,
};
use alloc::vec::Vec;
use hash_db::EMPTY_PREFIX;

impl ShadowTrie {
    /// Whether the value of entry `at` is live.
    pub(crate) fn value_live(&self, at: ShadowNode) -> bool {
        self.nodes[at.index()].value_live()
    }

    /// Marks the value of entry `at` as live or deleted, and adds to `changed` every node whose
    /// number of live parts changes by it. Does nothing if the value is marked so already.
    pub(crate) fn set_value_live(
        &mut self,
        at: ShadowNode,
        live: bool,
        changed: &mut Vec<ShadowNode>,
    ) {
        let node = &mut self.nodes[at.index()];
        if node.value_live() == live {
            return;
        }
        node.set_value_live(live);
        changed.push(at);
        if !live && node.list() {
            self.marked.push(at);
        }
        // The node itself becomes live or dead only if no child of it is live.
        let mut flips = node.live_children == 0;
        let mut parent = node.parent();
        while let (true, Some(above)) = (flips, parent) {
            let node = &mut self.nodes[above.index()];
            let alone = if live { 0 } else { 1 };
            flips = node.live_children == alone && !node.value_live();
            node.live_children = if live {
                node.live_children + 1
            } else {
                node.live_children - 1
            };
            changed.push(above);
            if !live && node.list() {
                self.marked.push(above);
            }
            parent = node.parent();
        }
    }

    /// Marks every entry as live, as it was at first.
    pub(crate) fn revive(&mut self) {
        for at in self.marked.drain(..) {
            let node = &mut self.nodes[at.index()];
            let children = node.branch().map_or(0, |at| self.branches[at].count());
            node.revive(children);
        }
    }

    fn is_live(&self, at: ShadowNode) -> bool {
        self.nodes[at.index()].is_live()
    }

    /// `at`, or the closest node above it that is live.
    pub(crate) fn live_at_or_above(&self, at: ShadowNode) -> Option<ShadowNode> {
        let mut node = Some(at);
        while let Some(at) = node {
            if self.is_live(at) {
                return Some(at);
            }
            node = self.nodes[at.index()].parent();
        }
        None
    }

    /// Whether every entry that the trie had is deleted; false for a trie that had none.
    pub(crate) fn is_emptied(&self) -> bool {
        match self.nodes.first() {
            Some(_) if self.root == crate::Root::EMPTY => false,
            Some(_) => !self.is_live(ShadowNode::ROOT),
            None => false,
        }
    }

    /// The nibble of the only live child of `branch`, if its value is not live: the root computation merges
    /// that child with the branch.
    pub(crate) fn lone_child(&self, branch: ShadowNode) -> Option<u8> {
        let node = &self.nodes[branch.index()];
        if node.value_live() || node.live_children != 1 {
            return None;
        }
        let slots = &self.branches[node.branch()?];
        (0..16).find(|&nibble| match slots.slot(nibble) {
            ChildSlot::Empty => false,
            ChildSlot::At(_) => true,
            ChildSlot::Loaded(child) => self.is_live(child),
        })
    }

    /// Loads and observes the child that the root computation merges with `branch`, if there is one;
    /// `loaded` are the child's bytes, if they were loaded for it.
    pub(crate) fn load_lone_child<S: NodeSource>(
        &mut self,
        branch: ShadowNode,
        loaded: Option<NodeId>,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        match self.lone_child(branch) {
            Some(nibble) => self.merge_child(branch, nibble, loaded, loader, observer),
            None => Ok(()),
        }
    }

    /// Loads and observes the child of `branch` at `nibble`, as one that the root computation merges.
    pub(crate) fn merge_child<S: NodeSource>(
        &mut self,
        branch: ShadowNode,
        nibble: u8,
        loaded: Option<NodeId>,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        if let ChildSlot::Loaded(child) = self.slot(branch, nibble) {
            self.observe_merged(child, observer);
            return Ok(());
        }
        // If the bytes are loaded, only an error needs the path.
        let mut child = match loaded {
            Some(_) => self.child(branch, nibble, EMPTY_PREFIX, loaded, loader),
            None => Ok(None),
        };
        if !matches!(child, Ok(Some(_))) {
            let mut prefixes = core::mem::take(&mut self.prefixes);
            prefixes.clear();
            let next = prefixes.next();
            next.push(nibble);
            self.add_path_to(branch, loader.table, next);
            // `child` adds the keyspace.
            let kept = prefixes.keep(&[]);
            child = self.child(branch, nibble, prefixes.prefix(&kept), None, loader);
            self.prefixes = prefixes;
        }
        if let Some(child) = child? {
            self.observe_merged(child, observer);
        }
        Ok(())
    }

    /// Tells the observer of a child that will be merged, if it has a hash of its own.
    fn observe_merged(&self, child: ShadowNode, observer: &mut impl Observer) {
        let node = &self.nodes[child.index()];
        if !node.inlined() {
            observer.merged(node.data, node.stored_length());
        }
    }

    /// The hash of the node that [`Self::load_lone_child`] would load for a merge at `at` or above it,
    /// if there is one. Puts the path to that node, without the keyspace, into `path`.
    pub(crate) fn awaited_lone_child(
        &self,
        at: ShadowNode,
        table: &NodeTable,
        path: &mut BackwardPath,
    ) -> Option<NodeHash> {
        let branch = self.live_at_or_above(at)?;
        let nibble = self.lone_child(branch)?;
        let ChildSlot::At(offset) = self.slot(branch, nibble) else {
            return None;
        };
        let data = table.bytes(self.nodes[branch.index()].data);
        if decode::child_length(data, offset) != HASH_LENGTH {
            return None;
        }
        path.push(nibble);
        self.add_path_to(branch, table, path);
        Some(hash_at(data, offset))
    }

    /// Adds `at` and its ancestors to `nodes`, the root last.
    pub(crate) fn push_with_ancestors(&self, at: ShadowNode, nodes: &mut Vec<ShadowNode>) {
        let mut node = Some(at);
        while let Some(at) = node {
            nodes.push(at);
            node = self.nodes[at.index()].parent();
        }
    }

    /// Puts the nibbles from the root to the end of the partial key of `at` before `path`.
    pub(crate) fn add_path_to(&self, at: ShadowNode, table: &NodeTable, path: &mut BackwardPath) {
        let mut above = Some(at);
        while let Some(at) = above {
            let node = &self.nodes[at.index()];
            path.push_partial(node.partial(table.bytes(node.data)));
            above = node.parent();
            if above.is_some() {
                path.push(node.nibble);
            }
        }
    }
}
