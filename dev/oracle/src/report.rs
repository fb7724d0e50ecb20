//! The result of comparing one block or many with the peer.

use std::ops::AddAssign;

/// Sums over the boundaries of blocks that agreed with the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseReport {
    /// Boundaries compared.
    pub boundaries: u64,
    /// Bytes of the proof if the block had ended there.
    pub truth_bytes: u64,
    /// Bytes of the estimate above those of the proof.
    pub over_bytes: u64,
    /// Nodes of the proof if the block had ended there.
    pub truth_nodes: u64,
    /// Nodes counted in addition to those of the proof.
    pub over_nodes: u64,
    /// The part of `over_bytes` that the rule asks for without history. The rest was counted at earlier
    /// boundaries and became unnecessary by later changes.
    pub rule_over_bytes: u64,
    /// Boundaries at which deletions of absent keys were left out for the peer's trie.
    pub left_out: u64,
    /// Boundaries at which the upstream strategy was asked.
    pub upstream_boundaries: u64,
    /// Boundaries at which the upstream strategy was below the truth.
    pub upstream_under: u64,
    /// Blocks in which the upstream strategy was below the truth at least once; 0 or 1 for a single
    /// block.
    pub upstream_under_blocks: u64,
    /// Roots of changed child tries that were asked for and are the peer's.
    pub child_roots: u64,
    /// Blocks; 1 for a single block.
    pub blocks: u64,
}

impl CaseReport {
    /// Returns by how much the estimates were too high, in percent of the truth.
    pub fn over_bytes_percent(&self) -> f64 {
        percent(self.over_bytes, self.truth_bytes)
    }

    /// Returns the part of [`Self::over_bytes_percent`] that is due to the rule, not to earlier
    /// boundaries.
    pub fn rule_over_bytes_percent(&self) -> f64 {
        percent(self.rule_over_bytes, self.truth_bytes)
    }

    /// Returns how many nodes too many were counted, in percent of the truth.
    pub fn over_nodes_percent(&self) -> f64 {
        percent(self.over_nodes, self.truth_nodes)
    }
}

impl AddAssign for CaseReport {
    fn add_assign(&mut self, other: Self) {
        self.boundaries += other.boundaries;
        self.truth_bytes += other.truth_bytes;
        self.over_bytes += other.over_bytes;
        self.truth_nodes += other.truth_nodes;
        self.over_nodes += other.over_nodes;
        self.rule_over_bytes += other.rule_over_bytes;
        self.left_out += other.left_out;
        self.child_roots += other.child_roots;
        self.upstream_boundaries += other.upstream_boundaries;
        self.upstream_under += other.upstream_under;
        self.upstream_under_blocks += other.upstream_under_blocks;
        self.blocks += other.blocks;
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    // Precise enough, because sums of bytes are far below 2^53.
    #[allow(clippy::cast_precision_loss)]
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    percent
}
