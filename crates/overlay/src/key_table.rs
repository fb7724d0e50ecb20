//! Key to id.

use core::hash::{BuildHasher, Hasher};
use foldhash::fast::RandomState;
use hashbrown::hash_table::{Entry, HashTable};

/// A hash table from keys to the ids under which somebody else keeps them.
///
/// The hasher is seeded anew for each table, so that keys that collide cannot be prepared outside the
/// process. Nothing reads the table in its own order, so the seed shows in no result.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    ids: HashTable<usize>,
    hasher: RandomState,
}

impl KeyTable {
    /// The id of `key`.
    #[inline]
    pub(crate) fn find<'k>(&self, key: &[u8], key_of: impl Fn(usize) -> &'k [u8]) -> Option<usize> {
        self.ids
            .find(hash(&self.hasher, key), |&id| key_of(id) == key)
            .copied()
    }

    /// The id of `key`, which is `fresh` if the table did not have the key.
    #[inline]
    pub(crate) fn find_or_insert<'k>(
        &mut self,
        key: &[u8],
        fresh: usize,
        key_of: impl Fn(usize) -> &'k [u8],
    ) -> usize {
        let hasher = &self.hasher;
        let entry = self.ids.entry(
            hash(hasher, key),
            |&id| key_of(id) == key,
            |&id| hash(hasher, key_of(id)),
        );
        match entry {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(vacant) => *vacant.insert(fresh).get(),
        }
    }
}

#[inline]
fn hash(hasher: &RandomState, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(key);
    state.finish()
}
