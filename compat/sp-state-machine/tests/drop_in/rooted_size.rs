//! The second version of the proof-size function, which includes what the root adds.

use hash_db::Hasher;
use povmeter_proof_size::{RootedProofSizeExt, PROOF_RECORDING_DISABLED};
use povmeter_substrate::{SizeSource, StateMachine};
use sp_core::{
    storage::{ChildInfo, StateVersion},
    Blake2Hasher,
};
use sp_externalities::{set_and_run_with_externalities, Extensions, Externalities};
use sp_state_machine::{
    backend::AsTrieBackend, new_in_mem, povmeter::storage_proof_size, Ext, InMemoryBackend,
    OverlayedChanges, TrieBackendBuilder,
};
use sp_trie::{
    proof_size_extension::ProofSizeExt, recorder::Recorder, ProofSizeProvider, StorageProof,
};
use std::sync::atomic::{AtomicUsize, Ordering};

const VERSION: StateVersion = StateVersion::V1;

fn key(account: u32) -> Vec<u8> {
    Blake2Hasher::hash(&account.to_le_bytes())
        .as_bytes()
        .to_vec()
}

fn child() -> ChildInfo {
    ChildInfo::new_default(b"child")
}

fn state() -> InMemoryBackend<Blake2Hasher> {
    let values = || (0..500).map(|account| (key(account), Some(vec![7; 40])));
    let tries = [
        (None, values().collect()),
        (Some(child()), values().collect()),
    ];
    new_in_mem().update(tries, VERSION)
}

/// The answers to both versions, before and after each extrinsic.
fn extrinsics(ext: &mut dyn Externalities) -> Vec<u64> {
    let mut sizes = Vec::new();
    for extrinsic in 0..20 {
        ext.storage(&key(extrinsic));
        ext.set_storage(key(extrinsic + 1), vec![8; 40]);
        ext.storage_start_transaction();
        ext.clear_storage(&key(20 * extrinsic + 2));
        ext.set_child_storage(&child(), key(extrinsic + 3), vec![9; 40]);
        sizes.extend(asked(ext));
        match extrinsic % 3 {
            0 => ext.storage_rollback_transaction().unwrap(),
            _ => ext.storage_commit_transaction().unwrap(),
        }
        if extrinsic == 7 {
            ext.child_storage_root(&child(), VERSION);
            ext.storage_root(VERSION);
        }
        sizes.extend(asked(ext));
    }
    sizes
}

/// What both host functions answer a runtime.
fn asked(ext: &mut dyn Externalities) -> [u64; 2] {
    set_and_run_with_externalities(ext, || {
        [recorded_size(), storage_proof_size::storage_proof_size()]
    })
}

/// The first version of the host function.
fn recorded_size() -> u64 {
    use sp_externalities::ExternalitiesExt;
    let size = sp_externalities::with_externalities(|mut ext| {
        let extension = ext.extension::<ProofSizeExt>();
        extension.map(|extension| extension.storage_proof_size())
    });
    size.flatten().unwrap_or(PROOF_RECORDING_DISABLED)
}

/// The sizes, and the proof of the whole block.
fn on_patched(state: &InMemoryBackend<Blake2Hasher>) -> (Vec<u64>, StorageProof) {
    let recorder = Recorder::<Blake2Hasher>::default();
    let backend = TrieBackendBuilder::wrap(state.as_trie_backend())
        .with_recorder(recorder.clone())
        .build();
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    let mut extensions = Extensions::new();
    extensions.register(ProofSizeExt::new(recorder.clone()));
    overlay.enter_runtime().unwrap();
    let sizes = extrinsics(&mut Ext::new(&mut overlay, &backend, Some(&mut extensions)));
    overlay.exit_runtime().unwrap();
    overlay.drain_storage_changes(&backend, VERSION).unwrap();
    (sizes, recorder.drain_storage_proof())
}

#[test]
fn both_sizes_are_those_of_the_machine_and_can_be_repeated_from_the_proof() {
    let state = state();
    let (sizes, proof) = on_patched(&state);
    assert!(sizes.chunks(2).all(|pair| pair[0] <= pair[1]));
    assert!(sizes.chunks(2).any(|pair| pair[0] < pair[1]));

    let root = povmeter::Root::from(state.root().0);
    let nodes = proof.clone().into_nodes().into_iter().map(Into::into);
    let nodes = povmeter::StorageProof::new(nodes).to_source();
    let mut machine = StateMachine::new(nodes, root, SizeSource::Reads);
    let found = machine
        .execute(|| sp_externalities::with_externalities(extrinsics).unwrap())
        .unwrap();
    assert_eq!(found, sizes);
    let sealed = machine.seal(VERSION).unwrap();
    let expected = proof.iter_nodes().map(Vec::as_slice).collect::<Vec<_>>();
    let mut nodes = sealed
        .block
        .proof()
        .nodes()
        .iter()
        .map(AsRef::as_ref)
        .collect::<Vec<_>>();
    nodes.sort_unstable();
    assert_eq!(nodes, expected);

    // On the proof alone.
    let proven = TrieBackendBuilder::new(proof.into_memory_db::<Blake2Hasher>(), *state.root());
    let recorder = Recorder::<Blake2Hasher>::default();
    let backend = proven.with_recorder(recorder.clone()).build();
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    let mut extensions = Extensions::new();
    extensions.register(ProofSizeExt::new(recorder));
    overlay.enter_runtime().unwrap();
    let again = extrinsics(&mut Ext::new(&mut overlay, &backend, Some(&mut extensions)));
    assert_eq!(again, sizes);
}

/// Answers 1, 2, 3 and so on.
#[derive(Default)]
struct Record(AtomicUsize);

impl ProofSizeProvider for Record {
    fn estimate_encoded_size(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[test]
fn without_a_recorder_the_nodes_extensions_answer() {
    let state = state();
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    let mut extensions = Extensions::new();
    let mut ext = Ext::new(&mut overlay, &state, Some(&mut extensions));
    assert_eq!(asked(&mut ext), [PROOF_RECORDING_DISABLED; 2]);
    // The record of an author has the answers to both versions, in order.
    extensions.register(ProofSizeExt::new(Record::default()));
    let mut ext = Ext::new(&mut overlay, &state, Some(&mut extensions));
    assert_eq!(asked(&mut ext), [1, 2]);
    assert_eq!(asked(&mut ext), [3, 4]);
    // A node may have an extension of its own.
    extensions.register(RootedProofSizeExt::new(7));
    let mut ext = Ext::new(&mut overlay, &state, Some(&mut extensions));
    assert_eq!(asked(&mut ext), [5, 7]);
    let mut ext = Ext::new(&mut overlay, &state, None);
    assert_eq!(asked(&mut ext), [PROOF_RECORDING_DISABLED; 2]);
}
