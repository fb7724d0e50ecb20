//! Blocks on the states of one database find the nodes that earlier blocks have read. Those on other nodes don't.
#![allow(clippy::unwrap_used)]

mod database;

use database::Database;
use hash_db::Hasher;
use sp_core::{storage::StateVersion, Blake2Hasher, H256};
use sp_externalities::Externalities;
use sp_state_machine::{
    backend::{AsTrieBackend, Backend, BackendTransaction},
    new_in_mem,
    povmeter::{cache_counters, settings, CacheCounters},
    Ext, InMemoryBackend, OverlayedChanges, Storage, TrieBackendBuilder, TrieBackendStorage,
};
use sp_trie::{
    cache::{CacheSize, SharedTrieCache},
    recorder::Recorder,
    PrefixedMemoryDB,
};
use std::{
    ops::Range,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

const VERSION: StateVersion = StateVersion::V1;

fn key(account: u32) -> Vec<u8> {
    Blake2Hasher::hash(&account.to_le_bytes())
        .as_bytes()
        .to_vec()
}

/// The writes of a block: a value of 20 + `byte` bytes for each account.
fn changes(accounts: Range<u32>, byte: u8) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let value = vec![byte; 20 + usize::from(byte)];
    accounts
        .map(|account| (key(account), Some(value.clone())))
        .collect()
}

/// A node with a database and a trie cache.
struct Node {
    state: InMemoryBackend<Blake2Hasher>,
    database: Arc<Database>,
    cache: SharedTrieCache<Blake2Hasher>,
}

impl Node {
    fn new(state: InMemoryBackend<Blake2Hasher>) -> Self {
        Self {
            database: Database::new(state.backend_storage().clone()),
            state,
            cache: SharedTrieCache::new(CacheSize::unlimited(), None),
        }
    }

    /// Executes a block that reads and writes `accounts`, and compares its root with the original's.
    fn execute(&self, accounts: Range<u32>, byte: u8) -> (H256, BackendTransaction<Blake2Hasher>) {
        let storage: Arc<dyn Storage<Blake2Hasher>> = self.database.clone();
        let local = self.cache.local_cache_trusted();
        let backend = TrieBackendBuilder::new_with_cache(storage, *self.state.root(), local);
        let backend = backend.with_optional_recorder(None::<Recorder<_>>).build();
        let mut overlay = OverlayedChanges::default();
        // Each half is a call of its own, on another backend over the same database.
        let half = accounts.start.midpoint(accounts.end);
        let mut ext = Ext::new(&mut overlay, &backend, None);
        for (key, value) in changes(accounts.start..half, byte) {
            assert_eq!(ext.storage(&key), self.state.storage(&key).unwrap());
            ext.place_storage(key, value);
        }
        let backend = TrieBackendBuilder::wrap(&backend)
            .with_recorder(Recorder::default())
            .build();
        let mut ext = Ext::new(&mut overlay, &backend, None);
        for (key, value) in changes(half..accounts.end, byte) {
            assert_eq!(ext.storage(&key), self.state.storage(&key).unwrap());
            ext.place_storage(key, value);
        }
        let sealed = overlay.drain_storage_changes(&backend, VERSION).unwrap();
        let expected = changes(accounts, byte);
        let expected = expected
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()));
        let expected = self.state.storage_root(expected, VERSION).0;
        assert_eq!(sealed.transaction_storage_root, expected);
        (expected, sealed.transaction)
    }

    fn import(&mut self, (root, nodes): (H256, BackendTransaction<Blake2Hasher>)) {
        self.database.0.write().unwrap().consolidate(nodes.clone());
        self.state.apply_transaction(root, nodes);
    }
}

fn counters() -> CacheCounters {
    cache_counters().unwrap()
}

/// Whether a read of a value panics on the state of `root` in `storage`, which lacks its node.
fn fails<S: TrieBackendStorage<Blake2Hasher>>(node: &Node, storage: S) -> bool {
    let local = node.cache.local_cache_trusted();
    let backend = TrieBackendBuilder::new(storage, *node.state.root())
        .with_cache(&local)
        .build();
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &backend, None);
    catch_unwind(AssertUnwindSafe(|| ext.storage(&key(1)))).is_err()
}

/// As [`fails`], with an overlay that was on the database of `node` before, where it read another key.
fn fails_later<S: TrieBackendStorage<Blake2Hasher>>(node: &Node, storage: S) -> bool {
    let first: Arc<dyn Storage<Blake2Hasher>> = node.database.clone();
    let local = node.cache.local_cache_trusted();
    let root = *node.state.root();
    let first = TrieBackendBuilder::new_with_cache(first, root, local)
        .with_optional_recorder(None::<Recorder<_>>)
        .build();
    let mut overlay = OverlayedChanges::default();
    let other = key(4_000);
    let read = Ext::new(&mut overlay, &first, None).storage(&other);
    assert_eq!(read, node.state.storage(&other).unwrap());
    let local = node.cache.local_cache_trusted();
    let second = TrieBackendBuilder::new(storage, root)
        .with_cache(&local)
        .build();
    let mut ext = Ext::new(&mut overlay, &second, None);
    catch_unwind(AssertUnwindSafe(|| ext.storage(&key(1)))).is_err()
}

// One test, because the counters are those of the process.
#[test]
fn blocks_find_the_nodes_of_earlier_ones_of_their_database() {
    assert_eq!(counters(), CacheCounters::default());
    let state = new_in_mem().update([(None, changes(0..5000, 8))], VERSION);
    let mut node = Node::new(state.clone());
    let block = node.execute(0..300, 40);
    let loaded = counters();
    assert!(loaded.misses > 300, "{loaded:?}");
    let capacity = settings().cache_bytes as u64;
    assert_eq!(loaded.capacity_bytes, capacity);
    node.import(block);

    // Ten blocks on the same accounts. Each is proposed, thrown away, proposed with other values, and
    // imported: no node is read again.
    for byte in 41..51 {
        node.execute(0..300, byte + 50);
        let block = node.execute(0..300, byte);
        node.import(block);
    }
    let warm = counters();
    assert_eq!(warm.misses, loaded.misses);
    assert!(warm.hits > loaded.hits + 20 * 300, "{warm:?}");
    assert!(warm.superseded > 300, "{warm:?}");

    // An update enters only when a block is built on it: that of the last block does, those of proposals on
    // it don't.
    node.execute(0..300, 99);
    let inserted = counters().insertions;
    for byte in 100..120 {
        node.execute(0..300, byte);
    }
    assert_eq!(counters().insertions, inserted);

    // Another database with the same nodes reads them itself, and counts beside the first one.
    let second = Node::new(state.clone());
    let before = counters();
    second.execute(0..300, 40);
    let both = counters();
    assert_eq!(both.misses - before.misses, loaded.misses);
    assert_eq!(both.capacity_bytes, 2 * capacity);
    // When it is closed, its cache goes, and what it has counted stays, as metrics need.
    drop(second);
    let mut after = both;
    after.entries = before.entries;
    after.node_bytes = before.node_bytes;
    after.memory_bytes = before.memory_bytes;
    after.capacity_bytes = before.capacity_bytes;
    after.shards = before.shards;
    let mut before = after;
    assert_eq!(counters(), before);

    // A database that lacks a node does not get it from the first one's cache.
    let lacking: Arc<dyn Storage<Blake2Hasher>> = Database::new(PrefixedMemoryDB::default());
    assert!(fails(&node, lacking));
    before.misses += 1;
    // Nor do other nodes, such as those of a proof, though the backend has a trie cache.
    assert!(fails(&node, PrefixedMemoryDB::default()));
    assert!(!fails(
        &node,
        node.state.as_trie_backend().backend_storage()
    ));
    assert_eq!(counters(), before);
    // Nor does an overlay find it there that was on the database before.
    assert!(fails_later(&node, PrefixedMemoryDB::default()));
}
