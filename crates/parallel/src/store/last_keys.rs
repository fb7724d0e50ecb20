//! The numbers of the keys that one thread has used last.

use super::keys::{HashedKey, KeyId, Keys, TrieNumber};
use povmeter_primitives::{ShortHash, TrieId};

/// Finds numbers as [`Keys::number`] does, and those of keys that were used lately without it.
///
/// All threads look into the tables of [`Keys`], which takes a lock each time, and beside a key lies who writes it. So
/// for a key that every transaction uses, such as the number of events, both go from core to core with each look.
/// What lies here belongs to the thread, but for the bytes of the keys, which nobody changes.
#[derive(Debug)]
pub(crate) struct LastKeys<'k> {
    keys: &'k Keys,
    /// Each key has one place, and takes it from the last one that was there.
    places: Box<[Option<LastKey<'k>>; PLACES]>,
}

#[derive(Clone, Copy, Debug)]
struct LastKey<'k> {
    trie: TrieNumber,
    hash: ShortHash,
    id: KeyId,
    bytes: &'k [u8],
}

/// 16 KiB, in memory that a core has beside it.
const PLACES: usize = 512;

impl<'k> LastKeys<'k> {
    pub(crate) fn new(keys: &'k Keys) -> Self {
        Self {
            keys,
            places: Box::new([None; PLACES]),
        }
    }

    /// The number of `key`, as of [`Keys::number`].
    pub(crate) fn number(&mut self, trie: TrieId<'_>, key: &[u8]) -> KeyId {
        let named = self.keys.hashed(trie, key);
        let HashedKey { trie, bytes, hash } = named;
        // Of the highest bits, which are those that spread best.
        let place = &mut self.places[(hash.spread() >> 48) as usize % PLACES];
        if let Some(last) = place {
            if (last.hash, last.trie) == (hash, trie) && last.bytes == bytes {
                return last.id;
            }
        }
        let id = self.keys.number_hashed(named);
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

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
mod tests {
    use super::*;
    use povmeter::TrieId::{Child, Top};

    /// More keys than places, in two tries, in turn with those that were used before.
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
            let numbered = one.places.iter().flatten().count();
            let expected = (PLACES / 2).min(KEYS);
            assert!(numbered > expected, "{numbered} in round {round}");
        }
    }
}
