//! Externalities for tests.

use crate::{
    backend::Backend, ext::Ext, in_memory_backend::InMemoryBackend,
    overlayed_changes::OverlayedChanges, StorageKey, StorageProof, StorageValue,
    TrieBackendBuilder,
};
use codec::Codec;
use hash_db::{HashDB, Hasher};
use sp_core::{
    offchain::testing::TestPersistentOffchainDB,
    storage::{
        well_known_keys::{is_child_storage_key, CODE},
        ChildInfo, StateVersion, Storage,
    },
};
use sp_externalities::{
    set_and_run_with_externalities, Error, Extension, ExtensionStore, Extensions, ExternalitiesExt,
};
use sp_trie::{recorder::Recorder, PrefixedMemoryDB};
use std::{
    any::{Any, TypeId},
    fmt,
    panic::{catch_unwind, AssertUnwindSafe, UnwindSafe},
};

/// Nodes with their keys and numbers of references.
type RawNodes = Vec<(Vec<u8>, (Vec<u8>, i32))>;

/// A state in memory and an overlay on it.
pub struct TestExternalities<H>
where
    H: Hasher + 'static,
    H::Out: Codec + Ord,
{
    overlay: OverlayedChanges<H>,
    offchain_db: TestPersistentOffchainDB,
    /// The state without the changes.
    pub backend: InMemoryBackend<H>,
    /// Extensions that the code under test sees.
    pub extensions: Extensions,
    /// The version of the state.
    pub state_version: StateVersion,
}

impl<H> TestExternalities<H>
where
    H: Hasher + 'static,
    H::Out: Ord + 'static + Codec,
{
    /// A state with these values.
    ///
    /// # Panics
    /// If a key is that of a child trie's root. All functions that take a [`Storage`] panic then.
    pub fn new(storage: Storage) -> Self {
        Self::new_with_code_and_state(&[], storage, StateVersion::default())
    }

    /// As [`Self::new`], of the given version.
    pub fn new_with_state_version(storage: Storage, state_version: StateVersion) -> Self {
        Self::new_with_code_and_state(&[], storage, state_version)
    }

    /// A state without values, but for empty code.
    pub fn new_empty() -> Self {
        Self::new(Storage::default())
    }

    /// As [`Self::new`], with the code of a runtime.
    pub fn new_with_code(code: &[u8], storage: Storage) -> Self {
        Self::new_with_code_and_state(code, storage, StateVersion::default())
    }

    /// As [`Self::new_with_code`], of the given version.
    pub fn new_with_code_and_state(
        code: &[u8],
        mut storage: Storage,
        state_version: StateVersion,
    ) -> Self {
        assert!(
            !storage.top.keys().any(|key| is_child_storage_key(key)),
            "expected values, found the root of a child trie"
        );
        storage.top.insert(CODE.to_vec(), code.to_vec());
        Self::on((storage, state_version).into(), state_version)
    }

    fn on(backend: InMemoryBackend<H>, state_version: StateVersion) -> Self {
        Self {
            overlay: OverlayedChanges::default(),
            offchain_db: TestPersistentOffchainDB::new(),
            backend,
            extensions: Extensions::default(),
            state_version,
        }
    }

    /// The externalities.
    pub fn ext(&mut self) -> Ext<'_, H, InMemoryBackend<H>> {
        Ext::new(&mut self.overlay, &self.backend, Some(&mut self.extensions))
    }

    /// The changes.
    pub fn overlayed_changes(&self) -> &OverlayedChanges<H> {
        &self.overlay
    }

    /// Applies the offchain changes to the offchain database.
    pub fn persist_offchain_overlay(&mut self) {
        let changes = self.overlay.offchain_drain_committed();
        self.offchain_db.apply_offchain_changes(changes);
    }

    /// The offchain database.
    pub fn offchain_db(&self) -> TestPersistentOffchainDB {
        self.offchain_db.clone()
    }

    /// Inserts values into the state.
    pub fn batch_insert<I: IntoIterator<Item = (StorageKey, StorageValue)>>(&mut self, kvs: I) {
        let values = kvs.into_iter().map(|(key, value)| (key, Some(value)));
        let values = values.collect();
        self.backend.insert([(None, values)], self.state_version);
    }

    /// Inserts a value into the state.
    pub fn insert(&mut self, k: StorageKey, v: StorageValue) {
        self.batch_insert([(k, v)]);
    }

    /// Inserts a value into a child trie of the state.
    pub fn insert_child(&mut self, c: ChildInfo, k: StorageKey, v: StorageValue) {
        let change = (Some(c), vec![(k, Some(v))]);
        self.backend.insert([change], self.state_version);
    }

    /// Registers an extension.
    pub fn register_extension<E: Any + Extension>(&mut self, ext: E) {
        self.extensions.register(ext);
    }

    /// The state whose nodes [`Self::into_raw_snapshot`] returned. Computes no trie.
    pub fn from_raw_snapshot(
        raw_storage: RawNodes,
        storage_root: H::Out,
        state_version: StateVersion,
    ) -> Self {
        let mut nodes = PrefixedMemoryDB::default();
        for (key, (node, references)) in raw_storage {
            let Some(prefix) = key.len().checked_sub(H::LENGTH) else {
                log::warn!("expected a key that ends with a hash, found {key:?}");
                continue;
            };
            let mut hash = H::Out::default();
            hash.as_mut().copy_from_slice(&key[prefix..]);
            for _ in 0..references {
                nodes.emplace(hash, (&key[..prefix], None), node.clone());
            }
        }
        let backend = TrieBackendBuilder::new(nodes, storage_root).build();
        Self::on(backend, state_version)
    }

    /// The nodes of the state, without the changes, and its root.
    pub fn into_raw_snapshot(mut self) -> (RawNodes, H::Out) {
        let nodes = self.backend.backend_storage_mut().drain().into_iter();
        let nodes = nodes.filter(|(_, (_, references))| *references > 0);
        (nodes.collect(), *self.backend.root())
    }

    /// The state with the changes. Transactions may be open.
    pub fn as_backend(&mut self) -> InMemoryBackend<H> {
        let top = self.overlay.changes_mut();
        let top = top.map(|(key, value)| (key.clone(), value.value().cloned()));
        let mut changes = vec![(None, top.collect())];
        for (child, info) in self.overlay.children_mut() {
            let child = child.map(|(key, value)| (key.clone(), value.value().cloned()));
            changes.push((Some(info.clone()), child.collect()));
        }
        self.backend.update(changes, self.state_version)
    }

    /// Applies the changes to the state.
    ///
    /// # Errors
    /// If a transaction is open.
    pub fn commit_all(&mut self) -> Result<(), String> {
        let version = self.state_version;
        let changes = self.overlay.drain_storage_changes(&self.backend, version)?;
        self.backend
            .apply_transaction(changes.transaction_storage_root, changes.transaction);
        Ok(())
    }

    /// The result of `execute`, run with these externalities.
    pub fn execute_with<R>(&mut self, execute: impl FnOnce() -> R) -> R {
        set_and_run_with_externalities(&mut self.ext(), execute)
    }

    /// The result of `execute`, and the proof of what it read.
    pub fn execute_and_prove<R>(&mut self, execute: impl FnOnce() -> R) -> (R, StorageProof) {
        let recorder = Recorder::default();
        let result = self.execute_with_recorder(recorder.clone(), execute);
        (result, recorder.drain_storage_proof())
    }

    /// The result of `execute`; `proof_recorder` gets what it read.
    pub fn execute_with_recorder<R>(
        &mut self,
        proof_recorder: Recorder<H>,
        execute: impl FnOnce() -> R,
    ) -> R {
        let backend = TrieBackendBuilder::wrap(&self.backend)
            .with_recorder(proof_recorder)
            .build();
        let mut ext = Ext::new(&mut self.overlay, &backend, Some(&mut self.extensions));
        set_and_run_with_externalities(&mut ext, execute)
    }

    /// As [`Self::execute_with`].
    ///
    /// # Errors
    /// What `f` panicked with.
    pub fn execute_with_safe<R>(
        &mut self,
        f: impl FnOnce() -> R + UnwindSafe,
    ) -> Result<R, String> {
        let mut ext = AssertUnwindSafe(self.ext());
        catch_unwind(move || set_and_run_with_externalities(&mut *ext, f))
            .map_err(|payload| format!("Closure panicked: {payload:?}"))
    }

    /// Drops all changes.
    pub fn reset_overlay(&mut self) {
        self.overlay = OverlayedChanges::default();
    }

    /// Whether both states are the same with the changes.
    pub fn eq(&mut self, other: &mut Self) -> bool {
        self.as_backend().eq(&other.as_backend())
    }
}

impl<H: Hasher + 'static> fmt::Debug for TestExternalities<H>
where
    H::Out: Ord + Codec,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = match self.backend.pairs(Default::default()) {
            Ok(pairs) => pairs.collect(),
            Err(error) => vec![Err(error)],
        };
        write!(f, "overlay: {:?}\nbackend: {pairs:?}", self.overlay)
    }
}

impl<H: Hasher + 'static> Default for TestExternalities<H>
where
    H::Out: Ord + 'static + Codec,
{
    fn default() -> Self {
        Self::new(Storage::default())
    }
}

impl<H: Hasher + 'static> From<Storage> for TestExternalities<H>
where
    H::Out: Ord + 'static + Codec,
{
    fn from(storage: Storage) -> Self {
        Self::new(storage)
    }
}

impl<H: Hasher + 'static> From<(Storage, StateVersion)> for TestExternalities<H>
where
    H::Out: Ord + 'static + Codec,
{
    fn from((storage, state_version): (Storage, StateVersion)) -> Self {
        Self::new_with_state_version(storage, state_version)
    }
}

impl<H: Hasher + 'static> ExtensionStore for TestExternalities<H>
where
    H::Out: Ord + Codec,
{
    fn extension_by_type_id(&mut self, type_id: TypeId) -> Option<&mut dyn Any> {
        self.extensions.get_mut(type_id)
    }

    fn register_extension_with_type_id(
        &mut self,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        self.extensions.register_with_type_id(type_id, extension)
    }

    fn deregister_extension_by_type_id(&mut self, type_id: TypeId) -> Result<(), Error> {
        if self.extensions.deregister(type_id) {
            Ok(())
        } else {
            Err(Error::ExtensionIsNotRegistered(type_id))
        }
    }
}

impl<H: Hasher + 'static> ExternalitiesExt for TestExternalities<H>
where
    H::Out: Ord + Codec,
{
    fn extension<T: Any + Extension>(&mut self) -> Option<&mut T> {
        self.extension_by_type_id(TypeId::of::<T>())?.downcast_mut()
    }

    fn register_extension<T: Extension>(&mut self, ext: T) -> Result<(), Error> {
        self.register_extension_with_type_id(TypeId::of::<T>(), Box::new(ext))
    }

    fn deregister_extension<T: Extension>(&mut self) -> Result<(), Error> {
        self.deregister_extension_by_type_id(TypeId::of::<T>())
    }
}
