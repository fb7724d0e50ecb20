//! Paths and values, loaded before they are needed.
//!
//! ```text
//! prefetch_for(read, changed), 32 keys at a time:
//!     search for the keys                      a call of the source for each level of the trie
//!     load the values of the keys to be read   one call, for values that are nodes of their own
//! ```

use super::{ShadowState, TOGETHER};
use crate::{
    nibbles::{PrefixRange, Prefixes},
    node_batch::DistinctHashes,
    LoadError, NodeHash, NodeRequest, NodeSource, Search, ShadowNode, TrieHandle, TrieId,
};
use arrayvec::ArrayVec;

/// Keys that were found, and their entries.
type Found<'k> = ArrayVec<(&'k [u8], ShadowNode), TOGETHER>;

const NO_KEYS: [&[u8]; 0] = [];

impl<S: NodeSource> ShadowState<S> {
    /// Loads the paths to `keys` and their values, so that later calls for these keys need no source. No
    /// observer is told, because no call needs the nodes yet.
    ///
    /// Costs a call of the source for each level of the trie and one for the values, for each
    /// [`NodeBatch::MOST`](crate::NodeBatch::MOST) keys. Keys with a common prefix are found faster if they
    /// follow one another.
    ///
    /// # Errors
    /// The first [`LoadError`]; later keys are not loaded then.
    pub fn prefetch(
        &mut self,
        trie: TrieId<'_>,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<(), LoadError> {
        self.prefetch_for(trie, keys, &NO_KEYS)
    }

    /// Loads what [`Self::prefetch`] does for keys that will be `read`, and only the paths for keys that
    /// will be `changed` or whose existence will be asked for.
    ///
    /// # Errors
    /// As [`Self::prefetch`].
    pub fn prefetch_for(
        &mut self,
        trie: TrieId<'_>,
        read: &[impl AsRef<[u8]>],
        changed: &[impl AsRef<[u8]>],
    ) -> Result<(), LoadError> {
        let Some(handle) = self.open_existing(trie, &mut ())? else {
            return Ok(());
        };
        let mut search = Search::default();
        let mut prefixes = Prefixes::default();
        let read = read.iter().map(|key| (key.as_ref(), true));
        let changed = changed.iter().map(|key| (key.as_ref(), false));
        let mut keys = read.chain(changed).peekable();
        while keys.peek().is_some() {
            for (key, with_value) in keys.by_ref().take(TOGETHER) {
                search.push(self, handle, key, (key, with_value))?;
            }
            let mut found = Found::new();
            while let Some(((key, with_value), entry)) = search.next_found(self, &mut ())? {
                found.extend(entry.filter(|_| with_value).map(|at| (key, at)));
            }
            self.load_values(handle, &found, &mut prefixes)?;
        }
        Ok(())
    }

    /// Loads those values of entries of trie `handle` that are nodes of their own, in one call of the source.
    fn load_values(
        &mut self,
        handle: TrieHandle,
        found: &Found<'_>,
        prefixes: &mut Prefixes,
    ) -> Result<(), LoadError> {
        let trie = self.trie(handle);
        let mut awaited: ArrayVec<(NodeHash, PrefixRange), TOGETHER> = ArrayVec::new();
        prefixes.clear();
        for &(key, at) in found {
            if let Some(hash) = trie.awaited_value(at, &self.table) {
                awaited.push((hash, prefixes.keep_prefix(trie.keyspace(), (key, None))));
            }
        }
        let mut requests: ArrayVec<NodeRequest<'_>, TOGETHER> = ArrayVec::new();
        let mut distinct = DistinctHashes::new();
        for (hash, range) in &awaited {
            if distinct.insert(hash, &requests) {
                requests.push(NodeRequest {
                    hash: *hash,
                    prefix: prefixes.prefix(range),
                });
            }
        }
        self.load_nodes(&requests, |_, _| {})
    }
}
