//! The report of the comparison.

use crate::{Access, CacheOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The key by which a cache finds a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keying {
    /// The hash of the node. A node that an update removed stays until it is evicted.
    Hash,
    /// The path to the node. A new node replaces the earlier node at the path.
    Path,
}

impl Keying {
    /// The name, as in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Path => "path",
        }
    }
}

/// Caches of trie nodes, compared on the same accesses and with the same memory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CacheReport {
    /// The settings of the measurement.
    pub options: CacheOptions,
    /// Distinct nodes of the state at the start.
    pub state_nodes: usize,
    /// Encoded bytes of these nodes.
    pub state_bytes: usize,
    /// One row for each cache, load and memory.
    pub rows: Vec<CacheRow>,
    /// Hits of povmeter's cache minus those of the best other cache, in percentage points: the least over all loads
    /// with at least 256 KiB of memory; null if there is none.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(range(min = -100.0, max = 100.0))]
    pub least_lead_points: Option<f64>,
    /// Hits of povmeter's cache divided by those of the FIFO ring by hash: the least over all loads.
    pub least_fifo_ratio: f64,
    /// Memory of povmeter's cache divided by its payload: the largest over all rows with a full cache of at least
    /// 256 KiB; null if there is none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub most_memory_ratio: Option<f64>,
}

/// One cache on one load.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CacheRow {
    /// Name of the policy: a library, or `povmeter`, `fifo-ring`, `sp-trie`.
    pub policy: String,
    /// What kind of cache it is.
    pub about: String,
    /// The key by which the cache finds a node.
    pub keying: Keying,
    /// How the accounts of a block are drawn.
    pub access: Access,
    /// How many of the touched accounts are written, in percent.
    pub write_share: u8,
    /// Memory of the cache, in percent of the state's bytes.
    pub bytes_percent: u16,
    /// Look-ups that found the node, in percent, over the second half of the blocks.
    pub hit_percent: f64,
    /// Look-ups of leaves and values that found the node, in percent, over the second half of the blocks.
    pub leaf_hit_percent: f64,
    /// Nodes in the cache at the end.
    pub entries: usize,
    /// Bytes of memory at the end.
    pub memory_bytes: u64,
    /// Bytes of memory for each node at the end; all bytes if there is no node.
    pub bytes_per_entry: f64,
    /// Memory divided by the payload, which is the bytes and hashes of the cached nodes; all bytes if there is no node.
    pub memory_ratio: f64,
    /// Nanoseconds of a look-up on one thread, averaged over hits and misses.
    pub ns: f64,
    /// Nanoseconds of a look-up while two threads look up, averaged over hits and misses.
    pub ns_two_threads: f64,
    /// Look-ups that returned the bytes of another node.
    pub stale_reads: u64,
}

/// The least memory of a cache that is judged. In smaller caches fixed costs and single nodes dominate: with 4 KiB
/// the memory is up to 1.51 times the payload, with 20 KiB the lead is down to -1.2 points, and from 80 KiB on
/// all is as in large caches (2,000 to 50,000 accounts, 2026-11-27).
const JUDGED_BYTES: u64 = 256 << 10;
/// The most percentage points that povmeter's cache may be behind the best.
const BEHIND_POINTS: f64 = 1.0;
/// The most memory for each byte of the payload.
const MEMORY_RATIO: f64 = 1.5;

impl CacheReport {
    pub(crate) fn new(
        options: CacheOptions,
        (state_nodes, state_bytes): (usize, usize),
        rows: Vec<(CacheRow, RowKind)>,
    ) -> Self {
        let mut report = Self {
            options,
            state_nodes,
            state_bytes,
            rows: Vec::new(),
            least_lead_points: None,
            least_fifo_ratio: f64::INFINITY,
            most_memory_ratio: None,
        };
        for (ours, kind) in &rows {
            let RowKind::Ours { is_full } = kind else {
                continue;
            };
            let is_judged = ours.memory_bytes >= JUDGED_BYTES;
            if is_judged && *is_full {
                let most = report.most_memory_ratio.unwrap_or(0.0);
                report.most_memory_ratio = Some(most.max(ours.memory_ratio));
            }
            for (other, kind) in rows.iter().filter(|(other, _)| other.is_beside(ours)) {
                let lead = ours.hit_percent - other.hit_percent;
                match kind {
                    RowKind::Ours { .. } => continue,
                    RowKind::FifoRing => {
                        let ratio = ours.hit_percent / other.hit_percent.max(0.01);
                        report.least_fifo_ratio = report.least_fifo_ratio.min(ratio);
                    }
                    RowKind::Other => {}
                }
                if is_judged {
                    let least = report.least_lead_points.unwrap_or(f64::INFINITY);
                    report.least_lead_points = Some(least.min(lead));
                }
            }
        }
        report.rows = rows.into_iter().map(|(row, _)| row).collect();
        report
    }

    /// Whether no cache returned the bytes of another node.
    pub fn no_stale_reads(&self) -> bool {
        self.rows.iter().all(|row| row.stale_reads == 0)
    }

    /// Whether povmeter's cache has at most one percentage point fewer hits than any other, on every load with at
    /// least 256 KiB of memory.
    pub fn leads(&self) -> bool {
        self.least_lead_points
            .is_none_or(|lead| lead >= -BEHIND_POINTS)
    }

    /// Whether a full cache of povmeter of at least 256 KiB takes at most 1.5 times the bytes and hashes of its
    /// nodes.
    pub fn is_lean(&self) -> bool {
        self.most_memory_ratio
            .is_none_or(|ratio| ratio <= MEMORY_RATIO)
    }
}

/// The role of a row in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Ours {
        /// Whether nodes left to make room for others. Otherwise the memory is for nodes that never came.
        is_full: bool,
    },
    FifoRing,
    Other,
}

impl CacheRow {
    /// Bytes of memory for each node; `None` if there is no node.
    pub fn bytes_per_node(&self) -> Option<f64> {
        (self.entries > 0).then_some(self.bytes_per_entry)
    }

    /// Memory divided by the payload; `None` if there is no node.
    pub fn ratio_of_nodes(&self) -> Option<f64> {
        (self.entries > 0).then_some(self.memory_ratio)
    }

    /// Whether both rows have the same load and memory.
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.access, self.write_share, self.bytes_percent)
            == (other.access, other.write_share, other.bytes_percent)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn row(policy: &str, memory_bytes: u64, hit_percent: f64, memory_ratio: f64) -> CacheRow {
        CacheRow {
            policy: policy.to_owned(),
            about: String::new(),
            keying: Keying::Path,
            access: Access::Zipf,
            write_share: 50,
            bytes_percent: 5,
            hit_percent,
            leaf_hit_percent: hit_percent,
            entries: 1,
            memory_bytes,
            bytes_per_entry: 1.0,
            memory_ratio,
            ns: 1.0,
            ns_two_threads: 1.0,
            stale_reads: 0,
        }
    }

    /// A cache of povmeter that is 10 points behind and twice as large as its payload.
    fn bad(memory_bytes: u64, is_full: bool) -> CacheReport {
        let ours = row("povmeter", memory_bytes, 50.0, 2.0);
        let other = row("lru", memory_bytes, 60.0, 1.0);
        let rows = vec![(ours, RowKind::Ours { is_full }), (other, RowKind::Other)];
        CacheReport::new(CacheOptions::default(), (1, 1), rows)
    }

    #[test]
    fn only_large_caches_are_judged() {
        let small = bad(JUDGED_BYTES - 1, true);
        assert!(small.leads() && small.is_lean());
        assert_eq!(
            (small.least_lead_points, small.most_memory_ratio),
            (None, None)
        );
        let large = bad(JUDGED_BYTES, true);
        assert!(!large.leads() && !large.is_lean());
        assert_eq!(
            (large.least_lead_points, large.most_memory_ratio),
            (Some(-10.0), Some(2.0))
        );
        // The memory of a cache that is not full waits for more nodes.
        let roomy = bad(JUDGED_BYTES, false);
        assert!(!roomy.leads() && roomy.is_lean());
    }
}
