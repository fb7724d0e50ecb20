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

/// A list names more or fewer parts than a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected names of the {expected} parts that the block has begun, found {found}")]
#[non_exhaustive]
pub struct PartsError {
    /// How many parts the block has begun.
    pub expected: u32,
    /// How many names there are.
    pub found: usize,
}

/// The recorded nodes of a block with the parts that need them.
#[derive(Clone, Debug, Default)]
pub struct BlockAttribution {
    parts: Vec<BlockPart>,
    attribution: Attribution,
}

impl BlockAttribution {
    /// Names the parts of the `attribution` of a sealed block, in the order in which the host has called
    /// [`begin_part`](povmeter::Block::begin_part).
    ///
    /// # Errors
    /// [`PartsError`] unless there are as many of `parts` as of these calls.
    pub fn new(parts: Vec<BlockPart>, attribution: Attribution) -> Result<Self, PartsError> {
        let expected = attribution.parts();
        if u32::try_from(parts.len()) != Ok(expected) {
            let found = parts.len();
            return Err(PartsError { expected, found });
        }
        Ok(Self { parts, attribution })
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
