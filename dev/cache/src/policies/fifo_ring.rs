//! A ring of bytes, first in, first out: what fastcache does, without its fixed pieces of memory.

use super::keyed::{HashKey, Key, Unshared};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Bytes of an entry before its value: a length and a key.
const HEADER_BYTES: usize = 36;

/// Where each value begins, by some bits of its key, and the ring.
pub(crate) struct FifoRing {
    places: HashMap<u64, u32, RandomState>,
    bytes: Box<[u8]>,
    tail: usize,
    head: usize,
    /// The end of the entries after the tail, while the head is before the tail.
    wrapped_at: Option<usize>,
}

impl FifoRing {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            places: HashMap::default(),
            bytes: vec![0; bytes].into(),
            tail: 0,
            head: 0,
            wrapped_at: None,
        }
    }

    fn length(&self, at: usize) -> usize {
        let mut length = [0; 4];
        length.copy_from_slice(&self.bytes[at..at + 4]);
        u32::from_le_bytes(length) as usize
    }

    fn key(&self, at: usize) -> &[u8] {
        &self.bytes[at + 4..at + HEADER_BYTES]
    }

    /// Removes the oldest value; `false` if there is none.
    fn pop(&mut self) -> bool {
        if self.wrapped_at.is_none() && self.tail == self.head {
            return false;
        }
        let at = self.tail;
        let mut key = [0; 32];
        key.copy_from_slice(self.key(at));
        if self
            .places
            .get(&key.bits())
            .is_some_and(|place| *place as usize == at)
        {
            self.places.remove(&key.bits());
        }
        self.tail += HEADER_BYTES + self.length(at);
        if self.wrapped_at == Some(self.tail) {
            (self.tail, self.wrapped_at) = (0, None);
        } else if self.wrapped_at.is_none() && self.tail == self.head {
            (self.tail, self.head) = (0, 0);
        }
        true
    }

    fn room(&self, length: usize) -> Option<usize> {
        match self.wrapped_at {
            Some(_) => (self.tail - self.head >= length).then_some(self.head),
            None if self.bytes.len() - self.head >= length => Some(self.head),
            None => (self.tail >= length).then_some(0),
        }
    }
}

impl Unshared<HashKey> for FifoRing {
    fn get(&mut self, key: &HashKey) -> Option<&[u8]> {
        let at = *self.places.get(&key.bits())? as usize;
        let start = at + HEADER_BYTES;
        (self.key(at) == key).then(|| &self.bytes[start..start + self.length(at)])
    }

    fn insert(&mut self, key: HashKey, value: Box<[u8]>) {
        let length = HEADER_BYTES + value.len();
        let at = loop {
            match self.room(length) {
                Some(at) => break at,
                None if self.pop() => {}
                None => return,
            }
        };
        if at != self.head {
            self.wrapped_at = Some(self.head);
        }
        self.head = at + length;
        let value_bytes = u32::try_from(value.len()).unwrap_or(0);
        self.bytes[at..at + 4].copy_from_slice(&value_bytes.to_le_bytes());
        self.bytes[at + 4..at + HEADER_BYTES].copy_from_slice(&key);
        self.bytes[at + HEADER_BYTES..at + length].copy_from_slice(&value);
        self.places
            .insert(key.bits(), u32::try_from(at).unwrap_or(0));
    }

    fn remove(&mut self, key: &HashKey) {
        self.places.remove(&key.bits());
    }

    fn len(&self) -> usize {
        self.places.len()
    }
}
