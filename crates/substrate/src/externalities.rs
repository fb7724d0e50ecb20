//! The interface between runtime and host, over a [`StateMachine`].

use crate::machine::{state_version, IndexOperation, MachineError, StateMachine};
use povmeter::{Accounting, NodeSource, Removal, TrieId};
use sp_core::storage::{
    well_known_keys::{is_child_storage_key, starts_with_child_storage_key},
    ChildInfo, StateVersion, TrackedStorageKey,
};
use sp_externalities::{
    Error, Extension, ExtensionStore, Externalities, MultiRemovalResults, TransactionType,
};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::any::{Any, TypeId};

/// A machine while its runtime executes. Extensions that the runtime registers go with it.
pub(crate) struct Ext<'a, S, A> {
    machine: &'a mut StateMachine<S, A>,
    registered: Vec<TypeId>,
}

impl<'a, S, A> Ext<'a, S, A> {
    pub(crate) fn new(machine: &'a mut StateMachine<S, A>) -> Self {
        Self {
            machine,
            registered: Vec::new(),
        }
    }
}

impl<S, A> Drop for Ext<'_, S, A> {
    fn drop(&mut self) {
        for type_id in self.registered.drain(..) {
            self.machine.extensions.0.deregister(type_id);
        }
    }
}

fn child(info: &ChildInfo) -> TrieId<'_> {
    TrieId::Child(info.storage_key())
}

impl<S: NodeSource, A: Accounting> Ext<'_, S, A> {
    /// The value of `result`. The interface has no errors, so one ends the call by unwinding, with
    /// the reason kept in the machine; no value would be true.
    fn must<T, E: Into<MachineError>>(&mut self, result: Result<T, E>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                let error = error.into();
                let message = format!("the state can't be accessed: {error}");
                self.machine.failure.get_or_insert(error);
                std::panic::panic_any(message)
            }
        }
    }

    fn read(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.machine.accesses.read(trie, key);
        let value = self
            .machine
            .block
            .get(trie, key)
            .map(|value| value.map(<[u8]>::to_vec));
        self.must(value)
    }

    fn hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.machine.accesses.read(trie, key);
        let hash = self.machine.block.value_hash(trie, key);
        self.must(hash).map(|hash| hash.as_bytes().to_vec())
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> bool {
        self.machine.accesses.read(trie, key);
        let exists = self.machine.block.exists(trie, key);
        self.must(exists)
    }

    fn next(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        let next = self.machine.block.next_key(trie, key);
        self.must(next)
    }

    fn place(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) {
        self.machine.accesses.written(trie, key);
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
        let removal = self.machine.block.clear_prefix(trie, prefix, limit, cursor);
        let Removal {
            cursor,
            from_parent,
            unique,
            looked_at,
        } = self.must(removal);
        MultiRemovalResults {
            maybe_cursor: cursor,
            backend: from_parent,
            unique,
            loops: looked_at,
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
        // A runtime that touches roots of child tries is not obeyed, and not told.
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
        self.machine.accesses.written(TrieId::Top, &key);
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
        self.machine
            .extensions
            .0
            .start_transaction(TransactionType::Runtime);
    }

    fn storage_rollback_transaction(&mut self) -> Result<(), ()> {
        self.machine.block.rollback_transaction().map_err(drop)?;
        self.machine.offchain.rollback_transaction().map_err(drop)?;
        self.machine
            .extensions
            .0
            .rollback_transaction(TransactionType::Runtime);
        Ok(())
    }

    fn storage_commit_transaction(&mut self) -> Result<(), ()> {
        self.machine.block.commit_transaction().map_err(drop)?;
        self.machine.offchain.commit_transaction().map_err(drop)?;
        self.machine
            .extensions
            .0
            .commit_transaction(TransactionType::Runtime);
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
        u32::try_from(self.machine.block.recorded_size().total_bytes()).ok()
    }

    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        self.machine.accesses.by_key()
    }
}

impl<S: NodeSource, A: Accounting> ExtensionStore for Ext<'_, S, A> {
    fn extension_by_type_id(&mut self, type_id: TypeId) -> Option<&mut dyn Any> {
        if type_id == TypeId::of::<ProofSizeExt>() {
            // Whoever looks this extension up is about to ask for the size.
            let StateMachine { block, sizes, .. } = &mut *self.machine;
            let reads = block.recorded_size().read_bytes;
            let answered: Result<(), MachineError> =
                sizes.answer(reads, || Ok(block.proof_size()?.total_bytes()));
            self.must(answered);
        }
        self.machine.extensions.0.get_mut(type_id)
    }

    fn register_extension_with_type_id(
        &mut self,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        self.machine
            .extensions
            .0
            .register_with_type_id(type_id, extension)?;
        self.registered.push(type_id);
        Ok(())
    }

    fn deregister_extension_by_type_id(&mut self, type_id: TypeId) -> Result<(), Error> {
        if self.machine.extensions.0.deregister(type_id) {
            Ok(())
        } else {
            Err(Error::ExtensionIsNotRegistered(type_id))
        }
    }
}
