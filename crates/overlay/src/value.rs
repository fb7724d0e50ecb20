//! A value in its block of the heap.
//!
//! A list that is appended to gets room for the longest length prefix in front of its elements:
//!
//! ```text
//! block:  [ . . . p p | element | element | ... ]
//!                ^ start        the prefix ends at MAX_PREFIX, whatever its length
//! ```
//!
//! So an append writes its element at the end and the new length prefix in place. The value is always one
//! slice, from `start` on, and appends are taken back by writing the old length prefix.

use crate::{
    heap::{Heap, HeapBlock},
    index::index,
    list::{LengthPrefix, MAX_PREFIX},
};
use bytes::Bytes;

/// A value; see the top of the file for how it lies in its block.
///
/// Whoever holds a value owns its block and frees it once. Copies are for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    // The fields of its block; as a field of type `HeapBlock` they would take four bytes more.
    at: u32,
    class: u8,
    start: u8,
    /// How many bytes of its block are in use, the room in front of the value included.
    len: u32,
}

impl Value {
    #[inline(always)]
    pub(crate) fn new(content: &[u8], heap: &mut Heap) -> Self {
        let len = index(content.len());
        let block = heap.allocate(content.len());
        heap.write(block, 0, content);
        Self::in_block(block, len)
    }

    /// A value that shares memory with `content`, if it is a large one.
    pub(crate) fn of_bytes(content: &Bytes, heap: &mut Heap) -> Self {
        let block = heap.adopt(content);
        Self::in_block(block, index(content.len()))
    }

    /// The value that is `list` with `element` appended; the list of `element` alone if `list` is no list.
    pub(crate) fn new_list(list: &[u8], element: &[u8], heap: &mut Heap) -> Self {
        let (count, elements) = match LengthPrefix::read(list) {
            Some(prefix) => (prefix.count, &list[prefix.bytes..]),
            None => (0, &[][..]),
        };
        let len = MAX_PREFIX + elements.len();
        let used = index(len);
        let block = heap.allocate(len + element.len());
        heap.write(block, MAX_PREFIX, elements);
        let mut value = Self::in_block(block, used);
        let mark = ListMark {
            len: value.len,
            count,
        };
        value.append(element, mark, heap);
        value
    }

    #[inline(always)]
    fn in_block(block: HeapBlock, len: u32) -> Self {
        Self {
            at: block.at,
            class: block.class,
            start: 0,
            len,
        }
    }

    /// Place and length in one word, size class of its block and start in the other.
    #[inline(always)]
    pub(crate) fn to_words(self) -> [u64; 2] {
        [
            u64::from(self.at) | u64::from(self.len) << 32,
            u64::from(self.class) | u64::from(self.start) << 8,
        ]
    }

    #[inline(always)]
    pub(crate) fn from_words([place, form]: [u64; 2]) -> Self {
        let [a, b, c, d, e, f, g, h] = place.to_le_bytes();
        let [class, start, ..] = form.to_le_bytes();
        Self {
            at: u32::from_le_bytes([a, b, c, d]),
            len: u32::from_le_bytes([e, f, g, h]),
            class,
            start,
        }
    }

    #[inline(always)]
    fn block(self) -> HeapBlock {
        HeapBlock {
            at: self.at,
            class: self.class,
        }
    }

    fn move_to(&mut self, block: HeapBlock) {
        (self.at, self.class) = (block.at, block.class);
    }

    #[inline]
    pub(crate) fn as_slice(self, heap: &Heap) -> &[u8] {
        heap.part(self.block(), usize::from(self.start), self.len as usize)
    }

    /// The value in memory that a reader may keep.
    #[inline]
    pub(crate) fn share(self, heap: &mut Heap) -> Bytes {
        heap.share(self.block(), usize::from(self.start), self.len as usize)
    }

    /// Overwrites the value with `content`, in its block if that has room for it.
    #[inline(always)]
    pub(crate) fn overwrite(mut self, content: &[u8], heap: &mut Heap) -> Self {
        if content.len() > self.block().capacity() {
            heap.free(self.block());
            return Self::new(content, heap);
        }
        heap.write(self.block(), 0, content);
        self.len = index(content.len());
        self.start = 0;
        self
    }

    #[inline(always)]
    pub(crate) fn free(self, heap: &mut Heap) {
        heap.free(self.block());
    }

    /// The same list with room for a longer length prefix, and a mark of its length for
    /// [`Self::take_back`]; `None` if the value is no list.
    ///
    /// Costs a copy of the list the first time.
    #[inline]
    pub(crate) fn open_list(mut self, heap: &mut Heap) -> Option<(Self, ListMark)> {
        let prefix = LengthPrefix::read(self.as_slice(heap))?;
        let elements_at = usize::from(self.start) + prefix.bytes;
        if elements_at != MAX_PREFIX {
            // The value starts at 0 of its block, without room for a longer length prefix.
            let missing = MAX_PREFIX - elements_at;
            let len = self.len as usize;
            if len + missing > self.block().capacity() {
                self.move_to(heap.enlarge(self.block(), len, len + missing));
            }
            let room = heap.bytes_mut(self.block(), len + missing);
            room.copy_within(..len, missing);
            self.len = index(len + missing);
            self.write_prefix(prefix.count, heap);
        }
        let mark = ListMark {
            len: self.len,
            count: prefix.count,
        };
        Some((self, mark))
    }

    /// Appends `element` to the list, whose length is `mark`.
    #[inline]
    pub(crate) fn append(&mut self, element: &[u8], mark: ListMark, heap: &mut Heap) {
        let len = self.len as usize;
        let longer = len + element.len();
        self.len = index(longer);
        if longer > self.block().capacity() {
            self.move_to(heap.enlarge(self.block(), len, longer));
        }
        heap.write(self.block(), len, element);
        // Wraps at 2^32 elements, as sp-state-machine does. Only a forged value claims that many.
        let count = mark.count.wrapping_add(1);
        self.write_prefix(count, heap);
    }

    /// The list without the elements appended since its length was `mark`.
    pub(crate) fn take_back(mut self, mark: ListMark, heap: &mut Heap) -> Self {
        self.len = mark.len;
        self.write_prefix(mark.count, heap);
        self
    }

    #[inline]
    fn write_prefix(&mut self, count: u32, heap: &mut Heap) {
        if let Some(room) = heap.bytes_mut(self.block(), MAX_PREFIX).first_chunk_mut() {
            self.start = LengthPrefix::of(count).write(room);
        }
    }
}

/// The length of a list at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListMark {
    /// How many bytes of its block were in use, the room in front included.
    len: u32,
    /// How many elements the list had.
    count: u32,
}

impl ListMark {
    #[inline(always)]
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.len) | u64::from(self.count) << 32
    }

    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        Self {
            len: u32::from_le_bytes([a, b, c, d]),
            count: u32::from_le_bytes([e, f, g, h]),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_plain_list_gets_its_room_without_changing() {
        for count in [0_u32, 63, 64, 16_383, 16_384, 1 << 30, u32::MAX] {
            for elements in 0..40 {
                let heap = &mut Heap::default();
                let mut room = [0; MAX_PREFIX];
                let start = usize::from(LengthPrefix::of(count).write(&mut room));
                let plain = [&room[start..], &[7; 40][..elements]].concat();
                let list = Value::new(&plain, heap);
                // Lies behind the list, which may fill its block.
                let next = Value::new(&[8; 16], heap);
                let (mut list, mark) = list.open_list(heap).unwrap();
                assert_eq!(list.as_slice(heap), plain, "{count}");
                list.append(b"x", mark, heap);
                let list = list.take_back(mark, heap);
                assert_eq!(list.as_slice(heap), plain, "{count}");
                assert_eq!(next.as_slice(heap), [8; 16], "{count}");
            }
        }
    }

    #[test]
    fn the_length_wraps_at_its_end() {
        let heap = &mut Heap::default();
        let list = Value::new(&[0x03, 0xff, 0xff, 0xff, 0xff, 7], heap);
        let (mut list, mark) = list.open_list(heap).unwrap();
        list.append(&[8], mark, heap);
        assert_eq!(list.as_slice(heap), [0x00, 7, 8]);
    }

    #[test]
    fn a_growing_list_moves_once_per_doubling() {
        let heap = &mut Heap::default();
        let mut list = Value::new_list(&[], &[0; 8], heap);
        let mut blocks = Vec::from([list.block()]);
        for _ in 0..2_000 {
            let mark;
            (list, mark) = list.open_list(heap).unwrap();
            list.append(&[0; 8], mark, heap);
            if blocks.last() != Some(&list.block()) {
                blocks.push(list.block());
            }
        }
        assert!(blocks.len() <= 11, "{blocks:?}");
        let prefix = LengthPrefix {
            count: 2_001,
            bytes: 2,
        };
        assert_eq!(LengthPrefix::read(list.as_slice(heap)), Some(prefix));
        assert_eq!(list.as_slice(heap).len(), 2 + 2_001 * 8);
    }

    #[test]
    fn a_value_stays_in_its_block_while_that_takes_it() {
        let heap = &mut Heap::default();
        let mut value = Value::new(&[1; 33], heap);
        let len = heap.len();
        for round in 0..100 {
            value = value.overwrite(&[2; 48][..round % 49], heap);
            assert_eq!(value.as_slice(heap), &[2; 48][..round % 49]);
        }
        assert_eq!(heap.len(), len);
        let value = value.overwrite(&[3; 49], heap);
        assert_eq!(value.as_slice(heap), [3; 49]);
        assert_eq!(Value::new(&[4; 48], heap).block().capacity(), 48);
        assert_eq!(heap.len(), len + 64);
    }
}
