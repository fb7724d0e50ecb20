//! What an accounting may take note of while a block goes on.

use alloc::boxed::Box;
use core::fmt::Debug;
use povmeter_delta_root::{LoadError, NodeSource, PathCache, ShadowState, TrieId};
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::Recorder;

use super::Attribution;

/// Takes no notes. Costs nothing, because the compiler removes all of it.
#[derive(Debug, Default)]
pub struct NoNotes;

impl Notes for NoNotes {}

/// What a block tells its accounting. The functions do here what a block without notes does.
pub trait Notes: Default + Debug {
    /// A call begins that may fail.
    #[inline]
    fn begins(&mut self) {}

    /// The call that began last has failed: what it noted since is forgotten.
    #[inline]
    fn failed(&mut self) {}

    /// Counts what a read of `key` touches.
    #[inline]
    fn reading<'a>(
        &'a mut self,
        recorder: &'a mut Recorder,
        _: TrieId<'a>,
        _key: &'a [u8],
    ) -> impl PathCache + 'a {
        recorder.reading()
    }

    /// Counts what the root computation will need.
    #[inline]
    fn estimating<'a>(&'a mut self, recorder: &'a mut Recorder) -> impl PathCache + 'a {
        recorder.estimating()
    }

    /// Counts what the root computation needs as read.
    #[inline]
    fn reading_for_root<'a>(&'a mut self, recorder: &'a mut Recorder) -> impl PathCache + 'a {
        recorder.reading()
    }

    /// `key` is written or, if it `deletes`, deleted.
    #[inline]
    fn changes(&mut self, _: TrieId<'_>, _key: &[u8], _deletes: bool) {}

    /// What the block wrote below `prefix` is about to be deleted.
    #[inline]
    fn clears(&mut self, _: &mut Overlay, _: TrieId<'_>, _prefix: &[u8]) {}

    /// A boundary is about to count.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be had that the boundary needs, too.
    #[inline]
    fn boundary<S: NodeSource>(
        &mut self,
        _: &Overlay,
        _: &mut ShadowState<S>,
    ) -> Result<(), LoadError> {
        Ok(())
    }

    /// A transaction is opened.
    #[inline]
    fn opened(&mut self) {}

    /// The innermost transaction is committed.
    #[inline]
    fn committed(&mut self) {}

    /// The innermost transaction, the host's or the runtime's, is rolled back.
    #[inline]
    fn rolled_back(&mut self, _by_host: bool) {}

    /// What estimates counted is taken back, since the block is sealed.
    #[inline]
    fn estimates_dropped(&mut self) {}

    /// Who needs what is counted.
    #[inline]
    fn attribution<S: NodeSource>(
        &self,
        _: &Recorder,
        _: &Overlay,
        _: &ShadowState<S>,
    ) -> Option<Box<Attribution>> {
        None
    }
}
