//! Hashes short enough to lie in a hash table.

use core::hash::{BuildHasher, Hash};

/// A hash of 32 bits, for the entries of a hash table that keeps its keys elsewhere.
///
/// A table that grows needs the hash of each entry again. With the hash beside the entry it reads no key;
/// keys lie all over the memory, so each read would be a wait. The hash also tells nearly all keys apart,
/// so that a search reads one key only. Among a million keys, about 230 share their hash with another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHash(u32);

impl ShortHash {
    /// The hash of `key` by `state`.
    #[inline]
    pub fn of(state: &impl BuildHasher, key: impl Hash) -> Self {
        let [a, b, c, d, e, f, g, h] = state.hash_one(key).to_le_bytes();
        // Uses both halves, because a fast hasher may mix one of them less.
        Self(u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h]))
    }

    /// The number itself, as the hash of a key that is a number. No two keys share a hash.
    #[inline]
    pub const fn of_number(number: u32) -> Self {
        Self(number)
    }

    /// Spreads the hash over 64 bits, because a table takes an entry's place from the lowest bits and its tag
    /// from the highest.
    #[inline]
    pub fn spread(self) -> u64 {
        // The odd number next to 2^64 divided by the golden ratio.
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use foldhash::{fast::SeedableRandomState, SharedSeed};
    use std::collections::HashSet;

    #[test]
    fn places_and_tags_are_spread() {
        // A fixed seed, because even perfect hashes leave a place empty in one of 2,000 states.
        let state = SeedableRandomState::with_seed(0, SharedSeed::global_fixed());
        let hashes = (0..1_u32 << 16).map(|key| ShortHash::of(&state, key).spread());
        let (mut all, mut places, mut tags) = (HashSet::new(), HashSet::new(), HashSet::new());
        for hash in hashes {
            all.insert(hash);
            places.insert(hash % (1 << 12));
            tags.insert(hash >> 57);
        }
        // On average, two keys of 2^16 share a hash in every second state.
        assert!(all.len() + 16 > 1 << 16, "{}", all.len());
        assert_eq!((places.len(), tags.len()), (1 << 12, 1 << 7));
        let numbers = (0..1 << 12).map(|number| ShortHash::of_number(number).spread());
        let (places, tags): (HashSet<_>, HashSet<_>) =
            numbers.map(|hash| (hash % (1 << 12), hash >> 57)).unzip();
        assert_eq!((places.len(), tags.len()), (1 << 12, 1 << 7));
        assert_eq!(ShortHash::of(&state, 7_u32), ShortHash::of(&state, 7_u32));
    }
}
