//! Values and keys of the parent state.

use super::{ShadowState, TrieHandle, TrieId};
use crate::{
    shadow::{Bound, PathCache, ValuePlace},
    KeptValue, LoadError, NodeHash, NodeSource,
};
use alloc::vec::Vec;

impl<S: NodeSource> ShadowState<S> {
    /// The value at `key`; a value that is a node of its own is loaded and observed.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path, or the value, can't be loaded.
    pub fn value(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<ValuePlace>, LoadError> {
        let Some(handle) = self.open_existing(trie, observer)? else {
            return Ok(None);
        };
        self.value_in(handle, key, observer)
    }

    pub(super) fn value_in(
        &mut self,
        handle: TrieHandle,
        key: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<ValuePlace>, LoadError> {
        let Some(at) = self.find(handle, key, observer)? else {
            return Ok(None);
        };
        let (trie, mut loader) = self.parts(handle);
        trie.value(at, key, &mut loader, observer)
    }

    /// The value at `key`, for a caller that keeps it and does not ask again: a leaf that is not loaded, and
    /// a value that is a node of its own, are read but not kept. So a reader of many keys needs memory for
    /// branches only. No observer is told, so the nodes have to be counted by another call.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path, or the value, can't be loaded.
    pub fn read_once(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<KeptValue>, LoadError> {
        let Some(handle) = self.open_existing(trie, &mut ())? else {
            return Ok(None);
        };
        let (trie, mut loader) = self.parts(handle);
        trie.read_once(key, &mut loader)
    }

    /// Blake2b-256 of the value at `key`; a value that is a node of its own is not loaded.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path can't be loaded.
    pub fn value_hash(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<NodeHash>, LoadError> {
        let Some(handle) = self.open_existing(trie, observer)? else {
            return Ok(None);
        };
        let found = self.find(handle, key, observer)?;
        Ok(found.and_then(|at| self.trie(handle).value_hash(at, &self.table)))
    }

    /// Whether there is an entry at `key`. Loads no value.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path can't be loaded.
    pub fn exists(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<bool, LoadError> {
        let Some(handle) = self.open_existing(trie, observer)? else {
            return Ok(false);
        };
        Ok(self.find(handle, key, observer)?.is_some())
    }

    /// The first key after `key`.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path can't be loaded, the nodes form a cycle, or the path is no key.
    pub fn next_key(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        self.successor(trie, &[], key, Bound::Exclusive, observer)
    }

    /// The first key that begins with `prefix` and is not before `from`. No node beyond the prefix is
    /// loaded.
    ///
    /// # Errors
    /// As [`Self::next_key`].
    pub fn first_key_from(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        from: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        self.bounded_successor(trie, prefix, from, Bound::Inclusive, observer)
    }

    /// The first key after `after` that begins with `prefix`. No node beyond the prefix is loaded.
    ///
    /// # Errors
    /// As [`Self::next_key`].
    pub fn next_key_in(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        after: &[u8],
        observer: &mut impl PathCache,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        self.bounded_successor(trie, prefix, after, Bound::Exclusive, observer)
    }

    /// Returns what [`Self::successor`] does, also for a `from` outside of `prefix`.
    fn bounded_successor(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        from: &[u8],
        bound: Bound,
        observer: &mut impl PathCache,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        if from.starts_with(prefix) {
            self.successor(trie, prefix, from, bound, observer)
        } else if from < prefix {
            self.successor(trie, prefix, prefix, Bound::Inclusive, observer)
        } else {
            // All keys with the prefix are before `from`. The peer reads the root node all the same.
            if let Some(handle) = self.open_existing(trie, observer)? {
                let (trie, mut loader) = self.parts(handle);
                trie.observe_root(&mut loader, observer)?;
            }
            Ok(None)
        }
    }

    fn successor(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        from: &[u8],
        bound: Bound,
        observer: &mut impl PathCache,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let Some(handle) = self.open_existing(trie, observer)? else {
            return Ok(None);
        };
        let (trie, mut loader) = self.parts(handle);
        trie.successor(from, bound, prefix, &mut loader, observer)
    }
}
