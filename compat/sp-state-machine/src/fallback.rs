//! A backend for the original's implementation, which is used where povmeter's does not apply.

use crate::{
    backend::{Backend, BackendTransaction, IterArgs, StorageIterator},
    storage::OriginalsStorage,
    ChildStorageCollection, StateMachineStats, StorageCollection, StorageKey, StorageValue,
    UsageInfo,
};
use codec::Encode;
use core::marker::PhantomData;
use hash_db::Hasher;
use sp_core::storage::{ChildInfo, StateVersion, TrackedStorageKey};
use sp_trie::MerkleValue;
use std::{any::type_name, sync::Once};

/// A backend of this crate, as one of the original.
#[derive(Debug)]
pub(crate) struct AsOriginal<'b, B>(pub(crate) &'b B);

/// The iterator of [`AsOriginal`].
pub(crate) struct AsOriginalIter<'b, H: Hasher, B: Backend<H>> {
    raw: B::RawIter,
    backend: PhantomData<&'b B>,
}

impl<'b, H: Hasher, B: Backend<H>> StorageIterator<H> for AsOriginalIter<'b, H, B> {
    type Backend = AsOriginal<'b, B>;
    type Error = B::Error;

    fn next_key(&mut self, backend: &Self::Backend) -> Option<Result<StorageKey, Self::Error>> {
        self.raw.next_key(backend.0)
    }

    fn next_pair(
        &mut self,
        backend: &Self::Backend,
    ) -> Option<Result<(StorageKey, StorageValue), Self::Error>> {
        self.raw.next_pair(backend.0)
    }

    fn was_complete(&self) -> bool {
        self.raw.was_complete()
    }
}

impl<'b, H: Hasher, B: Backend<H>> original::Backend<H> for AsOriginal<'b, B> {
    type Error = B::Error;
    type TrieBackendStorage = OriginalsStorage<B::TrieBackendStorage>;
    type RawIter = AsOriginalIter<'b, H, B>;

    fn storage(&self, key: &[u8]) -> Result<Option<StorageValue>, Self::Error> {
        self.0.storage(key)
    }

    fn storage_hash(&self, key: &[u8]) -> Result<Option<H::Out>, Self::Error> {
        self.0.storage_hash(key)
    }

    fn closest_merkle_value(&self, key: &[u8]) -> Result<Option<MerkleValue<H::Out>>, Self::Error> {
        self.0.closest_merkle_value(key)
    }

    fn child_closest_merkle_value(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<MerkleValue<H::Out>>, Self::Error> {
        self.0.child_closest_merkle_value(child_info, key)
    }

    fn child_storage(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<StorageValue>, Self::Error> {
        self.0.child_storage(child_info, key)
    }

    fn child_storage_hash(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<H::Out>, Self::Error> {
        self.0.child_storage_hash(child_info, key)
    }

    fn exists_storage(&self, key: &[u8]) -> Result<bool, Self::Error> {
        self.0.exists_storage(key)
    }

    fn exists_child_storage(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<bool, Self::Error> {
        self.0.exists_child_storage(child_info, key)
    }

    fn next_storage_key(&self, key: &[u8]) -> Result<Option<StorageKey>, Self::Error> {
        self.0.next_storage_key(key)
    }

    fn next_child_storage_key(
        &self,
        child_info: &ChildInfo,
        key: &[u8],
    ) -> Result<Option<StorageKey>, Self::Error> {
        self.0.next_child_storage_key(child_info, key)
    }

    fn storage_root<'a>(
        &self,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        state_version: StateVersion,
    ) -> (H::Out, BackendTransaction<H>)
    where
        H::Out: Ord,
    {
        self.0.storage_root(delta, state_version)
    }

    fn child_storage_root<'a>(
        &self,
        child_info: &ChildInfo,
        delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        state_version: StateVersion,
    ) -> (H::Out, bool, BackendTransaction<H>)
    where
        H::Out: Ord,
    {
        self.0.child_storage_root(child_info, delta, state_version)
    }

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
        self.0.full_storage_root(delta, child_deltas, state_version)
    }

    fn raw_iter(&self, args: IterArgs<'_>) -> Result<Self::RawIter, Self::Error> {
        Ok(AsOriginalIter {
            raw: self.0.raw_iter(args)?,
            backend: PhantomData,
        })
    }

    fn register_overlay_stats(&self, stats: &StateMachineStats) {
        self.0.register_overlay_stats(stats);
    }

    fn usage_info(&self) -> UsageInfo {
        self.0.usage_info()
    }

    fn wipe(&self) -> Result<(), Self::Error> {
        self.0.wipe()
    }

    fn commit(
        &self,
        root: H::Out,
        nodes: BackendTransaction<H>,
        top: StorageCollection,
        children: ChildStorageCollection,
    ) -> Result<(), Self::Error> {
        self.0.commit(root, nodes, top, children)
    }

    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        self.0.read_write_count()
    }

    fn reset_read_write_count(&self) {
        self.0.reset_read_write_count();
    }

    fn get_whitelist(&self) -> Vec<TrackedStorageKey> {
        self.0.get_whitelist()
    }

    fn set_whitelist(&self, keys: Vec<TrackedStorageKey>) {
        self.0.set_whitelist(keys);
    }

    fn proof_size(&self) -> Option<u32> {
        self.0.proof_size()
    }

    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        self.0.get_read_and_written_keys()
    }
}

/// Logs that the original executes on backends of type `B`. Only the first call of the process logs.
pub(crate) fn tell<B>() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        log::warn!(
            target: "povmeter",
            "expected states made of trie nodes, found {}: the original of sp-state-machine executes on them",
            type_name::<B>(),
        );
    });
}
