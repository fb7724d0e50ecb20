//! A node that has chosen sizes with the root's part, and to carry decoded nodes from block to block.
#![allow(clippy::unwrap_used)]

mod database;

use database::Database;
use hash_db::Hasher;
use sp_core::{storage::StateVersion, Blake2Hasher, H256};
use sp_externalities::{Extensions, Externalities, ExternalitiesExt};
use sp_state_machine::{
    backend::Backend,
    new_in_mem,
    povmeter::{configure, settings, AlreadyConfigured, ProofSizes, Settings},
    Ext, InMemoryBackend, OverlayedChanges, Storage, TrieBackendBuilder,
};
use sp_trie::{
    cache::{CacheSize, SharedTrieCache},
    proof_size_extension::{ProofSizeExt, RecordedProofSizeEstimations, ReplayProofSizeProvider},
    recorder::Recorder,
    StorageProof,
};
use std::sync::Arc;

const VERSION: StateVersion = StateVersion::V1;
const CHOSEN: Settings = Settings {
    sizes: ProofSizes::Estimate,
    cache_bytes: 8 << 20,
    carry_bytes: 64 << 20,
};

fn key(account: u32) -> Vec<u8> {
    Blake2Hasher::hash(&account.to_le_bytes())
        .as_bytes()
        .to_vec()
}

fn state() -> InMemoryBackend<Blake2Hasher> {
    let values = (0..2000).map(|account| (key(account), Some(vec![7; 40])));
    new_in_mem().update([(None, values.collect())], VERSION)
}

/// The results of a block.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    sizes: Vec<u64>,
    root: H256,
    proof: StorageProof,
}

/// Builds a block of 30 extrinsics, each in its own call. The author drops every fifth.
fn build(database: &Arc<Database>, parent: H256, cache: &SharedTrieCache<Blake2Hasher>) -> Block {
    let storage: Arc<dyn Storage<Blake2Hasher>> = database.clone();
    let local = cache.local_cache_trusted();
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    let recorder = Recorder::<Blake2Hasher>::default();
    let mut sizes = Vec::new();
    for extrinsic in 0..30 {
        let backend = TrieBackendBuilder::new(&storage, parent)
            .with_cache(&local)
            .with_recorder(recorder.clone())
            .build();
        let mut extensions = Extensions::new();
        extensions.register(ProofSizeExt::new(recorder.clone()));
        overlay.start_transaction();
        recorder.start_transaction();
        overlay.enter_runtime().unwrap();
        let mut ext = Ext::new(&mut overlay, &backend, Some(&mut extensions));
        let from = extrinsic * 50;
        assert_eq!(ext.storage(&key(from)), Some(vec![7; 40]));
        ext.clear_storage(&key(from));
        ext.set_storage(key(from + 1), vec![8; 40]);
        let mut ext: &mut dyn Externalities = &mut ext;
        let size = ext.extension::<ProofSizeExt>().unwrap();
        sizes.push(size.storage_proof_size());
        overlay.exit_runtime().unwrap();
        if extrinsic % 5 == 4 {
            sizes.pop();
            overlay.rollback_transaction().unwrap();
            recorder.rollback_transaction().unwrap();
        } else {
            overlay.commit_transaction().unwrap();
            recorder.commit_transaction().unwrap();
        }
    }
    let backend = TrieBackendBuilder::new(&storage, parent)
        .with_cache(&local)
        .with_recorder(recorder.clone())
        .build();
    let changes = overlay.drain_storage_changes(&backend, VERSION).unwrap();
    sizes.push(recorder.estimate_encoded_size() as u64);
    Block {
        sizes,
        root: changes.transaction_storage_root,
        proof: recorder.drain_storage_proof(),
    }
}

// One test, because the choices are those of the process.
#[test]
fn the_chosen_sizes_are_those_of_the_whole_proof() {
    configure(CHOSEN).unwrap();
    assert_eq!(configure(CHOSEN), Ok(()));
    let other = configure(Settings::default());
    assert_eq!(other, Err(AlreadyConfigured { found: CHOSEN }));
    assert_eq!(settings(), CHOSEN);

    let state = state();
    let cache = SharedTrieCache::<Blake2Hasher>::new(CacheSize::unlimited(), None);
    let (database, root) = (
        Database::new(state.backend_storage().clone()),
        *state.root(),
    );
    let first = build(&database, root, &cache);
    // The last answer was right: the root needed nothing that was not counted.
    let [.., told, at_end] = first.sizes.as_slice() else {
        panic!("expected two sizes");
    };
    assert_eq!(told, at_end);

    // The same block again finds all nodes decoded, and counts the same.
    assert_eq!(build(&database, root, &cache), first);
    // As does one on another database, which finds none.
    let other = Database::new(state.backend_storage().clone());
    assert_eq!(build(&other, root, &cache), first);

    // And what was recorded is a proof of the block.
    let nodes = first.proof.clone().into_memory_db::<Blake2Hasher>();
    let proven = TrieBackendBuilder::new(nodes, root).build();
    let kept = (0..30).filter(|extrinsic| extrinsic % 5 != 4);
    let changes: Vec<_> = kept
        .flat_map(|extrinsic| {
            let from = extrinsic * 50;
            [(key(from), None), (key(from + 1), Some(vec![8; 40]))]
        })
        .collect();
    let delta = changes.iter();
    let delta = delta.map(|(key, value)| (key.as_slice(), value.as_deref()));
    assert_eq!(proven.storage_root(delta, VERSION).0, first.root);

    // An importer replays sizes by its extension alone. The one of sp-trie answers 0 at the end of its record.
    let record = RecordedProofSizeEstimations::from(vec![5, 7]);
    let mut extensions = Extensions::new();
    extensions.register(ProofSizeExt::new(ReplayProofSizeProvider::from(record)));
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &state, Some(&mut extensions));
    ext.clear_storage(&key(0));
    let mut ext: &mut dyn Externalities = &mut ext;
    for expected in [5, 7, 0] {
        let size = ext.extension::<ProofSizeExt>().unwrap();
        assert_eq!(size.storage_proof_size(), expected);
    }
}
