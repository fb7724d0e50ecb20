//! The path of a node in the state, as a number.

use foldhash::quality::RandomState;
use povmeter_delta_root::NodePrefix;
use povmeter_primitives::NodeHash;
use std::hash::{BuildHasher, Hasher};

/// The hash of a path, keyed with a secret of the cache. Two paths with the same hash share a place. That
/// costs only hits, because a node is identified by its own hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathKey(u64);

impl PathKey {
    pub(crate) fn new(state: &RandomState, (bytes, odd_nibble): NodePrefix<'_>) -> Self {
        let mut hasher = state.build_hasher();
        hasher.write(bytes);
        // An odd nibble lies in the high half of its byte, so 1 is no nibble.
        hasher.write_u8(odd_nibble.unwrap_or(1));
        Self(hasher.finish())
    }

    /// The place of the node at the path.
    pub(crate) fn path(self) -> u64 {
        self.0
    }

    /// Returns the place of node `hash` if another node has the first place: a node of another fork, or a
    /// value and its leaf without a partial key.
    pub(crate) fn second(self, hash: &NodeHash) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        self.0 ^ (u64::from_le_bytes(first) | 1)
    }

    /// Returns one of `count` parts, chosen by the path alone.
    pub(crate) fn part(self, count: usize) -> usize {
        // The product is below the count times 2^32.
        (((self.0 >> 32) * count as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_differ_by_bytes_and_nibble() {
        let state = RandomState::default();
        let key = |prefix| PathKey::new(&state, prefix);
        let all: [NodePrefix<'_>; 6] = [
            (&[], None),
            (&[], Some(0)),
            (&[], Some(0x10)),
            (&[0], None),
            (&[1], None),
            (&[0, 0], Some(0xf0)),
        ];
        for (at, first) in all.iter().enumerate() {
            for (other, second) in all.iter().enumerate() {
                assert_eq!(key(*first) == key(*second), at == other);
            }
        }
        let [first, second] = [[1; 32], [2; 32]].map(NodeHash::from);
        let root = key((&[], None));
        assert_ne!(root.path(), root.second(&first));
        assert_ne!(root.second(&second), root.second(&first));
        assert!((0..100_u8).all(|byte| PathKey::new(&state, (&[byte], None)).part(7) < 7));
        assert_eq!(PathKey(u64::MAX).part(7), 6);
    }
}
