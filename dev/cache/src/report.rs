//! The report of the comparison.

use crate::{Access, CacheOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a node lies under in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keying {
    /// Its hash. A node that an update removed stays until it is evicted.
    Hash,
    /// Its path. A new node replaces the one before it.
    Path,
}

impl Keying {
    /// Name of the kind, as in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Path => "path",
        }
    }
}

/// Caches of trie nodes on the same accesses, with the same memory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CacheReport {
    /// What was measured.
    pub options: CacheOptions,
    /// Distinct nodes of the state at the start.
    pub state_nodes: usize,
    /// Bytes of these nodes.
    pub state_bytes: usize,
    /// A row for each policy, access, write share and memory.
    pub rows: Vec<CacheRow>,
    /// The least of our hits minus those of the best other row, in percentage points.
    #[schemars(range(min = -100.0, max = 100.0))]
    pub least_lead_points: f64,
    /// The least of our hits divided by those of the ring by hash.
    pub least_fifo_ratio: f64,
    /// The largest of our memory divided by the payload, in rows whose cache is full.
    pub most_memory_ratio: f64,
}

/// One cache on one load.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CacheRow {
    /// Name of the policy: a library, or `povmeter`, `fifo-ring`, `sp-trie`.
    pub policy: String,
    /// What it is.
    pub about: String,
    /// What nodes lie under.
    pub keying: Keying,
    /// How accounts are drawn.
    pub access: Access,
    /// Accounts that are written, in percent of those touched.
    pub write_share: u8,
    /// Memory of the cache, in percent of the state's bytes.
    pub bytes_percent: u16,
    /// Look-ups that found the node, in percent, over the second half of the blocks.
    pub hit_percent: f64,
    /// The same for leaves and values.
    pub leaf_hit_percent: f64,
    /// Nodes in the cache at the end.
    pub entries: usize,
    /// Bytes of memory at the end.
    pub memory_bytes: u64,
    /// The same for each node.
    pub bytes_per_entry: f64,
    /// Memory divided by the payload: the bytes and hashes of the nodes of this record that it has.
    pub memory_ratio: f64,
    /// Nanoseconds of a look-up on one thread, hits and misses mixed as they come.
    pub ns: f64,
    /// The same on two threads at once.
    pub ns_two_threads: f64,
    /// Look-ups that returned bytes of another node.
    pub stale_reads: u64,
}

/// The most points that ours may be behind the best.
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

    /// Whether ours has at most a percentage point fewer hits than any other, everywhere.
    pub fn leads(&self) -> bool {
        self.least_lead_points >= -BEHIND_POINTS
    }

    /// Whether a full cache of ours takes at most 1.5 times the bytes and hashes of its nodes.
    pub fn is_lean(&self) -> bool {
        self.most_memory_ratio <= MEMORY_RATIO
    }
}

/// Which role a row has in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Ours,
    FifoRing,
    Other,
}

impl CacheRow {
    /// Whether both are of the same load and memory.
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.access, self.write_share, self.bytes_percent)
            == (other.access, other.write_share, other.bytes_percent)
    }
}
