//! Builds one block of a FRAME runtime on sp-state-machine, as nodes do, then on povmeter instead.

use povmeter_dev_runtime::{commit_parent, Plan, PlanOptions, SharedNodes};
use povmeter_dev_runtime::{runtime::Executive, runtime::Hashing};
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::{SizeSource, StateMachine};
use sp_core::storage::StateVersion::V1;
use sp_externalities::{set_and_run_with_externalities, Extensions};
use sp_state_machine::{Ext, OverlayedChanges, TrieBackendBuilder};
use sp_trie::{proof_size_extension::ProofSizeExt, recorder::Recorder};

/// Makes call `number` of the block into the runtime, as a node does. It is the same on both state
/// machines.
fn call(plan: &Plan, number: usize) {
    match number.checked_sub(1) {
        None => _ = Executive::initialize_block(plan.header()),
        Some(0) => _ = Executive::apply_extrinsic(plan.inherent().clone()),
        Some(n) if n <= 50 => _ = Executive::apply_extrinsic(plan.extrinsics()[n - 1].clone()),
        Some(_) => _ = Executive::finalize_block(),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = PlanOptions::default();
    (options.accounts, options.transfers) = (1_000, 50);
    let plan = Plan::new(options)?;
    let mut store = MemoryStore::new();
    commit_parent(&mut store, &plan)?;

    // Before: backend, recorder, overlay and extensions, which the node keeps in step.
    let parent = SharedNodes::new(store.clone()).parent(plan.parent().state_root);
    let recorder = Recorder::<Hashing>::default();
    let backend = TrieBackendBuilder::new(parent.nodes, parent.root);
    let backend = backend.with_recorder(recorder.clone()).build();
    let (mut overlay, mut extensions) = (OverlayedChanges::default(), Extensions::new());
    extensions.register(ProofSizeExt::new(recorder.clone()));
    for number in 0..=52 {
        let mut ext = Ext::new(&mut overlay, &backend, Some(&mut extensions));
        set_and_run_with_externalities(&mut ext, || call(&plan, number));
    }
    let before = overlay.drain_storage_changes(&backend, V1)?;

    // After: one machine. With `Reads` the runtime gets the same sizes, so the chain is the same.
    let mut machine = StateMachine::new(&store, store.root(), SizeSource::Reads);
    for number in 0..=52 {
        machine.execute(|| call(&plan, number))?;
        let bytes = machine.proof_size()?.total_bytes();
        println!("{bytes} bytes of proof if the block ended after call {number}");
    }
    let after = machine.seal(V1)?;
    let (root, proof) = (after.block.update().root, after.block.proof());
    assert_eq!(root.as_bytes(), before.transaction_storage_root.as_bytes());
    assert_eq!(proof.nodes().len(), recorder.to_storage_proof().len());
    println!("root {root} on either");
    Ok(())
}
