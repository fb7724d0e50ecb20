//! The interface between runtime and host, over a [`View`].

use super::{counting::Counting, rules::StorageRules};
use crate::{
    externalities::{child, FailedAccess},
    machine::{state_version, IndexOperation},
    runtime_extensions::RuntimeExtensions,
    sizes::{Answer, CurrentSize, Question, ReplayError, SizeSource},
};
use povmeter::{ProofSize, Removal, TrieId};
use povmeter_overlay::Overlay;
use povmeter_parallel::{Stopped, View};
use povmeter_proof_size::RootedProofSizeExt;
use sp_core::storage::{
    well_known_keys::{is_child_storage_key, starts_with_child_storage_key},
    ChildInfo, StateVersion, TrackedStorageKey,
};
use sp_externalities::{
    Error, Extension, ExtensionStore, Extensions, Externalities, MultiRemovalResults,
};
use std::{
    any::{Any, TypeId},
    cell::Cell,
    panic::resume_unwind,
    sync::{
        atomic::{AtomicUsize, Ordering},
        OnceLock,
    },
};

/// The error of a call of the interface that exists for benchmarks: a transaction that is executed in
/// parallel has no answer for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected no call of `{0}` in a transaction, found one")]
pub struct BenchmarkCall(pub(crate) &'static str);

/// What a call into the runtime does besides changes of the state.
#[derive(Debug, Default)]
pub(crate) struct SideEffects {
    /// Changes of the offchain database, by key; `None` if there are none.
    pub(crate) offchain: Option<Box<Overlay>>,
    pub(crate) transaction_index: Vec<IndexOperation>,
    /// The proof sizes that the runtime got.
    pub(crate) sizes: Vec<u64>,
}

/// Where a call's proof sizes come from.
pub(crate) struct SizesOfCall<'e> {
    pub(crate) source: &'e SizeSource,
    /// The bytes that the runtime gets for a recorded size.
    pub(crate) recorded: fn(ProofSize) -> u64,
    /// How many sizes the runtime got in the committed calls. At the turn of a call, all calls before it
    /// are committed.
    pub(crate) before: &'e AtomicUsize,
    pub(crate) current: &'e CurrentSize,
    /// Where a failure to replay a size is kept, which is one of the block and not of the call.
    pub(crate) failed: &'e OnceLock<ReplayError>,
}

/// The externalities of one call into the runtime, which is a transaction executed in parallel.
pub(crate) struct ViewExt<'e, 'v> {
    view: &'e mut View<'v>,
    rules: &'e StorageRules,
    counting: &'e mut Counting,
    /// The extensions of the thread, which the host registered.
    host: &'e mut Extensions,
    extensions: RuntimeExtensions,
    sizes: SizesOfCall<'e>,
    effects: SideEffects,
    /// Open nested transactions.
    open: usize,
    ended: Option<Ended>,
    /// A call that was refused. Some of these calls can't change `ended`.
    refused: Cell<Option<BenchmarkCall>>,
}

/// Why a call has to end early.
pub(crate) enum Ended {
    Stopped(Stopped),
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl<'e, 'v> ViewExt<'e, 'v> {
    pub(crate) fn new(
        view: &'e mut View<'v>,
        (rules, counting): (&'e StorageRules, &'e mut Counting),
        host: &'e mut Extensions,
        sizes: SizesOfCall<'e>,
    ) -> Self {
        counting.begin(rules, view.is_ahead());
        Self {
            view,
            rules,
            counting,
            host,
            extensions: RuntimeExtensions::default(),
            sizes,
            effects: SideEffects::default(),
            open: 0,
            ended: None,
            refused: Cell::new(None),
        }
    }

    /// Ends the call: rolls back the transactions that it left open, and makes its additions.
    pub(crate) fn end(mut self) -> Result<SideEffects, Ended> {
        let refused = self.refused.take();
        let refused = refused.map(|refused| Ended::Failed(refused.into()));
        let ended = match self.ended.take().or(refused) {
            Some(ended) => Err(ended),
            None => self.end_calls().map_err(Ended::Stopped),
        };
        // The extensions outlive a call that stopped within nested transactions.
        for _ in 0..self.open {
            self.extensions.roll_back(self.host);
        }
        ended.map(|()| self.effects)
    }

    fn end_calls(&mut self) -> Result<(), Stopped> {
        while self.open > 0 {
            self.roll_back()?;
        }
        let (rules, view) = (self.rules, &mut *self.view);
        self.counting.settle(rules, view, None)?;
        self.counting.update(rules, view)
    }

    fn roll_back(&mut self) -> Result<(), Stopped> {
        let (rules, counting) = (self.rules, &mut *self.counting);
        counting.settle(rules, self.view, None)?;
        self.view.rollback_transaction()?;
        counting.roll_back();
        if let Some(offchain) = &mut self.effects.offchain {
            // It is open, because it opens and closes with the view's transaction.
            _ = offchain.rollback_transaction();
        }
        self.open -= 1;
        self.extensions.roll_back(self.host);
        Ok(())
    }

    /// Unwinds through the runtime, because the interface has no errors. Does not call the panic hook,
    /// because the execution is dropped, and usually repeated.
    ///
    /// Returns if the runtime unwinds already, because its destructors may call the host, and an unwinding
    /// destructor ends the process.
    fn unwind(&mut self, ended: Ended) {
        let message = match &ended {
            Ended::Stopped(stopped) => stopped.to_string(),
            Ended::Failed(error) => error.to_string(),
        };
        self.ended.get_or_insert(ended);
        unwind_with(message);
    }

    /// The value of `result`; unwinds if there is none. While the runtime unwinds already, returns any value,
    /// because no result is kept.
    fn must<T: Default>(&mut self, result: Result<T, Stopped>) -> T {
        result.unwrap_or_else(|stopped| {
            self.unwind(Ended::Stopped(stopped));
            T::default()
        })
    }

    /// Tells the counters of a call that may write the counter `except`.
    #[inline]
    fn settle(&mut self, except: Option<usize>) {
        let settled = self.counting.settle(self.rules, self.view, except);
        self.must(settled);
    }

    /// Waits for the turn of the call, where only the block can answer. From then on, reads and writes go to
    /// the block unchanged.
    fn wait_for_turn(&mut self) {
        if !self.view.is_ahead() {
            return;
        }
        let (rules, counting, view) = (self.rules, &mut *self.counting, &mut *self.view);
        let settled = counting.settle(rules, view, None);
        let updated = settled.and_then(|()| counting.update(rules, view));
        let waited = updated.and_then(|()| view.wait_for_turn());
        self.must(waited);
        if self.ended.is_none() {
            self.counting.at_turn();
        }
    }

    /// The number of the rule for a key of the top trie.
    fn rule(&self, trie: TrieId<'_>, key: &[u8]) -> Option<usize> {
        match trie {
            TrieId::Top => self.rules.find(key),
            TrieId::Child(_) => None,
        }
    }

    fn read(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.settle(None);
        let value = match self.rule(trie, key) {
            Some(number) => self.counting.get(self.rules, self.view, number),
            None => self
                .view
                .get(trie, key)
                .map(|value| value.map(<[u8]>::to_vec)),
        };
        self.must(value)
    }

    fn hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.wait_for_turn();
        let hash = self.view.value_hash(trie, key);
        self.must(hash).map(|hash| hash.as_bytes().to_vec())
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> bool {
        self.settle(None);
        let number = self.rule(trie, key);
        if let Some(exists) = number.and_then(|number| self.counting.exists(number)) {
            return exists;
        }
        let exists = self.view.exists(trie, key);
        self.must(exists)
    }

    fn next(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.settle(None);
        let updated = self.counting.update(self.rules, self.view);
        let next = updated.and_then(|()| self.view.next_key(trie, key));
        self.must(next)
    }

    fn place(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) {
        let number = self.rule(trie, key);
        self.settle(number.filter(|_| value.is_some()));
        if trie == TrieId::Top && !self.rules.is_empty() {
            let shown = self.counting.show(self.rules, self.view, key);
            self.must(shown);
        }
        let placed = match (number, value) {
            (Some(number), value) => self.counting.write(self.rules, self.view, number, value),
            (None, Some(value)) => self.view.set(trie, key, value),
            (None, None) => self.view.remove(trie, key),
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
        self.wait_for_turn();
        let removal = self.view.clear_prefix(trie, prefix, limit, cursor);
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

    /// Stores the answer to `question` in its extension, where the runtime then reads it.
    fn answer(&mut self, question: Question) {
        if *self.sizes.source == SizeSource::Unrecorded {
            return;
        }
        self.wait_for_turn();
        if self.ended.is_some() {
            // The runtime unwinds, and its turn has not come: no size may be taken from a record.
            return;
        }
        let before = self.sizes.before.load(Ordering::Relaxed) + self.effects.sizes.len();
        let size = match self.sizes.source.answer(question, before) {
            Ok(Answer::None) => return,
            Ok(Answer::Recorded) => self.view.recorded_size().map(self.sizes.recorded),
            Ok(Answer::Estimate) => self.view.proof_size().map(|size| size.total_bytes()),
            Ok(Answer::Given(size)) => Ok(size),
            Err(error) => {
                self.sizes.failed.get_or_init(|| error);
                return self.unwind(Ended::Failed(error.into()));
            }
        };
        let size = self.must(size);
        self.effects.sizes.push(size);
        match question {
            Question::Stock => self.sizes.current.set(size),
            Question::Rooted => {
                let rooted = self.host.get_mut(TypeId::of::<RootedProofSizeExt>());
                if let Some(rooted) = rooted.and_then(<dyn Any>::downcast_mut::<RootedProofSizeExt>)
                {
                    *rooted = RootedProofSizeExt::new(size);
                }
            }
        }
    }

    /// Refuses a call that only benchmarks make.
    fn refuse(&self, call: &'static str) {
        let refused = BenchmarkCall(call);
        if self.refused.get().is_none() {
            self.refused.set(Some(refused));
        }
        unwind_with(refused.to_string());
    }
}

/// Unwinds, unless the thread unwinds already. Does not call the panic hook.
fn unwind_with(message: String) {
    if !std::thread::panicking() {
        resume_unwind(Box::new(FailedAccess { message }));
    }
}

impl Externalities for ViewExt<'_, '_> {
    fn set_offchain_storage(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.settle(None);
        let open = self.open;
        let offchain = self.effects.offchain.get_or_insert_with(|| {
            let mut offchain = Box::new(Overlay::new());
            (0..open).for_each(|_| offchain.start_transaction());
            offchain
        });
        match value {
            Some(value) => offchain.set(TrieId::Top, key, value),
            None => _ = offchain.remove(TrieId::Top, key),
        }
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

    // Writes to the roots of child tries are ignored, as by the externalities of a machine.

    fn set_storage(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.place_storage(key, Some(value));
    }

    fn clear_storage(&mut self, key: &[u8]) {
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
        self.settle(None);
        let (rules, view) = (self.rules, &mut *self.view);
        let shown = self.counting.show(rules, view, &key);
        let lost = shown.and_then(|()| match rules.find(&key) {
            Some(number) => self.counting.lose(rules, view, number),
            None => Ok(()),
        });
        let appended = lost.and_then(|()| view.append(TrieId::Top, &key, &value));
        self.must(appended);
    }

    fn storage_root(&mut self, version: StateVersion) -> Vec<u8> {
        self.wait_for_turn();
        let root = self.view.root(state_version(version));
        let root = root.map(|root| root.as_bytes().to_vec());
        self.must(root)
    }

    fn child_storage_root(&mut self, info: &ChildInfo, version: StateVersion) -> Vec<u8> {
        self.wait_for_turn();
        let root = self
            .view
            .child_root(info.storage_key(), state_version(version));
        let root = root.map(|root| root.as_bytes().to_vec());
        self.must(root)
    }

    fn storage_start_transaction(&mut self) {
        self.settle(None);
        let started = self.view.start_transaction();
        self.must(started);
        self.counting.start();
        if let Some(offchain) = &mut self.effects.offchain {
            offchain.start_transaction();
        }
        self.open += 1;
        self.extensions.start(self.host);
    }

    fn storage_rollback_transaction(&mut self) -> Result<(), ()> {
        if self.open == 0 {
            return Err(());
        }
        let rolled_back = self.roll_back();
        self.must(rolled_back);
        Ok(())
    }

    fn storage_commit_transaction(&mut self) -> Result<(), ()> {
        if self.open == 0 {
            return Err(());
        }
        self.settle(None);
        let committed = self.view.commit_transaction();
        self.must(committed);
        self.counting.commit();
        if let Some(offchain) = &mut self.effects.offchain {
            offchain.commit_transaction().map_err(drop)?;
        }
        self.open -= 1;
        self.extensions.commit(self.host);
        Ok(())
    }

    fn storage_index_transaction(&mut self, index: u32, hash: &[u8], size: u32) {
        self.settle(None);
        self.effects.transaction_index.push(IndexOperation::Insert {
            extrinsic: index,
            hash: hash.to_vec(),
            size,
        });
    }

    fn storage_renew_transaction_index(&mut self, index: u32, hash: &[u8]) {
        self.settle(None);
        self.effects.transaction_index.push(IndexOperation::Renew {
            extrinsic: index,
            hash: hash.to_vec(),
        });
    }

    fn wipe(&mut self) {
        self.refuse("wipe")
    }

    fn commit(&mut self) {
        self.refuse("commit")
    }

    // While the runtime unwinds, what these calls return does not matter.

    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        self.refuse("read_write_count");
        (0, 0, 0, 0)
    }

    fn reset_read_write_count(&mut self) {
        self.refuse("reset_read_write_count")
    }

    fn get_whitelist(&self) -> Vec<TrackedStorageKey> {
        self.refuse("get_whitelist");
        Vec::new()
    }

    fn set_whitelist(&mut self, _: Vec<TrackedStorageKey>) {
        self.refuse("set_whitelist")
    }

    fn proof_size(&self) -> Option<u32> {
        self.refuse("proof_size");
        None
    }

    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        self.refuse("get_read_and_written_keys");
        Vec::new()
    }
}

impl ExtensionStore for ViewExt<'_, '_> {
    fn extension_by_type_id(&mut self, type_id: TypeId) -> Option<&mut dyn Any> {
        // The data that the runtime gives to the extension may depend on the counter.
        self.settle(None);
        if let Some(question) = Question::asked_by(type_id) {
            if self.extensions.sees_of_host(self.host, type_id) {
                self.answer(question);
            }
        }
        self.extensions.get(self.host, type_id)
    }

    fn register_extension_with_type_id(
        &mut self,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        self.settle(None);
        self.extensions.register(self.host, type_id, extension)
    }

    fn deregister_extension_by_type_id(&mut self, type_id: TypeId) -> Result<(), Error> {
        self.settle(None);
        self.extensions.deregister(self.host, type_id)
    }
}
