//! Reads of a block: of its own changes, and below them of the parent state.

use super::{begin_call, take_back_call, Block};
use crate::{accounting::Accounting, attribution::Notes, error::BlockError};
use alloc::vec::Vec;
use bytes::Bytes;
use povmeter_delta_root::{Blake2b256, KeptValue, LoadError, NodeSource, PathCache, ShadowState};
use povmeter_overlay::{Lookup, Overlay};
use povmeter_pov_estimate::Recorder;
use povmeter_primitives::{NodeHash, TrieId};

/// Keys of the parent state that begin with a prefix.
pub(super) struct PrefixedKeys {
    pub(super) keys: Vec<Vec<u8>>,
    /// The next key with the prefix after `keys`, if there is one.
    pub(super) after: Option<Vec<u8>>,
}

/// The fields of a block that a read of the parent state needs. The overlay is not among them, because
/// a value may borrow it.
struct ParentReader<'b, S, N> {
    state: &'b mut ShadowState<S>,
    recorder: &'b mut Recorder,
    notes: &'b mut N,
}

impl<S, N: Notes> ParentReader<'_, S, N> {
    /// Calls `read` with an observer that counts what the read of `key` touches, and returns its result.
    /// If `read` fails, its counts are taken back.
    #[inline(always)]
    fn read<T>(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        read: impl FnOnce(&mut ShadowState<S>, &mut N::Reading<'_>) -> Result<T, LoadError>,
    ) -> Result<T, BlockError> {
        let mark = begin_call(self.recorder, self.notes);
        let mut observer = self.notes.reading(self.recorder, trie, key);
        let result = read(self.state, &mut observer);
        drop(observer);
        result.map_err(|error| {
            take_back_call(self.recorder, self.notes, mark, self.state.table());
            error.into()
        })
    }
}

impl<S: NodeSource, A: Accounting> Block<S, A> {
    /// The value at `key`, borrowed from the overlay or from the parent's node.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, BlockError> {
        let (overlay, mut parent) = self.overlay_and_parent();
        match overlay.get(trie, key) {
            Lookup::Value(value) => Ok(Some(value)),
            Lookup::Deleted => Ok(None),
            Lookup::Untouched => {
                let place = parent.read(trie, key, |state, observer| {
                    state.value(trie, key, observer)
                })?;
                Ok(place.map(|place| place.bytes(parent.state.table())))
            }
        }
    }

    /// As [`Self::get`], in memory that the caller may keep: shared with the block if the value is one of
    /// the parent state or a large one, else a copy.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn get_bytes(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Bytes>, BlockError> {
        if let Some(changed) = self.overlay.share(trie, key) {
            return Ok(changed);
        }
        let (_, mut parent) = self.overlay_and_parent();
        let place = parent.read(trie, key, |state, observer| {
            state.value(trie, key, observer)
        })?;
        Ok(place.map(|place| place.share(parent.state.table())))
    }

    /// Loads the values of `keys`, and the nodes on their paths that reads, boundaries and the root need,
    /// so that these calls do not wait for the source. For callers that know keys in advance, such as the
    /// keys that an extrinsic touched when the transaction pool validated it.
    ///
    /// Counts nothing: no size and no proof depends on this call. It loads nodes even if the block never
    /// asks for them.
    ///
    /// Costs a call of the source for each level of the trie and one for the values, for each 32 keys. It
    /// pays off where a call takes long and many nodes take no longer than one: a store behind
    /// `povmeter_store::ParallelReads`, or a store in a network.
    ///
    /// ```
    /// use povmeter::{Block, TrieId::Top};
    /// # use povmeter::{Root, StateVersion::V1};
    /// # use povmeter_store::{MemoryStore, NodeStore};
    /// # let mut store = MemoryStore::new();
    /// # let mut genesis = Block::new(&store, Root::EMPTY);
    /// # genesis.set(Top, b"alice", &[7; 40])?;
    /// # genesis.set(Top, b"bobby", &[8; 40])?;
    /// # store.commit(genesis.seal(V1)?.update())?;
    ///
    /// let mut block = Block::new(&store, store.root());
    /// block.prefetch(Top, &[b"alice", b"bobby"])?;
    /// assert_eq!(block.recorded_size().total_bytes(), 0);
    /// assert!(block.get(Top, b"alice")?.is_some());
    /// # assert!(block.recorded_size().total_bytes() > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BlockError::Load`] for the first node that can't be loaded; later keys are not loaded. A caller
    /// may ignore the error, because a later call that needs the node fails too.
    pub fn prefetch(
        &mut self,
        trie: TrieId<'_>,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<(), BlockError> {
        Ok(self.state.prefetch(trie, keys)?)
    }

    /// As [`Self::prefetch`] for keys that will be `read`, together with the paths, but not the values, of keys that
    /// will be `changed` or asked for [existence](Self::exists).
    ///
    /// # Errors
    /// As [`Self::prefetch`].
    pub fn prefetch_for(
        &mut self,
        trie: TrieId<'_>,
        read: &[impl AsRef<[u8]>],
        changed: &[impl AsRef<[u8]>],
    ) -> Result<(), BlockError> {
        Ok(self.state.prefetch_for(trie, read, changed)?)
    }

    /// The value at `key` in the parent state, sharing memory with the loaded node unless it is short. Ignores the
    /// changes of the block and counts nothing: for readers that are not part of the block, such as an execution
    /// ahead of its turn. The nodes that the read needs stay loaded.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn peek_parent(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<KeptValue>, BlockError> {
        let place = self.state.value(trie, key, &mut ())?;
        Ok(place.map(|place| place.keep(self.state.table())))
    }

    /// Calls `look` for each key of the parent state that begins with `prefix`, in order, from `from` on, until it
    /// returns `false`. As [`Self::peek_parent`], ignores the changes of the block and counts nothing.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn peek_parent_keys(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        from: &[u8],
        mut look: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), BlockError> {
        let state = &mut self.state;
        let mut next = state.first_key_from(trie, prefix, from, &mut ())?;
        while let Some(key) = next.filter(|key| look(key)) {
            next = state.next_key_in(trie, prefix, &key, &mut ())?;
        }
        Ok(())
    }

    /// Whether the block has changed `key`, so that reads of it need nothing of the parent state. A
    /// deletion is a change even if the key had no value.
    pub fn is_changed(&self, trie: TrieId<'_>, key: &[u8]) -> bool {
        !matches!(self.overlay.get(trie, key), Lookup::Untouched)
    }

    /// Whether there is a value at `key`. The proof gets the path to the key, but no value node.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, BlockError> {
        let (overlay, mut parent) = self.overlay_and_parent();
        match overlay.get(trie, key) {
            Lookup::Value(_) => Ok(true),
            Lookup::Deleted => Ok(false),
            Lookup::Untouched => parent.read(trie, key, |state, observer| {
                state.exists(trie, key, observer)
            }),
        }
    }

    /// Blake2b-256 of the value at `key`. The proof gets the same nodes as for [`Self::exists`].
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn value_hash(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<NodeHash>, BlockError> {
        let (overlay, mut parent) = self.overlay_and_parent();
        match overlay.get(trie, key) {
            Lookup::Value(value) => Ok(Some(Blake2b256::hash(value))),
            Lookup::Deleted => Ok(None),
            Lookup::Untouched => parent.read(trie, key, |state, observer| {
                state.value_hash(trie, key, observer)
            }),
        }
    }

    /// The first key after `key` that has a value.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn next_key(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, BlockError> {
        self.next_key_before(trie, key, None)
    }

    /// The first key after `key` that has a value, if it is before `before`.
    ///
    /// Called for each gap between the keys of a set, it returns what [`Self::next_key`] would return if
    /// the block had changed these keys, and counts the same nodes.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub fn next_key_before(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        before: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, BlockError> {
        let (overlay, mut parent) = self.overlay_and_parent();
        parent.read(trie, key, |state, observer| {
            find_next_key(overlay, state, trie, key, before, observer)
        })
    }

    /// Up to `limit` keys of the parent state that begin with `prefix`, from `from` on, and the next
    /// key with the prefix, if there is one.
    ///
    /// # Errors
    /// [`BlockError::Load`] if a node of the parent state can't be loaded.
    pub(super) fn find_prefixed(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        from: &[u8],
    ) -> Result<PrefixedKeys, BlockError> {
        let most = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let (_, mut parent) = self.overlay_and_parent();
        parent.read(trie, prefix, |state, observer| {
            let mut keys = Vec::new();
            let mut next = state.first_key_from(trie, prefix, from, observer)?;
            while let Some(key) = next {
                if keys.len() == most {
                    return Ok(PrefixedKeys {
                        keys,
                        after: Some(key),
                    });
                }
                next = state.next_key_in(trie, prefix, &key, observer)?;
                keys.push(key);
            }
            Ok(PrefixedKeys { keys, after: None })
        })
    }

    #[inline(always)]
    fn overlay_and_parent(&mut self) -> (&Overlay, ParentReader<'_, S, A::Notes>) {
        let parent = ParentReader {
            state: &mut self.state,
            recorder: &mut self.recorder,
            notes: &mut self.notes,
        };
        (&self.overlay, parent)
    }
}

/// The first key after `key` that has a value once `overlay` is applied, if it is before `before`.
fn find_next_key<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    trie: TrieId<'_>,
    key: &[u8],
    before: Option<&[u8]>,
    observer: &mut impl PathCache,
) -> Result<Option<Vec<u8>>, LoadError> {
    let is_before = |key: &[u8]| before.is_none_or(|before| key < before);
    let mut in_parent = state.next_key(trie, key, observer)?;
    let mut after = key.to_vec();
    while let Some((changed, value)) = overlay.next_after(trie, &after) {
        if !is_before(changed) {
            break;
        }
        match &in_parent {
            Some(parent) if parent.as_slice() < changed => break,
            _ if value.is_some() => return Ok(Some(changed.to_vec())),
            // The parent's candidate is deleted: look for the one after it.
            Some(parent) if parent.as_slice() == changed => {
                after = changed.to_vec();
                in_parent = state.next_key(trie, &after, observer)?;
            }
            _ => after = changed.to_vec(),
        }
    }
    Ok(in_parent.filter(|key| is_before(key)))
}
