//! The keys that transactions write, in order.

use super::keys::{KeyId, Keys, TrieNumber};
use super::writers::index;
use crate::sync::{lock, read, write, Mutex, RwLock};
use std::{collections::BTreeMap, ops::Bound};

/// All keys that were ever written, ordered by key, for the next key after a key. One tree for a trie, not
/// one for a key, and nothing is sorted before somebody asks.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// Written for the first time since the trees were last asked.
    fresh: Mutex<Vec<KeyId>>,
    /// By number of the trie.
    sorted: RwLock<Vec<BTreeMap<Box<[u8]>, KeyId>>>,
}

impl Default for Ordered {
    fn default() -> Self {
        Self {
            fresh: Mutex::new(Vec::new()),
            sorted: RwLock::new(Vec::new()),
        }
    }
}

impl Ordered {
    /// Adds a key. One that is added again is no second key.
    pub(crate) fn add(&self, key: KeyId) {
        lock(&self.fresh).push(key);
    }

    /// The first key of `trie` after `after` that was added.
    pub(crate) fn next(&self, keys: &Keys, trie: TrieNumber, after: &[u8]) -> Option<KeyId> {
        self.sort_fresh(keys);
        let sorted = read(&self.sorted);
        let bounds = (Bound::Excluded(after), Bound::Unbounded);
        let mut range = sorted.get(index(trie))?.range::<[u8], _>(bounds);
        range.next().map(|(_, id)| *id)
    }

    fn sort_fresh(&self, keys: &Keys) {
        let mut fresh = lock(&self.fresh);
        if fresh.is_empty() {
            return;
        }
        let mut sorted = write(&self.sorted);
        for id in fresh.drain(..) {
            let key = keys.key(id);
            if sorted.len() <= index(key.trie) {
                sorted.resize_with(index(key.trie) + 1, BTreeMap::new);
            }
            sorted[index(key.trie)].insert(key.bytes.clone(), id);
        }
    }
}
