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
    sorted: RwLock<Vec<BTreeMap<Box<[u8]>, KeyId>>>,
}

/// Keys that were written for the first time since the trees were last asked.
#[derive(Debug, Default)]
struct Fresh {
    keys: Vec<KeyId>,
    /// Whether the trees have the keys that were written before anybody asked.
    begun: bool,
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
    /// Adds a key whose lock the caller holds, because it has no writer so far. One that is added again is no second
    /// key. Returns the highest position that may have asked before the key was there; zero, if none has.
    pub(crate) fn add(&self, key: KeyId) -> u32 {
        if self.asked.load(Ordering::Relaxed) == 0 {
            // Who asks for the first time notes so, and then looks at each key under its lock.
            return 0;
        }
        lock(&self.fresh).keys.push(key);
        // Any other one notes so before it takes the fresh keys: it finds this one, or is found here.
        self.asked.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// The first key of `trie` after `after` that was added, for a transaction at `position`.
    pub(crate) fn next(
        &self,
        keys: &Keys,
        position: u32,
        trie: TrieNumber,
        after: &[u8],
    ) -> Option<KeyId> {
        self.asked.fetch_max(position + 1, Ordering::Relaxed);
        self.sort_fresh(keys);
        let sorted = read(&self.sorted);
        let bounds = (Bound::Excluded(after), Bound::Unbounded);
        let mut range = sorted.get(index(trie))?.range::<[u8], _>(bounds);
        range.next().map(|(_, id)| *id)
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
            if sorted.len() <= index(key.trie) {
                sorted.resize_with(index(key.trie) + 1, BTreeMap::new);
            }
            sorted[index(key.trie)].insert(key.bytes.clone(), id);
        }
    }
}
