//! The memory of a finished block, for the next one.

#[cfg(feature = "std")]
use crate::SealedBlock;
use crate::{block::TransactionMark, seal::SealMemory};
use alloc::vec::Vec;
#[cfg(feature = "std")]
use povmeter_delta_root::RootUpdate;
use povmeter_delta_root::ShadowScratch;
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::{Estimator, Recorder};

/// The memory of a finished [`Block`](crate::Block), for another one: the overlay, the arenas of the
/// shadow trie, the tables of recorder and estimator. Nothing of the finished block can be read in it,
/// and it holds no more memory than some blocks of usual size need.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) overlay: Overlay,
    pub(crate) state: ShadowScratch,
    pub(crate) recorder: Recorder,
    pub(crate) estimator: Estimator,
    pub(crate) open_transactions: Vec<TransactionMark>,
    pub(crate) seal_memory: SealMemory,
}

/// The most nodes and keys for which memory is kept.
pub(crate) const KEPT: usize = 1 << 16;

#[cfg(feature = "std")]
impl Scratch {
    /// Empties all parts. Names every field, so that none is forgotten.
    pub(crate) fn reset(&mut self) {
        let Self {
            overlay,
            // Emptied when it was taken.
            state: _,
            recorder,
            estimator,
            open_transactions,
            seal_memory,
        } = self;
        overlay.reset();
        recorder.reset(KEPT);
        estimator.reset(KEPT);
        open_transactions.clear();
        open_transactions.shrink_to(KEPT);
        seal_memory.shrink_to(KEPT);
    }

    /// Reuses the memory of a sealed block that is no longer needed for the update, the changes and the
    /// proof of the next one.
    ///
    /// Nodes of the update or the proof that are shared, for example with a store in memory, stay
    /// valid, and so does the memory that they lie in. If the update `is_needed`, it is returned, and its
    /// memory is not reused.
    pub(crate) fn recycle(&mut self, sealed: SealedBlock, is_needed: bool) -> Option<RootUpdate> {
        let (memory, update) = SealMemory::of(sealed);
        self.seal_memory = memory;
        let mut update = Some(update);
        if !is_needed {
            update
                .take()
                .into_iter()
                .for_each(|update| self.state.recycle(update));
        }
        self.reset();
        update
    }
}
