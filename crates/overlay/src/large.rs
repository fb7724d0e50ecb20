//! Blocks for large values, each in memory of its own.
//!
//! A large value in an arena makes the arena grow, which copies all values and takes memory for both copies
//! meanwhile. In wasm the copy that is given up is lost, because there memory comes in powers of two and
//! is neither split nor joined.
//!
//! Elsewhere memory of freed blocks is kept for blocks of the same size. The heap has few sizes, so a list that grows
//! by appends, as the events of a block do, finds the memory of the last block's list.

use crate::index::index;
use alloc::{vec, vec::Vec};

/// Blocks by number; those that are freed are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeBlocks {
    blocks: Vec<Vec<u8>>,
    freed: Vec<u32>,
    /// Memory of freed blocks.
    spare: Vec<Vec<u8>>,
}

impl LargeBlocks {
    /// The number of a new block of so many bytes; what is in it means nothing.
    pub(crate) fn allocate(&mut self, bytes: usize) -> u32 {
        let found = self.spare.iter().position(|spare| spare.len() == bytes);
        let block = match found {
            Some(place) => self.spare.swap_remove(place),
            None => vec![0; bytes],
        };
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
        // In wasm the allocator does so itself, and an instance executes few blocks.
        if !cfg!(target_family = "wasm") {
            self.spare.push(block);
        }
    }

    /// Copies the first `len` bytes of one block to another.
    pub(crate) fn copy(&mut self, from: u32, to: u32, len: usize) {
        let mut block = core::mem::take(&mut self.blocks[to as usize]);
        block[..len].copy_from_slice(&self.blocks[from as usize][..len]);
        self.blocks[to as usize] = block;
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        &self.blocks[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut [u8] {
        &mut self.blocks[number as usize]
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        let all = self.blocks.iter().chain(&self.spare);
        all.map(Vec::capacity).sum()
    }

    /// Frees all blocks; keeps up to `most` bytes of their memory.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            blocks,
            freed,
            spare,
        } = self;
        spare.append(blocks);
        freed.clear();
        let mut left = most;
        spare.retain(|block| {
            let fits = !block.is_empty() && block.len() <= left;
            left -= if fits { block.len() } else { 0 };
            fits
        });
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
