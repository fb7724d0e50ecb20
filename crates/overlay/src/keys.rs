//! The bytes of all keys.

use crate::{bytes::Bytes, index::index};

/// Keys, one behind the other. None ever goes, so each is found at the same place as long as the
/// overlay lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    bytes: Bytes,
}

/// Where a key lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyAt {
    /// In units.
    at: u32,
    len: u32,
}

/// Bytes that the place of a key is a multiple of.
const UNIT: usize = 8;

impl Keys {
    /// Takes in a key.
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

    #[inline]
    pub(crate) fn get(&self, key: KeyAt) -> &[u8] {
        &self.bytes.get()[key.at as usize * UNIT..][..key.len as usize]
    }

    /// Whether that is `key`; of a short key, no is no answer.
    #[inline(always)]
    pub(crate) fn is_surely(&self, at: KeyAt, key: &[u8]) -> bool {
        at.len as usize == key.len() && surely_same(self.get(at), key)
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.memory()
    }

    /// Forgets all keys; keeps up to `most_bytes` of memory.
    pub(crate) fn reset(&mut self, most_bytes: usize) {
        let Self { bytes } = self;
        bytes.reset(most_bytes);
    }
}

/// Whether two keys of the same length are the same; keys of less than 16 bytes never are.
///
/// Without the call that comparing slices is: keys are too short for it to pay.
#[inline(always)]
fn surely_same(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    let same = |at: usize| part::<32>(a, at) == part::<32>(b, at);
    if len >= 32 {
        same(len - 32)
            && (len <= 32 || same(0))
            && (len <= 64 || same(32))
            && (len <= 96 || (64..len - 32).step_by(32).all(same))
    } else {
        len >= 16
            && part::<16>(a, 0) == part::<16>(b, 0)
            && part::<16>(a, len - 16) == part::<16>(b, len - 16)
    }
}

#[inline(always)]
fn part<const LEN: usize>(key: &[u8], at: usize) -> Option<&[u8; LEN]> {
    key[at..].first_chunk()
}

#[cfg(test)]
impl Keys {
    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { bytes } = self;
        bytes.assert_as_new();
    }
}
