//! The cache: shards by path.

use crate::{
    path::PathKey,
    shard::{Shard, MOST_BYTES},
    CacheCounters,
};
use bytes::Bytes;
use foldhash::quality::RandomState;
use povmeter_delta_root::{NodePrefix, RootUpdate};
use povmeter_primitives::NodeHash;
use std::{
    fmt,
    sync::{
        atomic::{AtomicU64, Ordering},
        Mutex, MutexGuard,
    },
};

/// Encoded trie nodes, shared by blocks, forks and threads: see the [crate page](crate).
pub struct NodeCache {
    shards: Box<[Slot]>,
    paths: RandomState,
    /// How many updates are being applied, plus [`BEGUN`] for each that ever began.
    updates: AtomicU64,
    /// Nodes that were not kept because an update was applied while they were read.
    late: AtomicU64,
    bytes: usize,
}

/// Above the number of updates that are being applied at the same time.
const BEGUN: u64 = 1 << 32;

/// A shard on its own cache lines, so that the locks of different shards share none.
#[repr(align(128))]
struct Slot(Mutex<Shard>);

/// The most memory that a cache uses.
const MOST_CACHE_BYTES: u64 = 256 << 30;

impl NodeCache {
    /// Makes an empty cache that uses at most `bytes` of memory, its own tables included. The operating
    /// system provides the memory as the cache fills, except a twenty-fifth of it, for tables that are there
    /// from the start. More than 256 GiB is taken as 256 GiB.
    ///
    /// Below about 8,000 bytes large branches do not fit; a cache of zero bytes keeps no node.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.min(usize::try_from(MOST_CACHE_BYTES).unwrap_or(usize::MAX));
        // One more shard costs its tables, so a rest of up to an eighth of a shard goes to the others.
        let count = bytes
            .saturating_sub(MOST_BYTES / 8)
            .div_ceil(MOST_BYTES + size_of::<Slot>())
            .max(1);
        let each =
            (bytes.saturating_sub(size_of::<Self>()) / count).saturating_sub(size_of::<Slot>());
        let shards = (0..count).map(|_| Slot(Mutex::new(Shard::new(each))));
        Self {
            shards: shards.collect(),
            paths: RandomState::default(),
            updates: AtomicU64::new(0),
            late: AtomicU64::new(0),
            bytes,
        }
    }

    /// The most bytes of memory that the cache uses.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a copy of the node with `hash` at `prefix`, if the cache has the node. Counts a hit or a
    /// miss.
    pub fn get(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Option<Bytes> {
        self.look_up(self.key(prefix), hash, Bytes::copy_from_slice)
    }

    /// Adds a node that was read from a source. The hash is not checked.
    ///
    /// A node of more than a tenth of a shard, which is some 78,000 bytes in a large cache, is not kept.
    pub fn insert(&self, hash: &NodeHash, prefix: NodePrefix<'_>, encoded: &[u8]) {
        let key = self.key(prefix);
        self.shard(key).fill(key, hash, encoded);
    }

    /// Whether the cache has the node. Counts nothing.
    pub fn contains(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> bool {
        let key = self.key(prefix);
        self.shard(key).contains(key, hash)
    }

    /// Applies an update that a store has committed: each new node enters and replaces the node that was at
    /// its path, and the nodes that the update removed leave.
    ///
    /// The order of calls matters only for hits: after an update of one fork, blocks on another one find
    /// fewer nodes, but never a wrong one.
    ///
    /// # Cost
    /// A look-up or two for each node of the update, and a copy of each new node.
    pub fn apply(&self, update: &RootUpdate) {
        let _applying = Applying::begin(&self.updates);
        for node in update.removed() {
            let key = self.key(node.prefix());
            self.shard(key).supersede(key, &node.hash);
        }
        for node in update.inserted() {
            let key = self.key(node.prefix());
            self.shard(key).succeed(key, &node.hash, node.encoded);
        }
        for node in update.removed() {
            let key = self.key(node.prefix());
            self.shard(key).drop_superseded(key, &node.hash);
        }
    }

    /// Removes all nodes. The counts stay.
    pub fn clear(&self) {
        self.shards.iter().for_each(|slot| slot.lock().clear());
    }

    /// Returns what the cache holds and what it did so far.
    pub fn counters(&self) -> CacheCounters {
        let mut sum = CacheCounters {
            late_fills: self.late.load(Ordering::Relaxed),
            capacity_bytes: self.bytes as u64,
            memory_bytes: (size_of::<Self>() + self.shards.len() * size_of::<Slot>()) as u64,
            shards: self.shards.len() as u64,
            ..CacheCounters::default()
        };
        for slot in &self.shards {
            let shard = slot.lock();
            sum.memory_bytes += shard.memory() as u64;
            sum.add(shard.counts());
        }
        sum
    }

    pub(crate) fn key(&self, prefix: NodePrefix<'_>) -> PathKey {
        PathKey::new(&self.paths, prefix)
    }

    fn shard(&self, key: PathKey) -> MutexGuard<'_, Shard> {
        self.shards[key.part(self.shards.len())].lock()
    }

    /// Calls `take` with the node. The shard is locked until `take` returns.
    pub(crate) fn look_up<T>(
        &self,
        key: PathKey,
        hash: &NodeHash,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        self.shard(key).get(key, hash).map(take)
    }

    /// Returns which updates began and are being applied, for [`Self::fill`].
    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Ordering::SeqCst)
    }

    /// Adds a node that was missed at the time of `updates`, unless an update was being applied then, or began
    /// since. The update may have removed the node, which would then occupy memory although only blocks on an
    /// older state ask for it. The node would never be a wrong answer, because look-ups compare the hash.
    pub(crate) fn fill(&self, key: PathKey, hash: &NodeHash, encoded: &[u8], updates: u64) {
        let mut shard = self.shard(key);
        // Under the lock: an update that begins later finds the node.
        if !updates.is_multiple_of(BEGUN) || self.updates() != updates {
            self.late.fetch_add(1, Ordering::Relaxed);
            return;
        }
        shard.fill(key, hash, encoded);
    }
}

/// An update that is being applied, until it is dropped.
struct Applying<'c>(&'c AtomicU64);

impl<'c> Applying<'c> {
    fn begin(updates: &'c AtomicU64) -> Self {
        updates.fetch_add(BEGUN + 1, Ordering::SeqCst);
        Self(updates)
    }
}

/// In a panic too: otherwise no node would ever enter again.
impl Drop for Applying<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slot {
    /// Locks the shard. If a thread panicked with the lock, the shard may be half changed, so it is
    /// emptied.
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.0.lock().unwrap_or_else(|poisoned| {
            let mut shard = poisoned.into_inner();
            shard.clear();
            self.0.clear_poison();
            shard
        })
    }
}

impl fmt::Debug for NodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = self.counters();
        f.debug_struct("NodeCache")
            .field("counters", &counters)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::CachedSource;
    use povmeter_delta_root::{Blake2b256, NodeChange, NodeSource, Root, SourceError};
    use std::{sync::Arc, thread};

    const NODE: &[u8] = b"node";

    struct Source;

    impl NodeSource for Source {
        fn node(&self, _: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
            Ok(Some(Bytes::from_static(NODE)))
        }
    }

    /// An update that removes or inserts the node at each path.
    fn update(changes: &[([u8; 4], i32)]) -> RootUpdate {
        let hash = Blake2b256::hash(NODE);
        let nodes = changes.iter().map(|(path, references)| NodeChange {
            path,
            odd_nibble: None,
            hash,
            references: *references,
            encoded: if *references > 0 { NODE } else { &[] },
        });
        RootUpdate {
            parent: Root::EMPTY,
            root: Root::EMPTY,
            children: vec![],
            nodes: nodes.collect(),
        }
    }

    /// The whole read happens after the update has removed the node, and before its end.
    #[test]
    fn a_node_that_is_read_within_an_update_does_not_enter() {
        let cache = Arc::new(NodeCache::new(4 * MOST_BYTES));
        let source = CachedSource::new(Source, Arc::clone(&cache));
        let hash = Blake2b256::hash(NODE);
        let part = |path: &[u8; 4]| cache.key((path, None)).part(cache.shards.len());
        let has = |path: &[u8; 4]| cache.contains(&hash, (path, None));
        let mut paths = (0_u32..).map(u32::to_be_bytes);
        let removed = paths.next().unwrap();
        let beside = paths.find(|path| part(path) == part(&removed)).unwrap();
        let apart = paths.find(|path| part(path) != part(&removed)).unwrap();
        let long = update(&[(removed, -1), (beside, 1), (apart, 1)]);
        let short = update(&[(beside, -1)]);

        let blocked = cache.shards[part(&apart)].lock();
        thread::scope(|scope| {
            let applied = scope.spawn(|| cache.apply(&long));
            while !has(&beside) {
                thread::yield_now();
            }
            let read = || source.node(&hash, (&removed, None)).unwrap().unwrap();
            assert_eq!(read(), NODE);
            // Another update begins and ends within the first one.
            cache.apply(&short);
            assert_eq!(read(), NODE);
            assert!(!has(&removed));
            assert_eq!(cache.late.load(Ordering::Relaxed), 2);
            drop(blocked);
            applied.join().unwrap();
            assert!(!has(&removed) && has(&apart));
            assert_eq!(read(), NODE);
            assert!(has(&removed), "no update is applied any more");
        });
    }
}
