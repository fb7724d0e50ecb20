//! The root layer alone: a batch of changes over a node store gives the new root, the nodes that the
//! store gains and loses, and a proof from which a validator computes the same.
//!
//! `cargo run --example delta_root`

use povmeter_delta_root::{state_update, Changes, KeyChanges, Root, ShadowState, StateVersion::V1};
use povmeter_pov_estimate::{ProofNodes, Recorder, StorageProof};
use povmeter_store::{MemoryStore, NodeStore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys: Vec<_> = (0..1010_u32).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let (old, new) = ([7; 40], [8; 40]);

    // Make a state of 1,000 accounts: a batch over the empty state.
    let mut store = MemoryStore::new();
    let accounts = keys[..1000].iter().map(|key| (*key, Some(&old[..])));
    let genesis = top(accounts.collect());
    let mut nothing = ShadowState::new(ProofNodes::default(), Root::EMPTY);
    store.commit(&state_update(&mut nothing, &genesis, V1, &mut ())?)?;

    // The batch, sorted by key: 5 accounts are deleted, 10 change, 10 are new.
    let gone = keys[500..505].iter().map(|key| (*key, None));
    let written = keys[990..1010].iter().map(|key| (*key, Some(&new[..])));
    let batch = top(gone.chain(written).collect());
    let mut state = ShadowState::new(&store, store.root());
    let mut recorder = Recorder::default();
    // The observer gets each node that the root needs.
    let update = state_update(&mut state, &batch, V1, &mut recorder.estimating())?;
    println!("{} becomes {}", update.parent, update.root);
    let (inserted, removed) = (update.inserted().count(), update.removed().count());
    println!("the store gains {inserted} nodes and loses {removed}");

    // These nodes are a proof: they alone give the same update.
    let nodes = recorder.nodes();
    let proof = StorageProof::new(nodes.map(|node| state.table().bytes(node).clone()));
    let (nodes, bytes) = (proof.nodes().len(), proof.recorded_bytes());
    println!("the proof has {nodes} nodes, {bytes} bytes");
    let mut proven = ShadowState::new(proof.to_source(), update.parent);
    let again = state_update(&mut proven, &batch, V1, &mut ())?;
    assert_eq!(again, update);

    // The root is also that of the final state, made in one batch.
    let kept = keys[..500].iter().chain(&keys[505..990]);
    let kept = kept.map(|key| (*key, Some(&old[..])));
    let afterwards = top(kept.chain(batch.top.into_iter().skip(5)).collect());
    let mut nothing = ShadowState::new(ProofNodes::default(), Root::EMPTY);
    let made = state_update(&mut nothing, &afterwards, V1, &mut ())?;
    assert_eq!(made.root, update.root);
    Ok(store.commit(&update)?)
}

/// Net changes of the top trie, sorted by key; `None` deletes.
fn top<'a>(top: KeyChanges<'a>) -> Changes<'a> {
    let children = Vec::new();
    Changes { top, children }
}
