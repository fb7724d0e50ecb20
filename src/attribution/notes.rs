//! The notes that an accounting may take of a block.

use alloc::boxed::Box;
use core::fmt::Debug;
use povmeter_delta_root::{LoadError, NodeSource, PathCache, ShadowState, TrieId};
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::{Reading, Recorder};

use super::Attribution;

/// A point in the notes of reads; always the same where no notes are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotesMark(pub(super) usize);

/// Takes no notes. Costs nothing, because the compiler removes all of it.
#[derive(Debug, Default)]
pub struct NoNotes;

impl Notes for NoNotes {
    const TAKEN: bool = false;
    type Reading<'a> = Reading<'a>;

    #[inline]
    fn reading<'a>(
        &'a mut self,
        recorder: &'a mut Recorder,
        _: TrieId<'_>,
        _key: &[u8],
    ) -> Reading<'a> {
        recorder.reading()
    }
}

/// What a block tells its accounting. The provided methods take no notes.
pub trait Notes: Default + Debug + Send {
    /// Whether notes are taken.
    const TAKEN: bool;
    /// Counts what a read touches.
    type Reading<'a>: PathCache
    where
        Self: 'a;

    /// A call begins that may fail.
    #[inline]
    fn begins(&mut self) {}

    /// The call that began last has failed: its notes are removed.
    #[inline]
    fn failed(&mut self) {}

    /// Returns an observer that counts what a read of `key` touches.
    fn reading<'a>(
        &'a mut self,
        recorder: &'a mut Recorder,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Self::Reading<'a>;

    /// Returns an observer that counts what the root computation will need.
    #[inline]
    fn estimating<'a>(&'a mut self, recorder: &'a mut Recorder) -> impl PathCache + 'a {
        recorder.estimating()
    }

    /// Returns an observer that counts what the root computation needs as read.
    #[inline]
    fn reading_for_root<'a>(&'a mut self, recorder: &'a mut Recorder) -> impl PathCache + 'a {
        recorder.reading()
    }

    /// `key` is written or, if `_deletes`, deleted.
    #[inline]
    fn changes(&mut self, _: TrieId<'_>, _key: &[u8], _deletes: bool) {}

    /// All keys that the block wrote below `prefix` are about to be deleted.
    #[inline]
    fn clears(&mut self, _: &mut Overlay, _: TrieId<'_>, _prefix: &[u8]) {}

    /// A boundary is about to count, or the boundary of the root of the child trie `child`.
    ///
    /// # Errors
    /// [`LoadError`] if a node that the boundary needs too can't be loaded.
    #[inline]
    fn boundary<S: NodeSource>(
        &mut self,
        _: &Overlay,
        _: &mut ShadowState<S>,
        _child: Option<&[u8]>,
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

    /// The current point, for [`Self::reads_forgotten`].
    #[inline]
    fn mark(&self) -> NotesMark {
        NotesMark::default()
    }

    /// The counts of the reads since a mark are taken back.
    #[inline]
    fn reads_forgotten(&mut self, _: NotesMark) {}

    /// The counts of estimates are taken back, because the block is being sealed.
    #[inline]
    fn estimates_dropped(&mut self) {}

    /// The counted nodes with the reasons to need them; `None` if no notes were taken. All changes are marked in the
    /// state.
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
