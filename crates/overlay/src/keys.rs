//! The bytes of all keys.

use crate::{byte_arena::ByteArena, index::index, key_table::short};

/// Keys, one behind the other. None is removed, so the place of a key is valid until the overlay is
/// reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    bytes: ByteArena,
}

/// The place and length of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyAt {
    /// In units of [`UNIT`] bytes.
    at: u32,
    len: u32,
}

/// The place of a key in bytes is a multiple of this.
const UNIT: usize = 8;

impl Keys {
    /// Copies a key into the arena.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8]) -> KeyAt {
        let start = self.bytes.taken().next_multiple_of(UNIT);
        self.bytes.take_to(start + key.len());
        self.bytes.get_mut()[start..][..key.len()].copy_from_slice(key);
        KeyAt {
            at: index(start / UNIT),
            len: index(key.len()),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: KeyAt) -> &[u8] {
        &self.bytes.get()[key.at as usize * UNIT..][..key.len as usize]
    }

    /// Whether the key at `at` is `key`.
    #[inline(always)]
    pub(crate) fn is(&self, at: KeyAt, key: &[u8]) -> bool {
        at.len as usize == key.len() && same(self.get(at), key)
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.memory()
    }

    /// Removes all keys; keeps up to `most_bytes` of memory.
    pub(crate) fn reset(&mut self, most_bytes: usize) {
        let Self { bytes } = self;
        bytes.reset(most_bytes);
    }
}

/// Whether two keys of the same length are the same.
///
/// Inline, because a comparison of slices calls `memcmp`, which does not pay for keys so short.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len >= 32 {
        same_part::<32>(a, b, len - 32)
            && (len <= 32 || same_part::<32>(a, b, 0))
            && (len <= 64 || same_part::<32>(a, b, 32))
            && (len <= 96 || same_middle(a, b))
    } else if len >= 16 {
        same_part::<16>(a, b, 0) && same_part::<16>(a, b, len - 16)
    } else {
        short(a) == short(b)
    }
}

#[inline(always)]
fn same_part<const LEN: usize>(a: &[u8], b: &[u8], at: usize) -> bool {
    a[at..].first_chunk::<LEN>() == b[at..].first_chunk()
}

/// Whether the bytes from 64 up to the last 32 are the same.
#[inline(always)]
fn same_middle(a: &[u8], b: &[u8]) -> bool {
    let mut at = 64;
    while at < a.len() - 32 {
        if !same_part::<32>(a, b, at) {
            return false;
        }
        at += 32;
    }
    true
}

#[cfg(test)]
impl Keys {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { bytes } = self;
        bytes.assert_as_new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn keys_that_differ_in_a_bit_differ() {
        for len in 0..140_u8 {
            let key: Vec<u8> = (0..len).collect();
            let mut keys = Keys::default();
            keys.push(b"before");
            let at = keys.push(&key);
            keys.push(b"behind");
            assert!(keys.is(at, &key));
            assert!(!keys.is(at, &[&key[..], &[0]].concat()));
            for bit in 0..usize::from(len) * 8 {
                let mut other = key.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!keys.is(at, &other), "{len}, {bit}");
            }
        }
    }
}
