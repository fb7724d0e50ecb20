//! The runtime's access to the state.

use crate::{
    backend::Backend,
    block::Block,
    extensions::CallExtensions,
    fallback::AsOriginal,
    nodes::NodesOf,
    overlayed_changes::OverlayedChanges,
    povmeter::{settings, ProofSizes},
    IndexOperation, StorageKey, StorageValue,
};
use ::povmeter::{BlockError, NodeHash, Removal, TrieId};
use codec::Encode;
use hash_db::Hasher;
use povmeter_proof_size::RootedProofSizeExt;
use povmeter_substrate::out_of;
use sp_core::{
    hexdisplay::{AsBytesRef, HexDisplay},
    storage::{
        well_known_keys::{is_child_storage_key, starts_with_child_storage_key},
        ChildInfo, StateVersion, TrackedStorageKey,
    },
};
use sp_externalities::{
    Error, Extension, ExtensionStore, Extensions, Externalities, MultiRemovalResults,
};
use sp_panic_handler::AbortGuard;
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    any::{Any, TypeId},
    sync::atomic::{AtomicU16, Ordering},
};

/// Externalities over an overlay and a backend.
///
/// A call that can't read the state panics with a message that names the node, because
/// the interface between runtime and host has no errors. As with the original, the process ends if its panic
/// handler says so.
pub struct Ext<'a, H: Hasher, B: 'a + Backend<H>> {
    overlay: &'a mut OverlayedChanges<H>,
    backend: &'a B,
    /// Tells the calls of one runtime execution from others in traces.
    pub id: u16,
    extensions: Option<CallExtensions<'a>>,
    /// The nodes of the backend; `None` if the original executes.
    nodes: Option<NodesOf<'a, H, B>>,
    /// The last answer to the second version of the proof-size function.
    rooted: Option<RootedProofSizeExt>,
}

impl<'a, H: Hasher, B: Backend<H>> Ext<'a, H, B> {
    /// Externalities for one call into the runtime.
    pub fn new(
        overlay: &'a mut OverlayedChanges<H>,
        backend: &'a B,
        extensions: Option<&'a mut Extensions>,
    ) -> Self {
        static MADE: AtomicU16 = AtomicU16::new(0);
        let nodes = overlay.meet_backend(backend);
        Self {
            overlay,
            backend,
            id: MADE.fetch_add(1, Ordering::Relaxed),
            extensions: extensions.map(CallExtensions::new),
            nodes,
            rooted: None,
        }
    }

    /// Whether the original executes, and traces its own events.
    fn is_originals(&self) -> bool {
        self.nodes.is_none() || self.overlay.is_originals()
    }

    /// The result of `access` to the block; `None` if the original executes. A failure ends the process, if the node's
    /// panic handler does that.
    fn access<R>(&mut self, access: impl FnOnce(&mut Block) -> Result<R, BlockError>) -> Option<R> {
        let _guard = AbortGuard::force_abort();
        self.access_in_call(access)
    }

    /// As [`Self::access`], but a failure only ends the call: for functions whose failures do not end the process with
    /// the original.
    fn access_in_call<R>(
        &mut self,
        access: impl FnOnce(&mut Block) -> Result<R, BlockError>,
    ) -> Option<R> {
        let nodes = self.nodes.as_ref()?.get();
        Some(self.overlay.machine()?.access(nodes, access))
    }
}

impl<H: Hasher, B: Backend<H>> Ext<'_, H, B>
where
    H::Out: Ord + 'static + codec::Codec,
{
    /// The result of `call` on the original's externalities.
    fn in_original<R>(
        &mut self,
        call: impl FnOnce(&mut original::Ext<'_, H, AsOriginal<'_, B>>) -> R,
    ) -> R {
        let backend = AsOriginal(self.backend);
        let mut ext = original::Ext::new(self.overlay.original(), &backend, None);
        ext.id = self.id;
        call(&mut ext)
    }

    fn clear(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Option<MultiRemovalResults> {
        let clear = |block: &mut Block| block.clear_prefix(trie, prefix, limit, cursor);
        let removal = self.access_in_call(clear)?;
        if let Some(machine) = self.overlay.machine() {
            machine.mark_dirty();
        }
        let Removal {
            cursor,
            from_parent,
            unique,
            visited,
        } = removal;
        Some(MultiRemovalResults {
            maybe_cursor: cursor,
            backend: from_parent,
            unique,
            loops: visited,
        })
    }
}

fn child(info: &ChildInfo) -> TrieId<'_> {
    TrieId::Child(info.storage_key())
}

fn hex<T: AsBytesRef>(bytes: &T) -> HexDisplay<'_> {
    HexDisplay::from(bytes)
}

/// A hash in the original's type, which traces show in another form.
fn shown<H: Hasher>(hash: NodeHash) -> H::Out {
    out_of::<H>(hash.as_bytes())
}

/// A value encoded as an option of bytes without a length.
struct Opaque<'a>(Option<&'a StorageValue>);

impl std::fmt::Display for Opaque<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            // Encoded before it is shown, because a long text is shortened.
            Some(value) => hex(&[&[1], value.as_slice()].concat()).fmt(f),
            None => f.write_str("00"),
        }
    }
}

/// Traces an event under the original's names, because readers of traces look for them.
macro_rules! event {
    ($ext:expr, $method:literal $(, $($field:tt)*)?) => {
        tracing::trace!(
            target: "state",
            method = $method,
            ext_id = %hex(&$ext.id.to_le_bytes()),
            $($($field)*)?
        )
    };
}

impl<H: Hasher, B: Backend<H>> Externalities for Ext<'_, H, B>
where
    H::Out: Ord + 'static + codec::Codec,
{
    fn set_offchain_storage(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.overlay.set_offchain_storage(key, value);
    }

    fn storage(&mut self, key: &[u8]) -> Option<StorageValue> {
        let get = |block: &mut Block| Ok(block.get(TrieId::Top, key)?.map(<[u8]>::to_vec));
        let Some(value) = self.access(get) else {
            return self.in_original(|ext| ext.storage(key));
        };
        event!(
            self, "Get", key = %hex(&key), result = ?value.as_ref().map(hex),
            result_encoded = %Opaque(value.as_ref())
        );
        value
    }

    fn storage_hash(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let hash = |block: &mut Block| block.value_hash(TrieId::Top, key);
        let Some(hash) = self.access(hash) else {
            return self.in_original(|ext| ext.storage_hash(key));
        };
        event!(self, "Hash", key = %hex(&key), result = ?hash.map(shown::<H>));
        hash.map(|hash| hash.as_bytes().to_vec())
    }

    fn child_storage(&mut self, info: &ChildInfo, key: &[u8]) -> Option<StorageValue> {
        let get = |block: &mut Block| Ok(block.get(child(info), key)?.map(<[u8]>::to_vec));
        let Some(value) = self.access(get) else {
            return self.in_original(|ext| ext.child_storage(info, key));
        };
        event!(
            self, "ChildGet", child_info = %hex(&info.storage_key()), key = %hex(&key),
            result = ?value.as_ref().map(hex)
        );
        value
    }

    fn child_storage_hash(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        let hash = |block: &mut Block| block.value_hash(child(info), key);
        let Some(hash) = self.access(hash) else {
            return self.in_original(|ext| ext.child_storage_hash(info, key));
        };
        event!(
            self, "ChildHash", child_info = %hex(&info.storage_key()), key = %hex(&key),
            result = ?hash.map(shown::<H>)
        );
        hash.map(|hash| hash.as_bytes().to_vec())
    }

    fn exists_storage(&mut self, key: &[u8]) -> bool {
        let Some(exists) = self.access(|block| block.exists(TrieId::Top, key)) else {
            return self.in_original(|ext| ext.exists_storage(key));
        };
        event!(self, "Exists", key = %hex(&key), result = %exists);
        exists
    }

    fn exists_child_storage(&mut self, info: &ChildInfo, key: &[u8]) -> bool {
        let Some(exists) = self.access(|block| block.exists(child(info), key)) else {
            return self.in_original(|ext| ext.exists_child_storage(info, key));
        };
        event!(
            self, "ChildExists", child_info = %hex(&info.storage_key()), key = %hex(&key),
            result = %exists
        );
        exists
    }

    fn next_storage_key(&mut self, key: &[u8]) -> Option<StorageKey> {
        match self.access_in_call(|block| block.next_key(TrieId::Top, key)) {
            Some(next) => next,
            None => self.in_original(|ext| ext.next_storage_key(key)),
        }
    }

    fn next_child_storage_key(&mut self, info: &ChildInfo, key: &[u8]) -> Option<StorageKey> {
        match self.access_in_call(|block| block.next_key(child(info), key)) {
            Some(next) => next,
            None => self.in_original(|ext| ext.next_child_storage_key(info, key)),
        }
    }

    fn place_storage(&mut self, key: StorageKey, value: Option<StorageValue>) {
        if is_child_storage_key(&key) {
            log::warn!(target: "trie", "Refuse to directly set child storage key");
            return;
        }
        event!(
            self, "Put", key = %hex(&key), value = ?value.as_ref().map(hex),
            value_encoded = %Opaque(value.as_ref())
        );
        self.overlay.set_storage(key, value);
    }

    fn place_child_storage(
        &mut self,
        info: &ChildInfo,
        key: StorageKey,
        value: Option<StorageValue>,
    ) {
        event!(
            self, "ChildPut", child_info = %hex(&info.storage_key()), key = %hex(&key),
            value = ?value.as_ref().map(hex)
        );
        self.overlay.set_child_storage(info, key, value);
    }

    fn kill_child_storage(
        &mut self,
        info: &ChildInfo,
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        if !self.is_originals() {
            event!(self, "ChildKill", child_info = %hex(&info.storage_key()));
        }
        match self.clear(child(info), &[], limit, cursor) {
            Some(removal) => removal,
            None => self.in_original(|ext| ext.kill_child_storage(info, limit, cursor)),
        }
    }

    fn clear_prefix(
        &mut self,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        if !self.is_originals() {
            event!(self, "ClearPrefix", prefix = %hex(&prefix));
            if starts_with_child_storage_key(prefix) {
                log::warn!(
                    target: "trie",
                    "Refuse to directly clear prefix that is part or contains of child storage key",
                );
                return MultiRemovalResults {
                    maybe_cursor: None,
                    backend: 0,
                    unique: 0,
                    loops: 0,
                };
            }
        }
        match self.clear(TrieId::Top, prefix, limit, cursor) {
            Some(removal) => removal,
            None => self.in_original(|ext| ext.clear_prefix(prefix, limit, cursor)),
        }
    }

    fn clear_child_prefix(
        &mut self,
        info: &ChildInfo,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        if !self.is_originals() {
            event!(
                self, "ChildClearPrefix", child_info = %hex(&info.storage_key()),
                prefix = %hex(&prefix)
            );
        }
        match self.clear(child(info), prefix, limit, cursor) {
            Some(removal) => removal,
            None => self.in_original(|ext| ext.clear_child_prefix(info, prefix, limit, cursor)),
        }
    }

    fn storage_append(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if !self.is_originals() {
            event!(self, "Append", key = %hex(&key), value = %hex(&value));
        }
        let appended = self.access(|block| match is_child_storage_key(&key) {
            // The call is ignored, as other writes to the root of a child are.
            true => Ok(()),
            false => block.append(TrieId::Top, &key, &value),
        });
        if appended.is_none() {
            self.in_original(|ext| ext.storage_append(key, value));
        }
    }

    fn storage_root(&mut self, version: StateVersion) -> Vec<u8> {
        let _guard = AbortGuard::force_abort();
        let (root, cached) = self.overlay.storage_root(self.backend, version);
        event!(self, "StorageRoot", storage_root = %hex(&root.as_ref()), cached = %cached);
        root.encode()
    }

    fn child_storage_root(&mut self, info: &ChildInfo, version: StateVersion) -> Vec<u8> {
        let _guard = AbortGuard::force_abort();
        let root = self.overlay.child_storage_root(info, self.backend, version);
        let (root, cached) =
            root.expect("a backend that fails in a runtime's call ends the process");
        event!(
            self, "ChildStorageRoot", child_info = %hex(&info.storage_key()),
            storage_root = %hex(&root.as_ref()), cached = %cached
        );
        root.encode()
    }

    fn storage_index_transaction(&mut self, index: u32, hash: &[u8], size: u32) {
        event!(self, "IndexTransaction", index = %index, tx_hash = %hex(&hash), size = %size);
        self.overlay.add_transaction_index(IndexOperation::Insert {
            extrinsic: index,
            hash: hash.to_vec(),
            size,
        });
    }

    fn storage_renew_transaction_index(&mut self, index: u32, hash: &[u8]) {
        event!(self, "RenewTransactionIndex", index = %index, tx_hash = %hex(&hash));
        self.overlay.add_transaction_index(IndexOperation::Renew {
            extrinsic: index,
            hash: hash.to_vec(),
        });
    }

    fn storage_start_transaction(&mut self) {
        self.overlay.start_transaction();
        if let Some(extensions) = &mut self.extensions {
            extensions.start_transaction();
        }
    }

    fn storage_rollback_transaction(&mut self) -> Result<(), ()> {
        self.overlay.rollback_transaction().map_err(drop)?;
        if let Some(extensions) = &mut self.extensions {
            extensions.rollback_transaction();
        }
        Ok(())
    }

    fn storage_commit_transaction(&mut self) -> Result<(), ()> {
        self.overlay.commit_transaction().map_err(drop)?;
        if let Some(extensions) = &mut self.extensions {
            extensions.commit_transaction();
        }
        Ok(())
    }

    fn wipe(&mut self) {
        while self.overlay.transaction_depth() > 0 {
            self.overlay.rollback_transaction().expect(BENCHMARKS);
        }
        let drained = self
            .overlay
            .drain_storage_changes(self.backend, StateVersion::default());
        drained.expect(BENCHMARKS);
        self.backend.wipe().expect(BENCHMARKS);
        self.overlay.enter_runtime().expect(BENCHMARKS);
    }

    fn commit(&mut self) {
        while self.overlay.transaction_depth() > 0 {
            self.overlay.commit_transaction().expect(BENCHMARKS);
        }
        let changes = self
            .overlay
            .drain_storage_changes(self.backend, StateVersion::default());
        let changes = changes.expect(BENCHMARKS);
        let committed = self.backend.commit(
            changes.transaction_storage_root,
            changes.transaction,
            changes.main_storage_changes,
            changes.child_storage_changes,
        );
        committed.expect(BENCHMARKS);
        self.overlay.enter_runtime().expect(BENCHMARKS);
    }

    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        self.backend.read_write_count()
    }

    fn reset_read_write_count(&mut self) {
        self.backend.reset_read_write_count();
    }

    fn get_whitelist(&self) -> Vec<TrackedStorageKey> {
        self.backend.get_whitelist()
    }

    fn set_whitelist(&mut self, new: Vec<TrackedStorageKey>) {
        self.backend.set_whitelist(new);
    }

    fn proof_size(&self) -> Option<u32> {
        self.backend.proof_size()
    }

    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        self.backend.get_read_and_written_keys()
    }
}

/// Only benchmarks commit while the runtime executes.
const BENCHMARKS: &str =
    "only benchmarks call this, without transactions of the host, on a backend that can";

impl<H: Hasher, B: Backend<H>> ExtensionStore for Ext<'_, H, B> {
    fn extension_by_type_id(&mut self, type_id: TypeId) -> Option<&mut dyn Any> {
        let recorded = TypeId::of::<ProofSizeExt>();
        let extensions = self.extensions.as_ref()?;
        let asks_for_rooted =
            type_id == TypeId::of::<RootedProofSizeExt>() && !extensions.sees(type_id);
        if asks_for_rooted && extensions.sees(recorded) {
            return self.rooted_size();
        }
        let is_estimated = settings().sizes == ProofSizes::Estimate;
        if type_id == recorded && is_estimated && extensions.sees(type_id) {
            self.estimate();
        }
        self.extensions.as_mut()?.get_mut(type_id)
    }

    fn register_extension_with_type_id(
        &mut self,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        match &mut self.extensions {
            Some(extensions) => extensions.register(type_id, extension),
            None => Err(Error::ExtensionsAreNotSupported),
        }
    }

    fn deregister_extension_by_type_id(&mut self, type_id: TypeId) -> Result<(), Error> {
        match &mut self.extensions {
            Some(extensions) => extensions.deregister(type_id),
            None => Err(Error::ExtensionsAreNotSupported),
        }
    }
}

impl<H: Hasher, B: Backend<H>> Ext<'_, H, B> {
    /// Records the nodes that the root needs, if there is a recorder. The extension of the recorder then answers with
    /// them.
    fn estimate(&mut self) {
        let nodes = self.nodes.as_ref();
        if nodes.is_some_and(|nodes| nodes.get().records()) {
            self.access(|block| block.proof_size().map(drop));
        }
    }

    /// The answer to the second version of the proof-size function, in all settings: what the extension of the
    /// first version returns after an estimate. So a node that replays the sizes of an author replays this one, too.
    /// `None` if the original executes, because it cannot estimate.
    fn rooted_size(&mut self) -> Option<&mut dyn Any> {
        if self.is_originals() {
            return None;
        }
        self.estimate();
        let recorded = self.extensions.as_mut()?;
        let recorded = recorded.get_mut(TypeId::of::<ProofSizeExt>())?;
        let size = recorded
            .downcast_mut::<ProofSizeExt>()?
            .storage_proof_size();
        Some(self.rooted.insert(RootedProofSizeExt::new(size)))
    }
}
