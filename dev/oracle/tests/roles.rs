//! Author, importers and validators all give the runtime the same sizes.

#![allow(clippy::unwrap_used)]

use codec::Encode;
use povmeter::{NodeSource, Root};
use povmeter_dev_runtime::{
    build_block, commit_parent, AuthorError, BlockOutcome, CallKind, Estimates, Peer, Plan,
    PlanOptions, PovmeterBlock, SharedNodes,
};
use povmeter_proof_size::{storage_proof_size, PROOF_RECORDING_DISABLED};
use povmeter_store::MemoryStore;
use povmeter_substrate::{MachineError, ReplayError, SizeSource, StateMachine};
use sp_core::storage::StateVersion::{self, V0, V1};
use sp_externalities::with_externalities;
use std::panic::{catch_unwind, AssertUnwindSafe};

fn nodes(plan: &Plan) -> SharedNodes {
    let mut store = MemoryStore::new();
    commit_parent(&mut store, plan).unwrap();
    SharedNodes::new(store)
}

fn told(outcome: &BlockOutcome) -> &[u64] {
    outcome.built.told.as_deref().unwrap()
}

fn build(
    source: impl NodeSource + 'static,
    plan: &Plan,
    estimates: Estimates,
    sizes: SizeSource,
) -> Result<BlockOutcome, AuthorError> {
    let parent = Root::from(plan.parent().state_root.0);
    let version = plan.options().state_version;
    let block = PovmeterBlock::on(source, parent, version, estimates, sizes);
    build_block(block, plan, |_| {})
}

fn plans() -> impl Iterator<Item = Plan> {
    let calls = [CallKind::TransferKeepAlive, CallKind::TransferAll];
    calls.into_iter().flat_map(|call| {
        [(V0, 0), (V1, 1), (V1, 2)].map(|(state_version, seed)| {
            let options = PlanOptions {
                accounts: 300,
                transfers: 60,
                call,
                state_version,
                seed,
                ..Default::default()
            };
            Plan::new(options).unwrap()
        })
    })
}

#[test]
fn everybody_tells_the_same_sizes() {
    for plan in plans() {
        let nodes = nodes(&plan);
        let author = build(
            nodes.clone(),
            &plan,
            Estimates::Everywhere,
            SizeSource::Estimate,
        )
        .unwrap();
        let sizes = told(&author);
        assert_eq!(sizes.len(), 2 * plan.extrinsics().len());
        assert!(sizes.is_sorted() && sizes[0] > 0);

        let importer = build(
            nodes.clone(),
            &plan,
            Estimates::InRuntime,
            SizeSource::Estimate,
        );
        let replaying = SizeSource::Replay(sizes.to_vec());
        let replaying = build(nodes.clone(), &plan, Estimates::Nowhere, replaying);
        let compact = author.compact.encode();
        let validator = PovmeterBlock::from_compact(&compact, &plan, Estimates::InRuntime).unwrap();
        let validator = build_block(validator, &plan, |_| {});
        for (who, outcome) in [
            ("importer", importer),
            ("replaying importer", replaying),
            ("validator", validator),
        ] {
            let outcome = outcome.unwrap();
            assert_eq!(told(&outcome), sizes, "{who}");
            assert_eq!(outcome.header, author.header, "{who}");
            assert_eq!(outcome.built.update, author.built.update, "{who}");
        }
        let parent = nodes.parent(plan.parent().state_root);
        let stock = Peer::new(parent, plan.options().state_version);
        let root = stock.validate_told(&plan, &author.compact, sizes).unwrap();
        assert_eq!(root, author.built.root);
    }
}

#[test]
fn another_size_makes_another_root() {
    let plan = plans().next().unwrap();
    let nodes = nodes(&plan);
    let estimate = SizeSource::Estimate;
    let author = build(nodes.clone(), &plan, Estimates::InRuntime, estimate).unwrap();
    let mut other = 0;
    for place in 0..told(&author).len() {
        let mut sizes = told(&author).to_vec();
        sizes[place] += 1;
        let replay = SizeSource::Replay(sizes);
        let outcome = build(nodes.clone(), &plan, Estimates::Nowhere, replay).unwrap();
        other += usize::from(outcome.built.root != author.built.root);
    }
    // The runtime stores differences between sizes, so every size matters, except perhaps the last
    // one of the block.
    assert!(other + 1 >= told(&author).len(), "{other} other roots");
}

#[test]
fn a_record_that_does_not_fit_is_an_error() {
    let plan = plans().next().unwrap();
    let nodes = nodes(&plan);
    let estimate = SizeSource::Estimate;
    let author = build(nodes.clone(), &plan, Estimates::InRuntime, estimate).unwrap();
    let with = |sizes: &[u64]| {
        let replay = SizeSource::Replay(sizes.to_vec());
        let error = build(nodes.clone(), &plan, Estimates::Nowhere, replay).unwrap_err();
        let mut text = error.to_string();
        let mut below: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(error) = below {
            text = error.to_string();
            below = error.source();
        }
        text
    };
    let sizes = told(&author);
    let (all, most) = (sizes.len(), sizes.len() - 1);
    assert_eq!(
        with(&sizes[..most]),
        format!("expected {most} questions for the proof size, found one more")
    );
    assert_eq!(
        with(&[sizes, &[1]].concat()),
        format!(
            "expected {} questions for the proof size, found {all}",
            all + 1
        )
    );
}

fn machine(store: &MemoryStore, sizes: SizeSource) -> StateMachine<&MemoryStore> {
    use povmeter_store::NodeStore;
    StateMachine::new(store, store.root(), sizes)
}

/// A state of many entries.
fn store() -> MemoryStore {
    let plan = Plan::new(PlanOptions {
        accounts: 200,
        transfers: 1,
        ..Default::default()
    });
    let mut store = MemoryStore::new();
    commit_parent(&mut store, &plan.unwrap()).unwrap();
    store
}

/// The answers of both versions of the host function, in order, after a write.
fn both_versions(machine: &mut StateMachine<&MemoryStore>) -> (u64, u64) {
    // A key among the accounts, whose path a read of a key with another prefix does not load.
    let account = frame_support::storage::storage_prefix(b"System", b"Account");
    let first = cumulus_primitives_proof_size_hostfunction::storage_proof_size::storage_proof_size;
    let ask = || {
        with_externalities(|ext| {
            ext.storage(&[0]);
            ext.set_storage([&account[..], &[1; 48]].concat(), vec![1; 40]);
        });
        (first(), storage_proof_size::storage_proof_size())
    };
    machine.execute(ask).unwrap()
}

#[test]
fn the_second_version_includes_the_root_whatever_the_first_says() {
    let store = store();
    let (first, second) = both_versions(&mut machine(&store, SizeSource::Estimate));
    assert!(first == second && second > 0);
    let (reads, rooted) = both_versions(&mut machine(&store, SizeSource::Reads));
    assert!(reads < rooted);
    assert_eq!(rooted, second);
    let none = both_versions(&mut machine(&store, SizeSource::Unrecorded));
    assert_eq!(none, (PROOF_RECORDING_DISABLED, PROOF_RECORDING_DISABLED));
    let record = SizeSource::Replay(vec![17, 19]);
    assert_eq!(both_versions(&mut machine(&store, record)), (17, 19));
    // Without our externalities, the second version knows no size.
    let mut basic = sp_state_machine::BasicExternalities::default();
    let size = basic.execute_with(storage_proof_size::storage_proof_size);
    assert_eq!(size, PROOF_RECORDING_DISABLED);
}

#[test]
fn an_unrecorded_block_has_no_sizes() {
    let store = store();
    let mut machine = machine(&store, SizeSource::Unrecorded);
    both_versions(&mut machine);
    assert!(machine.seal(StateVersion::V1).unwrap().sizes.is_empty());
}

#[test]
fn sizes_stay_with_the_runtimes_rollbacks_and_go_with_the_hosts() {
    let store = store();
    let mut machine = machine(&store, SizeSource::Estimate);
    let mut ask = |roll_back: bool| {
        machine.start_transaction();
        machine
            .execute(|| {
                with_externalities(|ext| ext.storage_start_transaction());
                storage_proof_size::storage_proof_size();
                with_externalities(|ext| ext.storage_rollback_transaction());
            })
            .unwrap();
        if roll_back {
            machine.rollback_transaction().unwrap();
        } else {
            machine.commit_transaction().unwrap();
        }
        machine.sizes().len()
    };
    assert_eq!(ask(false), 1);
    assert_eq!(ask(true), 1);
    assert_eq!(ask(false), 2);
}

#[test]
fn an_exhausted_record_ends_the_call_and_the_block() {
    let store = store();
    let mut machine = machine(&store, SizeSource::Replay(vec![5]));
    let ask = storage_proof_size::storage_proof_size;
    assert_eq!(machine.execute(ask).unwrap(), 5);
    let again = AssertUnwindSafe(|| machine.execute(ask));
    assert!(catch_unwind(again).is_err());
    let expected = ReplayError::Exhausted { recorded: 1 };
    let failure = machine.failure().unwrap();
    assert!(matches!(failure, MachineError::Replay(error) if *error == expected));
    let error = MachineError::from(machine.seal(StateVersion::V1).unwrap_err());
    assert!(matches!(error, MachineError::Replay(error) if error == expected));
}
