//! Externalities that only read.

use crate::{backend::Backend, StorageKey, StorageValue};
use codec::Encode;
use core::marker::PhantomData;
use hash_db::Hasher;
use sp_core::storage::{ChildInfo, StateVersion, TrackedStorageKey};
use sp_externalities::{Error, Extension, ExtensionStore, Externalities, MultiRemovalResults};
use std::any::{Any, TypeId};

/// Looks at the state of a backend.
pub trait InspectState<H: Hasher, B: Backend<H>> {
    /// The result of `f`, run with the backend as externalities that only read.
    fn inspect_state<F: FnOnce() -> R, R>(&self, f: F) -> R;
}

impl<H: Hasher, B: Backend<H>> InspectState<H, B> for B
where
    H::Out: Encode,
{
    fn inspect_state<F: FnOnce() -> R, R>(&self, f: F) -> R {
        ReadOnlyExternalities::from(self).execute_with(f)
    }
}

/// Externalities over a backend, for tests that look at a state. A write panics, and so does a read that
/// fails.
#[derive(Debug)]
pub struct ReadOnlyExternalities<'a, H: Hasher, B: 'a + Backend<H>> {
    backend: &'a B,
    hasher: PhantomData<H>,
}

impl<'a, H: Hasher, B: 'a + Backend<H>> From<&'a B> for ReadOnlyExternalities<'a, H, B> {
    fn from(backend: &'a B) -> Self {
        Self {
            backend,
            hasher: PhantomData,
        }
    }
}

impl<H: Hasher, B: Backend<H>> ReadOnlyExternalities<'_, H, B>
where
    H::Out: Encode,
{
    /// The result of `f`, run with these externalities.
    pub fn execute_with<R>(&mut self, f: impl FnOnce() -> R) -> R {
        sp_externalities::set_and_run_with_externalities(self, f)
    }
}

const CAN_READ: &str = "a backend that a test looks at can be read";

#[cold]
fn refuse(call: &str) -> ! {
    panic!("expected reads only, found {call} in ReadOnlyExternalities")
}

impl<H: Hasher, B: Backend<H>> Externalities for ReadOnlyExternalities<'_, H, B>
where
    H::Out: Encode,
{
    fn storage(&mut self, key: &[u8]) -> Option<StorageValue> {
        self.backend.storage(key).expect(CAN_READ)
    }

    fn storage_hash(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let hash = self.backend.storage_hash(key).expect(CAN_READ);
        hash.map(|hash| hash.encode())
    }

    fn child_storage(&mut self, info: &ChildInfo, key: &[u8]) -> Option<StorageValue> {
        self.backend.child_storage(info, key).expect(CAN_READ)
    }

    fn child_storage_hash(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        let hash = self.backend.child_storage_hash(info, key).expect(CAN_READ);
        hash.map(|hash| hash.encode())
    }

    fn next_storage_key(&mut self, key: &[u8]) -> Option<StorageKey> {
        self.backend.next_storage_key(key).expect(CAN_READ)
    }

    fn next_child_storage_key(&mut self, info: &ChildInfo, key: &[u8]) -> Option<StorageKey> {
        self.backend
            .next_child_storage_key(info, key)
            .expect(CAN_READ)
    }

    fn set_offchain_storage(&mut self, _key: &[u8], _value: Option<&[u8]>) {
        refuse("set_offchain_storage")
    }

    fn place_storage(&mut self, _key: StorageKey, _value: Option<StorageValue>) {
        refuse("place_storage")
    }

    fn place_child_storage(
        &mut self,
        _info: &ChildInfo,
        _key: StorageKey,
        _value: Option<StorageValue>,
    ) {
        refuse("place_child_storage")
    }

    fn kill_child_storage(
        &mut self,
        _info: &ChildInfo,
        _limit: Option<u32>,
        _cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        refuse("kill_child_storage")
    }

    fn clear_prefix(
        &mut self,
        _prefix: &[u8],
        _limit: Option<u32>,
        _cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        refuse("clear_prefix")
    }

    fn clear_child_prefix(
        &mut self,
        _info: &ChildInfo,
        _prefix: &[u8],
        _limit: Option<u32>,
        _cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        refuse("clear_child_prefix")
    }

    fn storage_append(&mut self, _key: Vec<u8>, _value: Vec<u8>) {
        refuse("storage_append")
    }

    fn storage_root(&mut self, _version: StateVersion) -> Vec<u8> {
        refuse("storage_root")
    }

    fn child_storage_root(&mut self, _info: &ChildInfo, _version: StateVersion) -> Vec<u8> {
        refuse("child_storage_root")
    }

    fn storage_start_transaction(&mut self) {
        refuse("storage_start_transaction")
    }

    fn storage_rollback_transaction(&mut self) -> Result<(), ()> {
        refuse("storage_rollback_transaction")
    }

    fn storage_commit_transaction(&mut self) -> Result<(), ()> {
        refuse("storage_commit_transaction")
    }

    fn wipe(&mut self) {}

    fn commit(&mut self) {}

    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        refuse("read_write_count")
    }

    fn reset_read_write_count(&mut self) {
        refuse("reset_read_write_count")
    }

    fn get_whitelist(&self) -> Vec<TrackedStorageKey> {
        refuse("get_whitelist")
    }

    fn set_whitelist(&mut self, _new: Vec<TrackedStorageKey>) {
        refuse("set_whitelist")
    }

    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        refuse("get_read_and_written_keys")
    }
}

impl<H: Hasher, B: Backend<H>> ExtensionStore for ReadOnlyExternalities<'_, H, B> {
    fn extension_by_type_id(&mut self, _type_id: TypeId) -> Option<&mut dyn Any> {
        refuse("extension_by_type_id")
    }

    fn register_extension_with_type_id(
        &mut self,
        _type_id: TypeId,
        _extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        refuse("register_extension_with_type_id")
    }

    fn deregister_extension_by_type_id(&mut self, _type_id: TypeId) -> Result<(), Error> {
        refuse("deregister_extension_by_type_id")
    }
}
