//! A part of the cache, behind one lock: which nodes stay.
//!
//! ```text
//! S3-FIFO: a small log for new nodes, a main log for nodes that were used again
//! look up:     count a use of the node, up to three
//! insert:      into the small log; into the main log if the path was evicted a short time ago
//! no room in the small log:  oldest entry used, or room left in the main log?  move it to the main log
//!                            else evict it and remember its path
//! no room in the main log:   an eighth of it is dead entries?  drop these
//!                            oldest entry used?  one use less, and it becomes the newest
//!                            else evict it
//! update:      a new node takes the place of the node that was at its path, in the same log, with its uses;
//!              if there was none, it enters the small log
//! ```

use crate::{
    ghosts::Ghosts,
    path::PathKey,
    ring::{Ring, HEADER_BYTES, LONGEST_NODE},
};
use hashbrown::{hash_table::Entry, HashTable};
use povmeter_primitives::NodeHash;

/// Percentage of the memory for new nodes, as in the publication of S3-FIFO.
const SMALL_PERCENT: usize = 10;
/// The least average bytes of a node with its header, from which the index gets its size.
const ENTRY_BYTES: usize = 128;
/// The main log is swept when more than one part in this many of its bytes is dead.
const DEAD_PART: usize = 8;
/// The most places of an index, so that making it anew needs a tenth of a millisecond.
const MOST_BUCKETS: usize = 1 << 13;
const LEAST_BUCKETS: usize = 16;

/// Bytes of memory with which a shard fills the largest index. All shards of a cache together have up to an eighth of
/// it more.
pub(crate) const MOST_BYTES: usize = MOST_BUCKETS * 3 / 4 * ENTRY_BYTES + MOST_BUCKETS * 7;

/// The place of a node: its log, and the offset in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

impl Place {
    const MAIN: u32 = 1 << 31;

    fn small(at: usize) -> Self {
        // A log has less than two megabytes: see `MOST_BYTES`.
        Self(u32::try_from(at).unwrap_or(0))
    }

    fn main(at: usize) -> Self {
        Self(Self::small(at).0 | Self::MAIN)
    }

    fn is_main(self) -> bool {
        self.0 & Self::MAIN != 0
    }

    fn at(self) -> usize {
        (self.0 & !Self::MAIN) as usize
    }
}

/// What a shard counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardCounts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) insertions: u64,
    pub(crate) evictions: u64,
    pub(crate) superseded: u64,
    pub(crate) refused: u64,
    pub(crate) entries: u64,
    pub(crate) node_bytes: u64,
}

#[derive(Debug)]
struct Logs {
    small: Ring,
    main: Ring,
}

impl Logs {
    fn of(&self, place: Place) -> &Ring {
        if place.is_main() {
            &self.main
        } else {
            &self.small
        }
    }

    fn of_mut(&mut self, place: Place) -> &mut Ring {
        if place.is_main() {
            &mut self.main
        } else {
            &mut self.small
        }
    }

    fn path(&self, place: Place) -> u64 {
        self.of(place).path(place.at())
    }
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Shard {
    logs: Logs,
    index: HashTable<Place>,
    /// The most entries: three quarters of the index.
    most: usize,
    ghosts: Ghosts,
    /// Whether the main log or the index has been full since the shard was last empty.
    main_was_full: bool,
    counts: ShardCounts,
}

/// The hash for the index, with the halves swapped because the high bits chose the shard.
fn index_hash(path: u64) -> u64 {
    path.rotate_left(32)
}

impl Shard {
    /// Makes a shard of `bytes` of memory, or of the smallest tables if `bytes` is less.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut buckets = LEAST_BUCKETS;
        while buckets < MOST_BUCKETS && buckets * 3 / 4 * ENTRY_BYTES < bytes - bytes / 16 {
            buckets *= 2;
        }
        let most = buckets * 3 / 4;
        let index: HashTable<Place> = HashTable::with_capacity(buckets / 8 * 7);
        let ghosts = Ghosts::new(most / 2);
        let rest = bytes.saturating_sub(index.allocation_size() + ghosts.bytes());
        let small = rest * SMALL_PERCENT / 100;
        let logs = Logs {
            small: Ring::new(small),
            main: Ring::new(rest - small),
        };
        Self {
            logs,
            index,
            most,
            ghosts,
            main_was_full: false,
            counts: ShardCounts::default(),
        }
    }

    /// Bytes of memory, used or not.
    pub(crate) fn memory(&self) -> usize {
        let logs = self.logs.small.capacity() + self.logs.main.capacity();
        logs + self.index.allocation_size() + self.ghosts.bytes()
    }

    pub(crate) fn counts(&self) -> ShardCounts {
        self.counts
    }

    /// Removes all nodes.
    pub(crate) fn clear(&mut self) {
        let Self {
            logs: Logs { small, main },
            index,
            most: _,
            ghosts,
            main_was_full,
            counts,
        } = self;
        small.clear();
        main.clear();
        index.clear();
        ghosts.clear();
        *main_was_full = false;
        (counts.entries, counts.node_bytes) = (0, 0);
    }

    /// The entry at `path`, of any hash.
    fn find(&self, path: u64) -> Option<Place> {
        let found = self
            .index
            .find(index_hash(path), |&place| self.logs.path(place) == path);
        found.copied()
    }

    /// The entry of node `hash` at the path of `key`.
    fn find_node(&self, key: PathKey, hash: &NodeHash) -> Option<Place> {
        [key.path(), key.second(hash)].into_iter().find_map(|path| {
            self.find(path)
                .filter(|place| self.logs.of(*place).has_hash(place.at(), hash))
        })
    }

    /// The node with `hash` at the path of `key`.
    pub(crate) fn get(&mut self, key: PathKey, hash: &NodeHash) -> Option<&[u8]> {
        let Some(place) = self.find_node(key, hash) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        let log = self.logs.of_mut(place);
        let uses = log.uses(place.at());
        log.set_uses(place.at(), uses.saturating_add(1));
        Some(log.node(place.at()))
    }

    /// Whether the node is here. Counts nothing.
    pub(crate) fn contains(&self, key: PathKey, hash: &NodeHash) -> bool {
        self.find_node(key, hash).is_some()
    }

    /// Adds a node that was read from the source. Another node at its path stays, because both may be of
    /// live forks, or one may be the value of the other.
    pub(crate) fn fill(&mut self, key: PathKey, hash: &NodeHash, node: &[u8]) {
        match self.find(key.path()) {
            None => self.insert(key.path(), hash, node),
            Some(place) if self.logs.of(place).has_hash(place.at(), hash) => {}
            Some(_) if self.find(key.second(hash)).is_some() => {}
            Some(_) => self.insert(key.second(hash), hash, node),
        }
    }

    /// Marks the node with `hash` at the path of `key` as one that an update removes.
    pub(crate) fn supersede(&mut self, key: PathKey, hash: &NodeHash) {
        if let Some(place) = self.find_node(key, hash) {
            self.logs.of_mut(place).set_superseded(place.at(), true);
        }
    }

    /// Adds a node that an update inserts. It replaces a marked node at its path.
    pub(crate) fn succeed(&mut self, key: PathKey, hash: &NodeHash, node: &[u8]) {
        for path in [key.path(), key.second(hash)] {
            let Some(place) = self.find(path) else {
                // Not by `insert`, because the path may be known only because the block has just asked for
                // it.
                return self.insert_into(false, path, hash, node, 0);
            };
            let log = self.logs.of_mut(place);
            if log.has_hash(place.at(), hash) {
                return log.set_superseded(place.at(), false);
            }
            if log.is_superseded(place.at()) {
                return self.replace(path, place, hash, node);
            }
        }
    }

    /// Removes the node with `hash` at the path of `key` if it is still marked.
    pub(crate) fn drop_superseded(&mut self, key: PathKey, hash: &NodeHash) {
        let Some(place) = self.find_node(key, hash) else {
            return;
        };
        let log = self.logs.of(place);
        if log.is_superseded(place.at()) {
            self.counts.superseded += 1;
            self.remove(log.path(place.at()), place);
        }
    }

    fn replace(&mut self, path: u64, place: Place, hash: &NodeHash, node: &[u8]) {
        self.counts.superseded += 1;
        let log = self.logs.of_mut(place);
        if log.length(place.at()) == node.len() {
            log.overwrite(place.at(), hash, node);
            log.set_superseded(place.at(), false);
            self.counts.insertions += 1;
            return;
        }
        let uses = log.uses(place.at());
        self.remove(path, place);
        self.insert_into(place.is_main(), path, hash, node, uses);
    }

    /// Removes the entry from the index. Its memory becomes free when it is the oldest entry of its log.
    fn remove(&mut self, path: u64, place: Place) {
        let found = self.index.find_entry(index_hash(path), |&at| at == place);
        if let Ok(entry) = found {
            entry.remove();
            let log = self.logs.of_mut(place);
            log.kill(place.at());
            self.counts.entries -= 1;
            self.counts.node_bytes -= log.length(place.at()) as u64;
        }
    }

    fn insert(&mut self, path: u64, hash: &NodeHash, node: &[u8]) {
        let is_known = self.ghosts.take(path);
        self.insert_into(is_known, path, hash, node, 0);
    }

    fn insert_into(&mut self, main: bool, path: u64, hash: &NodeHash, node: &[u8], uses: u8) {
        let largest = self.logs.small.capacity().min(HEADER_BYTES + LONGEST_NODE);
        if HEADER_BYTES + node.len() > largest {
            self.counts.refused += 1;
            return;
        }
        self.make_room(main, node.len());
        let log = if main {
            &mut self.logs.main
        } else {
            &mut self.logs.small
        };
        let Some(at) = log.push(path, hash, node, uses) else {
            self.counts.refused += 1;
            return;
        };
        let place = if main {
            Place::main(at)
        } else {
            Place::small(at)
        };
        let logs = &self.logs;
        let entry = self.index.entry(
            index_hash(path),
            |&other| logs.path(other) == path,
            |&other| index_hash(logs.path(other)),
        );
        match entry {
            Entry::Vacant(entry) => {
                entry.insert(place);
                self.counts.insertions += 1;
                self.counts.entries += 1;
                self.counts.node_bytes += node.len() as u64;
            }
            // Every caller found the path vacant.
            Entry::Occupied(_) => self.logs.of_mut(place).kill(place.at()),
        }
    }

    /// Evicts until a node of `length` bytes fits into the log, and into the index without more memory.
    fn make_room(&mut self, main: bool, length: usize) {
        while self.index.len() >= self.most && self.evict() {}
        if self.index.len() >= self.index.capacity() {
            self.make_index_anew();
        }
        let fits = |logs: &Logs| {
            if main {
                logs.main.fits(length)
            } else {
                logs.small.fits(length)
            }
        };
        while !fits(&self.logs) {
            self.main_was_full |= main;
            let went_on = if main {
                self.advance_main()
            } else {
                self.advance_small()
            };
            if !went_on {
                return;
            }
        }
    }

    /// Evicts an entry, or moves one to the main log; `false` if there is none.
    fn evict(&mut self) -> bool {
        // Moving an entry to free memory of the main log would make no room in the index.
        self.main_was_full = true;
        self.advance_small() || self.advance_main()
    }

    /// Makes the index anew, to remove the marks of deleted places, which use up its room.
    #[cold]
    fn make_index_anew(&mut self) {
        let places: Vec<Place> = self.index.drain().collect();
        let logs = &self.logs;
        for place in places {
            self.index
                .insert_unique(index_hash(logs.path(place)), place, |&other| {
                    index_hash(logs.path(other))
                });
        }
    }

    /// Takes the oldest entry out of the small log; `false` if the log is empty.
    fn advance_small(&mut self) -> bool {
        let Some(at) = self.logs.small.oldest() else {
            return false;
        };
        if self.logs.small.is_dead(at) {
            self.logs.small.pop();
            return true;
        }
        let (path, length) = (self.logs.small.path(at), self.logs.small.length(at));
        let has_room = !self.main_was_full && self.logs.main.fits(length);
        if self.logs.small.uses(at) > 0 || has_room {
            self.promote(path, at);
        } else {
            self.ghosts.insert(path);
            self.remove(path, Place::small(at));
            self.counts.evictions += 1;
        }
        self.logs.small.pop();
        true
    }

    /// Copies the entry at `at` of the small log into the main log.
    fn promote(&mut self, path: u64, at: usize) {
        let length = self.logs.small.length(at);
        while !self.logs.main.fits(length) {
            self.main_was_full = true;
            if !self.advance_main() {
                break;
            }
        }
        let Logs { small, main } = &mut self.logs;
        let superseded = small.is_superseded(at);
        let Some(to) = main.push(path, &small.hash(at), small.node(at), 0) else {
            // This happens only if the main log is smaller than the small one.
            return self.remove(path, Place::small(at));
        };
        main.set_superseded(to, superseded);
        self.move_in_index(path, Place::small(at), Place::main(to));
    }

    fn move_in_index(&mut self, path: u64, from: Place, to: Place) {
        if let Some(place) = self
            .index
            .find_mut(index_hash(path), |&place| place == from)
        {
            *place = to;
        }
    }

    /// Drops the dead entries of the main log, which removals and replacements of another length leave
    /// behind.
    #[cold]
    fn sweep_main(&mut self) {
        let (mut left, _) = self.logs.main.used_and_dead();
        while let Some(at) = self.logs.main.oldest().filter(|_| left > 0) {
            let log = &mut self.logs.main;
            left = left.saturating_sub(HEADER_BYTES + log.length(at));
            if log.is_dead(at) {
                log.pop();
                continue;
            }
            let (path, uses) = (log.path(at), log.uses(at));
            if let Some(to) = log.renew_oldest(uses) {
                self.move_in_index(path, Place::main(at), Place::main(to));
            }
        }
    }

    /// Evicts the oldest entry of the main log, or makes it the newest; `false` if the log is empty.
    fn advance_main(&mut self) -> bool {
        let Some(at) = self.logs.main.oldest() else {
            return false;
        };
        let (_, dead) = self.logs.main.used_and_dead();
        if dead > self.logs.main.capacity() / DEAD_PART {
            self.sweep_main();
            return true;
        }
        let uses = self.logs.main.uses(at);
        let path = self.logs.main.path(at);
        if self.logs.main.is_dead(at) {
            self.logs.main.pop();
        } else if uses > 0 {
            if let Some(to) = self.logs.main.renew_oldest(uses - 1) {
                self.move_in_index(path, Place::main(at), Place::main(to));
            }
        } else {
            self.remove(path, Place::main(at));
            self.logs.main.pop();
            self.counts.evictions += 1;
        }
        true
    }
}
