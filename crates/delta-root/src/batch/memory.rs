//! Reused memory of root computations.

use super::{
    encode::Encoder,
    node::{Children, NewNode, NewValueNode},
    order::WriteOrder,
    Writes,
};
use crate::node_changes::NodeChanges;
use alloc::vec::Vec;

/// The memory of one batch.
#[derive(Debug, Default)]
pub(crate) struct BatchMemory {
    pub(super) nodes: Vec<NewNode>,
    pub(super) children: Vec<Children>,
    /// New children of loaded branches: nibble, and index of the node.
    pub(super) others: Vec<(u8, u32)>,
    pub(super) nibbles: Vec<u8>,
    pub(super) values: Vec<NewValueNode>,
    pub(super) encoder: Encoder,
}

impl BatchMemory {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let Self {
            nodes,
            children,
            others,
            nibbles,
            values,
            encoder,
        } = self;
        nodes.clear();
        children.clear();
        others.clear();
        nibbles.clear();
        values.clear();
        encoder.clear();
    }

    /// Keeps memory for up to `most` nodes, once all is forgotten.
    fn shrink_to(&mut self, most: usize) {
        self.nodes.shrink_to(most);
        self.children.shrink_to(most);
        self.others.shrink_to(most);
        self.nibbles.shrink_to(64 * most);
        self.values.shrink_to(most);
        self.encoder.shrink_to(most);
    }
}

/// The memory of a root update: for the batch of one trie after the other, and for the writes of all.
///
/// The result of an update lies in none of this memory. Memory that [`RootMemory::recycle`] takes back
/// has no other owner any more.
#[derive(Debug, Default)]
pub(crate) struct RootMemory {
    pub(super) batch: BatchMemory,
    pub(super) writes: Writes,
    order: WriteOrder,
    /// Empty, but with memory for the next result.
    changes: NodeChanges,
}

impl RootMemory {
    /// Forgets everything, also the writes of a failed update; keeps memory for up to `most` nodes.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            batch,
            writes,
            order,
            changes,
        } = self;
        batch.clear();
        batch.shrink_to(most);
        writes.clear();
        writes.shrink_to(most);
        order.clear();
        order.shrink_to(2 * most);
        changes.parts.clear();
        changes.order.clear();
        changes.order.shrink_to(2 * most);
    }

    /// Begins an update. Forgets the writes of an earlier one.
    pub(crate) fn begin(&mut self) {
        self.writes.clear();
    }

    /// Ends an update, and returns its net changes; `None` if it has 2^32 writes or more, because then the
    /// numbers that order them are ambiguous.
    pub(crate) fn finish(&mut self) -> Option<NodeChanges> {
        u32::try_from(self.writes.len()).ok()?;
        let mut changes = core::mem::take(&mut self.changes);
        core::mem::take(&mut self.writes).into_parts(&mut changes.parts);
        self.order.put(&mut changes);
        Some(changes)
    }

    /// Lets the next update use the memory of `changes` that has no other owner.
    pub(crate) fn recycle(&mut self, mut changes: NodeChanges) {
        // The first part has all writes except those of subtries computed apart.
        let first = changes.parts.drain(..).next();
        changes.order.clear();
        if let Some(first) = first {
            let writes = Writes::in_memory(first);
            if writes.memory() > self.writes.memory() {
                self.writes = writes;
            }
        }
        self.changes = changes;
    }
}
