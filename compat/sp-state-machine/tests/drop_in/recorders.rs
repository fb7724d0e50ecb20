//! An overlay that outlives its backends and their recorders, and goes to other states.

use hash_db::Hasher;
use sp_core::{storage::StateVersion, Blake2Hasher, KeccakHasher};
use sp_externalities::Externalities;
use sp_state_machine::{
    backend::{AsTrieBackend, Backend},
    new_in_mem, Ext, InMemoryBackend, OverlayedChanges, TrieBackendBuilder,
};
use sp_trie::{recorder::Recorder, StorageProof};

const VERSION: StateVersion = StateVersion::V1;

fn key(account: u32) -> Vec<u8> {
    Blake2Hasher::hash(&account.to_le_bytes())
        .as_bytes()
        .to_vec()
}

fn state(accounts: u32) -> InMemoryBackend<Blake2Hasher> {
    let values = (0..accounts).map(|account| (key(account), Some(vec![7; 40])));
    new_in_mem().update([(None, values.collect())], VERSION)
}

/// Reads `accounts` in one call into the runtime.
fn read(
    state: &InMemoryBackend<Blake2Hasher>,
    overlay: &mut OverlayedChanges<Blake2Hasher>,
    recorder: Option<&Recorder<Blake2Hasher>>,
    accounts: std::ops::Range<u32>,
) -> Vec<Option<Vec<u8>>> {
    let backend = TrieBackendBuilder::wrap(state.as_trie_backend())
        .with_optional_recorder(recorder.cloned())
        .build();
    let mut ext = Ext::new(overlay, &backend, None);
    accounts.map(|account| ext.storage(&key(account))).collect()
}

/// The values, from a proof alone.
fn proven(
    state: &InMemoryBackend<Blake2Hasher>,
    proof: StorageProof,
    accounts: std::ops::Range<u32>,
) -> Vec<Option<Vec<u8>>> {
    let keys = accounts.map(key);
    let values = sp_state_machine::read_proof_check::<Blake2Hasher, _>(
        *state.root(),
        proof,
        keys.clone().collect::<Vec<_>>(),
    );
    let values = values.unwrap();
    keys.map(|key| values[&key].clone()).collect()
}

#[test]
fn each_recorder_gets_a_whole_proof() {
    let state = state(500);
    let mut overlay = OverlayedChanges::default();
    // What was read without a recorder is known to the block, but in no proof.
    read(&state, &mut overlay, None, 0..50);
    let expected = vec![Some(vec![7; 40]); 30];
    for _ in 0..3 {
        let recorder = Recorder::default();
        assert_eq!(
            read(&state, &mut overlay, Some(&recorder), 20..50),
            expected
        );
        let proof = recorder.to_storage_proof();
        assert_eq!(proven(&state, proof, 20..50), expected);
    }
}

/// What docs/differences.md says of the keys.
#[test]
fn a_recorder_is_told_nodes_of_blocks_and_keys_of_other_reads() {
    let state = state(500);
    let recorder = Recorder::default();
    let mut overlay = OverlayedChanges::default();
    read(&state, &mut overlay, Some(&recorder), 0..50);
    assert!(recorder.estimate_encoded_size() > 0);
    let keys = recorder.recorded_keys();
    assert!(!keys.contains_key(state.root()));
    // A mark of the overlay, under the root of no state.
    assert_eq!(
        keys.values().map(|keys| keys.len()).collect::<Vec<_>>(),
        [1]
    );

    let backend = TrieBackendBuilder::wrap(state.as_trie_backend())
        .with_recorder(recorder.clone())
        .build();
    backend.storage(&key(1)).unwrap();
    assert_eq!(recorder.recorded_keys()[state.root()].len(), 1);
}

#[test]
fn a_recorder_that_its_owner_rolled_back_is_told_again() {
    let state = state(500);
    let mut overlay = OverlayedChanges::default();
    let recorder = Recorder::default();
    let expected = vec![Some(vec![7; 40]); 50];
    overlay.start_transaction();
    recorder.start_transaction();
    read(&state, &mut overlay, Some(&recorder), 0..50);
    recorder.rollback_transaction().unwrap();
    overlay.rollback_transaction().unwrap();
    assert_eq!(recorder.estimate_encoded_size(), 0);
    assert_eq!(read(&state, &mut overlay, Some(&recorder), 0..50), expected);
    assert_eq!(proven(&state, recorder.to_storage_proof(), 0..50), expected);
}

#[test]
fn a_recorder_that_comes_back_gets_what_another_one_got_meanwhile() {
    let state = state(500);
    let mut overlay = OverlayedChanges::default();
    let [first, second] = [(); 2].map(|()| Recorder::default());
    let expected = vec![Some(vec![7; 40]); 40];
    read(&state, &mut overlay, Some(&first), 0..10);
    read(&state, &mut overlay, Some(&second), 10..50);
    assert_eq!(read(&state, &mut overlay, Some(&first), 10..50), expected);
    for recorder in [first, second] {
        let proof = recorder.to_storage_proof();
        assert_eq!(proven(&state, proof, 10..50), expected);
    }
}

/// The overlay does not take part, so it can't know.
#[test]
fn a_recorder_that_its_owner_alone_rolled_back_is_told_again() {
    let state = state(500);
    let mut overlay = OverlayedChanges::default();
    let recorder = Recorder::default();
    let expected = vec![Some(vec![7; 40]); 50];
    read(&state, &mut overlay, Some(&recorder), 0..5);
    let size = recorder.estimate_encoded_size();
    for _ in 0..2 {
        recorder.start_transaction();
        read(&state, &mut overlay, Some(&recorder), 0..50);
        recorder.rollback_transaction().unwrap();
        assert_eq!(recorder.estimate_encoded_size(), size);
    }
    assert_eq!(read(&state, &mut overlay, Some(&recorder), 0..50), expected);
    assert_eq!(proven(&state, recorder.to_storage_proof(), 0..50), expected);
}

/// Rollbacks of the overlay, of the recorder, of both and of none, in turns.
#[test]
fn a_recorder_has_each_node_after_any_rollbacks() {
    let state = state(500);
    for number in 0..256_u32 {
        let mut overlay = OverlayedChanges::default();
        let recorder = Recorder::default();
        for step in 0..4 {
            let [rolls_overlay, rolls_recorder] = [1, 2].map(|bit| number >> (2 * step) & bit != 0);
            overlay.start_transaction();
            recorder.start_transaction();
            for call in [10 * step, 10 * step + 5] {
                if number % 3 == 0 {
                    overlay.enter_runtime().unwrap();
                }
                overlay.start_transaction();
                read(&state, &mut overlay, Some(&recorder), call..call + 5);
                if call % 2 == 0 {
                    overlay.rollback_transaction().unwrap();
                } else {
                    overlay.commit_transaction().unwrap();
                }
                if number % 3 == 0 {
                    overlay.exit_runtime().unwrap();
                }
            }
            if rolls_recorder {
                recorder.rollback_transaction().unwrap();
            } else {
                recorder.commit_transaction().unwrap();
            }
            if rolls_overlay {
                overlay.rollback_transaction().unwrap();
            } else {
                overlay.commit_transaction().unwrap();
            }
        }
        let expected = vec![Some(vec![7; 40]); 40];
        assert_eq!(read(&state, &mut overlay, Some(&recorder), 0..40), expected);
        assert_eq!(
            proven(&state, recorder.to_storage_proof(), 0..40),
            expected,
            "{number}"
        );
    }
}

/// Most blocks of an author leave out extrinsics. The nodes that the recorder has are not told again then.
#[test]
fn a_rollback_of_both_leaves_the_recorder_known() {
    let state = state(500);
    let mut overlay = OverlayedChanges::default();
    let recorder = Recorder::default();
    read(&state, &mut overlay, Some(&recorder), 0..50);
    let marks = || {
        let keys = recorder.recorded_keys();
        keys.values().map(|keys| keys.len()).sum::<usize>()
    };
    let before = marks();
    for _ in 0..20 {
        overlay.start_transaction();
        recorder.start_transaction();
        read(&state, &mut overlay, Some(&recorder), 50..70);
        recorder.rollback_transaction().unwrap();
        overlay.rollback_transaction().unwrap();
        // Nothing is told, so nothing is marked.
        read(&state, &mut overlay, Some(&recorder), 0..50);
        assert_eq!(marks(), before);
    }
}

#[test]
fn the_recorder_at_the_end_gets_the_whole_proof_too() {
    let state = state(500);
    let mut overlay = OverlayedChanges::default();
    read(&state, &mut overlay, Some(&Recorder::default()), 0..50);
    overlay.set_storage(key(7), None);
    let recorder = Recorder::default();
    let backend = TrieBackendBuilder::wrap(state.as_trie_backend())
        .with_recorder(recorder.clone())
        .build();
    overlay.drain_storage_changes(&backend, VERSION).unwrap();
    let expected = vec![Some(vec![7; 40]); 50];
    assert_eq!(proven(&state, recorder.to_storage_proof(), 0..50), expected);
}

#[test]
fn changes_go_along_to_another_state() {
    let (small, large) = (state(10), state(300));
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    overlay.start_transaction();
    overlay.set_storage(key(5), Some(b"new".to_vec()));
    let new = Some(b"new".to_vec());
    let found = read(&small, &mut overlay, None, 5..6);
    assert_eq!(found, std::slice::from_ref(&new));
    assert_eq!(read(&small, &mut overlay, None, 200..201), [None]);
    assert_eq!(
        read(&large, &mut overlay, None, 200..201),
        [Some(vec![7; 40])]
    );
    assert_eq!(read(&large, &mut overlay, None, 5..6), [new]);
    let copy = overlay.clone();
    overlay.rollback_transaction().unwrap();
    assert_eq!(read(&large, &mut overlay, None, 5..6), [Some(vec![7; 40])]);
    for (mut overlay, rolled_back) in [(overlay, true), (copy, false)] {
        if !rolled_back {
            overlay.commit_transaction().unwrap();
        }
        let changes = overlay.drain_storage_changes(&small, VERSION).unwrap();
        let value = (!rolled_back).then(|| b"new".to_vec());
        let expected = value.map(|value| vec![(key(5), Some(value))]);
        assert_eq!(changes.main_storage_changes, expected.unwrap_or_default());
    }
}

#[test]
fn an_open_transaction_is_an_error_and_loses_nothing() {
    let state = state(10);
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    overlay.start_transaction();
    overlay.set_storage(key(5), None);
    let error = overlay.drain_storage_changes(&state, VERSION).err();
    assert_eq!(
        error.as_deref(),
        Some("expected every transaction to be closed, found 1 open")
    );
    overlay.commit_transaction().unwrap();
    let changes = overlay.drain_storage_changes(&state, VERSION).unwrap();
    assert_eq!(changes.main_storage_changes, [(key(5), None)]);
    assert!(overlay.is_empty());
}

#[test]
fn other_hashers_have_the_originals_implementation() {
    let state = new_in_mem::<KeccakHasher>();
    let state = state.update([(None, vec![(b"a".to_vec(), Some(vec![7; 40]))])], VERSION);
    let mut overlay = OverlayedChanges::<KeccakHasher>::default();
    let mut ext = Ext::new(&mut overlay, &state, None);
    assert_eq!(ext.storage(b"a"), Some(vec![7; 40]));
    ext.set_storage(b"b".to_vec(), vec![8; 40]);
    assert_eq!(ext.next_storage_key(b"a"), Some(b"b".to_vec()));
    let root = ext.storage_root(VERSION);
    let expected = state.update([(None, vec![(b"b".to_vec(), Some(vec![8; 40]))])], VERSION);
    assert_eq!(root, expected.root().as_bytes());
    let changes = overlay.drain_storage_changes(&state, VERSION).unwrap();
    assert_eq!(changes.transaction_storage_root, *expected.root());
}
