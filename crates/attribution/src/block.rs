//! The attribution of one block.

use povmeter::Attribution;

/// A part of a block, in the order in which its author executes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockPart {
    /// `initialize_block`.
    Initialize,
    /// The extrinsic with this index among those that the author tries; inherents are extrinsics.
    Extrinsic(usize),
    /// `finalize_block` and everything after it.
    Finalize,
}

/// The recorded nodes of a block with the parts that need them.
#[derive(Clone, Debug, Default)]
pub struct BlockAttribution {
    parts: Vec<BlockPart>,
    attribution: Attribution,
}

impl BlockAttribution {
    /// Names the parts of the `attribution` of a sealed block. The block must have called
    /// [`begin_part`](povmeter::Block::begin_part) once for each of `parts`, in this order.
    pub fn new(parts: Vec<BlockPart>, attribution: Attribution) -> Self {
        Self { parts, attribution }
    }

    /// Returns the recorded nodes.
    pub fn attribution(&self) -> &Attribution {
        &self.attribution
    }

    /// Returns the part with this number; `None` for 0, the time before the first part.
    pub fn part(&self, number: u32) -> Option<BlockPart> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.parts.get(index).copied()
    }
}
