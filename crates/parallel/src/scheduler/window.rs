//! How far ahead of the last committed transaction others are begun.

// Not those of the crate, which tools that try orders of threads replace: the window decides only how much is begun.
use std::sync::atomic::{AtomicU32, Ordering};

/// The greatest window, in least windows.
const GREATEST: u32 = 8;

/// The most transactions that are begun ahead of the last committed one.
///
/// A thread has no work when it has begun all of them, and that happens even if it is not faster than the committer:
/// while a table of the block grows, nothing is committed for about 1 ms, in which a thread executes 60 transactions
/// of 16 us. But the farther ahead a transaction is executed, the more often one below it changes what it has read. So
/// the window grows by one with each execution that was of use, and becomes half as large with each one that was in
/// vain.
#[derive(Debug)]
pub(crate) struct Window {
    now: AtomicU32,
    least: u32,
}

impl Window {
    pub(super) fn new(least: u32) -> Self {
        Self {
            now: AtomicU32::new(least),
            least,
        }
    }

    /// Returns the greatest window that one with the least window `least` grows to.
    pub(crate) const fn greatest(least: u32) -> u32 {
        least.saturating_mul(GREATEST)
    }

    pub(super) fn least(&self) -> u32 {
        self.least
    }

    pub(super) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Notes that an execution ahead was committed.
    pub(super) fn used(&self) {
        let now = self.now();
        if now < Self::greatest(self.least) {
            self.set(now + 1);
        }
    }

    /// Notes that an execution ahead was in vain.
    pub(super) fn in_vain(&self) {
        self.set((self.now() / 2).max(self.least));
    }

    /// A change by another thread meanwhile is lost, which does no harm.
    fn set(&self, window: u32) {
        self.now.store(window, Ordering::Relaxed);
    }
}
