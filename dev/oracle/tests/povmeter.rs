//! povmeter builds the peer's block: same root, same changes, same nodes, same proof.

#![allow(clippy::unwrap_used)]

use codec::Encode;
use povmeter::NodeSource;
use povmeter_dev_ladder::{LadderBlock, Strategy};
use povmeter_dev_runtime::{
    build_block, commit_parent, BlockOutcome, CallKind, Estimates, Peer, Plan, PlanOptions,
    PovmeterBlock, ProofSizes, SharedNodes,
};
use povmeter_store::{MemoryStore, NodeStore, ParityDbStore};
use sp_core::storage::StateVersion::{V0, V1};

fn small() -> PlanOptions {
    PlanOptions {
        accounts: 200,
        transfers: 20,
        ..Default::default()
    }
}

/// Returns plans for all combinations of call and state version.
fn plans(base: PlanOptions) -> impl Iterator<Item = Plan> {
    let calls = [CallKind::TransferKeepAlive, CallKind::TransferAll];
    calls
        .into_iter()
        .flat_map(move |call| {
            [V0, V1].map(|state_version| PlanOptions {
                call,
                state_version,
                ..base
            })
        })
        .map(|options| Plan::new(options).unwrap())
}

/// Commits the parent state of `plan` to `store`, and returns its nodes.
fn parent_in(mut store: impl NodeStore + Send + Sync + 'static, plan: &Plan) -> SharedNodes {
    let root = commit_parent(&mut store, plan).unwrap();
    assert_eq!(root.as_bytes(), plan.parent().state_root.as_fixed_bytes());
    SharedNodes::new(store)
}

fn in_memory(plan: &Plan) -> SharedNodes {
    parent_in(MemoryStore::new(), plan)
}

/// Creates the parent state on disk and opens it again for `check`.
fn on_disk(plan: &Plan, check: impl Fn(&SharedNodes, &Plan)) {
    let folder = tempfile::tempdir().unwrap();
    drop(parent_in(
        ParityDbStore::create(folder.path()).unwrap(),
        plan,
    ));
    let store = ParityDbStore::open(folder.path()).unwrap();
    check(&SharedNodes::new(store), plan);
}

fn peer(nodes: &SharedNodes, plan: &Plan) -> Peer {
    let parent = nodes.parent(plan.parent().state_root);
    Peer::new(parent, plan.options().state_version)
}

fn build(source: impl NodeSource + 'static, plan: &Plan, estimates: Estimates) -> BlockOutcome {
    build_block(PovmeterBlock::new(source, plan, estimates), plan, |_| {}).unwrap()
}

fn told(outcome: &BlockOutcome) -> &[u64] {
    outcome.built.told.as_deref().unwrap()
}

/// Checks that two blocks are the same, to the last node.
#[track_caller]
fn assert_same(found: &BlockOutcome, expected: &BlockOutcome, what: &str) {
    let (ours, theirs) = (&found.built, &expected.built);
    assert_eq!(ours.main_changes, theirs.main_changes, "{what}");
    assert_eq!(ours.child_changes, theirs.child_changes, "{what}");
    assert_eq!(found.header, expected.header, "{what}");
    assert_eq!(ours.update, theirs.update, "{what}");
    assert_eq!(ours.proof, theirs.proof, "{what}");
    assert_eq!(found.sizes, expected.sizes, "{what}");
}

/// Compares povmeter's block with the peer's, over the same nodes.
fn check(nodes: &SharedNodes, plan: &Plan) {
    let what = format!("{:?}", plan.options());
    let peer = peer(nodes, plan);

    // A runtime that gets the size of its reads, as from the peer, builds the peer's block.
    let stock = build_block(peer.block(), plan, |_| {}).unwrap();
    let silent = build(nodes.clone(), plan, Estimates::Nowhere);
    assert_same(&silent, &stock, &what);
    let before_finalize = |outcome: &BlockOutcome| outcome.recorded_before_finalize;
    assert_eq!(before_finalize(&silent), before_finalize(&stock), "{what}");
    let root = peer.validate_from_compact(plan, &silent.compact).unwrap();
    assert_eq!(root, stock.built.root, "{what}");

    // A runtime that gets estimates builds the same block as on a peer that tells it the same sizes.
    let ours = build(nodes.clone(), plan, Estimates::Everywhere);
    let theirs = build_block(peer.block_told(told(&ours)), plan, |_| {}).unwrap();
    assert_same(&ours, &theirs, &what);
    let both = || told(&ours).iter().zip(told(&silent));
    assert_eq!(told(&ours).len(), told(&silent).len(), "{what}");
    assert!(
        both().all(|(estimate, reads)| estimate >= reads)
            && both().any(|(estimate, reads)| estimate > reads),
        "estimates are larger than reads"
    );
    let root = peer.validate_told(plan, &ours.compact, told(&ours));
    assert_eq!(root.unwrap(), ours.built.root, "{what}");

    // In finalize, this runtime changes only keys that it changed before.
    assert_eq!(ours.boundaries.len(), 1 + plan.extrinsics().len());
    let last = ours.boundaries.last().unwrap();
    assert_eq!(last.total(), theirs.sizes.recorded, "{what}");

    // Executes the block from the proof alone, with estimates only when the runtime asks.
    let compact = ours.compact.encode();
    let block = PovmeterBlock::from_compact(&compact, plan, Estimates::InRuntime).unwrap();
    let again = build_block(block, plan, |_| {}).unwrap();
    assert_same(&again, &ours, &what);
    assert_eq!(told(&again), told(&ours), "{what}");
}

/// Compares the estimate after each extrinsic with the size that the peer's root records there.
fn check_boundaries(nodes: &SharedNodes, plan: &Plan) {
    let truth = LadderBlock::new(&peer(nodes, plan), Strategy::ROOT_EACH_TX);
    let truth = build_block(truth, plan, |_| {}).unwrap().boundaries;
    let ours = build(nodes.clone(), plan, Estimates::Everywhere).boundaries;
    assert_eq!(ours.len(), truth.len());
    for (extrinsic, (size, truth)) in ours.iter().zip(&truth).enumerate() {
        let what = format!("after {extrinsic} of {:?}", plan.options());
        assert_eq!(size.recorded, truth.recorded, "{what}");
        assert_eq!(size.total(), truth.total(), "{what}");
    }
}

#[test]
fn small_blocks() {
    for plan in plans(small()) {
        check(&in_memory(&plan), &plan);
        on_disk(&plan, check);
    }
}

#[test]
fn usual_blocks_in_memory() {
    for plan in plans(PlanOptions::default()) {
        check(&in_memory(&plan), &plan);
    }
}

#[test]
fn usual_blocks_on_disk() {
    for plan in plans(PlanOptions::default()) {
        on_disk(&plan, check);
    }
}

#[test]
fn blocks_of_other_sizes() {
    for (accounts, transfers, seed) in [(2, 0, 1), (2, 1, 1), (3, 1, 2), (40, 20, 3), (1000, 1, 4)]
    {
        for plan in plans(PlanOptions {
            accounts,
            transfers,
            seed,
            ..Default::default()
        }) {
            let nodes = in_memory(&plan);
            check_boundaries(&nodes, &plan);
            if transfers > 0 {
                check(&nodes, &plan);
            }
        }
    }
}

#[test]
fn every_estimate_is_what_the_peers_root_would_record() {
    for plan in plans(small()) {
        check_boundaries(&in_memory(&plan), &plan);
    }
}

#[test]
fn a_refused_extrinsic_leaves_nothing_behind() {
    for plan in plans(small()) {
        let without = build(in_memory(&plan), &plan, Estimates::Everywhere);
        let before = without.boundaries[7];
        let plan = plan.with_refused(7);
        let nodes = in_memory(&plan);
        let ours = build(nodes.clone(), &plan, Estimates::Everywhere);
        assert_eq!((ours.applied, ours.refused.len()), (19, 1));
        // One boundary after the inherent, then one for each extrinsic.
        assert_eq!(ours.boundaries[7], before);
        assert_eq!(ours.boundaries[8], before);
        check_boundaries(&nodes, &plan);
        // A refused extrinsic asks, too, but the record omits its sizes, because it is not in the
        // block.
        let asked_by_others = 2 * ours.applied;
        assert_eq!(told(&ours).len(), asked_by_others);
    }
}

#[test]
fn the_next_block_starts_from_the_committed_one() {
    let plan = Plan::new(small()).unwrap();
    let mut store = MemoryStore::new();
    commit_parent(&mut store, &plan).unwrap();
    let parent = store.root();
    assert_eq!(parent.as_bytes(), plan.parent().state_root.as_fixed_bytes());
    // A state can be created only in an empty store.
    let (nodes, bytes) = (store.node_count(), store.byte_count());
    let error = commit_parent(&mut store, &plan).unwrap_err();
    assert!(error.to_string().contains(&parent.to_string()), "{error}");
    assert_eq!((store.node_count(), store.byte_count()), (nodes, bytes));
}

#[test]
fn povmeters_compact_proof_is_the_peers() {
    let plan = Plan::new(small()).unwrap();
    let outcome = build(in_memory(&plan), &plan, Estimates::Everywhere);
    let nodes = outcome.built.proof.iter_nodes().cloned().map(Into::into);
    let proof = povmeter::StorageProof::new(nodes);
    let root = povmeter::Root::from(plan.parent().state_root.0);
    let compact = proof.to_compact(root).unwrap();
    assert_eq!(compact.encode(), outcome.compact.encode());
    let ProofSizes {
        recorded,
        encoded,
        compact: compact_bytes,
        ..
    } = outcome.sizes;
    assert_eq!(proof.recorded_bytes(), recorded);
    assert_eq!(proof.encoded_bytes(), encoded);
    assert_eq!(compact.encoded_bytes(), compact_bytes);
}
