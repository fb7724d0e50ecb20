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
/// See the [crate page](crate) for its purpose and an example. Every call that may load a node of the
/// parent state is fallible. After an error, changes, transactions and recorded nodes are as before,
/// and only loaded nodes stay, so the call can be repeated. A corrupt node stays refused.
///
/// To kill a child trie, call `clear_prefix(TrieId::Child(key), b"", None, None)`, which deletes all
/// its keys. `get(TrieId::Top, &child_root_key(key))` returns the child's root in the parent
/// state throughout the block: before and after [`Self::root`], and after the kill, because only the
/// root update writes that key. [`RootUpdate::children`] holds the new root, after the kill
/// [`Root::EMPTY`], and the update then deletes the key from the top trie.
#[derive(Debug)]
pub struct Block<S, A: Accounting = Consensus> {
    pub(crate) overlay: Overlay,
    pub(crate) state: ShadowState<S>,
    pub(crate) recorder: Recorder,
    pub(crate) estimator: Estimator,
    compact: CompactSize,
    open_transactions: Vec<TransactionMark>,
    in_runtime: bool,
    /// The last root computed, with the content and the version it was computed for.
    pub(crate) root: Option<(u64, StateVersion, RootUpdate)>,
    pub(crate) notes: A::Notes,
    pub(crate) seal_memory: SealMemory,
}

/// Counts at the start of an open transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionMark {
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

/// The result of [`Block::clear_prefix`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The cursor for the next call: the first key of the parent state that is left; `None` if none is.
    pub cursor: Option<Vec<u8>>,
    /// Keys of the parent state that this call deleted.
    pub from_parent: u32,
    /// Keys that this call deleted, those that only the block had written included.
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
    /// The memory of this block, emptied. Transactions may be open, and the runtime may be executing.
    #[cfg(feature = "std")]
    pub(crate) fn into_scratch(self) -> Scratch {
        let Self {
            overlay,
            state,
            recorder,
            estimator,
            compact: _,
            open_transactions,
            in_runtime: _,
            root,
            seal_memory,
            notes: _,
        } = self;
        let mut state = state.into_scratch();
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
        scratch
    }

    /// As [`Self::with_accounting`], in the memory of a finished block.
    pub(crate) fn in_scratch(source: S, parent: Root, scratch: Scratch) -> Self {
        let Scratch {
            overlay,
            state,
            recorder,
            estimator,
            open_transactions,
            seal_memory,
        } = scratch;
        Self {
            overlay,
            state: ShadowState::in_scratch(source, parent, state),
            recorder,
            estimator,
            compact: CompactSize::default(),
            open_transactions,
            in_runtime: false,
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

    /// Whether the block has changed `key`, so that reads of it need nothing of the parent state. A
    /// deletion is a change even if the key had no value.
    pub fn is_changed(&self, trie: TrieId<'_>, key: &[u8]) -> bool {
        !matches!(self.overlay.get(trie, key), Lookup::Untouched)
    }

    /// Whether there is a value at `key`. The proof gets the path to the key, but no value that is a
    /// node.
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

    /// Blake2b-256 of the value at `key`. The proof gets the same nodes as for [`Self::exists`].
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

    /// Deletes the keys that begin with `prefix`: all that the block wrote, and at most `limit` of the
    /// parent state (all, if `None`), from `cursor` on if it is given.
    ///
    /// Finds all keys before it deletes the first, so that an error deletes nothing.
    ///
    /// # Errors
    /// [`BlockError::Load`]. [`BlockError::ChildRootKey`] for a prefix of the top trie that covers
    /// roots of child tries.
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

    /// Up to `limit` keys of the parent state that begin with `prefix`, from `from` on, and the next
    /// one if there are more.
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

    /// Opens a transaction inside the open ones: the runtime's while the runtime executes, else the
    /// host's.
    pub fn start_transaction(&mut self) {
        self.overlay.start_transaction();
        self.notes.opened();
        self.open_transactions.push(TransactionMark {
            by_host: !self.in_runtime,
            recorder: self.recorder.mark(),
            estimator: self.estimator.mark(),
        });
    }

    /// Closes the innermost transaction and keeps its changes.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if none is open, or if it is the host's while the runtime executes.
    pub fn commit_transaction(&mut self) -> Result<(), BlockError> {
        self.overlay.commit_transaction()?;
        self.notes.committed();
        self.open_transactions.pop();
        Ok(())
    }

    /// Closes the innermost transaction and undoes its changes. What it read stays in the proof if the
    /// transaction was the runtime's, and leaves the proof if it was the host's.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if none is open, or if it is the host's while the runtime executes.
    pub fn rollback_transaction(&mut self) -> Result<(), BlockError> {
        self.overlay.rollback_transaction()?;
        self.roll_back_counts();
        Ok(())
    }

    fn roll_back_counts(&mut self) {
        let Some(mark) = self.open_transactions.pop() else {
            return;
        };
        self.notes.rolled_back(mark.by_host);
        // The cached root is dropped, because its nodes may be rolled back with the counts.
        if let Some((_, _, update)) = self.root.take() {
            self.state.recycle(update);
        }
        let table = self.state.table();
        if mark.by_host {
            self.recorder.roll_back_reads(mark.recorder, table);
        }
        if mark.by_host || !A::PROVEN {
            self.recorder.roll_back_roots(mark.recorder, table);
            self.estimator.roll_back(mark.estimator);
        }
    }

    /// Hands control to the runtime. Until [`Self::exit_runtime`], new transactions belong to the
    /// runtime, and those of the host can't be closed.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if the runtime executes already.
    pub fn enter_runtime(&mut self) -> Result<(), BlockError> {
        self.overlay.enter_runtime()?;
        self.in_runtime = true;
        Ok(())
    }

    /// Takes control back, rolls back the runtime's open transactions, and returns how many they were.
    ///
    /// # Errors
    /// [`BlockError::Transaction`] if the runtime does not execute.
    pub fn exit_runtime(&mut self) -> Result<usize, BlockError> {
        let open = self.overlay.exit_runtime()?;
        (0..open).for_each(|_| self.roll_back_counts());
        self.in_runtime = false;
        Ok(open)
    }

    /// Restarts on the state of `root`: drops all changes, counts and open transactions, and applies
    /// `change` to the source.
    pub fn rebase(&mut self, root: Root, change: impl FnOnce(&mut S)) {
        let Self {
            overlay,
            state,
            recorder,
            estimator,
            compact,
            open_transactions,
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
        open_transactions.clear();
        *in_runtime = false;
        *last_root = None;
        *notes = A::Notes::default();
    }

    /// Number of open transactions.
    pub fn transaction_depth(&self) -> usize {
        self.overlay.depth()
    }

    /// The size of the storage proof if the block ended now, the root computation included; never less
    /// than that. It can be called at any point, inside a transaction too, as often as wanted.
    ///
    /// With [`Consensus`](crate::Consensus) accounting the call is part of the block, because what it
    /// counts stays counted. So author, importer and validator must ask at the same points, as a
    /// runtime does. [`Self::peek_proof_size`] asks without that effect.
    ///
    /// Costs a walk for each key changed since the last call, or a look-up if the key was read or
    /// counted before.
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn proof_size(&mut self) -> Result<ProofSize, BlockError> {
        let mark = self.begin_call();
        let counted = self.count_dirty();
        counted.map_err(|error| self.take_back_call(mark, error))?;
        self.overlay.snapshot();
        Ok(self.recorder.size())
    }

    /// Counts what the root needs for the dirty keys. The caller then takes the overlay's snapshot.
    pub(crate) fn count_dirty(&mut self) -> Result<(), LoadError> {
        self.notes.boundary(&self.overlay, &mut self.state)?;
        boundary::count_dirty(
            &self.overlay,
            &mut self.state,
            &mut self.estimator,
            &mut self.notes.estimating(&mut self.recorder),
        )
    }

    /// What [`Self::proof_size`] would return, without a trace: no later size and no proof depends on
    /// this call.
    ///
    /// Every call costs a walk through loaded nodes for each key changed since the last
    /// [`Self::proof_size`]. If nobody else asks, [`Advisory`](crate::Advisory) accounting costs less:
    /// it leaves no trace either, and walks for each key once.
    ///
    /// # Errors
    /// [`BlockError::Load`].
    pub fn peek_proof_size(&mut self) -> Result<ProofSize, BlockError> {
        let recorded = self.recorder.mark();
        let mut observer = self.recorder.estimating();
        let (overlay, state, estimator) = (&self.overlay, &mut self.state, &mut self.estimator);
        let counted = boundary::count_dirty(overlay, state, estimator, &mut observer);
        let size = self.recorder.size();
        if counted.is_ok() {
            self.estimator.take_back(&mut self.state);
        }
        self.recorder.roll_back_roots(recorded, self.state.table());
        counted?;
        Ok(size)
    }

    /// Length in bytes of the encoded compact proof if the block ended now. First counts as
    /// [`Self::proof_size`] does.
    ///
    /// The first call costs a pass over all counted nodes, a later one a step for each node counted or
    /// taken back since. Each reference to a node that has several also costs a walk up to the root.
    ///
    /// # Errors
    /// [`BlockError::Load`]; [`BlockError::Proof`] if the parent state is inconsistent.
    pub fn compact_proof_bytes(&mut self) -> Result<u64, BlockError> {
        let mark = self.begin_call();
        let counted = self.count_dirty();
        counted.map_err(|error| self.take_back_call(mark, error))?;
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

    /// The nodes recorded so far; right after [`Self::proof_size`] or [`Self::root`], the whole proof.
    pub fn recorded_proof(&self) -> StorageProof {
        let table = self.state.table();
        StorageProof::new(self.recorder.nodes().map(|id| table.bytes(id).clone()))
    }

    /// The size of what reads and earlier estimates recorded. Counts nothing new.
    pub fn recorded_size(&self) -> ProofSize {
        self.recorder.size()
    }

    /// Marks the start of a call that may fail.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> RecorderMark {
        begin_call(&self.recorder, &mut self.notes)
    }

    /// Takes back what the call from `mark` on counted, and converts the `error` that it failed with.
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

/// [`Block::begin_call`], for a block whose fields are borrowed apart.
#[inline]
fn begin_call(recorder: &Recorder, notes: &mut impl Notes) -> RecorderMark {
    notes.begins();
    recorder.mark()
}

/// [`Block::take_back_call`], for a block whose fields are borrowed apart.
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
