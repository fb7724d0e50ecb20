//! The counters of a cache.

use crate::shard::ShardCounts;
use povmeter_primitives::HASH_LENGTH;

/// What a [`NodeCache`](crate::NodeCache) holds, and what it did since it was made. A node of the chain
/// can export them unchanged: totals as counters, the others as gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounters {
    /// Look-ups that found the node.
    pub hits: u64,
    /// Look-ups that did not find the node.
    pub misses: u64,
    /// Nodes that entered, after a miss or with an update.
    pub insertions: u64,
    /// Nodes that left to make room for others.
    pub evictions: u64,
    /// Nodes that left because an update removed them.
    pub superseded: u64,
    /// Nodes that were too large to enter.
    pub refused: u64,
    /// Nodes that did not enter because an update was applied while they were read.
    pub late_fills: u64,
    /// Nodes in the cache now.
    pub entries: u64,
    /// Bytes of the encoded nodes in the cache now.
    pub node_bytes: u64,
    /// Bytes of memory that the cache has allocated, though it may not use all of them yet. Never above
    /// the capacity, unless the capacity is smaller than an empty cache.
    pub memory_bytes: u64,
    /// Bytes that the cache was made for.
    pub capacity_bytes: u64,
    /// Number of shards: parts of the cache with a lock each.
    pub shards: u64,
}

impl std::iter::Sum for CacheCounters {
    /// Returns the sums of each counter over several caches.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counters| Self {
            hits: sum.hits + counters.hits,
            misses: sum.misses + counters.misses,
            insertions: sum.insertions + counters.insertions,
            evictions: sum.evictions + counters.evictions,
            superseded: sum.superseded + counters.superseded,
            refused: sum.refused + counters.refused,
            late_fills: sum.late_fills + counters.late_fills,
            entries: sum.entries + counters.entries,
            node_bytes: sum.node_bytes + counters.node_bytes,
            memory_bytes: sum.memory_bytes + counters.memory_bytes,
            capacity_bytes: sum.capacity_bytes + counters.capacity_bytes,
            shards: sum.shards + counters.shards,
        })
    }
}

impl CacheCounters {
    /// Returns the hits in percent of the look-ups; `None` before the first look-up.
    pub fn hit_percent(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64 * 100.0)
    }

    /// Returns the least bytes that the nodes need: their encodings and their hashes.
    pub fn payload_bytes(&self) -> u64 {
        self.node_bytes + self.entries * HASH_LENGTH as u64
    }

    pub(crate) fn add(&mut self, shard: ShardCounts) {
        let ShardCounts {
            hits,
            misses,
            insertions,
            evictions,
            superseded,
            refused,
            entries,
            node_bytes,
        } = shard;
        self.hits += hits;
        self.misses += misses;
        self.insertions += insertions;
        self.evictions += evictions;
        self.superseded += superseded;
        self.refused += refused;
        self.entries += entries;
        self.node_bytes += node_bytes;
    }
}
