//! Counts of reads and writes of the parent state, for benchmarks.
//!
//! A read counts only if the block has not changed the key, because otherwise it does not reach the
//! database. A write counts when it is committed. Keys on the whitelist do not count. A new whitelist
//! takes effect at the next reset of the counts.

use povmeter::TrieId;
use sp_core::storage::TrackedStorageKey;
use std::collections::HashMap;

/// Length of the key prefixes of [`Accesses::by_prefix`]: the bytes that name pallet and item.
const PREFIX_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    reads: u32,
    writes: u32,
    whitelisted: bool,
}

/// The keys of one trie in the order of their first access.
#[derive(Debug, Default)]
struct Tracked {
    counts: Vec<(Vec<u8>, Count)>,
    places: HashMap<Vec<u8>, usize>,
}

impl Tracked {
    fn count(&mut self, key: &[u8]) -> &mut Count {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                let place = self.counts.len();
                self.places.insert(key.to_vec(), place);
                self.counts.push((key.to_vec(), Count::default()));
                place
            }
        };
        &mut self.counts[place].1
    }
}

/// The accesses by key, and the whitelist of keys that do not count.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    enabled: bool,
    top: Tracked,
    /// Child tries by storage key, in the order of their first access.
    children: Vec<(Vec<u8>, Tracked)>,
    whitelist: Vec<TrackedStorageKey>,
}

impl Accesses {
    pub(crate) fn enable(&mut self) {
        self.enabled = true;
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn read(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if self.enabled {
            let count = self.tracked(trie).count(key);
            count.reads = count.reads.saturating_add(1);
        }
    }

    pub(crate) fn written(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if self.enabled {
            let count = self.tracked(trie).count(key);
            count.writes = count.writes.saturating_add(1);
        }
    }

    fn tracked(&mut self, trie: TrieId<'_>) -> &mut Tracked {
        let child = match trie {
            TrieId::Top => return &mut self.top,
            TrieId::Child(child) => child,
        };
        let found = self.children.iter().position(|(key, _)| key == child);
        let place = found.unwrap_or_else(|| {
            self.children.push((child.to_vec(), Tracked::default()));
            self.children.len() - 1
        });
        &mut self.children[place].1
    }

    /// Resets the counts; the current whitelist takes effect.
    pub(crate) fn reset(&mut self) {
        self.top = Tracked::default();
        self.children.clear();
        for key in std::mem::take(&mut self.whitelist) {
            let trie = key.child_trie_key.as_deref();
            let trie = trie.map_or(TrieId::Top, TrieId::Child);
            *self.tracked(trie).count(&key.key) = Count {
                whitelisted: true,
                ..Count::default()
            };
            self.whitelist.push(key);
        }
    }

    pub(crate) fn whitelist(&self) -> &[TrackedStorageKey] {
        &self.whitelist
    }

    pub(crate) fn set_whitelist(&mut self, whitelist: Vec<TrackedStorageKey>) {
        self.whitelist = whitelist;
    }

    /// The keys that are not on the whitelist, with their counts.
    fn counted(&self) -> impl Iterator<Item = &(Vec<u8>, Count)> {
        let children = self.children.iter().flat_map(|(_, child)| &child.counts);
        let all = self.top.counts.iter().chain(children);
        all.filter(|(_, count)| !count.whitelisted)
    }

    /// Numbers of first reads, repeated reads, first writes, and repeated writes.
    pub(crate) fn totals(&self) -> (u32, u32, u32, u32) {
        let mut totals = (0, 0, 0, 0);
        for (_, count) in self.counted() {
            let (first_read, first_write) = (count.reads.min(1), count.writes.min(1));
            totals.0 += first_read;
            totals.1 += count.reads - first_read;
            totals.2 += first_write;
            totals.3 += count.writes - first_write;
        }
        totals
    }

    /// A row for each key prefix, in the order of first access: the prefix, the keys read, the keys
    /// written, and `false` because it is not on the whitelist.
    pub(crate) fn by_prefix(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        let mut rows: Vec<(Vec<u8>, u32, u32, bool)> = Vec::new();
        for (key, count) in self.counted() {
            let prefix = &key[..key.len().min(PREFIX_BYTES)];
            let (reads, writes) = (count.reads.min(1), count.writes.min(1));
            match rows.iter_mut().find(|row| row.0 == prefix) {
                Some(row) => {
                    row.1 += reads;
                    row.2 += writes;
                }
                None => rows.push((prefix.to_vec(), reads, writes, false)),
            }
        }
        rows
    }
}
