//! Attribution: which part of a block needs which bytes of the proof.
//!
//! ```text
//! a part of the block begins             -> all notes from here on have its number
//! a read asks the parent state           -> note (part, read, key) at each node it passes
//! a key is changed                       -> keep (part, key) for the next boundary
//! a boundary, for each key kept since    -> walk to the key: note (part, path, key) at each node
//!     a child is loaded for a merge      -> note (part, merge) at that node
//! a rollback, or a call that failed      -> remove the notes of what the recorder takes back
//! reads are forgotten                    -> remove their notes
//! the end                                -> each node that the recorder counts, with its notes
//! ```
//! Only the recorder decides what is counted; notes say which part needs it. A note at a node that is
//! not counted is ignored, so notes can't make the sum wrong.

mod entries;
mod gather;
mod ledger;
mod notes;

pub use entries::{Attribution, Cause, EntryKind, Owner, RecordedEntry, Want, Why};
pub(crate) use notes::{NoNotes, Notes, NotesMark};

use crate::{accounting::sealed::Sealed, Accounting, Block, Consensus};
use alloc::boxed::Box;
use core::marker::PhantomData;
use ledger::{Ledger, ReadNotes};
use povmeter_delta_root::{LoadError, NodeSource, PathCache, ShadowState, TrieId};
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::{Reading, Recorder};

/// The accounting `A`, with notes of which part of the block needs which node of the proof.
///
/// Sizes, roots and proofs are those of `A`. [`Block::begin_part`] begins the next part of the block;
/// [`Block::attribution`] and [`SealedBlock::attribution`](crate::SealedBlock::attribution) return the
/// result.
///
/// Costs a note for each node that a read passes, and at a boundary one more walk for each changed key.
/// Blocks with another accounting pay nothing.
///
/// ```
/// use povmeter::{Attributed, Block, Cause, Consensus, Root, StateVersion::V0, TrieId::Top};
/// use povmeter_store::{MemoryStore, NodeStore};
///
/// let mut store = MemoryStore::new();
/// let mut genesis = Block::new(&store, Root::EMPTY);
/// for name in [b"alice", b"bobby", b"carol"] {
///     genesis.set(Top, name, &[name[0]; 40])?;
/// }
/// store.commit(genesis.seal(V0)?.update())?;
///
/// let mut block = Block::with_accounting(&store, store.root(), Attributed(Consensus));
/// let first = block.begin_part();
/// block.get(Top, b"alice")?;
/// let second = block.begin_part();
/// block.set(Top, b"bobby", b"paid")?;
/// let sealed = block.seal(V0)?;
///
/// let attribution = sealed.attribution().ok_or("it was asked for")?;
/// // The item of a key is its first byte; the empty key has none.
/// let owners = attribution.entries().map(|entry| entry.owner(|want| want.key.first().copied()));
/// let mut found: Vec<_> = owners.map(|owner| (owner.part, owner.item, owner.cause)).collect();
/// found.sort_by_key(|(part, item, _)| (*part, *item));
/// assert_eq!(found, [
///     (first, None, Cause::Shared),            // the root node, on both paths
///     (first, Some(Some(b'a')), Cause::Read),
///     (second, Some(Some(b'b')), Cause::Root),
/// ]);
/// assert_eq!(attribution.total_bytes(), sealed.proof().recorded_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributed<A = Consensus>(pub A);

impl<A: Accounting> Sealed for Attributed<A> {}

impl<A: Accounting> Accounting for Attributed<A> {
    const PROVEN: bool = A::PROVEN;
    type Notes = LedgerNotes<A>;
}

/// Notes of which part needs which node, in a ledger.
#[doc(hidden)]
#[derive(Debug)]
pub struct LedgerNotes<A> {
    ledger: Ledger,
    accounting: PhantomData<A>,
}

impl<A> Default for LedgerNotes<A> {
    fn default() -> Self {
        Self {
            ledger: Ledger::default(),
            accounting: PhantomData,
        }
    }
}

impl<A: Accounting> Notes for LedgerNotes<A> {
    const TAKEN: bool = true;
    type Reading<'a>
        = ReadNotes<'a, Reading<'a>>
    where
        A: 'a;

    fn begins(&mut self) {
        self.ledger.begin_call();
    }

    fn failed(&mut self) {
        self.ledger.take_back_call();
    }

    fn reading<'a>(
        &'a mut self,
        recorder: &'a mut Recorder,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Self::Reading<'a> {
        self.ledger.reading(recorder.reading(), trie, key)
    }

    fn estimating<'a>(&'a mut self, recorder: &'a mut Recorder) -> impl PathCache + 'a {
        self.ledger.merging(recorder.estimating())
    }

    fn reading_for_root<'a>(&'a mut self, recorder: &'a mut Recorder) -> impl PathCache + 'a {
        self.ledger.merging_for_good(recorder.reading())
    }

    fn changes(&mut self, trie: TrieId<'_>, key: &[u8], deletes: bool) {
        self.ledger.change(trie, key, deletes);
    }

    fn clears(&mut self, overlay: &mut Overlay, trie: TrieId<'_>, prefix: &[u8]) {
        self.ledger.clear_prefix(overlay, trie, prefix);
    }

    fn boundary<S: NodeSource>(
        &mut self,
        overlay: &Overlay,
        state: &mut ShadowState<S>,
        child: Option<&[u8]>,
    ) -> Result<(), LoadError> {
        self.ledger.walk_to_changed(overlay, state, child)
    }

    fn opened(&mut self) {
        self.ledger.open();
    }

    fn committed(&mut self) {
        self.ledger.commit();
    }

    fn rolled_back(&mut self, by_host: bool) {
        self.ledger.roll_back(by_host, by_host || !A::PROVEN);
    }

    fn mark(&self) -> NotesMark {
        NotesMark(self.ledger.reads())
    }

    fn reads_forgotten(&mut self, mark: NotesMark) {
        let NotesMark(kept) = mark;
        self.ledger.forget_reads(kept);
    }

    fn estimates_dropped(&mut self) {
        self.ledger.drop_estimates();
    }

    fn attribution<S: NodeSource>(
        &self,
        recorder: &Recorder,
        overlay: &Overlay,
        state: &ShadowState<S>,
    ) -> Option<Box<Attribution>> {
        Some(Box::new(gather::gather(
            &self.ledger,
            recorder,
            overlay,
            state,
        )))
    }
}

impl<S: NodeSource, A: Accounting> Block<S, Attributed<A>> {
    /// Begins the next part of the block, for example an extrinsic, and returns its number. Reads and
    /// changes from here on belong to it. What comes before the first call is part 0.
    ///
    /// Rolling back does not change the number.
    pub fn begin_part(&mut self) -> u32 {
        self.notes.ledger.begin_part()
    }

    /// The nodes that reads and earlier estimates recorded, which are those of [`Self::recorded_proof`],
    /// with the reasons to need them.
    ///
    /// In a block that [counts roots in the order of the keys](Block::count_roots_in_key_order), what an emptied child
    /// trie merged is attributed to the part that asked for the root, until the block is sealed.
    ///
    /// Costs a pass over all notes and over all loaded nodes, those that a carrying pool has from earlier blocks
    /// included.
    pub fn attribution(&self) -> Attribution {
        gather::gather(
            &self.notes.ledger,
            &self.recorder,
            &self.overlay,
            &self.state,
        )
    }
}
