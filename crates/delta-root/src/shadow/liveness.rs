//! What the block's changes left of the parent's entries.
//!
//! An entry is live unless the changes delete it; a node is live if its value or a child is; a child
//! that is not loaded is live, since nothing in it can have been deleted without walking to it.
//! Inserted keys do not matter here. Each change of an entry costs a walk up through the nodes whose
//! own state changes by it, one as a rule.

use super::{Loader, Observer, ShadowNode, ShadowTrie, Slot};
use crate::{nibbles::Path, LoadError, NodeSource, NodeTable};
use alloc::vec::Vec;

impl ShadowTrie {
    /// Whether the value of entry `at` is live.
    pub(crate) fn value_live(&self, at: ShadowNode) -> bool {
        self.nodes[at.0 as usize].value_live
    }

    /// Marks the value of entry `at` as live or deleted, and adds to `changed` every node whose
    /// number of live parts changes by it. Does nothing if the value is in that state.
    pub(crate) fn set_value_live(
        &mut self,
        at: ShadowNode,
        live: bool,
        changed: &mut Vec<ShadowNode>,
    ) {
        let node = &mut self.nodes[at.0 as usize];
        if node.value_live == live {
            return;
        }
        node.value_live = live;
        changed.push(at);
        // The node itself changes state only if the value was or is all that lives in it.
        let mut flips = node.live_children == 0;
        let mut parent = node.parent;
        while let (true, Some(above)) = (flips, parent) {
            let node = &mut self.nodes[above.0 as usize];
            let alone = if live { 0 } else { 1 };
            flips = node.live_children == alone && !node.value_live;
            node.live_children = if live {
                node.live_children + 1
            } else {
                node.live_children - 1
            };
            changed.push(above);
            parent = node.parent;
        }
    }

    fn is_live(&self, at: ShadowNode) -> bool {
        let node = &self.nodes[at.0 as usize];
        node.value_live || node.live_children > 0
    }

    /// `at`, or the closest node above it that is live.
    pub(crate) fn live_at_or_above(&self, at: ShadowNode) -> Option<ShadowNode> {
        let mut node = Some(at);
        while let Some(at) = node {
            if self.is_live(at) {
                return Some(at);
            }
            node = self.nodes[at.0 as usize].parent;
        }
        None
    }

    /// Whether every entry that the trie had is deleted; false for a trie that had none.
    pub(crate) fn is_emptied(&self) -> bool {
        match self.nodes.first() {
            Some(_) if self.root == crate::Root::EMPTY => false,
            Some(_) => !self.is_live(ShadowNode(0)),
            None => false,
        }
    }

    /// Loads and observes the last live child of `branch`, where that child is all that lives in
    /// it: the root computation merges the two. Otherwise does nothing.
    pub(crate) fn load_lone_child<S: NodeSource>(
        &mut self,
        branch: ShadowNode,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        let node = &self.nodes[branch.0 as usize];
        if node.value_live || node.live_children != 1 {
            return Ok(());
        }
        let Some(slots) = node.branch else {
            return Ok(());
        };
        let lone = self.branches[slots as usize]
            .iter()
            .position(|slot| match slot {
                Slot::Empty => false,
                Slot::At(_) => true,
                Slot::Loaded(child) => self.is_live(*child),
            });
        // Sixteen slots: the position fits.
        let Some(nibble) = lone.and_then(|index| u8::try_from(index).ok()) else {
            return Ok(());
        };
        if let Slot::Loaded(child) = self.branches[slots as usize][usize::from(nibble)] {
            self.observed(child, loader.table, observer);
            return Ok(());
        }
        let mut path = self.path_to(branch, loader.table);
        path.push(nibble);
        let (bytes, odd) = path.to_key();
        if let Some(child) = self.child(branch, nibble, (&bytes, odd), loader)? {
            self.observed(child, loader.table, observer);
        }
        Ok(())
    }

    /// Adds `at` and every node above it to `line`, the root last.
    pub(crate) fn line_above(&self, at: ShadowNode, line: &mut Vec<ShadowNode>) {
        let mut node = Some(at);
        while let Some(at) = node {
            line.push(at);
            node = self.nodes[at.0 as usize].parent;
        }
    }

    /// The nibbles from the root to the end of the partial key of `at`.
    pub(crate) fn path_to(&self, at: ShadowNode, table: &NodeTable) -> Path {
        let mut line = Vec::new();
        self.line_above(at, &mut line);
        let mut path = Path::default();
        for at in line.into_iter().rev() {
            let node = &self.nodes[at.0 as usize];
            if node.parent.is_some() {
                path.push(node.nibble);
            }
            path.push_partial(node.partial(table.bytes(node.data)));
        }
        path
    }
}
