//! The numbers of the keys that one thread has used last.

use super::keys::{HashedKey, KeyId, Keys, TrieNumber, UnusedNumbers};
use povmeter_primitives::{ShortHash, TrieId};

/// Finds numbers as [`Keys::number`] does, but without it for keys that were used lately.
///
/// All threads use the tables of [`Keys`], where each look-up takes a lock, and the writers of a key lie beside the
/// key. So for a key that every transaction uses, such as the number of events, both move from core to core with each
/// look-up. The data here belongs to one thread, except for the bytes of the keys, which never change.
#[derive(Debug)]
pub(crate) struct LastKeys<'k> {
    keys: &'k Keys,
    unused: UnusedNumbers,
    /// Each key has one place, where it replaces the key before. Made for the first key, because the thread of a
    /// block in order looks up none.
    places: Option<Box<Places<'k>>>,
}

type Places<'k> = [Option<LastKey<'k>>; PLACES];

#[derive(Clone, Copy, Debug)]
struct LastKey<'k> {
    trie: TrieNumber,
    hash: ShortHash,
    id: KeyId,
    bytes: &'k [u8],
}

/// The places take 16 KiB, which a core's cache can hold.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 9;

impl<'k> LastKeys<'k> {
    pub(crate) fn new(keys: &'k Keys) -> Self {
        Self {
            keys,
            unused: UnusedNumbers::default(),
            places: None,
        }
    }

    /// Returns the keys of all threads.
    pub(crate) fn all(&self) -> &'k Keys {
        self.keys
    }

    /// Returns the number of `key`, as [`Keys::number`] does.
    pub(crate) fn number(&mut self, trie: TrieId<'_>, key: &[u8]) -> KeyId {
        let named = self.keys.hashed(trie, key);
        let HashedKey { trie, bytes, hash } = named;
        let places = self.places.get_or_insert_with(no_places);
        // The highest bits are spread best.
        let place = &mut places[(hash.spread() >> (u64::BITS - PLACE_BITS)) as usize];
        if let Some(last) = place {
            if (last.hash, last.trie) == (hash, trie) && last.bytes == bytes {
                return last.id;
            }
        }
        let unused = || self.unused.take(self.keys);
        let id = self.keys.number_hashed(named, unused);
        let bytes = &self.keys.key(id).bytes;
        *place = Some(LastKey {
            trie,
            hash,
            id,
            bytes,
        });
        id
    }
}

/// A function of its own, because one with 16 KiB on its stack touches each page of them at each call.
#[cold]
#[inline(never)]
fn no_places<'k>() -> Box<Places<'k>> {
    Box::new([None; PLACES])
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
mod tests {
    use super::*;
    use povmeter::TrieId::{Child, Top};
    use std::collections::HashMap;

    /// More keys than places, in two tries, alternating with keys that were used before.
    #[test]
    fn numbers_are_those_of_all_threads() {
        const KEYS: usize = if cfg!(miri) { 20 } else { 2 * PLACES };
        let keys = Keys::default();
        let (mut one, mut other) = (LastKeys::new(&keys), LastKeys::new(&keys));
        for round in 0..2 {
            for number in 0..KEYS {
                for trie in [Top, Child(b"child")] {
                    for used in [number, number / 2, number % 7] {
                        let key = used.to_le_bytes();
                        let id = one.number(trie, &key);
                        assert_eq!(id, keys.number(trie, &key));
                        assert_eq!(id, other.number(trie, &key));
                        let named = keys.key(id);
                        assert_eq!((keys.trie(named.trie), &named.bytes[..]), (trie, &key[..]));
                    }
                }
            }
            let numbered = one.places.iter().flat_map(|places| places.iter().flatten());
            let numbered = numbered.count();
            let expected = (PLACES / 2).min(KEYS);
            assert!(numbered > expected, "{numbered} in round {round}");
        }
    }

    /// Enough keys for some to share a hash of 32 bits.
    #[test]
    #[cfg_attr(miri, ignore = "hashes too many keys")]
    fn keys_of_one_hash_are_told_apart() {
        let keys = Keys::default();
        let mut last = LastKeys::new(&keys);
        let (mut by_hash, mut shared) = (HashMap::new(), 0);
        for number in 0..300_000_u32 {
            let key = number.to_le_bytes();
            let Some(other) = by_hash.insert(keys.hashed(Top, &key).hash.spread(), key) else {
                continue;
            };
            shared += 1;
            let ids = [last.number(Top, &other), last.number(Top, &key)];
            assert_eq!(ids, [other, key].map(|key| keys.number(Top, &key)));
            assert_ne!(ids[0], ids[1]);
        }
        // About ten are expected by chance.
        assert!(shared > 0);
    }
}
