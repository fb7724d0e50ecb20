//! The state that a block starts from.

use crate::{
    nodes::NodesOf, storage::TrieBackendStorage, wrapped::Wrapped, ChildStorageCollection, Error,
    StateMachineStats, StorageCollection, StorageKey, StorageValue, TrieBackend, UsageInfo,
};
use codec::Encode;
use core::{fmt::Debug, marker::PhantomData};
use hash_db::Hasher;
use sp_core::storage::{ChildInfo, StateVersion, TrackedStorageKey};
use sp_trie::{MerkleValue, RandomState};

pub use crate::runtime_code::BackendRuntimeCode;
pub use original::backend::{BackendTransaction, IterArgs, StorageIterator, TryPendingCode};

/// Reads and iterates a state, and computes roots of changes to it. The methods are those of the
/// original's trait, and one more with a default implementation.
pub trait Backend<H: Hasher>: Debug {
    /// Why a read failed.
    type Error: Error;

    /// Where trie nodes come from.
    type TrieBackendStorage: TrieBackendStorage<H>;

    /// An iterator that does not borrow the backend.
    type RawIter: StorageIterator<H, Backend = Self, Error = Self::Error>;

    /// The value at `key`.
    fn storage(&self, key: &[u8]) -> Result<Option<StorageValue>, Self::Error>;

    /// The hash of the value at `key`.
    fn storage_hash(&self, key: &[u8]) -> Result<Option<H::Out>, Self::Error>;

    /// The Merkle value of the node nearest to `key`.
    fn closest_merkle_value(&self, key: &[u8]) -> Result<Option<MerkleValue<H::Out>>, Self::Error>;

    /// As [`Self::closest_merkle_value`], in a child trie.
    fn child_closest_merkle_value(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<MerkleValue<H::Out>>, Self::Error>;

    /// The value at `key` of a child trie.
    fn child_storage(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<StorageValue>, Self::Error>;

    /// The hash of the value at `key` of a child trie.
    fn child_storage_hash(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<H::Out>, Self::Error>;

    /// Whether there is a value at `key`.
    fn exists_storage(&self, key: &[u8]) -> Result<bool, Self::Error> {
        Ok(self.storage_hash(key)?.is_some())
    }

    /// Whether there is a value at `key` of a child trie.
    fn exists_child_storage(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<bool, Self::Error> {
        Ok(self.child_storage_hash(child_info, key)?.is_some())
    }

    /// The first key after `key`.
    fn next_storage_key(&self, key: &[u8]) -> Result<Option<StorageKey>, Self::Error>;

    /// The first key after `key` in a child trie.
    fn next_child_storage_key(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<StorageKey>, Self::Error>;

    /// The root after changes of the top trie, and the nodes that change with it.
    fn storage_root<'a>(
        &self,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        state_version: StateVersion,
    ) -> (H::Out, BackendTransaction<H>)
    where
        H::Out: Ord;

    /// The root of a child trie after changes of it, whether the trie is then empty, and the nodes that
    /// change.
    fn child_storage_root<'a>(
        &self,
        child_info: &ChildInfo,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        state_version: StateVersion,
    ) -> (H::Out, bool, BackendTransaction<H>)
    where
        H::Out: Ord;

    /// An iterator over the entries that `args` select.
    fn raw_iter(&self, args: IterArgs<'_>) -> Result<Self::RawIter, Self::Error>;

    /// The keys and values that `args` select.
    fn pairs<'a>(
        &'a self,
        args: IterArgs<'_>,
    ) -> Result<PairsIter<'a, H, Self::RawIter>, Self::Error> {
        Ok(PairsIter {
            backend: Some(self),
            raw_iter: self.raw_iter(args)?,
            hasher: PhantomData,
        })
    }

    /// The keys that `args` select.
    fn keys<'a>(
        &'a self,
        args: IterArgs<'_>,
    ) -> Result<KeysIter<'a, H, Self::RawIter>, Self::Error> {
        Ok(KeysIter {
            backend: Some(self),
            raw_iter: self.raw_iter(args)?,
            hasher: PhantomData,
        })
    }

    /// The root after changes of the top trie and of child tries, and all nodes that change.
    fn full_storage_root<'a>(
        &self,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        child_deltas: impl Iterator<
            Item = (
                &'a ChildInfo,
                impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
            ),
        >,
        state_version: StateVersion,
    ) -> (H::Out, BackendTransaction<H>)
    where
        H::Out: Ord + Encode,
    {
        let mut nodes = BackendTransaction::with_hasher(RandomState::default());
        let mut child_roots = Vec::new();
        for (info, changes) in child_deltas {
            let (root, is_empty, child_nodes) =
                self.child_storage_root(info, changes, state_version);
            nodes.consolidate(child_nodes);
            let key = info.prefixed_storage_key().into_inner();
            child_roots.push((key, (!is_empty).then(|| root.encode())));
        }
        let child_roots = child_roots
            .iter()
            .map(|(key, root)| (key.as_slice(), root.as_deref()));
        // Shorten the lifetime of the changes to that of the roots.
        #[allow(clippy::map_identity)]
        let delta = delta.map(|change| -> (&[u8], Option<&[u8]>) { change });
        let (root, top_nodes) = self.storage_root(delta.chain(child_roots), state_version);
        nodes.consolidate(top_nodes);
        (root, nodes)
    }

    /// Takes the statistics of an overlay.
    fn register_overlay_stats(&self, stats: &StateMachineStats);

    /// The usage statistics of the backend.
    fn usage_info(&self) -> UsageInfo;

    /// Removes all data. Only backends for benchmarks implement it; others panic.
    fn wipe(&self) -> Result<(), Self::Error> {
        only_benchmarks("wipe")
    }

    /// Writes changes. Only backends for benchmarks implement it; others panic.
    fn commit(
        &self,
        _root: H::Out,
        _nodes: BackendTransaction<H>,
        _top: StorageCollection,
        _children: ChildStorageCollection,
    ) -> Result<(), Self::Error> {
        only_benchmarks("commit")
    }

    /// Reads, repeated reads, writes and repeated writes. Only backends for benchmarks count them; others
    /// panic.
    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        only_benchmarks("read_write_count")
    }

    /// Sets these counts to zero. Only backends for benchmarks implement it; others panic.
    fn reset_read_write_count(&self) {
        only_benchmarks("reset_read_write_count")
    }

    /// Keys that are not counted.
    fn get_whitelist(&self) -> Vec<TrackedStorageKey> {
        Vec::new()
    }

    /// Sets the keys that are not counted.
    fn set_whitelist(&self, _keys: Vec<TrackedStorageKey>) {}

    /// The size of the proof so far. Only backends for benchmarks know it; others panic.
    fn proof_size(&self) -> Option<u32> {
        only_benchmarks("proof_size")
    }

    /// Keys with their reads and writes. Only backends for benchmarks count them; others panic.
    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        only_benchmarks("get_read_and_written_keys")
    }

    /// The trie nodes of the state. `None` if the backend has no nodes, or is a wrapper that is not known:
    /// reads and roots then use the other methods.
    #[doc(hidden)]
    fn povmeter_nodes(&self) -> Option<NodesOf<'_, H, Self>>
    where
        Self: Sized,
    {
        Wrapped::new(self).map(NodesOf::wrapped)
    }
}

/// Panics, as the original's trait does in methods that only backends for benchmarks implement.
#[cold]
fn only_benchmarks(method: &str) -> ! {
    panic!("expected a backend for benchmarks, found one without Backend::{method}")
}

/// Keys and values of a backend.
#[derive(Debug)]
pub struct PairsIter<'a, H: Hasher, I: StorageIterator<H>> {
    backend: Option<&'a I::Backend>,
    raw_iter: I,
    hasher: PhantomData<H>,
}

impl<H: Hasher, I: StorageIterator<H>> PairsIter<'_, H, I> {
    /// Whether the iterator has returned all entries.
    pub(crate) fn was_complete(&self) -> bool {
        self.raw_iter.was_complete()
    }
}

impl<H: Hasher, I: StorageIterator<H>> Iterator for PairsIter<'_, H, I> {
    type Item = Result<(StorageKey, StorageValue), I::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.raw_iter.next_pair(self.backend?)
    }
}

impl<H: Hasher, I: StorageIterator<H> + Default> Default for PairsIter<'_, H, I> {
    fn default() -> Self {
        Self {
            backend: None,
            raw_iter: I::default(),
            hasher: PhantomData,
        }
    }
}

/// Keys of a backend.
#[derive(Debug)]
pub struct KeysIter<'a, H: Hasher, I: StorageIterator<H>> {
    backend: Option<&'a I::Backend>,
    raw_iter: I,
    hasher: PhantomData<H>,
}

impl<H: Hasher, I: StorageIterator<H>> Iterator for KeysIter<'_, H, I> {
    type Item = Result<StorageKey, I::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.raw_iter.next_key(self.backend?)
    }
}

impl<H: Hasher, I: StorageIterator<H> + Default> Default for KeysIter<'_, H, I> {
    fn default() -> Self {
        Self {
            backend: None,
            raw_iter: I::default(),
            hasher: PhantomData,
        }
    }
}

/// A type that is a [`TrieBackend`] or has one.
pub trait AsTrieBackend<H: Hasher, C = sp_trie::cache::LocalTrieCache<H>> {
    /// Where its trie nodes come from.
    type TrieBackendStorage: TrieBackendStorage<H>;

    /// The backend.
    fn as_trie_backend(&self) -> &TrieBackend<Self::TrieBackendStorage, H, C>;
}
