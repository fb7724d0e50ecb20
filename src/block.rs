//! A block under construction, and its writes.

mod forgotten;
mod number;
mod reads;
mod recorded;
mod sizes;
mod transactions;

pub use recorded::SeenNodes;
pub use sizes::ReadsMark;

pub(crate) use transactions::TransactionMark;

use crate::{
    accounting::{Accounting, Consensus},
    attribution::Notes,
    error::BlockError,
    scratch::{Scratch, KEPT},
    seal::SealMemory,
};
use alloc::vec::Vec;
use bytes::Bytes;
use core::mem::take;
use forgotten::Forgotten;
use number::BlockNumber;
#[cfg(feature = "std")]
use povmeter_delta_root::CarriedState;
use povmeter_delta_root::{Hashing, LoadError, NodeSource, NodeTable, RootUpdate, ShadowState};
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::{CompactSize, Estimator, Recorder, RecorderMark};
use povmeter_primitives::{Root, StateVersion, TrieId, CHILD_ROOT_PREFIX};
use reads::PrefixedKeys;
use recorded::Cut;

/// A block being built or executed on top of a parent state.
///
/// See the [crate page](crate) for its purpose and an example. Every call that may load a node of the
/// parent state is fallible. After an error, changes, transactions and recorded nodes are as before,
/// and only loaded nodes stay, so the call can be repeated. A corrupt node stays refused.
///
/// To kill a child trie, call `clear_prefix(TrieId::Child(key), b"", None, None)`, which deletes all
/// its keys. Only [`Self::child_root`] writes the key of a child's root, so without it
/// `get(TrieId::Top, &child_root_key(key))` returns the root in the parent state, before and after
/// [`Self::root`], and after the kill. [`RootUpdate::children`] holds the new root, after the kill
/// [`Root::EMPTY`], and the update then deletes the key from the top trie.
#[derive(Debug)]
pub struct Block<S, A: Accounting = Consensus> {
    /// Another one whenever the block begins anew, so that what was taken from it before is known as such.
    number: BlockNumber,
    pub(crate) overlay: Overlay,
    pub(crate) state: ShadowState<S>,
    pub(crate) recorder: Recorder,
    pub(crate) estimator: Estimator,
    compact: CompactSize,
    open_transactions: Vec<TransactionMark>,
    /// How many transactions were opened.
    opened: u64,
    in_runtime: bool,
    /// Whether roots count what sp-state-machine reads.
    pub(crate) roots_in_key_order: bool,
    /// How many calls there were whose counts [`Self::forget_reads`] must leave: boundaries, those that failed included,
    /// and changes that read the parent state.
    pub(crate) lasting_counts: u64,
    cut: Cut,
    forgotten: Forgotten,
    /// The last root update, with the revision of the overlay and the state version it was computed for.
    pub(crate) root: Option<(u64, StateVersion, RootUpdate)>,
    pub(crate) notes: A::Notes,
    pub(crate) seal_memory: SealMemory,
}

/// The result of [`Block::clear_prefix`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The cursor for the next call: the first key of the parent state that is left; `None` if none is.
    pub cursor: Option<Vec<u8>>,
    /// Keys of the parent state that this call deleted and that the block had not changed before.
    pub from_parent: u32,
    /// Keys that this call deleted: those of [`Self::from_parent`], and those that the block had written, whether or not
    /// the parent state has them.
    pub unique: u32,
    /// Keys of the parent state that this call visited, whether or not they were deleted before.
    pub visited: u32,
}

impl<S: NodeSource> Block<S> {
    /// A block on top of the state that `parent` commits to and `source` holds, with [`Consensus`]
    /// accounting. Loads nothing yet.
    pub fn new(source: S, parent: Root) -> Self {
        Self::with_accounting(source, parent, Consensus)
    }
}

impl<S, A: Accounting> Block<S, A> {
    /// Returns the emptied memory of this block and, if `carry`, its loaded state, unless that is of no
    /// use. Transactions may be open, and the runtime may be executing.
    #[cfg(feature = "std")]
    pub(crate) fn into_scratch(self, carry: bool) -> (Scratch, Option<CarriedState>) {
        let Self {
            number: _,
            overlay,
            state,
            recorder,
            estimator,
            compact: _,
            open_transactions,
            opened: _,
            in_runtime: _,
            roots_in_key_order: _,
            lasting_counts: _,
            cut: _,
            forgotten: _,
            root,
            seal_memory,
            notes: _,
        } = self;
        // Nothing is carried with ignored nodes, because the source does not have these.
        let (carried, mut state) = if carry && recorder.ignored() == 0 {
            state.into_carried(recorder.nodes())
        } else {
            (None, state.into_scratch())
        };
        if let Some((_, _, update)) = root {
            state.recycle(update);
        }
        let mut scratch = Scratch {
            overlay,
            state,
            recorder,
            estimator,
            open_transactions,
            seal_memory,
        };
        scratch.reset();
        (scratch, carried)
    }

    /// As [`Self::with_accounting`], in the memory of a finished block.
    pub(crate) fn in_scratch(source: S, parent: Root, mut scratch: Scratch) -> Self {
        let memory = take(&mut scratch.state);
        Self::on(ShadowState::in_scratch(source, parent, memory), scratch)
    }

    /// A block on the state whose loaded part is `carried`, in the memory of a finished block.
    #[cfg(feature = "std")]
    pub(crate) fn in_carried(source: S, carried: CarriedState, mut scratch: Scratch) -> Self {
        let memory = take(&mut scratch.state);
        Self::on(ShadowState::in_carried(source, carried, memory), scratch)
    }

    /// A block on `state`, in the rest of the memory of a finished block.
    fn on(state: ShadowState<S>, scratch: Scratch) -> Self {
        let Scratch {
            overlay,
            state: _,
            recorder,
            estimator,
            open_transactions,
            seal_memory,
        } = scratch;
        Self {
            number: BlockNumber::new(),
            overlay,
            state,
            recorder,
            estimator,
            compact: CompactSize::default(),
            open_transactions,
            opened: 0,
            in_runtime: false,
            roots_in_key_order: false,
            lasting_counts: 0,
            cut: Cut::default(),
            forgotten: Forgotten::default(),
            root: None,
            seal_memory,
            notes: A::Notes::default(),
        }
    }
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// As [`Block::new`], with the given accounting.
    ///
    /// ```
    /// use povmeter::{Advisory, Block, ProofNodes, Root};
    ///
    /// let block = Block::with_accounting(ProofNodes::default(), Root::EMPTY, Advisory);
    /// # assert_eq!(block.recorded_size().total_bytes(), 0);
    /// ```
    pub fn with_accounting(source: S, parent: Root, _accounting: A) -> Self {
        Self::in_scratch(source, parent, Scratch::default())
    }

    /// The same block, with root updates hashed by `hashing` instead of the fastest mode.
    ///
    /// ```
    /// use povmeter::{Block, HashMode, Hashing, ProofNodes, Root};
    ///
    /// let plain = Hashing::new(HashMode::Portable)?;
    /// let block = Block::new(ProofNodes::default(), Root::EMPTY).with_hashing(plain);
    /// # assert_eq!(block.parent_root(), Root::EMPTY);
    /// # Ok::<(), povmeter::UnsupportedMode>(())
    /// ```
    #[must_use]
    pub fn with_hashing(mut self, hashing: Hashing) -> Self {
        self.state = self.state.with_hashing(hashing);
        self
    }

    /// Makes roots count exactly the nodes that sp-state-machine reads for them: those that a computation needs that
    /// applies the changes in the order of their keys. By default a root counts what a size counts, which can be a few
    /// nodes more (`docs/proof-size.md`, section "Roots in key order").
    ///
    /// For a block whose runtime gets the sizes of sp-state-machine, which are without the root: its proof then has the
    /// same nodes, so later blocks of one PoV get the same sizes, too. Call it before the first root. Sizes that were
    /// computed, and those that will be, stay as they are.
    pub fn count_roots_in_key_order(&mut self) {
        self.roots_in_key_order = true;
    }

    /// The root of the parent state.
    pub fn parent_root(&self) -> Root {
        self.state.root()
    }

    /// What the block has changed so far.
    ///
    /// ```
    /// use povmeter::{Block, Lookup, ProofNodes, Root, TrieId::Top};
    ///
    /// let mut block = Block::new(ProofNodes::default(), Root::EMPTY);
    /// block.remove(Top, b"bobby")?;
    /// assert!(matches!(block.overlay().get(Top, b"bobby"), Lookup::Deleted));
    /// # Ok::<(), povmeter::BlockError>(())
    /// ```
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// How many nodes of the parent state are loaded.
    pub fn loaded_nodes(&self) -> usize {
        self.state.loaded_nodes()
    }

    /// Bytes of memory that the encodings of the loaded nodes hold, with the table that finds them. Costs nothing, unlike
    /// [`Self::loaded_bytes`], which asks each child trie.
    pub fn encoding_memory(&self) -> usize {
        self.state.table().memory()
    }

    /// Bytes of memory that the loaded nodes hold, without their encodings.
    pub fn loaded_bytes(&self) -> usize {
        self.state.arena_bytes()
    }

    /// Sets the value at `key`.
    ///
    /// # Errors
    /// [`BlockError::ChildRootKey`] for a key of the top trie under which a child's root lies.
    pub fn set(&mut self, trie: TrieId<'_>, key: &[u8], value: &[u8]) -> Result<(), BlockError> {
        refuse_child_root(trie, key)?;
        self.overlay.set(trie, key, value);
        self.notes.changes(trie, key, false);
        Ok(())
    }

    /// As [`Self::set`]. A value of 32 KiB or more shares memory with `value`, and is not copied.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn set_bytes(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        value: &Bytes,
    ) -> Result<(), BlockError> {
        refuse_child_root(trie, key)?;
        self.overlay.set_bytes(trie, key, value);
        self.notes.changes(trie, key, false);
        Ok(())
    }

    /// The value that the block wrote at `key`, in memory that the caller may keep: `Some(None)` if the block
    /// deleted it, `None` if the block has not changed it. Counts nothing.
    ///
    /// Costs one look-up, and a copy of a value of up to 28 KiB. A longer one is shared; the next write to it copies
    /// it if the caller still keeps it.
    pub fn share(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Option<Bytes>> {
        self.overlay.share(trie, key)
    }

    /// Deletes the value at `key`, if there is one.
    ///
    /// # Errors
    /// [`BlockError::ChildRootKey`] for a key of the top trie under which a child's root lies.
    pub fn remove(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<(), BlockError> {
        refuse_child_root(trie, key)?;
        if self.overlay.remove(trie, key) {
            self.notes.changes(trie, key, true);
        }
        Ok(())
    }

    /// Appends the encoded `element` to the SCALE list at `key`. A value that is not a list is replaced
    /// by a list of this one element.
    ///
    /// # Errors
    /// [`BlockError::Load`] if the list lies in the parent state and can't be loaded;
    /// [`BlockError::ChildRootKey`] for a key under which a child's root lies.
    pub fn append(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        element: &[u8],
    ) -> Result<(), BlockError> {
        refuse_child_root(trie, key)?;
        let mark = self.begin_call();
        let (state, recorder) = (&mut self.state, &mut self.recorder);
        let (notes, lasting_counts) = (&mut self.notes, &mut self.lasting_counts);
        let appended = self.overlay.append(trie, key, element, || {
            *lasting_counts = lasting_counts.wrapping_add(1);
            let mut reading = notes.reading(recorder, trie, key);
            let place = state.value(trie, key, &mut reading)?;
            Ok::<_, LoadError>(place.map(|place| place.share(state.table())))
        });
        appended.map_err(|error| self.take_back_call(mark, error))?;
        self.notes.changes(trie, key, false);
        Ok(())
    }

    /// Deletes the keys that begin with `prefix`: all that the block wrote, and at most `limit` of the
    /// parent state (all, if `None`), from `cursor` on if it is given.
    ///
    /// Finds all keys before it deletes the first, so that an error deletes nothing.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node can't be loaded; [`BlockError::ChildRootPrefix`] for a prefix of the
    /// top trie that covers the roots of child tries.
    pub fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, BlockError> {
        let holds_child_roots =
            prefix.starts_with(CHILD_ROOT_PREFIX) || CHILD_ROOT_PREFIX.starts_with(prefix);
        if trie == TrieId::Top && holds_child_roots {
            return Err(BlockError::ChildRootPrefix {
                prefix: prefix.to_vec(),
            });
        }
        let from = cursor.unwrap_or(prefix);
        let PrefixedKeys { keys, after } = self.find_prefixed(trie, prefix, limit, from)?;
        self.lasting_counts = self.lasting_counts.wrapping_add(1);
        self.notes.clears(&mut self.overlay, trie, prefix);
        let mut removal = Removal {
            cursor: after,
            unique: self.overlay.clear_prefix(trie, prefix),
            visited: u32::try_from(keys.len()).unwrap_or(u32::MAX),
            ..Removal::default()
        };
        for key in &keys {
            if self.overlay.remove(trie, key) {
                removal.from_parent = removal.from_parent.saturating_add(1);
                self.notes.changes(trie, key, true);
            }
        }
        removal.unique = removal.unique.saturating_add(removal.from_parent);
        Ok(removal)
    }

    /// Restarts on the state of `root`: drops all changes, counts, open transactions and
    /// [ignored](Self::ignore) nodes, and applies `change` to the source.
    pub fn rebase(&mut self, root: Root, change: impl FnOnce(&mut S)) {
        let Self {
            number,
            overlay,
            state,
            recorder,
            estimator,
            compact,
            open_transactions,
            opened,
            in_runtime,
            // A setting.
            roots_in_key_order: _,
            lasting_counts,
            cut,
            forgotten,
            root: last_root,
            // Empty until the block is sealed.
            seal_memory: _,
            notes,
        } = self;
        state.rebase(root, change);
        *number = BlockNumber::new();
        overlay.reset();
        recorder.reset(KEPT);
        estimator.reset(KEPT);
        *compact = CompactSize::default();
        open_transactions.clear();
        *opened = 0;
        *in_runtime = false;
        *lasting_counts = 0;
        *cut = Cut::default();
        *forgotten = Forgotten::default();
        *last_root = None;
        *notes = A::Notes::default();
    }

    /// Marks the start of a call that may fail.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> RecorderMark {
        begin_call(&self.recorder, &mut self.notes)
    }

    /// Takes back what a failed call has counted since `mark`, and converts its `error`.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_back_call<E: Into<BlockError>>(
        &mut self,
        mark: RecorderMark,
        error: E,
    ) -> BlockError {
        let table = self.state.table();
        take_back_call(&mut self.recorder, &mut self.notes, mark, table);
        error.into()
    }
}

/// [`Block::begin_call`], for a block whose fields are borrowed separately.
#[inline]
fn begin_call(recorder: &Recorder, notes: &mut impl Notes) -> RecorderMark {
    notes.begins();
    recorder.mark()
}

/// [`Block::take_back_call`], for a block whose fields are borrowed separately.
#[cold]
#[inline(never)]
fn take_back_call(
    recorder: &mut Recorder,
    notes: &mut impl Notes,
    mark: RecorderMark,
    table: &NodeTable,
) {
    recorder.roll_back(mark, table);
    notes.failed();
}

/// Refuses the key of a child trie's root, because its value follows from the child trie.
fn refuse_child_root(trie: TrieId<'_>, key: &[u8]) -> Result<(), BlockError> {
    if trie == TrieId::Top && key.starts_with(CHILD_ROOT_PREFIX) {
        return Err(BlockError::ChildRootKey { key: key.to_vec() });
    }
    Ok(())
}
