//! Every strategy builds the peer's block, and estimates the bytes that the peer records in the end.

use povmeter_dev_ladder::{LadderBlock, Strategy};
use povmeter_dev_runtime::{
    build_block, BlockOutcome, CallKind, Peer, Plan, PlanOptions, Signatures,
};
use sp_core::storage::StateVersion::{V0, V1};

fn small() -> PlanOptions {
    PlanOptions {
        accounts: 200,
        transfers: 20,
        ..Default::default()
    }
}

/// Plans of a small block, for every combination of call and state version.
fn small_plans() -> Vec<Plan> {
    let calls = [CallKind::TransferKeepAlive, CallKind::TransferAll];
    calls
        .into_iter()
        .flat_map(|call| {
            [V0, V1].map(|state_version| PlanOptions {
                call,
                state_version,
                ..small()
            })
        })
        .map(|options| Plan::new(options).unwrap())
        .collect()
}

fn peer_block(peer: &Peer, plan: &Plan) -> BlockOutcome {
    build_block(peer.block(), plan, |_| {}).unwrap()
}

fn ladder_block(peer: &Peer, plan: &Plan, strategy: Strategy) -> BlockOutcome {
    build_block(LadderBlock::new(peer, strategy), plan, |_| {}).unwrap()
}

/// Asserts that the two blocks are the same, to the last node.
#[track_caller]
fn assert_same(found: &BlockOutcome, expected: &BlockOutcome, what: &str) {
    assert_eq!(found.header, expected.header, "{what}");
    assert_eq!(found.built.update, expected.built.update, "{what}");
    assert_eq!(found.built.proof, expected.built.proof, "{what}");
    assert_eq!(
        found.built.main_changes, expected.built.main_changes,
        "{what}"
    );
    assert_eq!(found.sizes, expected.sizes, "{what}");
}

/// Whether the estimates must be exact. Without deletions they are exact under every strategy.
fn exact(strategy: Strategy, plan: &Plan) -> bool {
    strategy.claims_complete() || plan.options().call == CallKind::TransferKeepAlive
}

/// Checks every strategy on `plan` against the peer and against the root after every extrinsic.
fn check(peer: &Peer, plan: &Plan) {
    let expected = peer_block(peer, plan);
    assert!(expected.boundaries.is_empty());
    let oracle = ladder_block(peer, plan, Strategy::ROOT_EACH_TX);
    for strategy in Strategy::ALL {
        let what = format!("{strategy} {:?}", plan.options());
        let outcome = ladder_block(peer, plan, strategy);
        assert_same(&outcome, &expected, &what);
        let Some(last) = outcome.boundaries.last() else {
            assert_eq!(strategy, Strategy::NONE, "{what}");
            continue;
        };
        assert_eq!(
            outcome.boundaries.len(),
            1 + plan.extrinsics().len(),
            "{what}"
        );
        assert!(last.root_adds > 0, "{what}");
        assert!(last.total() <= expected.sizes.recorded, "{what}");
        // This runtime's `finalize_block` changes only keys that were changed before, so the estimate
        // after the last extrinsic is final.
        if exact(strategy, plan) {
            assert_eq!(last.total(), expected.sizes.recorded, "{what}");
        }
        // Sizes never fall.
        let totals: Vec<_> = outcome.boundaries.iter().map(|size| size.total()).collect();
        assert!(totals.is_sorted(), "{what}");
        for (size, truth) in outcome.boundaries.iter().zip(&oracle.boundaries) {
            assert_eq!(size.recorded, truth.recorded, "{what}");
            if exact(strategy, plan) {
                assert_eq!(size.total(), truth.total(), "{what}");
            }
        }
    }
}

#[test]
fn small_blocks() {
    for plan in small_plans() {
        check(&Peer::in_memory(&plan).unwrap(), &plan);
    }
}

#[test]
fn small_blocks_with_a_warm_cache() {
    for plan in small_plans() {
        check(
            &Peer::in_memory(&plan).unwrap().warmed(&plan).unwrap(),
            &plan,
        );
    }
}

#[test]
fn the_usual_block() {
    let plan = Plan::new(PlanOptions::default()).unwrap();
    let peer = Peer::in_memory(&plan).unwrap();
    check(&peer, &plan);
    let outcome = peer_block(&peer, &plan);
    assert_eq!(
        (outcome.applied, outcome.failed.len(), outcome.refused.len()),
        (544, 0, 0)
    );
    println!(
        "{:?}, {} changed keys",
        outcome.sizes,
        outcome.built.main_changes.len()
    );
}

#[test]
fn the_cache_changes_no_size_and_no_root() {
    for plan in small_plans() {
        let cold = Peer::in_memory(&plan).unwrap();
        let expected = peer_block(&cold, &plan);
        let warm = cold.warmed(&plan).unwrap();
        assert_same(&peer_block(&warm, &plan), &expected, "warm");
    }
}

#[test]
fn a_validator_comes_to_the_same_root() {
    for plan in small_plans() {
        let peer = Peer::in_memory(&plan).unwrap();
        let outcome = peer_block(&peer, &plan);
        let root = peer.validate_from_compact(&plan, &outcome.compact).unwrap();
        assert_eq!(root, outcome.header.state_root);
        assert_ne!(root, plan.parent().state_root);
        assert!(outcome.sizes.compact < outcome.sizes.encoded);
    }
}

#[test]
fn a_proof_of_another_block_does_not_validate() {
    let plan = Plan::new(small()).unwrap();
    let peer = Peer::in_memory(&plan).unwrap();
    let fewer = Plan::new(PlanOptions {
        transfers: 1,
        ..small()
    })
    .unwrap();
    // The accounts are drawn after the senders, so the parent state is another one.
    let proof = peer_block(&Peer::in_memory(&fewer).unwrap(), &fewer).compact;
    assert!(peer.validate_from_compact(&plan, &proof).is_err());
}

#[test]
fn transfer_all_deletes_the_senders() {
    let options = PlanOptions {
        call: CallKind::TransferAll,
        ..small()
    };
    let plan = Plan::new(options).unwrap();
    let outcome = peer_block(&Peer::in_memory(&plan).unwrap(), &plan);
    let deleted = |outcome: &BlockOutcome| {
        let accounts = frame_support::storage::storage_prefix(b"System", b"Account");
        let changes = outcome.built.main_changes.iter();
        changes
            .filter(|(key, value)| value.is_none() && key.starts_with(&accounts))
            .count()
    };
    assert_eq!(deleted(&outcome), 20);
    let plan = Plan::new(small()).unwrap();
    let outcome = peer_block(&Peer::in_memory(&plan).unwrap(), &plan);
    assert_eq!(deleted(&outcome), 0);
}

#[test]
fn state_versions_and_signatures() {
    let run = |options| {
        let plan = Plan::new(options).unwrap();
        peer_block(&Peer::in_memory(&plan).unwrap(), &plan)
    };
    let free = run(small());
    let signed = run(PlanOptions {
        signatures: Signatures::Sr25519,
        ..small()
    });
    assert_eq!(signed.applied, 20);
    assert_eq!(free.header.state_root, signed.header.state_root);
    assert_eq!(free.sizes, signed.sizes);
    let old = run(PlanOptions {
        state_version: V0,
        ..small()
    });
    assert_ne!(free.header.state_root, old.header.state_root);
}

#[test]
fn a_refused_extrinsic_leaves_nothing() {
    // With this many accounts, the look-up of an absent one reads nodes that nothing else reads.
    let options = PlanOptions {
        accounts: 5_000,
        ..small()
    };
    let plan = Plan::new(options).unwrap().with_refused(19);
    let peer = Peer::in_memory(&plan).unwrap();
    for strategy in Strategy::ALL {
        let outcome = ladder_block(&peer, &plan, strategy);
        assert_eq!((outcome.applied, outcome.refused.len()), (19, 1));
        assert_eq!(outcome.refused[0].index, 19);
        if let [.., before, after] = &outcome.boundaries[..] {
            assert_eq!(before, after, "{strategy}");
        }
    }
}
