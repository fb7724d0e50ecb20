//! The written keys, in order.

use super::keys::{KeyId, Keys, TrieNumber};
use super::writers::index;
use crate::sync::{
    atomic::{AtomicU32, Ordering},
    lock, read, write, Mutex, RwLock,
};
use std::{collections::BTreeMap, ops::Bound};

/// All keys that were ever written, in order, to find the next key after a key. There is one tree for each trie, not
/// one for each key, and nothing is noted or sorted before a transaction asks.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// One above the highest position that has asked; zero if none has.
    asked: AtomicU32,
    fresh: Mutex<Fresh>,
    /// The keys of each trie, by the trie's number.
    sorted: RwLock<Vec<Sorted>>,
}

/// Keys that are not in the trees yet: when they were written, no transaction above had asked for a next key.
#[derive(Debug, Default)]
struct Fresh {
    keys: Vec<KeyId>,
    /// Whether the keys that were written before the first question have been added.
    begun: bool,
}

/// The written keys of a trie.
#[derive(Debug)]
struct Sorted {
    keys: BTreeMap<Box<[u8]>, Place>,
    /// The highest position that has asked for a key after the last one.
    asked: AtomicU32,
}

/// A written key, and the gap before it.
#[derive(Debug)]
struct Place {
    id: KeyId,
    /// The highest position that has asked for the next key after one in the gap.
    asked: AtomicU32,
}

impl Default for Ordered {
    fn default() -> Self {
        Self {
            asked: AtomicU32::new(0),
            fresh: Mutex::new(Fresh::default()),
            sorted: RwLock::new(Vec::new()),
        }
    }
}

impl Ordered {
    /// Adds a key that had no writer and that `position` now writes. The caller holds the key's lock. A key that is
    /// added again stays one key. Returns the highest position that may have looked for the key before it was there;
    /// zero if none has.
    pub(crate) fn add(&self, keys: &Keys, id: KeyId, position: u32) -> u32 {
        if self.asked.load(Ordering::Relaxed) == 0 {
            // The first transaction that asks notes that it asks, and then looks at each key under the key's lock.
            return 0;
        }
        {
            let mut fresh = lock(&self.fresh);
            // A transaction that asks later takes this lock after it has noted that it asks, and finds the key.
            let asked = self.asked.load(Ordering::Relaxed).saturating_sub(1);
            if asked <= position {
                fresh.keys.push(id);
                return asked;
            }
        }
        trie(&mut write(&self.sorted), keys.key(id).trie).add(&keys.key(id).bytes, id)
    }

    /// Returns the first added key of trie `of` after `after`, for a transaction at `position`.
    pub(crate) fn next(
        &self,
        keys: &Keys,
        position: u32,
        of: TrieNumber,
        after: &[u8],
    ) -> Option<KeyId> {
        self.asked.fetch_max(position + 1, Ordering::Relaxed);
        self.sort_fresh(keys);
        if let Some(sorted) = read(&self.sorted).get(index(of)) {
            return sorted.next(after, position);
        }
        trie(&mut write(&self.sorted), of).next(after, position)
    }

    /// Sorts the written keys if a transaction has ever asked, so that the next one that asks need not.
    pub(crate) fn sort(&self, keys: &Keys) {
        if self.asked.load(Ordering::Relaxed) > 0 {
            self.sort_fresh(keys);
        }
    }

    fn sort_fresh(&self, keys: &Keys) {
        let mut fresh = lock(&self.fresh);
        if !fresh.begun {
            // Unlocked, because writers of a key take this lock under the key's lock, which is taken below.
            drop(fresh);
            let mut written = Vec::new();
            keys.each(|id, key| {
                if !lock(&key.writers).is_empty() {
                    written.push(id);
                }
            });
            fresh = lock(&self.fresh);
            fresh.keys.append(&mut written);
            fresh.begun = true;
        }
        if fresh.keys.is_empty() {
            return;
        }
        let mut sorted = write(&self.sorted);
        for id in fresh.keys.drain(..) {
            let key = keys.key(id);
            trie(&mut sorted, key.trie).add(&key.bytes, id);
        }
    }
}

fn trie(sorted: &mut Vec<Sorted>, number: TrieNumber) -> &mut Sorted {
    let number = index(number);
    if sorted.len() <= number {
        sorted.resize_with(number + 1, || Sorted {
            keys: BTreeMap::new(),
            asked: AtomicU32::new(0),
        });
    }
    &mut sorted[number]
}

impl Sorted {
    /// Adds a key, unless it is there. Returns the highest position that has asked for the next key in the gap where
    /// it lies.
    fn add(&mut self, key: &[u8], id: KeyId) -> u32 {
        let bounds = (Bound::Included(key), Bound::Unbounded);
        let next = self.keys.range::<[u8], _>(bounds).next();
        let asked = next.map_or(&self.asked, |(_, next)| &next.asked);
        let asked = asked.load(Ordering::Relaxed);
        if next.is_none_or(|(next, _)| **next != *key) {
            let asked = AtomicU32::new(asked);
            self.keys.insert(key.into(), Place { id, asked });
        }
        asked
    }

    /// Returns the first key after `after`, and notes that `position` has asked.
    fn next(&self, after: &[u8], position: u32) -> Option<KeyId> {
        let bounds = (Bound::Excluded(after), Bound::Unbounded);
        let next = self.keys.range::<[u8], _>(bounds).next();
        let asked = next.map_or(&self.asked, |(_, next)| &next.asked);
        if asked.load(Ordering::Relaxed) < position {
            asked.fetch_max(position, Ordering::Relaxed);
        }
        next.map(|(_, next)| next.id)
    }
}
