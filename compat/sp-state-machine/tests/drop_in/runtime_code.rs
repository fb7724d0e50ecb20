//! The code of the runtime, which is read once for each state of a database.

use crate::database::{Database, Nodes};
use hash_db::Hasher;
use sp_core::{
    storage::{
        well_known_keys::{CODE, HEAP_PAGES, PENDING_CODE},
        StateVersion,
    },
    Blake2Hasher, H256,
};
use sp_state_machine::{
    backend::{BackendRuntimeCode, TryPendingCode},
    new_in_mem, InMemoryBackend, Storage, TrieBackendBuilder,
};
use sp_trie::{
    cache::{CacheSize, SharedTrieCache},
    recorder::Recorder,
};
use std::sync::Arc;

/// A state in a database.
struct State {
    database: Arc<Database>,
    root: H256,
}

fn state(entries: &[(&[u8], &[u8])]) -> State {
    let entries = entries.iter();
    let entries = entries.map(|(key, value)| (key.to_vec(), Some(value.to_vec())));
    let state: InMemoryBackend<Blake2Hasher> =
        new_in_mem().update([(None, entries.collect())], StateVersion::V1);
    State {
        root: *state.root(),
        database: Database::new(state.into_storage()),
    }
}

/// Hash and heap pages, read through a backend as a client makes it.
fn code(
    state: &State,
    pending: TryPendingCode,
    recorder: Option<&Recorder<Blake2Hasher>>,
) -> Result<(Vec<u8>, Option<u64>), &'static str> {
    let cache = SharedTrieCache::new(CacheSize::unlimited(), None);
    let local = cache.local_cache_trusted();
    let storage: Arc<dyn Storage<Blake2Hasher>> = state.database.clone();
    let backend = TrieBackendBuilder::new(storage, state.root)
        .with_cache(local)
        .with_optional_recorder(recorder.cloned())
        .build();
    let code = BackendRuntimeCode::new(&backend, pending);
    code.runtime_code().map(|code| (code.hash, code.heap_pages))
}

#[test]
fn each_state_has_its_own() {
    let pages = 64_u64.to_le_bytes();
    let old = state(&[(CODE, &[1; 900])]);
    let new = state(&[
        (CODE, &[2; 900]),
        (HEAP_PAGES, &pages),
        (PENDING_CODE, &[3; 900]),
    ]);
    let none = state(&[(b"other", &[1])]);
    let hash = |byte: u8| Blake2Hasher::hash(&[byte; 900]).as_bytes().to_vec();
    // The later rounds find the kept description.
    for _ in 0..3 {
        assert_eq!(code(&old, TryPendingCode::No, None), Ok((hash(1), None)));
        assert_eq!(code(&old, TryPendingCode::Yes, None), Ok((hash(1), None)));
        assert_eq!(
            code(&new, TryPendingCode::No, None),
            Ok((hash(2), Some(64)))
        );
        assert_eq!(
            code(&new, TryPendingCode::Yes, None),
            Ok((hash(3), Some(64)))
        );
        assert!(code(&none, TryPendingCode::No, None).is_err());
    }
}

#[test]
fn a_recorder_gets_the_nodes_each_time() {
    let state = state(&[(CODE, &[4; 900]), (b"other", &[5; 60])]);
    assert!(code(&state, TryPendingCode::No, None).is_ok());
    for _ in 0..2 {
        let recorder = Recorder::default();
        assert!(code(&state, TryPendingCode::No, Some(&recorder)).is_ok());
        assert!(recorder.estimate_encoded_size() > 0);
    }
}

/// A state with heap pages, its nodes without that of the pages, and the hash of its code.
fn damaged(byte: u8) -> (State, Nodes, Vec<u8>) {
    let pages = [&64_u64.to_le_bytes()[..], &[0; 40]].concat();
    let whole = state(&[(CODE, &[byte; 900]), (HEAP_PAGES, &pages)]);
    let mut nodes = whole.database.0.read().unwrap().clone();
    let value = Blake2Hasher::hash(&pages);
    let places = nodes.keys();
    let mut places = places.keys().filter(|key| key.ends_with(value.as_bytes()));
    let place = places.next().unwrap();
    let prefix = (&place[..place.len() - 32], None);
    hash_db::HashDB::remove(&mut nodes, &value, prefix);
    let hash = Blake2Hasher::hash(&[byte; 900]).as_bytes().to_vec();
    (whole, nodes, hash)
}

/// A read that fails now may succeed at the next call.
#[test]
fn what_was_read_in_part_is_not_kept() {
    let (state, part, hash) = damaged(6);
    let whole = std::mem::replace(&mut *state.database.0.write().unwrap(), part);
    let found = code(&state, TryPendingCode::No, None);
    assert_eq!(found, Ok((hash.clone(), None)));
    *state.database.0.write().unwrap() = whole;
    let found = code(&state, TryPendingCode::No, None);
    assert_eq!(found, Ok((hash, Some(64))));
}

#[test]
fn each_database_has_its_own() {
    let (whole, part, hash) = damaged(7);
    let part = State {
        database: Database::new(part),
        root: whole.root,
    };
    for (state, expected) in [(&whole, Some(64)), (&part, None)] {
        let found = code(state, TryPendingCode::No, None);
        assert_eq!(found, Ok((hash.clone(), expected)));
    }
}
