//! A value in its buffer.
//!
//! A list that is appended to gets room for the longest length prefix in front of its elements:
//!
//! ```text
//! bytes:  [ . . . p p | element | element | ... ]
//!                ^ start        the prefix ends at MAX_PREFIX, whatever its length
//! ```
//!
//! So an append writes its element at the end and the new prefix in place; the value is at any time
//! the one slice `bytes[start..]`, and taking appends back is a truncation.

use crate::list::{Prefix, MAX_PREFIX};
use alloc::vec::Vec;

/// A value; see the top of the file for how it lies in its buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Value {
    bytes: Vec<u8>,
    start: usize,
}

impl Value {
    /// An empty value that will be written into `buffer`.
    pub(crate) fn in_buffer(buffer: Vec<u8>) -> Self {
        let mut value = Self {
            bytes: buffer,
            start: 0,
        };
        value.bytes.clear();
        value
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The buffer, of which only the capacity is of interest.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// The value on its own, moved to the front of its buffer.
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
        }
        self.bytes
    }

    /// Overwrites the value with `content`.
    pub(crate) fn write(&mut self, content: &[u8]) {
        self.start = 0;
        self.bytes.clear();
        self.bytes.extend_from_slice(content);
    }

    /// Overwrites the value with `list` and `element` behind it, or with the list of `element`
    /// alone if `list` is none.
    pub(crate) fn write_list(&mut self, list: &[u8], element: &[u8]) {
        let (count, elements) = match Prefix::read(list) {
            Some(prefix) => (prefix.count, &list[prefix.bytes..]),
            None => (0, &[][..]),
        };
        self.bytes.clear();
        self.bytes
            .reserve(MAX_PREFIX + elements.len() + element.len());
        self.bytes.extend_from_slice(&[0; MAX_PREFIX]);
        self.bytes.extend_from_slice(elements);
        self.push(element, count);
    }

    /// The mark to take later appends back to, after making room for them; `None` if the value is
    /// no list.
    ///
    /// The value stays the same. Costs a copy of the list the first time, and nothing after that.
    pub(crate) fn open_list(&mut self) -> Option<ListMark> {
        let prefix = Prefix::read(self.as_slice())?;
        let elements_at = self.start + prefix.bytes;
        if elements_at != MAX_PREFIX {
            // A value without head room starts at 0, so its prefix is the shorter one and the room
            // is missing.
            let missing = MAX_PREFIX - elements_at;
            let len = self.bytes.len();
            self.bytes.resize(len + missing, 0);
            self.bytes.copy_within(..len, missing);
            self.start += missing;
        }
        Some(ListMark {
            len: self.bytes.len(),
            count: prefix.count,
        })
    }

    /// Appends `element` to the list that `mark` was just taken of.
    pub(crate) fn append(&mut self, element: &[u8], mark: ListMark) {
        self.push(element, mark.count);
    }

    /// Takes back every append since `mark` was taken.
    pub(crate) fn take_back(&mut self, mark: ListMark) {
        self.bytes.truncate(mark.len);
        self.write_prefix(mark.count);
    }

    fn push(&mut self, element: &[u8], count_before: u32) {
        self.bytes.extend_from_slice(element);
        // Wraps at 2^32 elements, as the peer does. Only a value forged to claim that many gets
        // there.
        self.write_prefix(count_before.wrapping_add(1));
    }

    fn write_prefix(&mut self, count: u32) {
        if let Some(room) = self.bytes.first_chunk_mut() {
            self.start = Prefix::of(count).write(room);
        }
    }
}

/// How long a list was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListMark {
    /// Of the buffer, head room included, in bytes.
    len: usize,
    /// Of the list, in elements.
    count: u32,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(content: &[u8]) -> Value {
        let mut value = Value::default();
        value.write(content);
        value
    }

    #[test]
    fn a_plain_list_gets_its_room_without_changing() {
        for count in [0_u32, 63, 64, 16_383, 16_384, 1 << 30, u32::MAX] {
            let mut room = [0; MAX_PREFIX];
            let start = Prefix::of(count).write(&mut room);
            let plain = [&room[start..], b"elements"].concat();
            let mut list = value(&plain);
            let mark = list.open_list().unwrap();
            assert_eq!(list.as_slice(), plain, "{count}");
            list.append(b"x", mark);
            list.take_back(mark);
            assert_eq!(list.as_slice(), plain, "{count}");
            assert_eq!(list.into_vec(), plain, "{count}");
        }
    }

    #[test]
    fn the_length_wraps_at_its_end() {
        let mut list = value(&[0x03, 0xff, 0xff, 0xff, 0xff, 7]);
        let mark = list.open_list().unwrap();
        list.append(&[8], mark);
        assert_eq!(list.as_slice(), [0x00, 7, 8]);
    }

    #[test]
    fn appending_does_not_move_the_list() {
        let mut list = Value::in_buffer(Vec::with_capacity(4096));
        list.write_list(&[], &[0; 8]);
        let at = list.bytes.as_ptr();
        for _ in 0..200 {
            let mark = list.open_list().unwrap();
            list.append(&[0; 8], mark);
        }
        assert_eq!(list.bytes.as_ptr(), at);
        assert_eq!(
            Prefix::read(list.as_slice()),
            Some(Prefix {
                count: 201,
                bytes: 2
            })
        );
        assert_eq!(list.as_slice().len(), 2 + 201 * 8);
    }
}
