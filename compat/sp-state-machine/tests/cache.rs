//! Blocks on the states of one database find the nodes that earlier blocks have read.
#![allow(clippy::unwrap_used)]

use hash_db::Hasher;
use sp_core::{storage::StateVersion, Blake2Hasher, H256};
use sp_externalities::Externalities;
use sp_state_machine::{
    backend::{AsTrieBackend, Backend, BackendTransaction},
    new_in_mem,
    povmeter::{cache_counters, CacheCounters},
    Ext, InMemoryBackend, OverlayedChanges, TrieBackendBuilder,
};
use sp_trie::{
    cache::{CacheSize, SharedTrieCache},
    PrefixedMemoryDB,
};
use std::{
    ops::Range,
    panic::{catch_unwind, AssertUnwindSafe},
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
    cache: SharedTrieCache<Blake2Hasher>,
}

impl Node {
    fn new() -> Self {
        Self {
            state: new_in_mem().update([(None, changes(0..5000, 8))], VERSION),
            cache: SharedTrieCache::new(CacheSize::unlimited(), None),
        }
    }

    /// Executes a block that reads and writes `accounts`, and compares its root with the original's.
    fn execute(&self, accounts: Range<u32>, byte: u8) -> (H256, BackendTransaction<Blake2Hasher>) {
        let local = self.cache.local_cache_trusted();
        let backend = TrieBackendBuilder::wrap(self.state.as_trie_backend())
            .with_cache(&local)
            .build();
        let mut overlay = OverlayedChanges::default();
        let mut ext = Ext::new(&mut overlay, &backend, None);
        for (key, value) in changes(accounts.clone(), byte) {
            let found = ext.storage(&key);
            assert_eq!(found, self.state.storage(&key).unwrap());
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
        self.state.apply_transaction(root, nodes);
    }
}

fn counters() -> CacheCounters {
    cache_counters().unwrap()
}

// One test, because the counters are those of the process.
#[test]
fn blocks_find_the_nodes_of_earlier_ones() {
    let mut node = Node::new();
    let block = node.execute(0..300, 40);
    let loaded = counters();
    assert!(loaded.misses > 300, "{loaded:?}");
    node.import(block);

    // Ten blocks on the same accounts. Each is proposed, thrown away, proposed with other values, and
    // imported by two databases: no node is read again.
    let mut second = Node {
        state: node.state.clone(),
        cache: SharedTrieCache::new(CacheSize::unlimited(), None),
    };
    for byte in 41..51 {
        node.execute(0..300, byte + 50);
        let block = node.execute(0..300, byte);
        second.import(second.execute(0..300, byte));
        node.import(block);
        assert_eq!(node.state.root(), second.state.root());
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

    // A state without the node's cache, such as that of a proof, does not use ours.
    let nodes = PrefixedMemoryDB::<Blake2Hasher>::default();
    let lacking = TrieBackendBuilder::new(nodes, *node.state.root()).build();
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &lacking, None);
    let read = catch_unwind(AssertUnwindSafe(|| ext.storage(&key(1))));
    assert!(read.is_err(), "a value of a state without nodes");
}
