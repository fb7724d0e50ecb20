//! Proofs of reads on a backend with a trie cache.

use hash_db::{HashDB, Prefix};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    Blake2Hasher, H256,
};
use sp_state_machine::{
    new_in_mem, prove_child_read_on_trie_backend, prove_read_on_trie_backend, read_proof_check,
    DBValue, Storage, TrieBackendBuilder,
};
use sp_trie::{
    cache::{CacheSize, SharedTrieCache},
    PrefixedMemoryDB,
};
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc,
};

/// A database that counts reads.
struct Counting {
    nodes: PrefixedMemoryDB<Blake2Hasher>,
    reads: AtomicUsize,
}

impl Storage<Blake2Hasher> for Counting {
    fn get(&self, hash: &H256, prefix: Prefix<'_>) -> Result<Option<DBValue>, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(HashDB::get(&self.nodes, hash, prefix))
    }
}

#[test]
fn a_second_proof_of_the_same_reads_finds_the_nodes_in_the_clients_cache() {
    let child = ChildInfo::new_default(b"child");
    let values = || (0..200_u8).map(|key| (vec![key; 4], Some(vec![key; 40])));
    let tries = [
        (None, values().collect()),
        (Some(child.clone()), values().collect()),
    ];
    let state = new_in_mem::<Blake2Hasher>().update(tries, StateVersion::V1);
    let root = *state.root();
    let database = Arc::new(Counting {
        nodes: state.into_storage(),
        reads: AtomicUsize::new(0),
    });
    let storage: Arc<dyn Storage<Blake2Hasher>> = database.clone();
    let cache = SharedTrieCache::new(CacheSize::unlimited(), None);
    let backend = TrieBackendBuilder::new(storage, root)
        .with_cache(cache.local_cache_trusted())
        .build();
    let keys = || (50..90_u8).map(|key| vec![key; 4]);
    let prove = || {
        let top = prove_read_on_trie_backend(&backend, keys()).unwrap();
        let below = prove_child_read_on_trie_backend(&backend, &child, keys()).unwrap();
        (top, below)
    };
    let first = prove();
    let reads = database.reads.load(Ordering::Relaxed);
    assert!(reads > 40, "{reads}");
    assert_eq!(prove(), first);
    assert_eq!(database.reads.load(Ordering::Relaxed), reads);
    let read = read_proof_check::<Blake2Hasher, _>(root, first.0, keys()).unwrap();
    assert_eq!(read[&vec![60; 4]], Some(vec![60; 40]));
}
