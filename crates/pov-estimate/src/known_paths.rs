//! The keys whose paths reads have counted.
//!
//! A runtime reads most keys several times, and mostly before it writes them. From the first read on,
//! the place of the entry is known and all nodes on the path are counted. So later reads, and the
//! estimate of the key, cost a look-up in a hash table instead of a walk through the trie.

use alloc::vec::Vec;
use hashbrown::HashTable;
use povmeter_delta_root::{ShadowNode, TrieHandle};
use povmeter_primitives::{FastState, ShortHash};

/// Longer keys are not kept, so that a key takes no more memory than its path.
const LONGEST_KEY: usize = 256;

/// The keys that were read, in order, each with the entry found there.
#[derive(Debug, Default)]
pub(crate) struct KnownPaths {
    paths: Vec<KnownPath>,
    /// The bytes of all keys, one key after the other.
    keys: Vec<u8>,
    /// Indices of `paths` by key, each with its hash. It is never iterated, so no result depends on its random seeds.
    by_key: HashTable<(u32, ShortHash)>,
    seeds: FastState,
}

#[derive(Clone, Copy, Debug)]
struct KnownPath {
    trie: TrieHandle,
    /// Where the key begins and ends in `keys`.
    start: u32,
    end: u32,
    found: Option<ShadowNode>,
}

impl KnownPath {
    #[inline]
    fn leads_to(&self, trie: TrieHandle, key: &[u8], keys: &[u8]) -> bool {
        self.trie == trie && keys[self.start as usize..self.end as usize] == *key
    }
}

impl KnownPaths {
    /// Forgets all keys, and seeds the hasher anew; keeps memory for up to `most` keys.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            paths,
            keys,
            by_key,
            seeds,
        } = self;
        paths.clear();
        paths.shrink_to(most);
        keys.clear();
        keys.shrink_to(most.saturating_mul(LONGEST_KEY / 4));
        by_key.clear();
        by_key.shrink_to(most, |_| 0);
        *seeds = FastState::default();
    }

    /// How many keys are known.
    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// The entry found at `key`, `Some(None)` if there is none; `None` if the key is not known.
    #[inline]
    pub(crate) fn get(&self, trie: TrieHandle, key: &[u8]) -> Option<Option<ShadowNode>> {
        if self.paths.is_empty() || key.len() > LONGEST_KEY {
            return None;
        }
        let hash = hash_of(&self.seeds, trie, key);
        let matches = |(index, other): &(u32, ShortHash)| {
            *other == hash && self.paths[*index as usize].leads_to(trie, key, &self.keys)
        };
        let (index, _) = self.by_key.find(hash.spread(), matches)?;
        Some(self.paths[*index as usize].found)
    }

    /// Notes that the path to `key` is counted, and that it led to `found`. `key` must not be known yet.
    pub(crate) fn insert(&mut self, trie: TrieHandle, key: &[u8], found: Option<ShadowNode>) {
        // Keys beyond 4 GiB in all are not kept.
        let (Ok(start), Ok(end), Ok(index)) = (
            u32::try_from(self.keys.len()),
            u32::try_from(self.keys.len().saturating_add(key.len())),
            u32::try_from(self.paths.len()),
        ) else {
            return;
        };
        if key.len() > LONGEST_KEY {
            return;
        }
        let hash = hash_of(&self.seeds, trie, key);
        self.keys.extend_from_slice(key);
        self.paths.push(KnownPath {
            trie,
            start,
            end,
            found,
        });
        self.by_key
            .insert_unique(hash.spread(), (index, hash), |(_, hash)| hash.spread());
    }

    /// Forgets the keys after the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        while self.paths.len() > count {
            let Some(path) = self.paths.pop() else {
                return;
            };
            let key = &self.keys[path.start as usize..path.end as usize];
            let hash = hash_of(&self.seeds, path.trie, key);
            let last = self.paths.len();
            let entry = self
                .by_key
                .find_entry(hash.spread(), |(index, _)| *index as usize == last);
            if let Ok(entry) = entry {
                entry.remove();
            }
            self.keys.truncate(path.start as usize);
        }
    }
}

#[inline]
fn hash_of(seeds: &FastState, trie: TrieHandle, key: &[u8]) -> ShortHash {
    ShortHash::of(seeds, (trie.index(), key))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter_delta_root::{Blake2b256, NodeSource, Root, ShadowState, SourceError, TrieId};
    use rand::{rngs::SmallRng, Rng, SeedableRng};

    /// The root node of the state with an entry at the empty key.
    #[derive(Clone, Copy)]
    struct OneNode;

    const NODE: &[u8] = &[0x40, 0x04, 0x2a];

    impl NodeSource for OneNode {
        fn node(
            &self,
            _: &povmeter_delta_root::NodeHash,
            _: povmeter_delta_root::NodePrefix<'_>,
        ) -> Result<Option<bytes::Bytes>, SourceError> {
            Ok(Some(bytes::Bytes::from_static(NODE)))
        }
    }

    /// A node of a real trie, because only a shadow trie makes nodes.
    fn some_node() -> ShadowNode {
        let root = Root::from(*Blake2b256::hash(NODE).as_bytes());
        let mut state = ShadowState::new(OneNode, root);
        let found = state.find(TrieHandle::TOP, &[], &mut ());
        assert!(state.exists(TrieId::Top, &[], &mut ()).unwrap());
        found.unwrap().unwrap()
    }

    #[test]
    fn what_was_read_is_known_until_it_is_taken_back() {
        let node = some_node();
        let mut dice = SmallRng::seed_from_u64(1);
        let mut paths = KnownPaths::default();
        let mut model: Vec<(Vec<u8>, Option<ShadowNode>)> = Vec::new();
        for round in 0..20_000 {
            let length = [0, 1, 2, 32, LONGEST_KEY, LONGEST_KEY + 1][dice.random_range(0..6)];
            let mut key = alloc::vec![0; length];
            key.iter_mut()
                .take(2)
                .for_each(|byte| *byte = dice.random_range(0..40));
            let known = model.iter().find(|(other, _)| *other == key);
            let known = known.map(|(_, found)| *found);
            assert_eq!(paths.get(TrieHandle::TOP, &key), known, "{round}");
            if known.is_none() && length <= LONGEST_KEY {
                let found = dice.random_bool(0.5).then_some(node);
                paths.insert(TrieHandle::TOP, &key, found);
                model.push((key, found));
            } else if dice.random_ratio(1, 50) {
                let count = dice.random_range(0..=model.len());
                paths.truncate(count);
                model.truncate(count);
            } else if dice.random_ratio(1, 2_000) {
                paths.reset(1 << 16);
                model.clear();
            }
            assert_eq!(paths.len(), model.len());
        }
    }

    #[test]
    fn a_long_key_is_not_kept() {
        let mut paths = KnownPaths::default();
        let key = [0; LONGEST_KEY + 1];
        paths.insert(TrieHandle::TOP, &key, None);
        assert_eq!(paths.get(TrieHandle::TOP, &key), None);
        paths.insert(TrieHandle::TOP, &key[1..], None);
        assert_eq!(paths.get(TrieHandle::TOP, &key[1..]), Some(None));
    }
}
