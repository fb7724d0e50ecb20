//! A log of the keys that the runtime changed since the last boundary.

use povmeter_dev_runtime::TransactionStep;
use sp_core::storage::{ChildInfo, StateVersion};
use sp_externalities::{Error, Extension, ExtensionStore, Externalities, MultiRemovalResults};
use std::any::{Any, TypeId};

/// A change by the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A key of the top trie.
    Key(Vec<u8>),
    /// All keys of the top trie with a prefix.
    Prefix(Vec<u8>),
    /// A key of a child trie.
    ChildKey(ChildInfo, Vec<u8>),
    /// All keys of a child trie with a prefix.
    ChildPrefix(ChildInfo, Vec<u8>),
}

/// The changes since the last boundary, and the open transactions.
#[derive(Debug, Default)]
pub struct TouchLog {
    touches: Vec<Touch>,
    marks: Vec<usize>,
}

impl TouchLog {
    /// Notes a change.
    pub fn note(&mut self, touch: Touch) {
        self.touches.push(touch);
    }

    /// Opens a transaction.
    pub fn start(&mut self) {
        self.marks.push(self.touches.len());
    }

    /// Commits the innermost transaction.
    pub fn commit(&mut self) {
        self.marks.pop();
    }

    /// Rolls back the innermost transaction.
    pub fn roll_back(&mut self) {
        if let Some(mark) = self.marks.pop() {
            self.touches.truncate(mark);
        }
    }

    /// Follows a step of the host.
    pub fn follow(&mut self, step: TransactionStep) {
        match step {
            TransactionStep::Start => self.start(),
            TransactionStep::Commit => self.commit(),
            TransactionStep::Rollback => self.roll_back(),
        }
    }

    /// Rolls back until `depth` transactions are open, as the overlay does with those that a runtime
    /// leaves open.
    pub fn roll_back_to(&mut self, depth: usize) {
        while self.depth() > depth {
            self.roll_back();
        }
    }

    /// Number of open transactions.
    pub fn depth(&self) -> usize {
        self.marks.len()
    }

    /// Returns the changes since the last `take`. Open transactions stay open.
    pub fn take(&mut self) -> Vec<Touch> {
        self.marks.fill(0);
        std::mem::take(&mut self.touches)
    }
}

/// Externalities that note changes and forward every call.
pub struct Tracked<'a, E> {
    /// The externalities that get the calls.
    pub inner: &'a mut E,
    /// The log for changes.
    pub log: &'a mut TouchLog,
}

impl<E: Externalities> Externalities for Tracked<'_, E> {
    fn set_offchain_storage(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.inner.set_offchain_storage(key, value);
    }

    fn storage(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.storage(key)
    }

    fn storage_hash(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.storage_hash(key)
    }

    fn child_storage_hash(&mut self, child: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.child_storage_hash(child, key)
    }

    fn child_storage(&mut self, child: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.child_storage(child, key)
    }

    fn exists_storage(&mut self, key: &[u8]) -> bool {
        self.inner.exists_storage(key)
    }

    fn exists_child_storage(&mut self, child: &ChildInfo, key: &[u8]) -> bool {
        self.inner.exists_child_storage(child, key)
    }

    fn next_storage_key(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.next_storage_key(key)
    }

    fn next_child_storage_key(&mut self, child: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.next_child_storage_key(child, key)
    }

    fn kill_child_storage(
        &mut self,
        child: &ChildInfo,
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.log.note(Touch::ChildPrefix(child.clone(), Vec::new()));
        self.inner.kill_child_storage(child, limit, cursor)
    }

    fn clear_prefix(
        &mut self,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.log.note(Touch::Prefix(prefix.to_vec()));
        self.inner.clear_prefix(prefix, limit, cursor)
    }

    fn clear_child_prefix(
        &mut self,
        child: &ChildInfo,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.log
            .note(Touch::ChildPrefix(child.clone(), prefix.to_vec()));
        self.inner.clear_child_prefix(child, prefix, limit, cursor)
    }

    fn place_storage(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.log.note(Touch::Key(key.clone()));
        self.inner.place_storage(key, value);
    }

    fn place_child_storage(&mut self, child: &ChildInfo, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.log.note(Touch::ChildKey(child.clone(), key.clone()));
        self.inner.place_child_storage(child, key, value);
    }

    fn storage_root(&mut self, version: StateVersion) -> Vec<u8> {
        self.inner.storage_root(version)
    }

    fn child_storage_root(&mut self, child: &ChildInfo, version: StateVersion) -> Vec<u8> {
        // This call writes the child's new root into the top trie.
        self.log
            .note(Touch::Key(child.prefixed_storage_key().into_inner()));
        self.inner.child_storage_root(child, version)
    }

    fn storage_append(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.log.note(Touch::Key(key.clone()));
        self.inner.storage_append(key, value);
    }

    fn storage_start_transaction(&mut self) {
        self.log.start();
        self.inner.storage_start_transaction();
    }

    fn storage_rollback_transaction(&mut self) -> Result<(), ()> {
        self.inner.storage_rollback_transaction()?;
        self.log.roll_back();
        Ok(())
    }

    fn storage_commit_transaction(&mut self) -> Result<(), ()> {
        self.inner.storage_commit_transaction()?;
        self.log.commit();
        Ok(())
    }

    fn storage_index_transaction(&mut self, index: u32, hash: &[u8], size: u32) {
        self.inner.storage_index_transaction(index, hash, size);
    }

    fn storage_renew_transaction_index(&mut self, index: u32, hash: &[u8]) {
        self.inner.storage_renew_transaction_index(index, hash);
    }

    povmeter_dev_runtime::forward_benchmarking!(inner);
}

impl<E: ExtensionStore> ExtensionStore for Tracked<'_, E> {
    fn extension_by_type_id(&mut self, id: TypeId) -> Option<&mut dyn Any> {
        self.inner.extension_by_type_id(id)
    }

    fn register_extension_with_type_id(
        &mut self,
        id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        self.inner.register_extension_with_type_id(id, extension)
    }

    fn deregister_extension_by_type_id(&mut self, id: TypeId) -> Result<(), Error> {
        self.inner.deregister_extension_by_type_id(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Touch {
        Touch::Key(vec![byte])
    }

    #[test]
    fn what_is_rolled_back_was_not_touched() {
        let mut log = TouchLog::default();
        log.note(key(1));
        log.start();
        log.note(key(2));
        log.start();
        log.note(key(3));
        log.roll_back();
        log.start();
        log.note(key(4));
        log.commit();
        assert_eq!(log.touches, [key(1), key(2), key(4)]);
        log.roll_back();
        assert_eq!(log.take(), [key(1)]);
        assert_eq!(log.take(), []);
    }

    #[test]
    fn a_transaction_that_outlives_a_boundary_forgets_only_what_came_after() {
        let mut log = TouchLog::default();
        log.note(key(1));
        log.start();
        log.note(key(2));
        assert_eq!(log.take(), [key(1), key(2)]);
        log.note(key(3));
        log.roll_back();
        assert_eq!(log.take(), []);
    }
}
