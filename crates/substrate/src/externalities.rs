//! The interface between runtime and host, over a [`StateMachine`].

use crate::{
    machine::{state_version, IndexOperation, MachineError, StateMachine},
    runtime_extensions::RuntimeExtensions,
    sizes::Question,
};
use povmeter::{Accounting, NodeSource, Removal, TrieId};
use sp_core::storage::{
    well_known_keys::{is_child_storage_key, starts_with_child_storage_key},
    ChildInfo, StateVersion, TrackedStorageKey,
};
use sp_externalities::{Error, Extension, ExtensionStore, Externalities, MultiRemovalResults};
use std::{
    any::{Any, TypeId},
    fmt,
};

/// The externalities of one call into the runtime: the machine, and the call's own extensions.
pub(crate) struct Ext<'a, S, A: Accounting> {
    machine: &'a mut StateMachine<S, A>,
    extensions: RuntimeExtensions,
}

/// The payload of the panic that ends a call into the runtime if the state can't be accessed.
///
/// A panic hook need not report it: [`StateMachine::failure`] and [`StateMachine::seal`] return the error
/// itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAccess {
    /// The message of the error.
    pub message: String,
}

impl fmt::Display for FailedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state can't be accessed: {}", self.message)
    }
}

impl<'a, S, A: Accounting> Ext<'a, S, A> {
    pub(crate) fn new(machine: &'a mut StateMachine<S, A>) -> Self {
        Self {
            machine,
            extensions: RuntimeExtensions::default(),
        }
    }
}

pub(crate) fn child(info: &ChildInfo) -> TrieId<'_> {
    TrieId::Child(info.storage_key())
}

impl<S: NodeSource, A: Accounting> Ext<'_, S, A> {
    /// Ends the call: rolls back the transactions that it left open, and reports this to the extensions that it
    /// sees.
    ///
    /// # Errors
    /// [`MachineError`] if no call runs.
    pub(crate) fn end(mut self) -> Result<(), MachineError> {
        let open = self.machine.exit_runtime()?;
        for _ in 0..open {
            self.extensions.roll_back(&mut self.machine.extensions.0);
        }
        Ok(())
    }

    /// Unwraps `result`. An error panics, because the interface has no errors and any value would be
    /// wrong; the machine keeps the reason.
    fn must<T, E: Into<MachineError>>(&mut self, result: Result<T, E>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                let error = error.into();
                let message = error.to_string();
                self.machine.failure.get_or_insert(error);
                std::panic::panic_any(FailedAccess { message })
            }
        }
    }

    fn read(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.machine.note_read(trie, key);
        let value = self
            .machine
            .block
            .get(trie, key)
            .map(|value| value.map(<[u8]>::to_vec));
        self.must(value)
    }

    fn hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.machine.note_read(trie, key);
        let hash = self.machine.block.value_hash(trie, key);
        self.must(hash).map(|hash| hash.as_bytes().to_vec())
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> bool {
        self.machine.note_read(trie, key);
        let exists = self.machine.block.exists(trie, key);
        self.must(exists)
    }

    fn next(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        let next = self.machine.block.next_key(trie, key);
        let next = self.must(next);
        let noted = self.machine.note_next(trie, key, next.as_deref());
        self.must(noted);
        next
    }

    fn place(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) {
        let placed = match value {
            Some(value) => self.machine.block.set(trie, key, value),
            None => self.machine.block.remove(trie, key),
        };
        self.must(placed);
    }

    fn clear(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        let noted = self.machine.note_cleared(trie, prefix, limit, cursor);
        self.must(noted);
        let removal = self.machine.block.clear_prefix(trie, prefix, limit, cursor);
        let Removal {
            cursor,
            from_parent,
            unique,
            visited,
        } = self.must(removal);
        MultiRemovalResults {
            maybe_cursor: cursor,
            backend: from_parent,
            unique,
            loops: visited,
        }
    }
}

impl<S: NodeSource, A: Accounting> Externalities for Ext<'_, S, A> {
    fn set_offchain_storage(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.machine.set_offchain(key, value);
    }

    fn storage(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.read(TrieId::Top, key)
    }

    fn storage_hash(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.hash(TrieId::Top, key)
    }

    fn child_storage(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.read(child(info), key)
    }

    fn child_storage_hash(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.hash(child(info), key)
    }

    fn exists_storage(&mut self, key: &[u8]) -> bool {
        self.exists(TrieId::Top, key)
    }

    fn exists_child_storage(&mut self, info: &ChildInfo, key: &[u8]) -> bool {
        self.exists(child(info), key)
    }

    fn next_storage_key(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.next(TrieId::Top, key)
    }

    fn next_child_storage_key(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.next(child(info), key)
    }

    fn set_storage(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.place_storage(key, Some(value));
    }

    fn clear_storage(&mut self, key: &[u8]) {
        // As the peer does, ignore writes of the runtime to the roots of child tries.
        if !is_child_storage_key(key) {
            self.place(TrieId::Top, key, None);
        }
    }

    fn clear_child_storage(&mut self, info: &ChildInfo, key: &[u8]) {
        self.place(child(info), key, None);
    }

    fn place_storage(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        if !is_child_storage_key(&key) {
            self.place(TrieId::Top, &key, value.as_deref());
        }
    }

    fn place_child_storage(&mut self, info: &ChildInfo, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.place(child(info), &key, value.as_deref());
    }

    fn kill_child_storage(
        &mut self,
        info: &ChildInfo,
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.clear(child(info), &[], limit, cursor)
    }

    fn clear_prefix(
        &mut self,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        if starts_with_child_storage_key(prefix) {
            return MultiRemovalResults {
                maybe_cursor: None,
                backend: 0,
                unique: 0,
                loops: 0,
            };
        }
        self.clear(TrieId::Top, prefix, limit, cursor)
    }

    fn clear_child_prefix(
        &mut self,
        info: &ChildInfo,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.clear(child(info), prefix, limit, cursor)
    }

    fn storage_append(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if is_child_storage_key(&key) {
            return;
        }
        self.machine.note_read(TrieId::Top, &key);
        let appended = self.machine.block.append(TrieId::Top, &key, &value);
        self.must(appended);
    }

    fn storage_root(&mut self, version: StateVersion) -> Vec<u8> {
        let root = self.machine.block.root(state_version(version));
        let root = root.map(|update| update.root.as_bytes().to_vec());
        self.must(root)
    }

    fn child_storage_root(&mut self, info: &ChildInfo, version: StateVersion) -> Vec<u8> {
        let root = self.machine.child_root(info.storage_key(), version);
        self.must(root).as_bytes().to_vec()
    }

    fn storage_start_transaction(&mut self) {
        self.machine.block.start_transaction();
        self.machine.offchain.start_transaction();
        self.extensions.start(&mut self.machine.extensions.0);
    }

    fn storage_rollback_transaction(&mut self) -> Result<(), ()> {
        self.machine.block.rollback_transaction().map_err(drop)?;
        self.machine.offchain.rollback_transaction().map_err(drop)?;
        self.extensions.roll_back(&mut self.machine.extensions.0);
        Ok(())
    }

    fn storage_commit_transaction(&mut self) -> Result<(), ()> {
        self.machine.block.commit_transaction().map_err(drop)?;
        self.machine.offchain.commit_transaction().map_err(drop)?;
        self.extensions.commit(&mut self.machine.extensions.0);
        Ok(())
    }

    fn storage_index_transaction(&mut self, index: u32, hash: &[u8], size: u32) {
        let insert = IndexOperation::Insert {
            extrinsic: index,
            hash: hash.to_vec(),
            size,
        };
        self.machine.transaction_index.push(insert);
    }

    fn storage_renew_transaction_index(&mut self, index: u32, hash: &[u8]) {
        let renew = IndexOperation::Renew {
            extrinsic: index,
            hash: hash.to_vec(),
        };
        self.machine.transaction_index.push(renew);
    }

    fn wipe(&mut self) {
        let wiped = self.machine.wipe();
        self.must(wiped);
    }

    fn commit(&mut self) {
        let committed = self.machine.commit_in_memory();
        self.must(committed);
    }

    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        self.machine.accesses.totals()
    }

    fn reset_read_write_count(&mut self) {
        self.machine.accesses.reset();
    }

    fn get_whitelist(&self) -> Vec<TrackedStorageKey> {
        self.machine.accesses.whitelist().to_vec()
    }

    fn set_whitelist(&mut self, new: Vec<TrackedStorageKey>) {
        self.machine.accesses.set_whitelist(new);
    }

    fn proof_size(&self) -> Option<u32> {
        let size = self.machine.recorded_compact_bytes()?;
        Some(u32::try_from(size).unwrap_or(u32::MAX))
    }

    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        self.machine.accesses.by_prefix()
    }
}

impl<S: NodeSource, A: Accounting> ExtensionStore for Ext<'_, S, A> {
    fn extension_by_type_id(&mut self, type_id: TypeId) -> Option<&mut dyn Any> {
        let StateMachine { extensions, .. } = &mut *self.machine;
        if let Some(question) = Question::asked_by(type_id) {
            if self.extensions.sees_of_host(&extensions.0, type_id) {
                let answered = self.machine.answer(question);
                self.must(answered);
            }
        }
        self.extensions.get(&mut self.machine.extensions.0, type_id)
    }

    fn register_extension_with_type_id(
        &mut self,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        let host = &self.machine.extensions.0;
        self.extensions.register(host, type_id, extension)
    }

    fn deregister_extension_by_type_id(&mut self, type_id: TypeId) -> Result<(), Error> {
        let host = &self.machine.extensions.0;
        self.extensions.deregister(host, type_id)
    }
}
