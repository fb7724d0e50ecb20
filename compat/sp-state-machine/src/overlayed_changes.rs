//! The changes of a block.

use crate::{
    backend::Backend,
    block::place,
    fallback::{self, AsOriginal},
    handover::hand_over,
    machine::{panic_with, Machine},
    nodes::NodesOf,
    povmeter,
    view::{after, TrieView, View},
    BackendTransaction, ChildStorageCollection, DefaultError, IndexOperation,
    OffchainOverlayedChanges, OverlayedValue, StorageChanges, StorageCollection, StorageKey,
    StorageValue,
};
use ::povmeter::{BlockError, SealedBlock, TrieId};
use codec::{Decode, Encode};
use hash_db::Hasher;
use povmeter_overlay::{Lookup, Overlay, TransactionError};
use povmeter_substrate::{out_of, state_version as version_of, to_prefixed_memory_db};
use sp_core::{
    offchain::OffchainOverlayedChange,
    storage::{ChildInfo, StateVersion, Storage},
};
use std::{fmt, sync::OnceLock};

/// The changes of a block, with its transactions, and below them the block's part of the parent state.
///
/// The first access through [`Ext`](crate::Ext), or the first root, binds it to the parent state. An access
/// with another state keeps the changes, and drops what was read.
pub struct OverlayedChanges<H: Hasher> {
    /// The state's changes; `None` if the original keeps them.
    machine: Option<Machine>,
    /// Offchain changes, operations on the transaction index, and the state's changes if the original keeps
    /// them.
    rest: original::OverlayedChanges<H>,
    /// The changes, for iteration; empty after a change.
    view: OnceLock<Box<View>>,
}

/// Blake2b-256 of nothing.
const BLAKE2_OF_NOTHING: [u8; 32] = [
    0x0e, 0x57, 0x51, 0xc0, 0x26, 0xe5, 0x43, 0xb2, 0xe8, 0xab, 0x2e, 0xb0, 0x60, 0x99, 0xda, 0xa1,
    0xd1, 0xe5, 0xdf, 0x47, 0x77, 0x8f, 0x77, 0x87, 0xfa, 0xab, 0x45, 0xcd, 0xf1, 0x2f, 0xe3, 0xa8,
];

/// Whether `H` is Blake2b-256. Compares a hash, because a type that need not be `'static` has no `TypeId`.
pub(crate) fn is_blake2<H: Hasher>() -> bool {
    H::LENGTH == 32 && H::hash(&[]).as_ref() == BLAKE2_OF_NOTHING
}

impl<H: Hasher> Default for OverlayedChanges<H> {
    fn default() -> Self {
        Self {
            machine: is_blake2::<H>().then(Machine::new),
            rest: original::OverlayedChanges::default(),
            view: OnceLock::new(),
        }
    }
}

impl<H: Hasher> Clone for OverlayedChanges<H> {
    fn clone(&self) -> Self {
        Self {
            machine: self.machine.as_ref().map(Machine::copy),
            rest: self.rest.clone(),
            view: OnceLock::new(),
        }
    }
}

impl<H: Hasher> fmt::Debug for OverlayedChanges<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let View { top, children } = self.view();
        f.debug_struct("OverlayedChanges")
            .field("top", top)
            .field("children", children)
            .field("offchain", self.rest.offchain())
            .field("transaction_index_ops", &self.rest.transaction_index_ops())
            .finish()
    }
}

impl<H: Hasher> From<Storage> for OverlayedChanges<H> {
    fn from(storage: Storage) -> Self {
        let mut changes = Self::default();
        for (key, value) in storage.top {
            changes.set_storage(key, Some(value));
        }
        for child in storage.children_default.into_values() {
            for (key, value) in child.data {
                changes.set_child_storage(&child.child_info, key, Some(value));
            }
        }
        changes
    }
}

fn child(info: &ChildInfo) -> TrieId<'_> {
    TrieId::Child(info.storage_key())
}

/// Warns of a write that is refused because it would make a state without a root. The original allows it.
fn warn_refused(placed: Result<(), BlockError>) {
    if let Err(error) = placed {
        log::warn!(target: "trie", "refused to write: {error}");
    }
}

/// Changes of the state.
impl<H: Hasher> OverlayedChanges<H> {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        match &self.machine {
            Some(machine) => machine.overlay().is_none_or(Overlay::is_empty),
            None => self.rest.is_empty(),
        }
    }

    /// Collects the extrinsics that make each change. The original then keeps the state's changes.
    pub fn set_collect_extrinsics(&mut self, collect_extrinsics: bool) {
        if collect_extrinsics {
            self.give_to_original();
        }
        self.rest.set_collect_extrinsics(collect_extrinsics);
    }

    /// Hands the changes to the original, if it does not have them.
    fn give_to_original(&mut self) {
        self.view.take();
        if let Some(machine) = self.machine.take() {
            if !machine.overlay().is_none_or(Overlay::is_empty) {
                self.rest = hand_over(&machine, &self.rest);
            }
        }
    }

    fn changed(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Option<&[u8]>> {
        match self.machine.as_ref()?.overlay()?.get(trie, key) {
            Lookup::Untouched => None,
            Lookup::Deleted => Some(None),
            Lookup::Value(value) => Some(Some(value)),
        }
    }

    /// The changed value at `key`: `None` if it is not changed, `Some(None)` if it is deleted.
    pub fn storage(&mut self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.machine.is_some() {
            self.changed(TrieId::Top, key)
        } else {
            self.rest.storage(key)
        }
    }

    /// As [`Self::storage`], in a child trie.
    pub fn child_storage(&mut self, child_info: &ChildInfo, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.machine.is_some() {
            self.changed(child(child_info), key)
        } else {
            self.rest.child_storage(child_info, key)
        }
    }

    /// Sets or deletes the value at `key`. A key under which a child trie's root lies is refused with a warning.
    pub fn set_storage(&mut self, key: StorageKey, val: Option<StorageValue>) {
        match self.machine() {
            Some(machine) => {
                machine.mark_dirty();
                warn_refused(place(machine.block(), TrieId::Top, &key, val.as_deref()))
            }
            None => self.rest.set_storage(key, val),
        }
    }

    /// Appends an encoded element to the list at `key`; `init` is the list in the parent state.
    pub fn append_storage(
        &mut self,
        key: StorageKey,
        element: StorageValue,
        init: impl Fn() -> StorageValue,
    ) {
        let Some(machine) = self.machine() else {
            return self.rest.append_storage(key, element, init);
        };
        let block = machine.block();
        if matches!(block.overlay().get(TrieId::Top, &key), Lookup::Untouched) {
            warn_refused(place(block, TrieId::Top, &key, Some(&init())));
        }
        warn_refused(block.append(TrieId::Top, &key, &element));
    }

    /// Sets or deletes the value at `key` of a child trie.
    pub fn set_child_storage(
        &mut self,
        child_info: &ChildInfo,
        key: StorageKey,
        val: Option<StorageValue>,
    ) {
        match self.machine() {
            Some(machine) => {
                machine.mark_dirty();
                let block = machine.block();
                warn_refused(place(block, child(child_info), &key, val.as_deref()));
            }
            None => self.rest.set_child_storage(child_info, key, val),
        }
    }

    /// Deletes the written values whose keys begin with `prefix`, and returns their number.
    fn clear_written(&mut self, trie: TrieId<'_>, prefix: &[u8]) -> u32 {
        let Some(machine) = self.machine() else {
            return 0;
        };
        machine.mark_dirty();
        let block = machine.block();
        let written = block.overlay().changes(trie).into_iter();
        let written = written.filter(|(key, value)| key.starts_with(prefix) && value.is_some());
        let written: Vec<StorageKey> = written.map(|(key, _)| key.to_vec()).collect();
        let mut cleared = 0;
        for key in &written {
            let removed = place(block, trie, key, None);
            cleared += u32::from(removed.is_ok());
            warn_refused(removed);
        }
        cleared
    }

    /// Deletes the values that were written to a child trie, and returns their number.
    pub fn clear_child_storage(&mut self, child_info: &ChildInfo) -> u32 {
        if self.machine.is_some() {
            self.clear_written(child(child_info), &[])
        } else {
            self.original().clear_child_storage(child_info)
        }
    }

    /// Deletes the written values whose keys begin with `prefix`, and returns their number.
    pub fn clear_prefix(&mut self, prefix: &[u8]) -> u32 {
        if self.machine.is_some() {
            self.clear_written(TrieId::Top, prefix)
        } else {
            self.original().clear_prefix(prefix)
        }
    }

    /// As [`Self::clear_prefix`], in a child trie.
    pub fn clear_child_prefix(&mut self, child_info: &ChildInfo, prefix: &[u8]) -> u32 {
        if self.machine.is_some() {
            self.clear_written(child(child_info), prefix)
        } else {
            self.original().clear_child_prefix(child_info, prefix)
        }
    }
}

/// Transactions.
///
/// The errors are the original's: it keeps the offchain changes, and therefore has the same transactions
/// open.
impl<H: Hasher> OverlayedChanges<H> {
    /// How many transactions are open.
    pub fn transaction_depth(&self) -> usize {
        self.rest.transaction_depth()
    }

    /// Opens a transaction.
    pub fn start_transaction(&mut self) {
        self.rest.start_transaction();
        if let Some(machine) = &mut self.machine {
            machine.block().start_transaction();
        }
    }

    /// Closes the innermost transaction and undoes its changes.
    ///
    /// # Errors
    /// If no transaction is open that the caller may close.
    pub fn rollback_transaction(&mut self) -> Result<(), impl fmt::Debug> {
        self.rest.rollback_transaction().inspect(|()| {
            self.view.take();
            if let Some(machine) = &mut self.machine {
                in_lockstep(machine.rollback_transaction());
            }
        })
    }

    /// Closes the innermost transaction and keeps its changes.
    ///
    /// # Errors
    /// If no transaction is open that the caller may close.
    pub fn commit_transaction(&mut self) -> Result<(), impl fmt::Debug> {
        self.rest.commit_transaction().inspect(|()| {
            if let Some(machine) = &mut self.machine {
                in_lockstep(machine.block().commit_transaction());
            }
        })
    }

    /// Hands control to the runtime, which can't close the host's transactions.
    ///
    /// # Errors
    /// If the runtime has control.
    pub fn enter_runtime(&mut self) -> Result<(), impl fmt::Debug> {
        self.rest.enter_runtime().inspect(|()| {
            if let Some(machine) = &mut self.machine {
                in_lockstep(machine.block().enter_runtime());
            }
        })
    }

    /// Takes control back, and rolls back the transactions that the runtime left open.
    ///
    /// # Errors
    /// If the runtime does not have control.
    pub fn exit_runtime(&mut self) -> Result<(), impl fmt::Debug> {
        self.rest.exit_runtime().inspect(|()| {
            self.view.take();
            if let Some(machine) = &mut self.machine {
                in_lockstep(machine.exit_runtime());
            }
        })
    }
}

/// Expects that the block allowed a step that the original allowed, because both have the same transactions
/// open.
pub(crate) fn in_lockstep(closed: Result<(), BlockError>) {
    debug_assert!(closed.is_ok(), "{closed:?}");
    if let Err(error) = closed {
        panic_with(&error);
    }
}

/// Changes in the form of the original's iterators.
impl<H: Hasher> OverlayedChanges<H> {
    fn view(&self) -> &View {
        self.view.get_or_init(|| {
            Box::new(match &self.machine {
                Some(machine) => machine.overlay().map(View::of).unwrap_or_default(),
                None => View::of_original(&self.rest),
            })
        })
    }

    /// The view, made anew, because an earlier caller may have changed the values of the last one.
    fn fresh_view(&mut self) -> &mut View {
        self.view.take();
        self.view();
        self.view.get_mut().expect("made in the line above")
    }

    /// The changes of each child trie.
    pub fn children(
        &self,
    ) -> impl Iterator<
        Item = (
            impl Iterator<Item = (&StorageKey, &OverlayedValue)>,
            &ChildInfo,
        ),
    > {
        let children = self.view().children.values();
        children.map(|(changes, info)| (changes.iter(), info))
    }

    /// The changes of each child trie.
    pub fn children_mut(
        &mut self,
    ) -> impl Iterator<
        Item = (
            impl Iterator<Item = (&StorageKey, &mut OverlayedValue)>,
            &ChildInfo,
        ),
    > {
        let children = self.fresh_view().children.values_mut();
        children.map(|(changes, info)| (changes.iter_mut(), &*info))
    }

    /// The changes of the top trie, ordered by key.
    pub fn changes(&self) -> impl Iterator<Item = (&StorageKey, &OverlayedValue)> {
        self.view().top.iter()
    }

    /// The changes of the top trie, ordered by key.
    pub fn changes_mut(&mut self) -> impl Iterator<Item = (&StorageKey, &mut OverlayedValue)> {
        self.fresh_view().top.iter_mut()
    }

    /// The changes of the child trie with the storage key `key`.
    pub fn child_changes(
        &self,
        key: &[u8],
    ) -> Option<(
        impl Iterator<Item = (&StorageKey, &OverlayedValue)>,
        &ChildInfo,
    )> {
        let (changes, info) = self.view().children.get(key)?;
        Some((changes.iter(), info))
    }

    /// The changes of the child trie with the storage key `key`.
    pub fn child_changes_mut(
        &mut self,
        key: &[u8],
    ) -> Option<(
        impl Iterator<Item = (&StorageKey, &mut OverlayedValue)>,
        &ChildInfo,
    )> {
        let (changes, info) = self.fresh_view().children.get_mut(key)?;
        Some((changes.iter_mut(), &*info))
    }

    /// The changes of the top trie after `key`.
    pub fn iter_after(&mut self, key: &[u8]) -> impl Iterator<Item = (&[u8], &mut OverlayedValue)> {
        after(&mut self.fresh_view().top, key)
    }

    /// The changes of a child trie after `key`.
    pub fn child_iter_after(
        &mut self,
        storage_key: &[u8],
        key: &[u8],
    ) -> impl Iterator<Item = (&[u8], &mut OverlayedValue)> {
        let changes = self.fresh_view().children.get_mut(storage_key);
        let changes = changes.map(|(changes, _)| after(changes, key));
        changes.into_iter().flatten()
    }
}

/// Changes that are no part of the state.
impl<H: Hasher> OverlayedChanges<H> {
    /// Takes out the offchain changes. There must be no open transaction.
    pub fn offchain_drain_committed(
        &mut self,
    ) -> impl Iterator<Item = ((StorageKey, StorageKey), OffchainOverlayedChange)> {
        self.rest.offchain_drain_committed()
    }

    /// Operations on the transaction index so far.
    pub fn transaction_index_ops(&self) -> &[IndexOperation] {
        self.rest.transaction_index_ops()
    }

    /// The offchain changes.
    pub fn offchain(&self) -> &OffchainOverlayedChanges {
        self.rest.offchain()
    }

    /// Sets or deletes a value of the offchain database.
    pub fn set_offchain_storage(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.rest.set_offchain_storage(key, value);
    }

    /// Adds an operation on the transaction index.
    pub fn add_transaction_index(&mut self, op: IndexOperation) {
        self.rest.add_transaction_index(op);
    }
}

/// Access through a backend.
impl<H: Hasher> OverlayedChanges<H> {
    /// Must be called for each new backend. Returns its nodes, or `None` if the original executes.
    pub(crate) fn meet_backend<'b, B: Backend<H>>(
        &mut self,
        backend: &'b B,
    ) -> Option<NodesOf<'b, H, B>> {
        let machine = self.machine.as_mut()?;
        let nodes = backend.povmeter_nodes();
        if nodes.is_some() {
            machine.meet_backend();
            return nodes;
        }
        fallback::tell::<B>();
        self.give_to_original();
        None
    }

    /// Whether the original keeps the changes.
    pub(crate) fn is_originals(&self) -> bool {
        self.machine.is_none()
    }

    /// The machine that keeps the changes; `None` if the original keeps them.
    pub(crate) fn machine(&mut self) -> Option<&mut Machine> {
        self.view.take();
        self.machine.as_mut()
    }

    /// The original's overlay.
    pub(crate) fn original(&mut self) -> &mut original::OverlayedChanges<H> {
        self.view.take();
        &mut self.rest
    }

    /// The root after the changes so far, and whether it was known.
    ///
    /// # Panics
    /// If a node is missing or damaged. The original returns the old root then.
    pub fn storage_root<B: Backend<H>>(
        &mut self,
        backend: &B,
        state_version: StateVersion,
    ) -> (H::Out, bool)
    where
        H::Out: Ord + Encode,
    {
        let nodes = self.meet_backend(backend);
        match self.machine().zip(nodes) {
            Some((machine, nodes)) => {
                let (root, known) = machine.root(nodes.get(), version_of(state_version));
                (out_of::<H>(root.as_bytes()), known)
            }
            None => self.rest.storage_root(&AsOriginal(backend), state_version),
        }
    }

    /// The root of a child trie after the changes so far, and whether it was known.
    ///
    /// # Errors
    /// The backend's error, if it is not made of trie nodes.
    ///
    /// # Panics
    /// If a node is missing or damaged.
    pub fn child_storage_root<B: Backend<H>>(
        &mut self,
        child_info: &ChildInfo,
        backend: &B,
        state_version: StateVersion,
    ) -> Result<(H::Out, bool), B::Error>
    where
        H::Out: Ord + Encode + Decode,
    {
        let nodes = self.meet_backend(backend);
        let Some((machine, nodes)) = self.machine().zip(nodes) else {
            let backend = AsOriginal(backend);
            return self
                .rest
                .child_storage_root(child_info, &backend, state_version);
        };
        let nodes = nodes.get();
        let version = version_of(state_version);
        // As with the original, only the root of the whole state makes it known.
        let known = machine.knows_root(version);
        let root = machine.access(nodes, |block| {
            block.child_root(child_info.storage_key(), version)
        });
        Ok((out_of::<H>(root.as_bytes()), known))
    }

    /// Ends the block: returns its root, its changes and the nodes that change, and leaves an overlay without
    /// changes.
    ///
    /// # Errors
    /// If a transaction is open, or a node is missing or damaged.
    pub fn drain_storage_changes<B: Backend<H>>(
        &mut self,
        backend: &B,
        state_version: StateVersion,
    ) -> Result<StorageChanges<H>, DefaultError>
    where
        H::Out: Ord + Encode + 'static,
    {
        self.view.take();
        let Some(machine) = &mut self.machine else {
            let backend = AsOriginal(backend);
            return self.rest.drain_storage_changes(&backend, state_version);
        };
        let open = machine.transaction_depth();
        if open > 0 {
            return Err(TransactionError::StillOpen { open }.to_string());
        }
        let changes = match backend.povmeter_nodes() {
            Some(nodes) => {
                let nodes = nodes.get();
                let sealed = machine.seal(nodes, version_of(state_version));
                let sealed = sealed.map_err(|error| error.to_string())?;
                let changes = storage_changes::<H>(&sealed)?;
                povmeter::finish_block(nodes.database(), sealed);
                changes
            }
            None => {
                let changes = self.changes_by(backend, state_version);
                self.machine = Some(Machine::new());
                // It holds the changes that are drained now.
                self.view.take();
                changes
            }
        };
        let mut rest = std::mem::take(&mut self.rest);
        Ok(StorageChanges {
            offchain_storage_changes: rest.offchain_drain_committed().collect(),
            transaction_index_changes: rest.transaction_index_ops().to_vec(),
            ..changes
        })
    }

    /// The root and the changes, computed by a backend that does not show its nodes.
    fn changes_by<B: Backend<H>>(
        &self,
        backend: &B,
        state_version: StateVersion,
    ) -> StorageChanges<H>
    where
        H::Out: Ord + Encode,
    {
        let owned = |trie: TrieView| -> StorageCollection {
            let changes = trie.into_iter();
            changes
                .map(|(key, value)| (key, value.to_option()))
                .collect()
        };
        let View { top, children } = View::clone(self.view());
        let top = owned(top);
        let (infos, children): (Vec<ChildInfo>, ChildStorageCollection) = children
            .into_iter()
            .map(|(name, (changes, info))| (info, (name, owned(changes))))
            .unzip();
        let (root, transaction) = backend.full_storage_root(
            borrowed(&top),
            infos
                .iter()
                .zip(&children)
                .map(|(info, (_, changes))| (info, borrowed(changes))),
            state_version,
        );
        StorageChanges {
            main_storage_changes: top,
            child_storage_changes: children,
            transaction,
            transaction_storage_root: root,
            ..StorageChanges::default()
        }
    }
}

fn borrowed(changes: &StorageCollection) -> impl Iterator<Item = ::povmeter::Change<'_>> {
    let changes = changes.iter();
    changes.map(|(key, value)| (key.as_slice(), value.as_deref()))
}

/// A sealed block in the original's form.
fn storage_changes<H: Hasher>(sealed: &SealedBlock) -> Result<StorageChanges<H>, DefaultError> {
    let owned = |(key, value): ::povmeter::Change<'_>| (key.to_vec(), value.map(<[u8]>::to_vec));
    let update = sealed.update();
    let transaction: BackendTransaction<H> =
        to_prefixed_memory_db(update).map_err(|error| error.to_string())?;
    let children = sealed
        .child_changes()
        .map(|(name, changes)| (name.to_vec(), changes.map(owned).collect()));
    Ok(StorageChanges {
        main_storage_changes: sealed.top_changes().map(owned).collect(),
        child_storage_changes: children.collect(),
        transaction,
        transaction_storage_root: out_of::<H>(update.root.as_bytes()),
        ..StorageChanges::default()
    })
}
