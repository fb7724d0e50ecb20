//! Backends inside wrappers. This file is named as the crate whose wrappers are known, so that its types have
//! the names of those wrappers.
#![allow(clippy::unwrap_used)]

use hash_db::Hasher;
use record_stats_state::RecordStatsState;
use sp_core::{
    storage::{ChildInfo, StateVersion},
    Blake2Hasher, H256,
};
use sp_externalities::Externalities;
use sp_state_machine::{
    backend::{AsTrieBackend, Backend, BackendTransaction, StorageIterator},
    new_in_mem, Ext, InMemoryBackend, IterArgs, OverlayedChanges, StateMachineStats, StorageKey,
    StorageValue, TrieBackendBuilder, UsageInfo,
};
use sp_trie::{recorder::Recorder, MerkleValue, PrefixedMemoryDB};
use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

const VERSION: StateVersion = StateVersion::V1;
type Nodes = PrefixedMemoryDB<Blake2Hasher>;

/// Makes a wrapper that counts reads and hands them on.
macro_rules! wrapper {
    ($name:ident, $iterator:ident) => {
        pub(crate) struct $name<S> {
            pub(crate) inner: S,
            pub(crate) reads: AtomicUsize,
            pub(crate) full_roots: AtomicUsize,
        }

        impl<S> $name<S> {
            pub(crate) fn new(inner: S) -> Self {
                Self {
                    inner,
                    reads: AtomicUsize::new(0),
                    full_roots: AtomicUsize::new(0),
                }
            }

            fn count(&self) -> &S {
                self.reads.fetch_add(1, Ordering::Relaxed);
                &self.inner
            }
        }

        impl<S> fmt::Debug for $name<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        pub(crate) struct $iterator<S: Backend<Blake2Hasher>>(S::RawIter);

        impl<S: Backend<Blake2Hasher>> StorageIterator<Blake2Hasher> for $iterator<S> {
            type Backend = $name<S>;
            type Error = S::Error;

            fn next_key(&mut self, on: &$name<S>) -> Option<Result<StorageKey, S::Error>> {
                self.0.next_key(on.count())
            }

            fn next_pair(
                &mut self,
                on: &$name<S>,
            ) -> Option<Result<(StorageKey, StorageValue), S::Error>> {
                self.0.next_pair(on.count())
            }

            fn was_complete(&self) -> bool {
                self.0.was_complete()
            }
        }

        impl<S: Backend<Blake2Hasher>> Backend<Blake2Hasher> for $name<S> {
            type Error = S::Error;
            type TrieBackendStorage = S::TrieBackendStorage;
            type RawIter = $iterator<S>;

            fn storage(&self, key: &[u8]) -> Result<Option<StorageValue>, S::Error> {
                self.count().storage(key)
            }

            fn storage_hash(&self, key: &[u8]) -> Result<Option<H256>, S::Error> {
                self.count().storage_hash(key)
            }

            fn exists_storage(&self, key: &[u8]) -> Result<bool, S::Error> {
                self.inner.exists_storage(key)
            }

            fn closest_merkle_value(
                &self,
                key: &[u8],
            ) -> Result<Option<MerkleValue<H256>>, S::Error> {
                self.count().closest_merkle_value(key)
            }

            fn child_closest_merkle_value(
                &self,
                child: &ChildInfo,
                key: &[u8],
            ) -> Result<Option<MerkleValue<H256>>, S::Error> {
                self.count().child_closest_merkle_value(child, key)
            }

            fn child_storage(
                &self,
                child: &ChildInfo,
                key: &[u8],
            ) -> Result<Option<StorageValue>, S::Error> {
                self.count().child_storage(child, key)
            }

            fn child_storage_hash(
                &self,
                child: &ChildInfo,
                key: &[u8],
            ) -> Result<Option<H256>, S::Error> {
                self.count().child_storage_hash(child, key)
            }

            fn next_storage_key(&self, key: &[u8]) -> Result<Option<StorageKey>, S::Error> {
                self.count().next_storage_key(key)
            }

            fn next_child_storage_key(
                &self,
                child: &ChildInfo,
                key: &[u8],
            ) -> Result<Option<StorageKey>, S::Error> {
                self.count().next_child_storage_key(child, key)
            }

            fn storage_root<'a>(
                &self,
                delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
                version: StateVersion,
            ) -> (H256, BackendTransaction<Blake2Hasher>) {
                self.count().storage_root(delta, version)
            }

            fn child_storage_root<'a>(
                &self,
                child: &ChildInfo,
                delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
                version: StateVersion,
            ) -> (H256, bool, BackendTransaction<Blake2Hasher>) {
                self.count().child_storage_root(child, delta, version)
            }

            fn full_storage_root<'a>(
                &self,
                delta: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
                children: impl Iterator<
                    Item = (
                        &'a ChildInfo,
                        impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
                    ),
                >,
                version: StateVersion,
            ) -> (H256, BackendTransaction<Blake2Hasher>) {
                self.full_roots.fetch_add(1, Ordering::Relaxed);
                self.inner.full_storage_root(delta, children, version)
            }

            fn raw_iter(&self, args: IterArgs<'_>) -> Result<Self::RawIter, S::Error> {
                self.count().raw_iter(args).map($iterator)
            }

            fn register_overlay_stats(&self, stats: &StateMachineStats) {
                self.inner.register_overlay_stats(stats);
            }

            fn usage_info(&self) -> UsageInfo {
                self.inner.usage_info()
            }
        }
    };
}

mod record_stats_state {
    use super::*;

    wrapper!(RecordStatsState, StatsIterator);
}

wrapper!(RefTrackingState, TrackingIterator);
wrapper!(ForBenchmarks, BenchmarksIterator);

fn key(account: u32) -> Vec<u8> {
    Blake2Hasher::hash(&account.to_le_bytes())
        .as_bytes()
        .to_vec()
}

fn state() -> InMemoryBackend<Blake2Hasher> {
    let values = (0..1000).map(|account| (key(account), Some(vec![7; 40])));
    new_in_mem().update([(None, values.collect())], VERSION)
}

/// Executes a block on `backend`, and returns its root and the nodes that change.
fn execute<B: Backend<Blake2Hasher>>(backend: &B) -> (H256, Nodes) {
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, backend, None);
    for account in 0..100 {
        let key = key(account);
        assert_eq!(ext.storage(&key), Some(vec![7; 40]));
        ext.place_storage(key, (account % 3 > 0).then(|| vec![8; 50]));
    }
    assert!(!ext.exists_storage(b"povmeter nodes"));
    let told = ext.storage_root(VERSION);
    let changes = overlay.drain_storage_changes(backend, VERSION).unwrap();
    assert_eq!(told, changes.transaction_storage_root.as_bytes());
    (changes.transaction_storage_root, changes.transaction)
}

#[test]
fn a_clients_wrappers_hand_on_nodes() {
    let state = state();
    let expected = execute(&state);
    let wrapped = RecordStatsState::new(RefTrackingState::new(state.clone()));
    assert!(execute(&wrapped) == expected);
    let reads = wrapped.reads.load(Ordering::Relaxed);
    assert_eq!(reads, 0, "values were not read by the wrapper's methods");
    assert_eq!(wrapped.inner.reads.load(Ordering::Relaxed), 0);
}

#[test]
fn another_wrapper_gets_each_read() {
    let state = state();
    let expected = execute(&state);
    let wrapped = ForBenchmarks::new(state);
    assert!(execute(&wrapped) == expected);
    assert!(wrapped.reads.load(Ordering::Relaxed) >= 100);
    assert_eq!(wrapped.full_roots.load(Ordering::Relaxed), 1);
}

/// The overlay has changes in transactions of the host and of the runtime when it meets the wrapper.
#[test]
fn another_wrapper_gets_the_reads_of_open_transactions() {
    let state = state();
    let child = ChildInfo::new_default(b"child");
    let change = |overlay: &mut OverlayedChanges<Blake2Hasher>, account: u32| {
        overlay.set_storage(key(account), Some(vec![9; 50]));
        overlay.set_child_storage(&child, key(account), Some(vec![9; 50]));
    };
    let expected = {
        let mut overlay = OverlayedChanges::default();
        change(&mut overlay, 1);
        change(&mut overlay, 2);
        overlay.storage_root(&state, VERSION).0
    };
    let wrapped = ForBenchmarks::new(state);
    let mut overlay = OverlayedChanges::default();
    change(&mut overlay, 1);
    overlay.start_transaction();
    change(&mut overlay, 2);
    overlay.enter_runtime().unwrap();
    overlay.start_transaction();
    change(&mut overlay, 3);
    overlay.start_transaction();
    overlay.set_storage(key(4), None);
    let mut ext = Ext::new(&mut overlay, &wrapped, None);
    for (account, value) in [(3, Some(vec![9; 50])), (4, None), (5, Some(vec![7; 40]))] {
        assert_eq!(ext.storage(&key(account)), value);
    }
    assert!(ext.storage_rollback_transaction().is_ok());
    assert_eq!(ext.storage(&key(4)), Some(vec![7; 40]));
    assert!(ext.storage_rollback_transaction().is_ok());
    assert_eq!(ext.storage(&key(3)), Some(vec![7; 40]));
    // The next one is the host's.
    assert!(ext.storage_rollback_transaction().is_err());
    assert_eq!(ext.child_storage(&child, &key(2)), Some(vec![9; 50]));
    overlay.exit_runtime().unwrap();
    overlay.commit_transaction().unwrap();
    assert_eq!(overlay.storage_root(&wrapped, VERSION).0, expected);
    assert!(wrapped.reads.load(Ordering::Relaxed) >= 3);
}

#[test]
fn a_block_of_recorded_calls_ends_on_a_wrapper() {
    let state = state();
    let (expected, nodes) = execute(&state);
    let recorder = Recorder::<Blake2Hasher>::default();
    let mut overlay = OverlayedChanges::default();
    for account in 0..100 {
        let backend = TrieBackendBuilder::wrap(state.as_trie_backend())
            .with_recorder(recorder.clone())
            .build();
        let mut ext = Ext::new(&mut overlay, &backend, None);
        assert_eq!(ext.storage(&key(account)), Some(vec![7; 40]));
        ext.place_storage(key(account), (account % 3 > 0).then(|| vec![8; 50]));
        if account == 99 {
            assert!(!ext.exists_storage(b"povmeter nodes"));
            assert_eq!(ext.storage_root(VERSION), expected.as_bytes());
        }
    }
    let wrapped = RecordStatsState::new(RefTrackingState::new(state.clone()));
    let changes = overlay.drain_storage_changes(&wrapped, VERSION).unwrap();
    assert_eq!(changes.transaction_storage_root, expected);
    assert!(changes.transaction == nodes);
    assert_eq!(wrapped.reads.load(Ordering::Relaxed), 0);
    // And the proof holds what the root needed.
    let proof = recorder.drain_storage_proof().into_memory_db();
    let proven = TrieBackendBuilder::<_, Blake2Hasher>::new(proof, *state.root());
    assert_eq!(execute(&proven.build()).0, expected);
}

#[test]
fn a_known_wrapper_inside_another_one_is_no_way() {
    let wrapped = ForBenchmarks::new(RecordStatsState::new(state()));
    assert!(execute(&wrapped) == execute(&state()));
    assert!(wrapped.reads.load(Ordering::Relaxed) >= 100);
}
