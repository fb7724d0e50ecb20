//! The bytes of all keys.

use crate::index::index;
use alloc::vec::Vec;

/// Keys, one behind the other. None ever goes, so each is found at the same place as long as the
/// overlay lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
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
    pub(crate) fn push(&mut self, key: &[u8]) -> KeyAt {
        let start = self.bytes.len().next_multiple_of(UNIT);
        self.bytes.reserve(start - self.bytes.len() + key.len());
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(key);
        KeyAt {
            at: index(start / UNIT),
            len: index(key.len()),
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: KeyAt) -> &[u8] {
        &self.bytes[key.at as usize * UNIT..][..key.len as usize]
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets all keys; keeps up to `most_bytes` of memory.
    pub(crate) fn reset(&mut self, most_bytes: usize) {
        let Self { bytes } = self;
        bytes.clear();
        bytes.shrink_to(most_bytes);
    }
}
