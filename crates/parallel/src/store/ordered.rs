//! The keys that transactions write, in order.

use super::keys::{KeyId, Keys, TrieNumber};
use super::writers::index;
use crate::sync::{
    atomic::{AtomicU32, Ordering},
    lock, read, write, Mutex, RwLock,
};
use std::{collections::BTreeMap, ops::Bound};

/// All keys that were ever written, ordered by key, for the next key after a key. One tree for a trie, not
/// one for a key, and nothing is noted or sorted before somebody asks.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// One above the highest position that has asked; zero, if nobody has.
    asked: AtomicU32,
    fresh: Mutex<Fresh>,
    /// By number of the trie.
    sorted: RwLock<Vec<Sorted>>,
}

/// Keys that are not in the trees yet: when they were written, nobody above had asked for a next key.
#[derive(Debug, Default)]
struct Fresh {
    keys: Vec<KeyId>,
    /// Whether the trees have the keys that were written before anybody asked.
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
    /// Adds a key that `position` writes, and whose lock the caller holds, because it has no writer so far. One that is
    /// added again is no second key. Returns the highest position that may have looked for it before it was there; zero,
    /// if none has.
    pub(crate) fn add(&self, keys: &Keys, id: KeyId, position: u32) -> u32 {
        if self.asked.load(Ordering::Relaxed) == 0 {
            // Who asks for the first time notes so, and then looks at each key under its lock.
            return 0;
        }
        {
            let mut fresh = lock(&self.fresh);
            // Who asks later takes this lock after it has noted so, and finds the key.
            let asked = self.asked.load(Ordering::Relaxed).saturating_sub(1);
            if asked <= position {
                fresh.keys.push(id);
                return asked;
            }
        }
        trie(&mut write(&self.sorted), keys.key(id).trie).add(&keys.key(id).bytes, id)
    }

    /// The first key of `trie` after `after` that was added, for a transaction at `position`.
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

    /// Sorts what was written, if somebody has ever asked, so that the next one who does need not.
    pub(crate) fn sort(&self, keys: &Keys) {
        if self.asked.load(Ordering::Relaxed) > 0 {
            self.sort_fresh(keys);
        }
    }

    fn sort_fresh(&self, keys: &Keys) {
        let mut fresh = lock(&self.fresh);
        if !fresh.begun {
            // Writers of a key take the lock of the fresh ones under that of the key.
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
    /// Adds a key, unless it is there. Returns the highest position that has asked for a key in the gap where it lies.
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

    /// The first key after `after`, for `position`.
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
