//! The memory of a state that is no longer needed, for another state.

use super::{carried::Carried, ShadowState};
use crate::{
    batch::{RootMemory, RootOptions},
    shadow::ShadowTrie,
    NodeTable, Root, RootUpdate,
};
use alloc::{collections::BTreeMap, vec::Vec};

/// The memory of a [`ShadowState`] that is no longer needed, for another state.
///
/// It holds no nodes of the state that it was taken from.
#[derive(Debug)]
pub struct ShadowScratch {
    pub(super) table: NodeTable,
    pub(super) top: ShadowTrie,
    pub(super) root_memory: RootMemory,
}

impl ShadowScratch {
    /// Lets the next root update use the memory of `update`, which the caller no longer needs.
    ///
    /// Encoded nodes that are shared, for example with a store, stay valid: then the next update
    /// allocates new memory for its nodes.
    pub fn recycle(&mut self, update: RootUpdate) {
        self.root_memory.recycle(update.nodes);
        self.root_memory.reset(KEPT_NODES);
        // The memory of the parent state's nodes may have fewer owners now.
        self.table.reset(KEPT_NODES);
    }
}

/// The most nodes that a scratch keeps memory for: those of a few blocks.
pub(super) const KEPT_NODES: usize = 1 << 16;

impl Default for ShadowScratch {
    fn default() -> Self {
        Self {
            table: NodeTable::default(),
            top: ShadowTrie::new(Root::EMPTY, Vec::new()),
            root_memory: RootMemory::default(),
        }
    }
}

impl<S> ShadowState<S> {
    /// The state committed by `root`, with nothing loaded yet, in the memory of another state.
    pub fn in_scratch(source: S, root: Root, scratch: ShadowScratch) -> Self {
        let ShadowScratch {
            table,
            mut top,
            root_memory,
        } = scratch;
        top.reset(root, KEPT_NODES);
        Self {
            source,
            table,
            top,
            children: Vec::new(),
            child_handles: BTreeMap::new(),
            carried: Carried::default(),
            options: RootOptions::best(),
            root_memory,
        }
    }

    /// Takes the memory of root updates, until [`Self::put_root_memory`] puts it back.
    pub(crate) fn take_root_memory(&mut self) -> RootMemory {
        core::mem::take(&mut self.root_memory)
    }

    pub(crate) fn put_root_memory(&mut self, memory: RootMemory) {
        self.root_memory = memory;
    }

    /// The memory of this state, emptied.
    pub fn into_scratch(self) -> ShadowScratch {
        let Self {
            source: _,
            mut table,
            mut top,
            children: _,
            child_handles: _,
            carried: _,
            options: _,
            mut root_memory,
        } = self;
        table.reset(KEPT_NODES);
        top.reset(Root::EMPTY, KEPT_NODES);
        root_memory.reset(KEPT_NODES);
        ShadowScratch {
            table,
            top,
            root_memory,
        }
    }

    /// Applies `change` to the source, and restarts on the state of `root` with nothing loaded.
    pub fn rebase(&mut self, root: Root, change: impl FnOnce(&mut S)) {
        let Self {
            source,
            table,
            top,
            children,
            child_handles,
            carried,
            // The settings stay.
            options: _,
            root_memory,
        } = self;
        change(source);
        root_memory.reset(KEPT_NODES);
        table.reset(KEPT_NODES);
        top.reset(root, KEPT_NODES);
        children.clear();
        child_handles.clear();
        *carried = Carried::default();
    }

    /// Lets the next root update use the memory of `update`, as [`ShadowScratch::recycle`] does.
    pub fn recycle(&mut self, update: RootUpdate) {
        self.root_memory.recycle(update.nodes);
    }
}
