//! The hash of a key, keyed.
//!
//! ```text
//! hash = length * seed  xor  fold(words 0, 1 of the key)  xor  fold(words 2, 3)  xor  ...
//! fold(a, b) of pair i:      (a xor seed[2i]) * (b xor seed[2i + 1]), 128 bits, halves joined by xor
//! the last pair:             the last 16 bytes, which may overlap with the pair before
//! ```
//!
//! The products do not wait for each other, which is where the speed comes from: a key of 80 bytes
//! takes about as long as two products in a row. Longer keys than there are seeds for are hashed in
//! parts, each together with the hash of those before.
//!
//! Who does not know the seeds can't prepare keys that collide: two keys that differ in a word of a
//! pair collide for few of all seeds of that pair. The seeds are drawn anew for each overlay.

use core::hash::BuildHasher;
use foldhash::fast::RandomState;

/// Pairs of words that have seeds of their own: 128 bytes, more than most keys have.
const PAIRS: usize = 8;
const PAIR_BYTES: usize = 16;
/// Bytes by which a runtime names a storage item.
const NAME_BYTES: usize = 32;
/// Bytes that are hashed at once.
const MOST_BYTES: usize = (PAIRS + 1) * PAIR_BYTES;

/// The seeds of a hash; none that are of use by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyHash {
    pairs: [[u64; 2]; PAIRS],
    last: [u64; 2],
    length: u64,
    glance: [u64; 2],
}

impl KeyHash {
    /// With seeds of its own.
    pub(crate) fn drawn() -> Self {
        let random = RandomState::default();
        Self::seeded(|word| random.hash_one(word))
    }

    fn seeded(mut seed: impl FnMut(u64) -> u64) -> Self {
        let mut word = 0;
        let mut draw = || {
            word += 1;
            seed(word)
        };
        Self {
            pairs: [(); PAIRS].map(|()| [draw(), draw()]),
            last: [draw(), draw()],
            // A product with an even number would lose a bit.
            length: draw() | 1,
            glance: [draw(), draw()],
        }
    }

    /// A hash of 16 bytes of `key`, or of all of a shorter one.
    ///
    /// Those where keys of a runtime differ: the last 8, and the 8 behind the 32 that name a storage
    /// item, where a map has the hash of its first key.
    #[inline(always)]
    pub(crate) fn glance(&self, key: &[u8]) -> u32 {
        let words = match key.len().checked_sub(PAIR_BYTES) {
            Some(before) => [word(key, before.min(NAME_BYTES)), word(key, key.len() - 8)],
            None => short(key),
        };
        let [a, b, c, d, ..] = fold_pair(words, self.glance).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// The hash of `key`.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u32 {
        let hash = (key.len() as u64).wrapping_mul(self.length);
        let hash = if key.len() <= PAIR_BYTES {
            hash ^ fold_pair(short(key), self.last)
        } else if key.len() <= MOST_BYTES {
            hash ^ self.pairs_of(key)
        } else {
            self.long(hash, key)
        };
        // The high half of a product depends on all bits, as the low bits of a fold do not.
        let [.., a, b, c, d] = hash.wrapping_mul(self.length).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Of a key of more than 16 bytes: pairs up to the last, which ends where the key does.
    #[inline(always)]
    fn pairs_of(&self, key: &[u8]) -> u64 {
        let start = key.len() - PAIR_BYTES;
        let last = fold_pair([word(key, start), word(key, start + 8)], self.last);
        let before = key[..start + PAIR_BYTES - 1].chunks_exact(PAIR_BYTES);
        before.zip(&self.pairs).fold(last, |hash, (pair, seeds)| {
            hash ^ fold_pair([word(pair, 0), word(pair, 8)], *seeds)
        })
    }

    #[cold]
    fn long(&self, mut hash: u64, key: &[u8]) -> u64 {
        let mut rest = key;
        while let Some((part, more)) = rest.split_at_checked(MOST_BYTES) {
            hash = fold(hash ^ self.pairs_of(part), self.length);
            rest = more;
        }
        // The last bytes once more, some of them a third time.
        hash ^ self.pairs_of(&key[key.len() - MOST_BYTES..])
    }
}

/// All of a key of up to 16 bytes, some of them twice.
#[inline(always)]
pub(crate) fn short(key: &[u8]) -> [u64; 2] {
    let half = |at: usize| {
        let bytes = key[at..].first_chunk().copied();
        u64::from(u32::from_le_bytes(bytes.unwrap_or_default()))
    };
    match key.len() {
        0 => [0, 0],
        len @ 1..4 => [
            u64::from(key[0]),
            u64::from(key[len / 2]) << 8 | u64::from(key[len - 1]),
        ],
        len @ 4..8 => [half(0), half(len - 4)],
        len => [word(key, 0), word(key, len - 8)],
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..].first_chunk().copied();
    u64::from_le_bytes(word.unwrap_or_default())
}

#[inline(always)]
fn fold_pair([a, b]: [u64; 2], [seed_a, seed_b]: [u64; 2]) -> u64 {
    fold(a ^ seed_a, b ^ seed_b)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = (u128::from(a) * u128::from(b)).to_le_bytes();
    word(&product, 0) ^ word(&product, 8)
}

#[cfg(test)]
impl KeyHash {
    /// Seeds that a test knows.
    pub(crate) fn known(start: u64) -> Self {
        let mut state = start;
        Self::seeded(|_| {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            fold(state, 0x9e37_79b9_7f4a_7c15)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeSet, vec::Vec};

    /// How many buckets of 2^14 the keys fall into.
    fn buckets(hash: &KeyHash, keys: &[Vec<u8>]) -> usize {
        let buckets = keys.iter().map(|key| hash.hash(key) % (1 << 14));
        buckets.collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn every_byte_counts() {
        let hash = KeyHash::known(1);
        for len in 0..300 {
            let key: Vec<u8> = (0..len).map(|at: u32| at.to_le_bytes()[0]).collect();
            let mut others = BTreeSet::from([hash.hash(&key)]);
            for at in 0..key.len() {
                for bit in 0..8 {
                    let mut other = key.clone();
                    other[at] ^= 1 << bit;
                    others.insert(hash.hash(&other));
                }
            }
            let distinct = 8 * key.len() + 1;
            assert!(others.len() + 1 >= distinct, "{len}: {}", others.len());
            assert_ne!(
                hash.hash(&key),
                hash.hash(&[&key[..], &[0]].concat()),
                "{len}"
            );
        }
    }

    /// At least as well as by chance, by which 2,000 keys fall into 1,884 of 2^14 buckets.
    #[test]
    fn keys_that_are_alike_spread() {
        for len in [8, 16, 19, 32, 44, 80, 130, 200] {
            for at in [0, 3, len / 2, len - 4] {
                let keys: Vec<_> = (0..2_000_u32)
                    .map(|i| {
                        let mut key = alloc::vec![0; len];
                        key[at..at + 4].copy_from_slice(&i.to_le_bytes());
                        key
                    })
                    .collect();
                let buckets = buckets(&KeyHash::known(2), &keys);
                assert!(buckets > 1_820, "{len}, {at}: {buckets}");
            }
        }
    }

    /// Who knows the seeds can make all keys collide; under other seeds these are keys like any.
    #[test]
    fn keys_made_to_collide_do_so_under_their_seeds_only() {
        let attacked = KeyHash::known(3);
        let mut counter = 0_u64;
        let mut key = || loop {
            counter += 1;
            let key = [&[7; 24][..], &counter.to_le_bytes()].concat();
            if attacked.hash(&key).is_multiple_of(1 << 14) {
                return key;
            }
        };
        let keys: Vec<_> = (0..500).map(|_| key()).collect();
        assert_eq!(buckets(&attacked, &keys), 1);
        for hash in [KeyHash::known(4), KeyHash::drawn(), KeyHash::drawn()] {
            let buckets = buckets(&hash, &keys);
            assert!(buckets > 450, "{buckets}");
        }
    }
}
