//! The bytes of all values, in blocks that are used again.
//!
//! ```text
//! block:      16 bytes times 1, 2, ... 8, 10, 12, 14, 16, 20, ...: four sizes for each doubling
//! allocate:   the last block of its size that was freed, else new bytes at the end
//! free:       the block keeps the place of the one freed before it
//! ```
//!
//! So a key that is written over and over takes no more than a few blocks, and writing allocates
//! nothing once the heap has grown. Blocks are neither split nor joined: what a size took, that size
//! keeps until the heap is cleared. Blocks from [`LARGE_BYTES`] on are not among them: each has memory of
//! its own.

use crate::{
    byte_arena::ByteArena,
    index::{index, NOWHERE},
    large::LargeBlocks,
};
use alloc::vec::Vec;
use bytes::Bytes;

/// The size of each block is a multiple of this many bytes.
const UNIT: usize = 16;
/// Bytes of the smallest block with memory of its own. Values of more than 28 KiB lie in such blocks.
pub const LARGE_BYTES: usize = 32 << 10;

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    bytes: ByteArena,
    /// For each size, the block freed last, or [`NOWHERE`]. Empty until the first block is made.
    free: Vec<u32>,
    large: LargeBlocks,
}

/// A block of the heap. Its owner frees it once; copies are for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapBlock {
    /// Place in units; of a large block, its number.
    pub(crate) at: u32,
    /// The index of its size.
    pub(crate) class: u8,
}

impl HeapBlock {
    /// How many bytes it has room for.
    #[inline(always)]
    pub(crate) fn capacity(self) -> usize {
        CAPACITIES[usize::from(self.class)]
    }

    /// Whether it has memory of its own.
    #[inline(always)]
    fn is_large(self) -> bool {
        self.class >= LARGE_CLASS
    }

    #[inline(always)]
    fn start(self) -> usize {
        self.at as usize * UNIT
    }

    /// Where it ends; `usize::MAX` if memory has no room for it.
    #[inline(always)]
    fn end(self) -> usize {
        self.start().saturating_add(self.capacity())
    }
}

impl Heap {
    /// Returns a block with room for `len` bytes, whose content is undefined.
    #[inline(always)]
    pub(crate) fn allocate(&mut self, len: usize) -> HeapBlock {
        let class = class_of(len);
        if class >= LARGE_CLASS {
            return self.allocate_large(class);
        }
        match self.free.get_mut(usize::from(class)) {
            Some(last) if *last != NOWHERE => {
                let block = HeapBlock { at: *last, class };
                let before = self.bytes.get()[block.start()..].first_chunk();
                *last = before.map_or(NOWHERE, |before| u32::from_le_bytes(*before));
                block
            }
            _ => self.grow(class),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_large(&mut self, class: u8) -> HeapBlock {
        let at = self.large.allocate(CAPACITIES[usize::from(class)]);
        HeapBlock { at, class }
    }

    /// Returns a block that begins with `content`, and shares its memory if the block is large.
    pub(crate) fn adopt(&mut self, content: &Bytes) -> HeapBlock {
        let class = class_of(content.len());
        if class >= LARGE_CLASS {
            let at = self.large.adopt(content.clone());
            return HeapBlock { at, class };
        }
        let block = self.allocate(content.len());
        self.write(block, 0, content);
        block
    }

    #[inline(never)]
    fn grow(&mut self, class: u8) -> HeapBlock {
        if self.free.is_empty() {
            self.free.resize(CLASSES, NOWHERE);
        }
        let at = index(self.bytes.taken() / UNIT);
        let block = HeapBlock { at, class };
        self.bytes.take_to(block.end());
        block
    }

    #[inline(always)]
    pub(crate) fn free(&mut self, block: HeapBlock) {
        if block.is_large() {
            self.large.free(block.at);
            return;
        }
        let room = self.bytes.get_mut()[block.start()..].first_chunk_mut();
        let last = self.free.get_mut(usize::from(block.class));
        if let (Some(room), Some(last)) = (room, last) {
            *room = last.to_le_bytes();
            *last = block.at;
        }
    }

    /// The bytes from `start` to `end` in `block`.
    #[inline(always)]
    pub(crate) fn part(&self, block: HeapBlock, start: usize, end: usize) -> &[u8] {
        if block.is_large() {
            return &self.large.get(block.at)[start..end];
        }
        &self.bytes.get()[block.start() + start..block.start() + end]
    }

    /// The bytes from `start` to `end` in `block`, for a reader to keep. Copies nothing of a large block.
    pub(crate) fn share(&mut self, block: HeapBlock, start: usize, end: usize) -> Bytes {
        if block.is_large() {
            return self.large.share(block.at).slice(start..end);
        }
        Bytes::copy_from_slice(self.part(block, start, end))
    }

    /// The first `len` bytes of `block`, to write.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, block: HeapBlock, len: usize) -> &mut [u8] {
        if block.is_large() {
            return self.large.get_mut(block.at, len);
        }
        &mut self.bytes.get_mut()[block.start()..][..len]
    }

    /// Writes `content` after the first `from` bytes of `block`; the bytes after it are undefined.
    #[inline(always)]
    pub(crate) fn write(&mut self, block: HeapBlock, from: usize, content: &[u8]) {
        if block.is_large() {
            return self.large.write(block.at, from, content);
        }
        let bytes = &mut self.bytes.get_mut()[block.start() + from..];
        bytes[..content.len()].copy_from_slice(content);
    }

    /// Returns a larger block that begins with the first `len` bytes of `block`, which is freed or grown.
    pub(crate) fn enlarge(&mut self, block: HeapBlock, len: usize, needed: usize) -> HeapBlock {
        // Twice as much, so that a list that grows by appends is copied once per doubling.
        let needed = needed.max(block.capacity() * 2);
        if class_of(needed) >= LARGE_CLASS {
            return self.enlarge_large(block, len, needed);
        }
        let from = block.start();
        if block.end() == self.bytes.taken() {
            // No block follows, so it grows in place.
            let larger = HeapBlock {
                class: class_of(needed),
                ..block
            };
            self.bytes.take_to(larger.end());
            return larger;
        }
        let larger = self.allocate(needed);
        let bytes = self.bytes.get_mut();
        bytes.copy_within(from..from + len, larger.start());
        self.free(block);
        larger
    }

    /// [`Self::enlarge`] to a large block.
    #[cold]
    #[inline(never)]
    fn enlarge_large(&mut self, block: HeapBlock, len: usize, needed: usize) -> HeapBlock {
        let larger = self.allocate(needed);
        if block.is_large() {
            self.large.copy(block.at, larger.at, len);
        } else {
            let before = &self.bytes.get()[block.start()..][..len];
            self.large.write(larger.at, 0, before);
        }
        self.free(block);
        larger
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.memory() + self.free.capacity() * size_of::<u32>() + self.large.memory()
    }

    /// Forgets all blocks; keeps up to `most_bytes` of memory.
    pub(crate) fn reset(&mut self, most_bytes: usize) {
        let Self { bytes, free, large } = self;
        bytes.reset(most_bytes);
        free.fill(NOWHERE);
        large.reset(most_bytes);
    }

    /// Bytes taken from the allocator.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.bytes.taken()
    }
}

/// The index of the smallest size with room for `len` bytes.
#[inline]
fn class_of(len: usize) -> u8 {
    // One less than the units needed.
    let over = len.saturating_sub(1) / UNIT;
    let class = if over < 4 {
        over
    } else {
        let power = over.ilog2() as usize;
        4 * (power - 1) + (over >> (power - 2)) % 4
    };
    // There are four sizes for each power of two, so the index fits.
    u8::try_from(class).unwrap_or(u8::MAX)
}

/// Number of sizes; blocks of 4 GiB need no more.
const CLASSES: usize = 112;

/// The index of the smallest size of large blocks.
const LARGE_CLASS: u8 = {
    let mut class = 0;
    while units_of_class(class as usize) * UNIT < LARGE_BYTES {
        class += 1;
    }
    class
};

/// Bytes of each size; `usize::MAX` for a size that no memory has room for.
const CAPACITIES: [usize; CLASSES] = {
    let mut capacities = [usize::MAX; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        match units_of_class(class).checked_mul(UNIT) {
            // No slice is longer.
            Some(bytes) if bytes <= isize::MAX.unsigned_abs() => capacities[class] = bytes,
            _ => {}
        }
        class += 1;
    }
    capacities
};

const fn units_of_class(class: usize) -> usize {
    if class < 4 {
        class + 1
    } else {
        (class % 4 + 5) << (class / 4 - 1)
    }
}

#[cfg(test)]
impl Heap {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { bytes, free, large } = self;
        bytes.assert_as_new();
        large.assert_as_new();
        assert!(free.iter().all(|last| *last == NOWHERE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gets_the_smallest_size_that_takes_it() {
        let sizes: Vec<u64> = (0..CLASSES)
            .map(|class| units_of_class(class) as u64)
            .collect();
        assert_eq!(sizes[..12], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]);
        assert!(sizes.is_sorted_by(|a, b| a < b));
        let unit = UNIT as u64;
        let edges = sizes
            .iter()
            .flat_map(|units| [units * unit - 1, units * unit, units * unit + 1]);
        // Lengths of less than 4 GiB, which are all that 32-bit addresses allow.
        for len in edges
            .chain(0..5_000)
            .filter_map(|len| u32::try_from(len).ok())
        {
            let class = usize::from(class_of(len as usize));
            let len = u64::from(len);
            assert!(sizes[class] * unit >= len, "{len}");
            assert!(class == 0 || sizes[class - 1] * unit < len, "{len}");
            let capacity = CAPACITIES[class] as u64;
            assert!(capacity == sizes[class] * unit || capacity == usize::MAX as u64);
            assert!(capacity >= len, "{len}");
        }
    }

    /// The end of the block must not wrap around.
    #[test]
    #[cfg(target_pointer_width = "32")]
    #[should_panic = "capacity overflow"]
    fn a_value_that_memory_has_no_room_for_is_refused() {
        let mut heap = Heap::default();
        heap.allocate(1);
        heap.allocate(3 << 30);
    }

    #[test]
    fn a_large_block_has_memory_of_its_own() {
        let mut heap = Heap::default();
        let small = heap.allocate(100);
        heap.bytes_mut(small, 3).copy_from_slice(b"abc");
        let (len, memory) = (heap.len(), heap.memory());
        let large = heap.enlarge(small, 3, LARGE_BYTES);
        assert!(large.is_large() && !heap.allocate(LARGE_BYTES / 2).is_large());
        let larger = heap.enlarge(large, 3, 3 * LARGE_BYTES);
        assert_eq!(heap.part(larger, 0, 3), b"abc");
        assert!(larger.capacity() >= 3 * LARGE_BYTES);
        let again = heap.allocate(LARGE_BYTES);
        assert_eq!(again.at, large.at, "a number is used again");
        heap.bytes_mut(again, 2).copy_from_slice(b"de");
        assert_eq!(heap.part(larger, 0, 3), b"abc");
        let held = heap.memory();
        assert!(heap.len() > len && held > memory + 4 * LARGE_BYTES);
        heap.free(larger);
        heap.free(again);
        let (first, second) = (heap.allocate(3 * LARGE_BYTES), heap.allocate(LARGE_BYTES));
        assert_eq!(heap.memory(), held, "the memory is used again");
        assert_ne!(first.at, second.at);
        heap.reset(usize::MAX);
        heap.assert_as_new();
        assert_eq!(heap.memory(), held);
        heap.reset(LARGE_BYTES);
        assert!(heap.memory() < held);
    }

    #[test]
    fn freed_blocks_come_back_the_last_one_first() {
        let mut heap = Heap::default();
        let blocks = [(); 3].map(|()| heap.allocate(40));
        let other = heap.allocate(100);
        let len = heap.len();
        blocks.iter().for_each(|block| heap.free(*block));
        heap.free(other);
        for block in blocks.iter().rev() {
            assert_eq!(heap.allocate(33), *block);
        }
        assert_eq!(heap.allocate(100), other);
        assert_eq!(heap.len(), len);
        assert_ne!(heap.allocate(40), blocks[0]);
    }
}
