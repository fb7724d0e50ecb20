//! What came of one block.

use povmeter::Attribution;

/// A part of a block, as its author goes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockPart {
    /// `initialize_block`.
    Initialize,
    /// The extrinsic of this index among those that the author tries; inherents are extrinsics.
    Extrinsic(usize),
    /// `finalize_block`, and what the author does after it.
    Finalize,
}

/// Each recorded node of a block with who needs it, and what the parts of the block are.
#[derive(Clone, Debug, Default)]
pub struct BlockAttribution {
    parts: Vec<BlockPart>,
    attribution: Attribution,
}

impl BlockAttribution {
    /// The `attribution` of a sealed block, in which [`begin_part`](povmeter::Block::begin_part) was
    /// called once for each of `parts`, in their order.
    pub fn new(parts: Vec<BlockPart>, attribution: Attribution) -> Self {
        Self { parts, attribution }
    }

    /// The recorded nodes.
    pub fn attribution(&self) -> &Attribution {
        &self.attribution
    }

    /// What the part of this number is; `None` for what came before the first.
    pub fn part(&self, number: u32) -> Option<BlockPart> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.parts.get(index).copied()
    }
}
