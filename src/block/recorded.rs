//! The recorded nodes of a block, handed out as they are recorded.

use super::{number::BlockNumber, Block};
use crate::accounting::Accounting;
use bytes::Bytes;
use povmeter_delta_root::{NodeId, NodeSource};
use povmeter_primitives::NodeHash;

/// How far a caller has seen the recorded nodes of a block; see [`Block::for_each_recorded`]. The default is
/// that of a caller that has seen none.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeenNodes {
    /// The block whose nodes they are.
    block: BlockNumber,
    reads: usize,
    roots: usize,
    /// The last cut that the caller knows of.
    cuts: u64,
}

impl SeenNodes {
    /// Whether the caller has seen more nodes than at `earlier`, a copy of this one.
    pub fn has_more_than(&self, earlier: &Self) -> bool {
        let (reads, roots) = (earlier.reads, earlier.roots);
        let is_new = earlier.block != self.block;
        is_new
            || (self.reads >= reads
                && self.roots >= roots
                && (self.reads, self.roots) != (reads, roots))
    }

    /// Takes back what the caller has seen since `earlier`, a copy of this one: it comes again.
    pub fn go_back_to(&mut self, earlier: &Self) {
        self.reads = self.reads.min(earlier.reads);
        self.roots = self.roots.min(earlier.roots);
    }
}

/// The last time that nodes left the proof: by a rollback, or by [`Block::forget_reads`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    /// How many there were.
    number: u64,
    /// The recorded nodes that were left.
    reads: usize,
    roots: usize,
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// Calls `look` with the hash and the encoding of each node that was added to the proof since the last
    /// call with this `seen`: for a host that keeps a recorder of its own. A node can come twice, first
    /// because the root needs it, later because it is read.
    ///
    /// If `seen` is of another block, or from before [`Self::rebase`] or [`Self::copy_changes`], all nodes of the proof
    /// come. All come, too, if nodes left the proof twice since the last call, by a rollback or by
    /// [`Self::forget_reads`]; a call of [`Self::forget_rolled_back`] after each of these prevents that.
    ///
    /// With [`Advisory`](crate::Advisory) accounting nodes that only an estimate touched are left out.
    pub fn for_each_recorded(&self, seen: &mut SeenNodes, mut look: impl FnMut(&NodeHash, &Bytes)) {
        if seen.block != self.number {
            *seen = SeenNodes {
                block: self.number,
                cuts: self.cut.number,
                ..SeenNodes::default()
            };
        }
        self.forget_rolled_back(seen);
        let table = self.state.table();
        let mut look_at = |nodes: &[NodeId]| {
            for &node in nodes {
                look(table.hash(node), table.bytes(node));
            }
        };
        let reads = self.recorder.reads();
        look_at(reads.get(seen.reads..).unwrap_or_default());
        seen.reads = reads.len();
        if A::PROVEN {
            let roots = self.recorder.roots();
            look_at(roots.get(seen.roots..).unwrap_or_default());
            seen.roots = roots.len();
        }
    }

    /// Removes from `seen` the nodes that a rollback or [`Self::forget_reads`] has removed from the proof. Called after
    /// each of these, it keeps the others; called later, it may remove all of them, so that all nodes come again.
    pub fn forget_rolled_back(&self, seen: &mut SeenNodes) {
        if seen.block != self.number || seen.cuts == self.cut.number {
            return;
        }
        // What was recorded after an earlier cut may have taken the places of nodes that were seen.
        let is_next = seen.cuts.checked_add(1) == Some(self.cut.number);
        let left = |seen: usize, left: usize| if is_next { seen.min(left) } else { 0 };
        seen.reads = left(seen.reads, self.cut.reads);
        seen.roots = left(seen.roots, self.cut.roots);
        seen.cuts = self.cut.number;
    }

    /// The numbers of recorded nodes, for [`Self::note_cut`].
    pub(super) fn recorded_counts(&self) -> (usize, usize) {
        (self.recorder.reads().len(), self.recorder.roots().len())
    }

    /// Notes whether nodes have left the proof since [`Self::recorded_counts`] returned `before`.
    pub(super) fn note_cut(&mut self, before: (usize, usize)) {
        let (reads, roots) = self.recorded_counts();
        if (reads, roots) != before {
            self.cut = Cut {
                // 2^64 rollbacks never happen.
                number: self.cut.number.wrapping_add(1),
                reads,
                roots,
            };
        }
    }
}
