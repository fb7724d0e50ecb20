//! Numbers that tell the blocks of a process apart.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The number of a block, by which the block knows what was taken from it. It is only compared, so no result depends on
/// it. The default is that of no block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockNumber(usize);

impl BlockNumber {
    /// A number that no block has had. Where `usize` has 32 bits, numbers come back after 4 billion blocks.
    pub(crate) fn new() -> Self {
        // Not 64 bits, which some targets can't count atomically. Those that can't count `usize` lack `Bytes`, too.
        static LAST: AtomicUsize = AtomicUsize::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}
