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
    /// Hits of povmeter's cache minus those of the best other cache, in percentage points: the least over all loads.
    #[schemars(range(min = -100.0, max = 100.0))]
    pub least_lead_points: f64,
    /// Hits of povmeter's cache divided by those of the FIFO ring by hash: the least over all loads.
    pub least_fifo_ratio: f64,
    /// Memory of povmeter's cache divided by its payload: the largest over all rows with a full cache.
    pub most_memory_ratio: f64,
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
    /// Bytes of memory for each node at the end.
    pub bytes_per_entry: f64,
    /// Memory divided by the payload, which is the bytes and hashes of the cached nodes.
    pub memory_ratio: f64,
    /// Nanoseconds of a look-up on one thread, averaged over hits and misses.
    pub ns: f64,
    /// Nanoseconds of a look-up while two threads look up, averaged over hits and misses.
    pub ns_two_threads: f64,
    /// Look-ups that returned the bytes of another node.
    pub stale_reads: u64,
}

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
            least_lead_points: f64::INFINITY,
            least_fifo_ratio: f64::INFINITY,
            most_memory_ratio: 0.0,
        };
        for (ours, kind) in &rows {
            if *kind != RowKind::Ours {
                continue;
            }
            let is_full = ours.memory_bytes as f64 <= 0.6 * state_bytes as f64;
            if is_full && ours.memory_ratio > report.most_memory_ratio {
                report.most_memory_ratio = ours.memory_ratio;
            }
            for (other, kind) in rows.iter().filter(|(other, _)| other.is_beside(ours)) {
                let lead = ours.hit_percent - other.hit_percent;
                match kind {
                    RowKind::Ours => continue,
                    RowKind::FifoRing => {
                        let ratio = ours.hit_percent / other.hit_percent.max(0.01);
                        report.least_fifo_ratio = report.least_fifo_ratio.min(ratio);
                    }
                    RowKind::Other => {}
                }
                report.least_lead_points = report.least_lead_points.min(lead);
            }
        }
        report.rows = rows.into_iter().map(|(row, _)| row).collect();
        report
    }

    /// Whether no cache returned the bytes of another node.
    pub fn no_stale_reads(&self) -> bool {
        self.rows.iter().all(|row| row.stale_reads == 0)
    }

    /// Whether povmeter's cache has at most one percentage point fewer hits than any other, on every load.
    pub fn leads(&self) -> bool {
        self.least_lead_points >= -BEHIND_POINTS
    }

    /// Whether a full cache of povmeter takes at most 1.5 times the bytes and hashes of its nodes.
    pub fn is_lean(&self) -> bool {
        self.most_memory_ratio <= MEMORY_RATIO
    }
}

/// The role of a row in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Ours,
    FifoRing,
    Other,
}

impl CacheRow {
    /// Whether both rows have the same load and memory.
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.access, self.write_share, self.bytes_percent)
            == (other.access, other.write_share, other.bytes_percent)
    }
}
