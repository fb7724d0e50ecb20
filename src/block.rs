//! A block under construction: transactions, reads, writes.

use crate::{
    accounting::{Accounting, Consensus},
    attribution::Notes,
    boundary,
    error::BlockError,
    scratch::{Scratch, KEPT},
    seal::SealMemory,
};
use alloc::vec::Vec;
use povmeter_delta_root::{Blake2b256, LoadError, NodeSource, NodeTable, RootUpdate, ShadowState};
use povmeter_overlay::{Lookup, Overlay};
use povmeter_pov_estimate::{
    CompactSize, Estimator, EstimatorMark, ProofSize, Recorder, RecorderMark, StorageProof,
};
use povmeter_primitives::{NodeHash, Root, StateVersion, TrieId, CHILD_ROOT_PREFIX};

/// A block being built or executed on top of a parent state.
///
/// See the [crate page](crate) for what it is for and an example. All calls that may have to load a
/// node of the parent state are fallible. An error leaves the block as it was, its changes, its
/// transactions and what it recorded, but for nodes loaded: the call can be repeated. A node that
/// turned out corrupt stays refused.
#[derive(Debug)]
pub struct Block<S, A: Accounting = Consensus> {
    pub(crate) overlay: Overlay,
    pub(crate) state: ShadowState<S>,
    pub(crate) recorder: Recorder,
    pub(crate) estimator: Estimator,
    compact: CompactSize,
    frames: Vec<Frame>,
    in_runtime: bool,
    /// The last root computed, with the content and the version it was computed for.
    pub(crate) root: Option<(u64, StateVersion, RootUpdate)>,
    pub(crate) notes: A::Notes,
    pub(crate) seal_memory: SealMemory,
}

/// Counts at the start of an open transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    by_host: bool,
    recorder: RecorderMark,
    estimator: EstimatorMark,
}

/// Keys of the parent state that begin with a prefix.
struct PrefixedKeys {
    keys: Vec<Vec<u8>>,
    /// The key after the last of `keys`, if there are more.
    after: Option<Vec<u8>>,
}

/// What a removal of many keys did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// First key of the parent state that is still to be removed; `None` when all are.
    pub cursor: Option<Vec<u8>>,
    /// Keys of the parent state that this call deleted.
    pub from_parent: u32,
    /// Keys deleted, of the parent state and of those that only the block had written.
    pub unique: u32,
    /// Keys of the parent state that this call looked at.
    pub looked_at: u32,
}

impl<S: NodeSource> Block<S> {
    /// A block on top of the state that `parent` commits to and `source` holds, with [`Consensus`]
    /// accounting. Reads nothing yet.
    pub fn new(source: S, parent: Root) -> Self {
        Self::with_accounting(source, parent, Consensus)
    }
}

impl<S, A: Accounting> Block<S, A> {
    /// The memory of this block, emptied, whatever the block is in the middle of.
    #[cfg(feature = "std")]
    pub(crate) fn into_scratch(self) -> Scratch {
        let Self {
            overlay,
            state,
            recorder,
            estimator,
            compact: _,
            frames,
            in_runtime: _,
            root,
            seal_memory,
            notes: _,
        } = self;
        let mut state = state.into_scratch();
        if let Some((_, _, update)) = root {
            state.take_back(update);
        }
        let mut scratch = Scratch {
            overlay,
            state,
            recorder,
            estimator,
            frames,
            seal_memory,
        };
        scratch.reset();
        scratch
    }

    /// As [`Self::with_accounting`], in the memory of a block that is over.
    pub(crate) fn in_scratch(source: S, parent: Root, scratch: Scratch) -> Self {
        let Scratch {
            overlay,
            state,
            recorder,
            estimator,
            frames,
            seal_memory,
        } = scratch;
        Self {
            overlay,
            state: ShadowState::in_scratch(source, parent, state),
            recorder,
            estimator,
            compact: CompactSize::default(),
            frames,
            in_runtime: false,
            root: None,
            seal_memory,
            notes: A::Notes::default(),
        }
    }
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// As [`Block::new`], with the accounting of choice.
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

    /// The root of the parent state.
    pub fn parent_root(&self) -> Root {
        self.state.root()
    }

    /// How many nodes of the parent state are loaded.
    pub fn loaded_nodes(&self) -> usize {
        self.state.loaded_nodes()
    }

    /// Bytes of memory that the loaded nodes hold, without their encodings.
    pub fn loaded_bytes(&self) -> usize {
        self.state.arena_bytes()
    }

    /// The value at `key`, borrowed from the overlay or from the parent's node.
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, BlockError> {
        match self.overlay.get(trie, key) {
            Lookup::Value(value) => Ok(Some(value)),
            Lookup::Deleted => Ok(None),
            Lookup::Untouched => {
                let mark = begin_call(&self.recorder, &mut self.notes);
                let mut reading = self.notes.reading(&mut self.recorder, trie, key);
                let place = self.state.value(trie, key, &mut reading);
                drop(reading);
                let table = self.state.table();
                match place {
                    Ok(place) => Ok(place.map(|place| place.bytes(table))),
                    Err(error) => {
                        take_back_call(&mut self.recorder, &mut self.notes, mark, table);
                        Err(error.into())
                    }
                }
            }
        }
    }

    /// Whether the block has changed `key` so far, so that reads of it need nothing of the parent
    /// state. A deletion is a change, of a key that is not there, too.
    pub fn is_changed(&self, trie: TrieId<'_>, key: &[u8]) -> bool {
        !matches!(self.overlay.get(trie, key), Lookup::Untouched)
    }

    /// Whether there is a value at `key`. The proof then holds the way to it, but not a value that
    /// is a node of its own.
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, BlockError> {
        match self.overlay.get(trie, key) {
            Lookup::Value(_) => Ok(true),
            Lookup::Deleted => Ok(false),
            Lookup::Untouched => {
                let mark = self.begin_call();
                let mut reading = self.notes.reading(&mut self.recorder, trie, key);
                let found = self.state.exists(trie, key, &mut reading);
                drop(reading);
                found.map_err(|error| self.take_back_call(mark, error))
            }
        }
    }

    /// Blake2b-256 of the value at `key`; the proof as for [`Self::exists`].
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn value_hash(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<NodeHash>, BlockError> {
        match self.overlay.get(trie, key) {
            Lookup::Value(value) => Ok(Some(Blake2b256::hash(value))),
            Lookup::Deleted => Ok(None),
            Lookup::Untouched => {
                let mark = self.begin_call();
                let mut reading = self.notes.reading(&mut self.recorder, trie, key);
                let found = self.state.value_hash(trie, key, &mut reading);
                drop(reading);
                found.map_err(|error| self.take_back_call(mark, error))
            }
        }
    }

    /// The first key after `key` that has a value.
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn next_key(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, BlockError> {
        let mark = self.begin_call();
        let next = self.find_next_key(trie, key);
        next.map_err(|error| self.take_back_call(mark, error))
    }

    fn find_next_key(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let mut reading = self.notes.reading(&mut self.recorder, trie, key);
        let mut in_parent = self.state.next_key(trie, key, &mut reading)?;
        let mut after = key.to_vec();
        while let Some((changed, value)) = self.overlay.next_after(trie, &after) {
            match &in_parent {
                Some(parent) if parent.as_slice() < changed => return Ok(in_parent),
                _ if value.is_some() => return Ok(Some(changed.to_vec())),
                // The parent's candidate is deleted: look for the one after it.
                Some(parent) if parent.as_slice() == changed => {
                    after = changed.to_vec();
                    in_parent = self.state.next_key(trie, &after, &mut reading)?;
                }
                _ => after = changed.to_vec(),
            }
        }
        Ok(in_parent)
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

    /// Appends `element`, encoded, to the SCALE list at `key`. A value that is no list is replaced
    /// by the list of this element.
    ///
    /// # Errors
    /// [`BlockError::Load`] if the list is the parent's and can't be had;
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
        let notes = &mut self.notes;
        let appended = self.overlay.append(trie, key, element, || {
            let mut reading = notes.reading(recorder, trie, key);
            let place = state.value(trie, key, &mut reading)?;
            Ok::<_, LoadError>(place.map(|place| place.share(state.table())))
        });
        appended.map_err(|error| self.take_back_call(mark, error))?;
        self.notes.changes(trie, key, false);
        Ok(())
    }

    /// Deletes the keys that begin with `prefix`: all that the block wrote, and of the parent
    /// state's at most `limit` (all, if `None`), from `cursor` on where one is given.
    ///
    /// All keys are looked for before the first is deleted, so that nothing is where one can't be had.
    ///
    /// # Errors
    /// [`BlockError::Load`]. [`BlockError::ChildRootKey`] for a prefix that includes roots of child
    /// tries.
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
            return Err(BlockError::ChildRootKey {
                key: prefix.to_vec(),
            });
        }
        let mark = self.begin_call();
        let found = self.find_prefixed(trie, prefix, limit, cursor.unwrap_or(prefix));
        let PrefixedKeys { keys, after } =
            found.map_err(|error| self.take_back_call(mark, error))?;
        self.notes.clears(&mut self.overlay, trie, prefix);
        let mut removal = Removal {
            cursor: after,
            unique: self.overlay.clear_prefix(trie, prefix),
            looked_at: u32::try_from(keys.len()).unwrap_or(u32::MAX),
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

    /// The first keys of the parent state that begin with `prefix`, from `from` on, `limit` at most; and
    /// the one after them, if there are more.
    fn find_prefixed(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        from: &[u8],
    ) -> Result<PrefixedKeys, LoadError> {
        let most = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let mut reading = self.notes.reading(&mut self.recorder, trie, prefix);
        let state = &mut self.state;
        let mut keys = Vec::new();
        let mut next = state.first_key_from(trie, prefix, from, &mut reading)?;
        while let Some(key) = next {
            if keys.len() == most {
                return Ok(PrefixedKeys {
                    keys,
                    after: Some(key),
                });
            }
            next = state.next_key_in(trie, prefix, &key, &mut reading)?;
            keys.push(key);
        }
        Ok(PrefixedKeys { keys, after: None })
    }

    /// Opens a transaction inside those that are open: the runtime's if the runtime is executing,
    /// else the host's.
    pub fn start_transaction(&mut self) {
        self.overlay.start_transaction();
        self.notes.opened();
        self.frames.push(Frame {
            by_host: !self.in_runtime,
            recorder: self.recorder.mark(),
            estimator: self.estimator.mark(),
        });
    }

    /// Keeps what the innermost transaction changed.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if none is open or it is the host's and the runtime executes.
    pub fn commit_transaction(&mut self) -> Result<(), BlockError> {
        self.overlay.commit_transaction()?;
        self.notes.committed();
        self.frames.pop();
        Ok(())
    }

    /// Undoes what the innermost transaction changed. What it read stays in the proof if the
    /// transaction was the runtime's, and is forgotten with the host's.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if none is open or it is the host's and the runtime executes.
    pub fn rollback_transaction(&mut self) -> Result<(), BlockError> {
        self.overlay.rollback_transaction()?;
        self.roll_back_counts();
        Ok(())
    }

    fn roll_back_counts(&mut self) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        self.notes.rolled_back(frame.by_host);
        // The nodes that a root needed may go with the counts.
        if let Some((_, _, update)) = self.root.take() {
            self.state.take_back(update);
        }
        let table = self.state.table();
        if frame.by_host {
            self.recorder.roll_back_reads(frame.recorder, table);
        }
        if frame.by_host || !A::PROVEN {
            self.recorder.roll_back_roots(frame.recorder, table);
            self.estimator.roll_back(frame.estimator);
        }
    }

    /// Hands control to the runtime: until [`Self::exit_runtime`], transactions are its own, and
    /// those of the host can't be closed.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if the runtime executes already.
    pub fn enter_runtime(&mut self) -> Result<(), BlockError> {
        self.overlay.enter_runtime()?;
        self.in_runtime = true;
        Ok(())
    }

    /// Takes control back, rolling back what the runtime left open; says how many transactions that
    /// were.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if the runtime does not execute.
    pub fn exit_runtime(&mut self) -> Result<usize, BlockError> {
        let open = self.overlay.exit_runtime()?;
        (0..open).for_each(|_| self.roll_back_counts());
        self.in_runtime = false;
        Ok(open)
    }

    /// Starts anew on the state of `root`, dropping all changes, counts and open transactions, with
    /// `change` made to the source.
    pub fn rebase(&mut self, root: Root, change: impl FnOnce(&mut S)) {
        let Self {
            overlay,
            state,
            recorder,
            estimator,
            compact,
            frames,
            in_runtime,
            root: last_root,
            // Empty until the block is sealed.
            seal_memory: _,
            notes,
        } = self;
        state.rebase(root, change);
        overlay.reset();
        recorder.reset(KEPT);
        estimator.reset(KEPT);
        *compact = CompactSize::default();
        frames.clear();
        *in_runtime = false;
        *last_root = None;
        *notes = A::Notes::default();
    }

    /// Number of open transactions.
    pub fn transaction_depth(&self) -> usize {
        self.overlay.depth()
    }

    /// How large the storage proof would be if the block ended now, the root computation included.
    /// Never less than that, at any place: between transactions, inside one, as often as wanted.
    ///
    /// With [`Consensus`](crate::Consensus) accounting the question is a part of the block: what it
    /// counted stays counted, so everybody who executes the block has to ask at the same places, as
    /// a runtime does. For a question of one's own there is [`Self::peek_proof_size`].
    ///
    /// Costs a walk for each key changed since the last call, a look-up for each that was read or
    /// counted before.
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn proof_size(&mut self) -> Result<ProofSize, BlockError> {
        let mark = self.begin_call();
        let looked = self.look_at_dirty();
        looked.map_err(|error| self.take_back_call(mark, error))?;
        self.overlay.snapshot();
        Ok(self.recorder.size())
    }

    /// Counts what the root needs for the keys changed since the last snapshot of the overlay, which
    /// is for the caller to take.
    pub(crate) fn look_at_dirty(&mut self) -> Result<(), LoadError> {
        self.notes.boundary(&self.overlay, &mut self.state)?;
        boundary::look_at_dirty(
            &self.overlay,
            &mut self.state,
            &mut self.estimator,
            &mut self.notes.estimating(&mut self.recorder),
        )
    }

    /// What [`Self::proof_size`] would say, without leaving a trace: no later answer, and no proof,
    /// depends on whether or how often this is asked.
    ///
    /// Costs a walk through loaded nodes for each key changed since the last [`Self::proof_size`],
    /// each time. Where nobody else asks, [`Advisory`](crate::Advisory) accounting costs less: it
    /// leaves no trace either, and walks for each key once.
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn peek_proof_size(&mut self) -> Result<ProofSize, BlockError> {
        let recorded = self.recorder.mark();
        let mut observer = self.recorder.estimating();
        let (overlay, state, estimator) = (&self.overlay, &mut self.state, &mut self.estimator);
        let looked = boundary::look_at_dirty(overlay, state, estimator, &mut observer);
        let size = self.recorder.size();
        if looked.is_ok() {
            self.estimator.take_back(&mut self.state);
        }
        self.recorder.roll_back_roots(recorded, self.state.table());
        looked?;
        Ok(size)
    }

    /// Length in bytes that the compact proof, as it travels in a block, would have if the block
    /// ended now. Counts as [`Self::proof_size`] does, first.
    ///
    /// The first call costs a pass over all nodes counted, a later one what came or went since. A node
    /// that is equal to one elsewhere costs a climb to the root more.
    ///
    /// # Errors
    /// [`BlockError::Load`]; [`BlockError::Proof`] if the parent state contradicts itself.
    pub fn compact_proof_bytes(&mut self) -> Result<u64, BlockError> {
        let mark = self.begin_call();
        let looked = self.look_at_dirty();
        looked.map_err(|error| self.take_back_call(mark, error))?;
        match self.compact.of(&mut self.recorder, &self.state) {
            Ok(bytes) => {
                self.overlay.snapshot();
                Ok(bytes)
            }
            Err(error) => {
                self.estimator.take_back(&mut self.state);
                Err(self.take_back_call(mark, error))
            }
        }
    }

    /// The nodes recorded so far: the whole proof, right after [`Self::proof_size`] or
    /// [`Self::root`].
    pub fn recorded_proof(&self) -> StorageProof {
        let table = self.state.table();
        StorageProof::new(self.recorder.nodes().map(|id| table.bytes(id).clone()))
    }

    /// The size of what was recorded so far: reads, and estimates made earlier. Counts nothing new.
    pub fn recorded_size(&self) -> ProofSize {
        self.recorder.size()
    }

    /// Where a call begins that may fail.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> RecorderMark {
        begin_call(&self.recorder, &mut self.notes)
    }

    /// Takes back what the call that began at `mark` has counted, since it failed for `error`.
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

/// [`Block::begin_call`], for a block that is lent out.
#[inline]
fn begin_call(recorder: &Recorder, notes: &mut impl Notes) -> RecorderMark {
    notes.begins();
    recorder.mark()
}

/// [`Block::take_back_call`], for a block that is lent out.
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

/// Roots of child tries are no keys to write.
fn refuse_child_root(trie: TrieId<'_>, key: &[u8]) -> Result<(), BlockError> {
    if trie == TrieId::Top && key.starts_with(CHILD_ROOT_PREFIX) {
        return Err(BlockError::ChildRootKey { key: key.to_vec() });
    }
    Ok(())
}
