//! Blocks for large values, each in memory of its own.
//!
//! A large value in an arena makes the arena grow, which copies all values and takes memory for both copies
//! meanwhile. In wasm the copy that is given up is lost, because there memory comes in powers of two and
//! is neither split nor joined.
//!
//! A block holds what was written to it, and has room for more. Its memory is never cleared, because clearing takes
//! as long as writing.
//!
//! A reader that keeps a value shares its block, and so does a writer that keeps it. The next write to the block copies
//! what stays of it if somebody else still has it.
//!
//! Except in wasm, memory of freed blocks is kept for blocks of about that size. The heap has few sizes, so a list that
//! grows by appends, as the events of a block do, finds the memory of the last block's list.

use crate::index::index;
use alloc::vec::Vec;
use bytes::Bytes;

/// Blocks by number; those that are freed are empty.
#[derive(Debug, Default)]
pub(crate) struct LargeBlocks {
    blocks: Vec<LargeBlock>,
    freed: Vec<u32>,
    /// Memory of freed blocks.
    spare: Vec<Vec<u8>>,
}

/// Without the memory of freed blocks, whose content nobody reads.
impl Clone for LargeBlocks {
    fn clone(&self) -> Self {
        Self {
            blocks: self.blocks.clone(),
            freed: self.freed.clone(),
            spare: Vec::new(),
        }
    }
}

/// A block: its memory is in one of the two fields, and the other is empty.
#[derive(Clone, Debug, Default)]
struct LargeBlock {
    own: Vec<u8>,
    /// Shared with readers or a writer, now or before.
    shared: Bytes,
}

impl LargeBlocks {
    /// The number of a new block with room for `bytes` bytes, whose content is undefined.
    pub(crate) fn allocate(&mut self, bytes: usize) -> u32 {
        let room = bytes..bytes.saturating_mul(2);
        let mut spare = self.spare.iter().map(Vec::capacity);
        let block = match spare.position(|capacity| room.contains(&capacity)) {
            Some(place) => self.spare.swap_remove(place),
            None => Vec::with_capacity(bytes),
        };
        self.add(LargeBlock {
            own: block,
            shared: Bytes::new(),
        })
    }

    /// The number of a new block in the memory of `content`, which others may share.
    pub(crate) fn adopt(&mut self, content: Bytes) -> u32 {
        self.add(LargeBlock {
            own: Vec::new(),
            shared: content,
        })
    }

    fn add(&mut self, block: LargeBlock) -> u32 {
        if let Some(number) = self.freed.pop() {
            self.blocks[number as usize] = block;
            return number;
        }
        let number = index(self.blocks.len());
        self.blocks.push(block);
        number
    }

    /// Frees a block.
    pub(crate) fn free(&mut self, number: u32) {
        self.freed.push(number);
        let block = core::mem::take(&mut self.blocks[number as usize]);
        // In wasm the allocator keeps it, and an instance executes few blocks.
        if !cfg!(target_family = "wasm") {
            self.keep(block.into_memory());
        }
    }

    /// Keeps `memory` for later blocks: at most as many pieces as there were blocks at a time, the last ones.
    fn keep(&mut self, memory: Vec<u8>) {
        if memory.capacity() == 0 {
            return;
        }
        if self.spare.len() >= self.blocks.len() {
            self.spare.swap_remove(0);
        }
        self.spare.push(memory);
    }

    /// Copies the first `len` bytes of one block to another.
    pub(crate) fn copy(&mut self, from: u32, to: u32, len: usize) {
        let mut copy = core::mem::take(&mut self.blocks[to as usize]);
        copy.write(0, &self.get(from)[..len]);
        self.blocks[to as usize] = copy;
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        self.blocks[number as usize].get()
    }

    /// The content of a block, for a reader to keep. Copies nothing.
    pub(crate) fn share(&mut self, number: u32) -> Bytes {
        let block = &mut self.blocks[number as usize];
        if block.shared.is_empty() {
            block.shared = core::mem::take(&mut block.own).into();
        }
        block.shared.clone()
    }

    /// The first `len` bytes of a block, to write.
    pub(crate) fn get_mut(&mut self, number: u32, len: usize) -> &mut [u8] {
        let block = self.blocks[number as usize].own();
        if block.len() < len {
            block.resize(len, 0);
        }
        &mut block[..len]
    }

    /// Replaces all but the first `from` bytes of a block by `content`.
    pub(crate) fn write(&mut self, number: u32, from: usize, content: &[u8]) {
        self.blocks[number as usize].write(from, content);
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        let blocks = self.blocks.iter();
        let blocks = blocks.map(|block| block.own.capacity() + block.shared.len());
        blocks.chain(self.spare.iter().map(Vec::capacity)).sum()
    }

    /// Frees all blocks; keeps up to `most` bytes of their memory.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            blocks,
            freed,
            spare,
        } = self;
        spare.extend(blocks.drain(..).map(LargeBlock::into_memory));
        freed.clear();
        let mut left = most;
        spare.retain(|block| {
            let fits = (1..=left).contains(&block.capacity());
            left -= if fits { block.capacity() } else { 0 };
            fits
        });
    }
}

impl LargeBlock {
    fn get(&self) -> &[u8] {
        if self.shared.is_empty() {
            &self.own
        } else {
            &self.shared
        }
    }

    /// Its memory, which the block alone has: a copy if others still share it.
    fn own(&mut self) -> &mut Vec<u8> {
        if !self.shared.is_empty() {
            self.own = core::mem::take(&mut self.shared).into();
        }
        &mut self.own
    }

    fn write(&mut self, from: usize, content: &[u8]) {
        if self.is_read() {
            // Copies only the bytes that stay.
            let read = core::mem::take(&mut self.shared);
            self.own = Vec::with_capacity(from.saturating_add(content.len()));
            self.own.extend_from_slice(&read[..from.min(read.len())]);
        }
        let block = self.own();
        block.resize(from, 0);
        block.extend_from_slice(content);
    }

    /// Whether others still share its memory.
    fn is_read(&self) -> bool {
        !self.shared.is_empty() && !self.shared.is_unique()
    }

    /// Its memory; empty if others still share it.
    fn into_memory(self) -> Vec<u8> {
        if self.is_read() {
            return Vec::new();
        }
        let mut block = self;
        core::mem::take(block.own())
    }
}

#[cfg(test)]
impl LargeBlocks {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            blocks,
            freed,
            spare: _,
        } = self;
        assert!(blocks.is_empty() && freed.is_empty());
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn no_more_memory_is_kept_than_there_were_blocks() {
        let mut large = LargeBlocks::default();
        let mut number = large.adopt(vec![0; 40_000].into());
        for round in 0..100 {
            let next = match round % 3 {
                0 => large.adopt(vec![0; 40_000].into()),
                1 => large.allocate(40_000 << (round % 7)),
                _ => large.allocate(30_000),
            };
            large.free(number);
            number = next;
            assert!(large.spare.len() <= large.blocks.len());
        }
        assert_eq!(large.blocks.len(), 2);
        let capacity = large.spare.last().map_or(0, Vec::capacity);
        let again = large.allocate(capacity);
        assert_eq!(large.spare.len(), 1);
        large.free(again);
    }

    #[test]
    fn a_write_copies_only_what_stays_of_a_shared_block() {
        for from in [0, 5, 300_000, 300_010] {
            let content: Bytes = (0..=255).cycle().take(300_000).collect();
            let mut large = LargeBlocks::default();
            let number = large.adopt(content.clone());
            large.write(number, from, b"new");
            let stays = from.min(content.len());
            let written = large.get(number);
            assert_eq!(written.len(), from + 3);
            assert_eq!(written[..stays], content[..stays]);
            assert_eq!(&written[from..], b"new");
            assert!(large.memory() < from + 100, "{}", large.memory());
            // The other has what it had.
            assert_eq!(content.len(), 300_000);
            assert_eq!(content[7], 7);
        }
    }

    #[test]
    fn a_block_that_is_no_longer_shared_is_written_in_place() {
        let mut large = LargeBlocks::default();
        let number = large.adopt(vec![1; 40_000].into());
        drop(large.share(number));
        let before = large.get(number).as_ptr();
        large.write(number, 5, b"new");
        assert_eq!(large.get(number), b"\x01\x01\x01\x01\x01new");
        assert_eq!(large.get(number).as_ptr(), before);
    }
}
