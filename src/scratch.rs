//! The memory of a block that is over, for the next one.

#[cfg(feature = "std")]
use crate::SealedBlock;
use crate::{block::Frame, seal::SealMemory};
use alloc::vec::Vec;
use povmeter_delta_root::ShadowScratch;
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::{Estimator, Recorder};

/// The memory of a [`Block`](crate::Block) that is over, for another one: the overlay, the arenas of the
/// shadow trie, the tables of recorder and estimator. It holds nothing of the block that it was taken
/// from, and keeps no more memory than some blocks of usual size need.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) overlay: Overlay,
    pub(crate) state: ShadowScratch,
    pub(crate) recorder: Recorder,
    pub(crate) estimator: Estimator,
    pub(crate) frames: Vec<Frame>,
    pub(crate) seal_memory: SealMemory,
}

/// Nodes and keys that memory is kept for, at most.
pub(crate) const KEPT: usize = 1 << 16;

#[cfg(feature = "std")]
impl Scratch {
    /// Empties all parts that are not empty by their type. Names every field, so that none is
    /// forgotten.
    pub(crate) fn reset(&mut self) {
        let Self {
            overlay,
            // Emptied when it was taken.
            state: _,
            recorder,
            estimator,
            frames,
            seal_memory,
        } = self;
        overlay.reset();
        recorder.reset(KEPT);
        estimator.reset(KEPT);
        frames.clear();
        frames.shrink_to(KEPT);
        seal_memory.shrink_to(KEPT);
    }

    /// Takes the memory of a sealed block too, for whoever has no use for it any more: for the update,
    /// the changes and the proof of the next one.
    ///
    /// Nodes of the update or the proof that somebody shares, such as a store in memory that has taken
    /// them, stay theirs, and the memory that they are in.
    pub(crate) fn recycle(&mut self, sealed: SealedBlock) {
        let (memory, update) = SealMemory::of(sealed);
        self.seal_memory = memory;
        self.state.take_back(update);
        self.reset();
    }
}
