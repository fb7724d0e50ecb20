//! A FRAME block on several threads equals the block of sequential execution: root, every value and event,
//! the nodes of the proof, and the size after every extrinsic.

#![allow(clippy::unwrap_used)]

use povmeter::{Accounting, Advisory, Consensus, Root};
use povmeter_dev_runtime::{
    commit_parent, execute_plan,
    runtime::{self, AccountId, Balance, RuntimeCall},
    runtime_rules, Execution, Native, Plan, PlanBlock, PlanOptions,
};
use povmeter_parallel::{Parallel, Strategy};
use povmeter_store::MemoryStore;
use povmeter_substrate::{SizeSource, StorageRules};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use sp_core::storage::StateVersion::{V0, V1};
use std::{num::NonZeroUsize, sync::Arc};

fn build<A: Accounting>(plan: &Plan, sizes: &SizeSource, execution: Execution<'_>) -> PlanBlock {
    let mut store = MemoryStore::new();
    let root = commit_parent(&mut store, plan).unwrap();
    assert_eq!(root, Root::from(plan.parent().state_root.0));
    execute_plan::<_, A>(
        &Native,
        &store,
        plan,
        sizes.clone(),
        execution,
        Arc::default(),
    )
    .unwrap()
}

#[track_caller]
fn assert_same(found: &PlanBlock, expected: &PlanBlock, what: &str) {
    assert_eq!(found.extrinsics.len(), expected.extrinsics.len(), "{what}");
    let extrinsics = found.extrinsics.iter().zip(&expected.extrinsics);
    for (index, (found, expected)) in extrinsics.enumerate() {
        assert_eq!(found, expected, "{what}, extrinsic {index}");
    }
    assert_eq!(found.sealed.sizes, expected.sealed.sizes, "{what}");
    let (ours, theirs) = (&found.sealed.block, &expected.sealed.block);
    // All values, the list of events among them.
    assert!(ours.top_changes().eq(theirs.top_changes()), "{what}");
    assert_eq!(found.header, expected.header, "{what}");
    assert_eq!(ours.update().root, theirs.update().root, "{what}");
    assert_eq!(ours.proof().nodes(), theirs.proof().nodes(), "{what}");
}

fn ways() -> Vec<Parallel> {
    let workers = |count| Parallel::new(NonZeroUsize::new(count).unwrap());
    vec![
        workers(1).with_strategy(Strategy::EachAhead),
        workers(2).with_strategy(Strategy::Always),
        workers(4).with_strategy(Strategy::EachAhead),
        workers(2).with_strategy(Strategy::Prepare),
        workers(2),
        workers(4),
    ]
}

fn compare<A: Accounting>(plan: &Plan, sizes: &SizeSource, rules: &StorageRules) -> Vec<PlanBlock> {
    let expected = build::<A>(plan, sizes, Execution::InOrder);
    let blocks = ways().into_iter().map(|way| {
        let found = build::<A>(plan, sizes, Execution::Parallel(way, rules));
        let what = format!(
            "{:?}, {sizes:?}, {way:?}, {:?}",
            plan.options(),
            found.statistics
        );
        assert_same(&found, &expected, &what);
        found
    });
    blocks.collect()
}

#[test]
fn the_usual_block() {
    let rules = runtime_rules().unwrap();
    let plan = Plan::new(PlanOptions::default()).unwrap();
    assert_eq!(plan.extrinsics().len(), 544);
    compare::<Consensus>(&plan, &SizeSource::Estimate, &rules);
    compare::<Consensus>(&plan, &SizeSource::Reads, &rules);
    let blocks = compare::<Advisory>(&plan, &SizeSource::Unrecorded, &rules);
    // No item that the transfers share keeps a transfer from being committed as executed ahead, except
    // the first transfer, which finds that the inherents are over.
    let ahead = blocks[0].statistics.unwrap().ahead;
    assert!(
        ahead >= 543,
        "{ahead} of 544 extrinsics were committed as executed ahead"
    );
}

/// Ten times the usual block: more transfers than senders, so that some depend on earlier ones, and more
/// than the weight of a block allows, so that the last ones are refused.
#[test]
fn a_long_block() {
    let rules = runtime_rules().unwrap();
    let options = PlanOptions {
        transfers: 5_440,
        ..PlanOptions::default()
    };
    let plan = Plan::new(options).unwrap();
    let way = Parallel::new(NonZeroUsize::new(2).unwrap()).with_strategy(Strategy::EachAhead);
    let expected = build::<Advisory>(&plan, &SizeSource::Unrecorded, Execution::InOrder);
    let applied = expected.extrinsics.iter();
    let applied = applied.filter(|(result, _)| result.is_ok()).count();
    assert!((4_000..5_440).contains(&applied), "{applied} were applied");
    let execution = Execution::Parallel(way, &rules);
    let found = build::<Advisory>(&plan, &SizeSource::Unrecorded, execution);
    assert_same(&found, &expected, "5,440 transfers");
    let ahead = found.statistics.unwrap().ahead;
    // The number depends on the other load of the machine.
    assert!(ahead > 0);
}

#[test]
fn an_unknown_runtime_has_no_rules_and_the_same_result() {
    let options = PlanOptions {
        accounts: 100,
        transfers: 60,
        ..Default::default()
    };
    let plan = Plan::new(options).unwrap();
    compare::<Advisory>(&plan, &SizeSource::Unrecorded, &StorageRules::new());
    compare::<Consensus>(&plan, &SizeSource::Estimate, &StorageRules::new());
}

/// Returns a call that may fail, delete an account, change the issuance, or contain other calls.
fn call(random: &mut SmallRng, accounts: &[AccountId], depth: u32) -> RuntimeCall {
    let dest = || accounts[0].clone().into();
    let value = runtime::EXISTENTIAL_DEPOSIT * Balance::from(random.random_range(0..4_u32));
    let large = 10_u128.pow(18) - Balance::from(random.random_range(0..10_u32)) * 10_u128.pow(15);
    let keep_alive = random.random();
    let amount = if random.random_bool(0.2) {
        large
    } else {
        value
    };
    match random.random_range(0..if depth > 0 { 8 } else { 6 }) {
        0 | 1 => runtime::BalancesCall::transfer_keep_alive {
            dest: dest(),
            value: amount,
        }
        .into(),
        2 => runtime::BalancesCall::transfer_allow_death {
            dest: dest(),
            value: amount,
        }
        .into(),
        3 => runtime::BalancesCall::transfer_all {
            dest: dest(),
            keep_alive,
        }
        .into(),
        4 => runtime::BalancesCall::burn {
            value: amount,
            keep_alive,
        }
        .into(),
        5 => runtime::SystemCall::remark_with_event {
            remark: vec![1; random.random_range(0..40)],
        }
        .into(),
        kind => {
            let count = random.random_range(0..4);
            let calls = (0..count).map(|at| call(random, &accounts[at..], depth - 1));
            let calls = calls.collect();
            match kind {
                6 => pallet_utility::Call::batch { calls }.into(),
                _ => pallet_utility::Call::batch_all { calls }.into(),
            }
        }
    }
}

/// Few accounts, so that extrinsics conflict; some fail, some are refused.
#[test]
fn random_blocks() {
    let rules = runtime_rules().unwrap();
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let options = PlanOptions {
            accounts: random.random_range(16..60),
            transfers: random.random_range(5..120),
            state_version: if seed % 3 == 0 { V0 } else { V1 },
            seed,
            ..Default::default()
        };
        let plan = Plan::new(options).unwrap();
        let accounts: Vec<AccountId> = (0..options.accounts)
            .map(|number| AccountId::from([number.to_le_bytes()[0]; 32]))
            .collect();
        let calls: Vec<_> = (0..options.transfers)
            .map(|_| {
                let first = random.random_range(0..4);
                call(&mut random, &accounts[first..], 2)
            })
            .collect();
        let refused = random.random_range(0..options.transfers) as usize;
        let plan = plan.with_calls(calls).with_refused(refused);
        compare::<Consensus>(&plan, &SizeSource::Estimate, &rules);
        compare::<Advisory>(&plan, &SizeSource::Unrecorded, &rules);
        compare::<Consensus>(&plan, &SizeSource::Unrecorded, &rules);
    }
}
