//! A fast hasher for tries that are dropped.

use sp_core::H256;
use std::hash::DefaultHasher;

/// A fast hasher of 32 bytes: one rapidhash, spread out. Not cryptographic.
///
/// Two hashes collide about as often as two 64-bit hashes: practically never by accident, but easily
/// on purpose. Use it only for tries that are never published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FakeHasher;

impl hash_db::Hasher for FakeHasher {
    type Out = H256;
    type StdHasher = DefaultHasher;
    const LENGTH: usize = 32;

    fn hash(bytes: &[u8]) -> H256 {
        let hash = rapidhash::v3::rapidhash_v3(bytes);
        let mut out = H256::zero();
        for (chunk, turn) in out.0.chunks_exact_mut(8).zip([0, 13, 29, 43]) {
            chunk.copy_from_slice(&hash.rotate_left(turn).to_le_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hash_db::Hasher;

    #[test]
    fn different_nodes_differ_in_every_part_of_the_hash() {
        let (a, b) = (FakeHasher::hash(b"a"), FakeHasher::hash(b"b"));
        for part in 0..4 {
            assert_ne!(a.0[part * 8..][..8], b.0[part * 8..][..8]);
        }
    }
}
