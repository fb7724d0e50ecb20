//! Blocks for large values, each in memory of its own.
//!
//! A large value in an arena makes the arena grow, which copies all values and takes memory for both copies
//! meanwhile. In wasm the copy that is given up is lost, because there memory comes in powers of two and
//! is neither split nor joined.

use crate::index::index;
use alloc::{vec, vec::Vec};

/// Blocks by number; those that are freed are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeBlocks {
    blocks: Vec<Vec<u8>>,
    freed: Vec<u32>,
}

impl LargeBlocks {
    /// The number of a new block of so many bytes.
    pub(crate) fn allocate(&mut self, bytes: usize) -> u32 {
        let block = vec![0; bytes];
        if let Some(number) = self.freed.pop() {
            self.blocks[number as usize] = block;
            return number;
        }
        let number = index(self.blocks.len());
        self.blocks.push(block);
        number
    }

    /// Gives the memory of a block back, which the block had until now.
    pub(crate) fn free(&mut self, number: u32) -> Vec<u8> {
        self.freed.push(number);
        core::mem::take(&mut self.blocks[number as usize])
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        &self.blocks[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut [u8] {
        &mut self.blocks[number as usize]
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum()
    }

    /// Frees all blocks. Keeps none, because the next block of a chain rarely has large values.
    pub(crate) fn reset(&mut self) {
        let Self { blocks, freed } = self;
        blocks.clear();
        freed.clear();
    }
}

#[cfg(test)]
impl LargeBlocks {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { blocks, freed } = self;
        assert!(blocks.is_empty() && freed.is_empty());
    }
}
