//! Hashes: node hashes, and state roots.

#[cfg(has_avx512)]
mod avx512;
mod hashing;
#[cfg(any(has_avx512, test))]
mod lanes;
mod many;
mod portable;

pub use hashing::{HashFunction, HashMode, Hashing, UnsupportedMode};

use povmeter_primitives::{NodeHash, HASH_LENGTH};

/// Blake2b with 32 bytes of output, unkeyed: the hash function of every state trie handled here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blake2b256;

impl Blake2b256 {
    /// Hash of `data`.
    pub fn hash(data: &[u8]) -> NodeHash {
        portable::hash(data)
    }
}

impl hash_db::Hasher for Blake2b256 {
    type Out = NodeHash;
    type StdHasher = hash256_std_hasher::Hash256StdHasher;
    const LENGTH: usize = HASH_LENGTH;

    fn hash(data: &[u8]) -> NodeHash {
        Blake2b256::hash(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use blake2::digest::{consts::U32, Digest};

    #[test]
    fn agrees_with_an_independent_implementation() {
        for length in [0, 1, 31, 32, 33, 64, 127, 128, 129, 255, 256, 257, 1000] {
            let data: alloc::vec::Vec<u8> = (0..length).map(|i| (i * 7 % 251) as u8).collect();
            let expected: [u8; 32] = blake2::Blake2b::<U32>::digest(&data).into();
            assert_eq!(
                Blake2b256::hash(&data),
                NodeHash::from(expected),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn empty_root_is_the_hash_of_the_null_node() {
        assert_eq!(Root::EMPTY.node_hash(), Blake2b256::hash(&[0]));
    }
}
