//! Keys and partial keys, nibble by nibble.
//!
//! A key of n bytes is a path of 2n nibbles, high half first. A node stores its partial key right
//! aligned: with an odd count the first byte holds one nibble, in its low half.

use core::cmp::Ordering;

/// Nibbles in a key of `bytes` bytes.
pub(crate) fn count(key: &[u8]) -> usize {
    key.len() * 2
}

/// Nibble `index` of `key`; the caller has checked that it is there.
pub(crate) fn at(key: &[u8], index: usize) -> u8 {
    let byte = key[index / 2];
    if index.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 0x0f
    }
}

/// A partial key as a node stores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Partial<'a> {
    /// The partial key of `count` nibbles in `bytes`, which are as many bytes as it needs.
    pub(crate) fn new(bytes: &'a [u8], count: usize) -> Self {
        debug_assert_eq!(bytes.len(), count.div_ceil(2));
        Self { bytes, count }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Nibble `index`, which is below [`Self::len`].
    pub(crate) fn at(&self, index: usize) -> u8 {
        at(self.bytes, index + self.count % 2)
    }

    /// Whether `key` goes on with this partial key at nibble `depth`.
    pub(crate) fn is_prefix_at(&self, key: &[u8], depth: usize) -> bool {
        if depth + self.count > count(key) {
            return false;
        }
        let odd = self.count % 2;
        if depth % 2 != odd {
            // Halves of bytes lie across each other. Rare: hashed keys end in leaves whose
            // remaining path is as odd as the depth is.
            return (0..self.count).all(|index| self.at(index) == at(key, depth + index));
        }
        let whole = &key[depth.div_ceil(2)..][..self.count / 2];
        (odd == 0 || self.bytes[0] == at(key, depth)) && &self.bytes[odd..] == whole
    }

    /// How many nibbles, from nibble `skip` on, are what `key` holds from nibble `depth` on.
    pub(crate) fn shared_at(&self, skip: usize, key: &[u8], depth: usize) -> usize {
        let rest = count(key).saturating_sub(depth);
        let most = rest.min(self.count - skip);
        (0..most)
            .take_while(|index| self.at(skip + index) == at(key, depth + index))
            .count()
    }

    /// How this partial key compares with what `key` holds from nibble `depth` on: `Equal` also
    /// where the partial key is a prefix of it or it of the partial key; the second result is the
    /// number of nibbles in common.
    pub(crate) fn compare_at(&self, key: &[u8], depth: usize) -> (Ordering, usize) {
        let rest = count(key).saturating_sub(depth);
        for index in 0..self.count.min(rest) {
            match self.at(index).cmp(&at(key, depth + index)) {
                Ordering::Equal => {}
                unequal => return (unequal, index),
            }
        }
        (Ordering::Equal, self.count.min(rest))
    }
}

/// A path built up and taken back nibble by nibble.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    nibbles: alloc::vec::Vec<u8>,
}

impl Path {
    pub(crate) fn len(&self) -> usize {
        self.nibbles.len()
    }

    pub(crate) fn push(&mut self, nibble: u8) {
        self.nibbles.push(nibble);
    }

    pub(crate) fn push_partial(&mut self, partial: Partial<'_>) {
        self.nibbles
            .extend((0..partial.len()).map(|index| partial.at(index)));
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.nibbles.truncate(length);
    }

    /// One byte for each nibble: compares as the paths do in a walk through the trie.
    pub(crate) fn into_nibbles(self) -> alloc::vec::Vec<u8> {
        self.nibbles
    }

    /// The path as a key: whole bytes, and a last nibble in a high half if one is left over.
    pub(crate) fn to_key(&self) -> (alloc::vec::Vec<u8>, Option<u8>) {
        let pairs = self.nibbles.chunks_exact(2);
        let odd = pairs.remainder().first().map(|nibble| nibble << 4);
        (pairs.map(|pair| pair[0] << 4 | pair[1]).collect(), odd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn partial_of(nibbles: &[u8]) -> Vec<u8> {
        let mut padded = Vec::new();
        if nibbles.len() % 2 == 1 {
            padded.push(0);
        }
        padded.extend_from_slice(nibbles);
        padded
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    #[test]
    fn prefix_test_agrees_with_nibble_vectors() {
        let key = [0x12, 0x34, 0x12, 0x34, 0x56];
        let all: Vec<u8> = (0..10).map(|index| at(&key, index)).collect();
        for depth in 0..=10 {
            for length in 0..=10usize {
                for start in 0..(10usize.saturating_sub(length) + 1) {
                    let nibbles = &all[start..(start + length).min(10)];
                    let bytes = partial_of(nibbles);
                    let partial = Partial::new(&bytes, nibbles.len());
                    let rest = &all[depth..];
                    assert_eq!(partial.is_prefix_at(&key, depth), rest.starts_with(nibbles));
                    let common = nibbles.iter().zip(rest).take_while(|(a, b)| a == b).count();
                    let expected = if common == nibbles.len().min(rest.len()) {
                        Ordering::Equal
                    } else {
                        nibbles.cmp(rest)
                    };
                    assert_eq!(partial.compare_at(&key, depth), (expected, common));
                }
            }
        }
    }

    #[test]
    fn path_turns_into_a_prefix() {
        let mut path = Path::default();
        path.push(0xa);
        assert_eq!(path.to_key(), (Vec::new(), Some(0xa0)));
        path.push_partial(Partial::new(&[0x01, 0x23], 3));
        assert_eq!(path.to_key(), ([0xa1, 0x23].to_vec(), None));
        path.truncate(3);
        assert_eq!(path.to_key(), ([0xa1].to_vec(), Some(0x20)));
    }
}
