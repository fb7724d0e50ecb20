//! The recorded nodes of a block, handed out as they are recorded.

use super::{number::BlockNumber, Block};
use crate::accounting::Accounting;
use bytes::Bytes;
use povmeter_delta_root::{NodeId, NodeSource};
use povmeter_primitives::NodeHash;

/// How far a caller has seen the recorded nodes of a block; see [`Block::for_each_recorded`]. The default is
/// that of a caller that has seen none.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordedNodes {
    /// The block whose nodes they are.
    block: BlockNumber,
    reads: usize,
    roots: usize,
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// Calls `look` with the hash and the encoding of each node that was added to the proof since the last
    /// call with this `seen`: for a host that keeps a recorder of its own. A node can come twice, first
    /// because the root needs it, later because it is read.
    ///
    /// If `seen` is of another block, or from before [`Self::rebase`] or [`Self::copy_changes`], all nodes of the proof
    /// come. After a rollback and after [`Self::forget_reads`], first call [`Self::forget_rolled_back`].
    ///
    /// With [`Advisory`](crate::Advisory) accounting nodes that only an estimate touched are left out.
    pub fn for_each_recorded(
        &self,
        seen: &mut RecordedNodes,
        mut look: impl FnMut(&NodeHash, &Bytes),
    ) {
        if seen.block != self.number {
            *seen = RecordedNodes {
                block: self.number,
                ..RecordedNodes::default()
            };
        }
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

    /// Removes from `seen` the nodes that a rollback or [`Self::forget_reads`] has removed from the proof.
    /// Call it after each of these; otherwise nodes that are recorded again are left out.
    pub fn forget_rolled_back(&self, seen: &mut RecordedNodes) {
        seen.reads = seen.reads.min(self.recorder.reads().len());
        seen.roots = seen.roots.min(self.recorder.roots().len());
    }
}
