//! Reads of the parent state and writes, counted for benchmarks.

use povmeter::TrieId;
use sp_core::storage::TrackedStorageKey;
use std::collections::BTreeMap;

/// A key's trie (the child's storage key, `None` for the top trie) and the key.
type Place = (Option<Vec<u8>>, Vec<u8>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    reads: u32,
    writes: u32,
}

/// Accesses by key, and the keys that do not count.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    enabled: bool,
    counts: BTreeMap<Place, Count>,
    whitelist: Vec<TrackedStorageKey>,
}

fn place(trie: TrieId<'_>, key: &[u8]) -> Place {
    match trie {
        TrieId::Top => (None, key.to_vec()),
        TrieId::Child(child) => (Some(child.to_vec()), key.to_vec()),
    }
}

impl Accesses {
    pub(crate) fn enable(&mut self) {
        self.enabled = true;
    }

    pub(crate) fn read(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if self.enabled {
            let count = self.counts.entry(place(trie, key)).or_default();
            count.reads = count.reads.saturating_add(1);
        }
    }

    pub(crate) fn written(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if self.enabled {
            let count = self.counts.entry(place(trie, key)).or_default();
            count.writes = count.writes.saturating_add(1);
        }
    }

    pub(crate) fn reset(&mut self) {
        self.counts.clear();
    }

    pub(crate) fn whitelist(&self) -> &[TrackedStorageKey] {
        &self.whitelist
    }

    pub(crate) fn set_whitelist(&mut self, whitelist: Vec<TrackedStorageKey>) {
        self.whitelist = whitelist;
    }

    fn whitelisted(&self, key: &[u8]) -> Option<&TrackedStorageKey> {
        self.whitelist.iter().find(|tracked| tracked.key == key)
    }

    /// First reads, repeated reads, first writes, repeated writes, of keys not whitelisted.
    pub(crate) fn totals(&self) -> (u32, u32, u32, u32) {
        let counted = self
            .counts
            .iter()
            .filter(|((_, key), _)| self.whitelisted(key).is_none());
        counted.fold(
            (0, 0, 0, 0),
            |(reads, reread, writes, rewritten), (_, count)| {
                let (first_read, first_write) = (count.reads.min(1), count.writes.min(1));
                (
                    reads + first_read,
                    reread.saturating_add(count.reads - first_read),
                    writes + first_write,
                    rewritten.saturating_add(count.writes - first_write),
                )
            },
        )
    }

    /// Key, reads, writes, whether it is whitelisted.
    pub(crate) fn by_key(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        let row = |((_, key), count): (&Place, &Count)| {
            (
                key.clone(),
                count.reads,
                count.writes,
                self.whitelisted(key).is_some(),
            )
        };
        self.counts.iter().map(row).collect()
    }
}
