//! The error of sealing, which holds the block.

use crate::BlockError;
use alloc::boxed::Box;
use core::{error::Error, fmt};

/// Why sealing failed, with the block as it was. It can be sealed again once the cause is gone. `B` is the block, or
/// what a host has around it; `E` says what went wrong.
///
/// `?` turns it into a [`BlockError`], or a boxed error, and drops the block. Where the caller has an error type of its
/// own, made from a [`BlockError`], use `block.seal(version).map_err(BlockError::from)?`.
///
/// It does not implement [`Error`], because a boxed `SealError` would hold the block and everything that the block
/// borrows.
pub struct SealError<B, E = BlockError> {
    block: Box<B>,
    error: E,
}

impl<B, E> SealError<B, E> {
    /// The error of a `block` that could not be sealed.
    pub fn new(block: B, error: E) -> Self {
        Self {
            block: Box::new(block),
            error,
        }
    }

    /// What went wrong.
    pub fn error(&self) -> &E {
        &self.error
    }

    /// The block as it was before, and what went wrong.
    pub fn into_parts(self) -> (B, E) {
        (*self.block, self.error)
    }
}

impl<B, E: fmt::Debug> fmt::Debug for SealError<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SealError").field(&self.error).finish()
    }
}

impl<B, E: fmt::Display> fmt::Display for SealError<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> From<SealError<B>> for BlockError {
    fn from(refused: SealError<B>) -> Self {
        refused.error
    }
}

impl<B, E: Error + 'static> From<SealError<B, E>> for Box<dyn Error> {
    fn from(refused: SealError<B, E>) -> Self {
        refused.error.into()
    }
}

impl<B, E: Error + Send + Sync + 'static> From<SealError<B, E>> for Box<dyn Error + Send + Sync> {
    fn from(refused: SealError<B, E>) -> Self {
        refused.error.into()
    }
}
