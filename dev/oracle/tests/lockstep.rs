//! The same calls on both state machines, every result compared.

#![allow(clippy::unwrap_used)]

use povmeter_dev_oracle::{ParentNodes, ParentState, TrieEntries};
use povmeter_dev_runtime::{
    build_block, commit_parent, runtime::Hashing, runtime::RuntimeCall, Calls, Estimates, Lockstep,
    LockstepBlock, Peer, Plan, PlanOptions, PovmeterBlock, SharedNodes, SizeRule,
};
use povmeter_store::MemoryStore;
use povmeter_substrate::{SizeSource, StateMachine};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use sp_core::storage::{ChildInfo, StateVersion};
use sp_externalities::{
    decl_extension, with_externalities, Extensions, Externalities, ExternalitiesExt,
    TransactionType,
};
use sp_state_machine::{Ext, OverlayedChanges, TrieBackendBuilder};
use sp_trie::{proof_size_extension::ProofSizeExt, recorder::Recorder};
use std::collections::BTreeMap;

decl_extension! {
    /// An extension that the runtime registers.
    struct OwnExt(u32);
}

decl_extension! {
    /// An extension that the host registers.
    struct HostExt(u32);
}

/// Returns a random key. All keys have one length, as hashed keys do, so none is a prefix of
/// another.
fn key(rng: &mut SmallRng) -> Vec<u8> {
    let bytes = [0x00, 0x01, 0x10, 0xff];
    (0..3).map(|_| bytes[rng.random_range(0..4)]).collect()
}

fn value(rng: &mut SmallRng) -> Vec<u8> {
    let length = [0, 1, 31, 32, 33, 70][rng.random_range(0..6)];
    (0..length).map(|_| rng.random_range(0..4)).collect()
}

fn entries(rng: &mut SmallRng) -> TrieEntries {
    let count = [0, 1, 2, 5, 30][rng.random_range(0..5)];
    let mut entries: TrieEntries = (0..count).map(|_| (key(rng), value(rng))).collect();
    // Lists to append to: a valid one, one whose prefix tells too many elements, one with the longest
    // prefix.
    for list in [vec![4, 1], vec![40, 1], vec![0xff; 9]] {
        if rng.random_range(0..3) == 0 {
            entries.insert(key(rng), list);
        }
    }
    entries
}

fn child(rng: &mut SmallRng) -> ChildInfo {
    // The last one is never in the parent state.
    ChildInfo::new_default([&b"a"[..], b"ab", b"other"][rng.random_range(0..3)])
}

fn state(rng: &mut SmallRng, version: StateVersion) -> ParentNodes {
    let mut children = BTreeMap::from([
        (b"a".to_vec(), entries(rng)),
        (b"ab".to_vec(), entries(rng)),
        // No call changes this one.
        (b"b".to_vec(), entries(rng)),
    ]);
    children.retain(|_, entries| !entries.is_empty());
    ParentNodes::new(&ParentState {
        top: entries(rng),
        children,
        version,
        ..ParentState::default()
    })
}

fn limit(rng: &mut SmallRng) -> Option<u32> {
    [None, Some(0), Some(1), Some(2), Some(100)][rng.random_range(0..5)]
}

fn cursor(rng: &mut SmallRng, prefix: &[u8]) -> Option<Vec<u8>> {
    (rng.random_range(0..4) == 0).then(|| {
        let mut cursor = prefix.to_vec();
        cursor.push([0x00, 0x01, 0x10][rng.random_range(0..3)]);
        cursor
    })
}

/// Makes one call of any kind. `depth` is the number of transactions that the runtime has open. With `asks_sizes` it may
/// ask for the size.
fn call(
    mut ext: &mut dyn Externalities,
    rng: &mut SmallRng,
    depth: &mut u32,
    version: StateVersion,
    asks_sizes: bool,
) {
    match rng.random_range(0..100) {
        0..45 => top_or_child(ext, rng),
        45..60 => remove_many(ext, rng),
        60..72 => ext.storage_append(key(rng), vec![rng.random_range(0..9)]),
        72..80 => {
            ext.storage_start_transaction();
            *depth += 1;
        }
        80..84 if *depth > 0 => {
            ext.storage_commit_transaction().unwrap();
            *depth -= 1;
        }
        84..88 if *depth > 0 => {
            ext.storage_rollback_transaction().unwrap();
            *depth -= 1;
        }
        // With no transaction of the runtime open, none can be closed, not even the host's.
        80..88 => assert!(ext.storage_rollback_transaction().is_err()),
        88 => drop(ext.storage_root(version)),
        // Often twice, with few changes in between.
        89 | 90 => {
            let info = child(rng);
            drop(ext.child_storage_root(&info, version));
            if rng.random() {
                ext.clear_child_storage(&info, &key(rng));
                drop(ext.child_storage_root(&info, version));
            }
        }
        91 if asks_sizes => assert!(ext.extension::<ProofSizeExt>().is_some()),
        91 if rng.random() => ext.set_offchain_storage(&key(rng), Some(&value(rng))),
        91 => ext.set_offchain_storage(&key(rng), None),
        92 => ext.storage_index_transaction(rng.random_range(0..3), &key(rng), 7),
        93 => ext.storage_renew_transaction_index(rng.random_range(0..3), &key(rng)),
        94 => drop(ext.register_extension(OwnExt(1))),
        95 => drop(ext.deregister_extension::<OwnExt>()),
        96 => _ = ext.extension::<OwnExt>().is_some(),
        97 => _ = ext.extension::<HostExt>().is_some(),
        98 => drop(ext.deregister_extension::<HostExt>()),
        // The runtime must not write the roots of child tries, except by asking for them.
        _ => {
            let root_key = child(rng).into_prefixed_storage_key().into_inner();
            drop(ext.storage(&root_key));
            drop(ext.next_storage_key(&root_key[..rng.random_range(0..root_key.len())]));
            ext.set_storage(root_key.clone(), vec![1]);
            ext.clear_storage(&root_key);
            drop(ext.clear_prefix(b":child_storage:", None, None));
        }
    }
}

fn top_or_child(ext: &mut dyn Externalities, rng: &mut SmallRng) {
    let (key, info) = (key(rng), child(rng));
    match rng.random_range(0..12) {
        0 => drop(ext.storage(&key)),
        1 => drop(ext.storage_hash(&key)),
        2 => _ = ext.exists_storage(&key),
        3 => drop(ext.next_storage_key(&key[..rng.random_range(0..4)])),
        4 => ext.set_storage(key, value(rng)),
        5 => ext.clear_storage(&key),
        6 => drop(ext.child_storage(&info, &key)),
        7 => drop(ext.child_storage_hash(&info, &key)),
        8 => _ = ext.exists_child_storage(&info, &key),
        9 => drop(ext.next_child_storage_key(&info, &key[..rng.random_range(0..4)])),
        10 => ext.set_child_storage(&info, key, value(rng)),
        _ => ext.clear_child_storage(&info, &key),
    }
}

fn remove_many(ext: &mut dyn Externalities, rng: &mut SmallRng) {
    let (key, info) = (key(rng), child(rng));
    let prefix = &key[..rng.random_range(0..3)];
    let (limit, cursor) = (limit(rng), cursor(rng, prefix));
    match rng.random_range(0..3) {
        // An empty prefix would include the roots of child tries.
        0 if prefix.is_empty() => drop(ext.clear_prefix(&key[..1], limit, None)),
        0 => drop(ext.clear_prefix(prefix, limit, cursor.as_deref())),
        1 => drop(ext.clear_child_prefix(&info, prefix, limit, cursor.as_deref())),
        _ => drop(ext.kill_child_storage(&info, limit, cursor.as_deref())),
    }
}

/// Runs a block of random calls and returns the counts.
fn random_block(seed: u64) -> Calls {
    let mut rng = SmallRng::seed_from_u64(seed);
    let rng = &mut rng;
    let versions = [StateVersion::V0, StateVersion::V1];
    // A chain may switch its state version, so a block may start from the other version.
    let [parent_version, version] = [(); 2].map(|()| versions[rng.random_range(0..2)]);
    let nodes = state(rng, parent_version);
    let asks_sizes = rng.random_bool(0.5);
    let mut calls = Calls::default();

    let mut machine: StateMachine<_> =
        StateMachine::new(nodes.clone(), nodes.root(), SizeSource::Reads);
    machine.register_extension(HostExt(7));
    let recorder = Recorder::<Hashing>::default();
    let parent = nodes.parent();
    let backend = TrieBackendBuilder::new(parent.nodes, parent.root);
    let backend = backend.with_recorder(recorder.clone()).build();
    let mut overlay = OverlayedChanges::<Hashing>::default();
    let mut extensions = Extensions::new();
    extensions.register(HostExt(7));
    extensions.register(ProofSizeExt::new(recorder.clone()));

    for _ in 0..rng.random_range(1..6) {
        machine.start_transaction();
        overlay.start_transaction();
        extensions.start_transaction(TransactionType::Host);
        overlay.enter_runtime().unwrap();
        machine
            .execute(|| {
                let inside = |ours: &mut dyn Externalities| {
                    let mut theirs = Ext::new(&mut overlay, &backend, Some(&mut extensions));
                    let (peer, rule) = (Some(&mut theirs as _), SizeRule::Equal);
                    let mut both = Lockstep::new(ours, peer, &mut calls, rule);
                    let mut depth = 0;
                    for _ in 0..rng.random_range(1..60) {
                        call(&mut both, rng, &mut depth, version, asks_sizes);
                    }
                    // Closes all transactions, because the peer keeps a list of the child tries that
                    // open ones touched.
                    (0..depth).for_each(|_| both.storage_rollback_transaction().unwrap());
                };
                with_externalities(inside).unwrap();
            })
            .unwrap();
        overlay.exit_runtime().unwrap();
        machine.commit_transaction().unwrap();
        overlay.commit_transaction().unwrap();
    }
    // A rollback makes the peer reset its cached root.
    overlay.start_transaction();
    overlay.rollback_transaction().unwrap();
    let theirs = overlay.drain_storage_changes(&backend, version).unwrap();
    let ours = machine.seal(version).unwrap();
    let what = format!("seed {seed}");
    let root = ours.block.update().root;
    assert_eq!(
        root.as_bytes(),
        theirs.transaction_storage_root.as_bytes(),
        "{what}"
    );
    let mut main = theirs.main_storage_changes;
    main.sort();
    let changes = ours.block.top_changes();
    let changes = changes.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
    assert_eq!(changes.collect::<Vec<_>>(), main, "{what}");
    let mut offchain = theirs.offchain_storage_changes;
    offchain.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(ours.offchain, offchain, "{what}");
    let index = format!("{:?}", theirs.transaction_index_changes);
    assert_eq!(format!("{:?}", ours.transaction_index), index, "{what}");
    calls
}

#[test]
fn random_calls() {
    let (mut all, mut sizes) = (0, 0);
    for seed in 0..4_000 {
        let calls = random_block(seed);
        assert_eq!(calls.differences, 0, "seed {seed}: {}", calls.first[0]);
        all += calls.all;
        sizes += calls.sizes;
    }
    assert!(all > 200_000 && sizes > 1_000, "{all} calls, {sizes} sizes");
}

fn lockstep(plan: &Plan, rule: SizeRule) -> (Calls, usize) {
    let mut store = MemoryStore::new();
    commit_parent(&mut store, plan).unwrap();
    let nodes = SharedNodes::new(store);
    let peer = Peer::new(
        nodes.parent(plan.parent().state_root),
        plan.options().state_version,
    );
    let estimates = match rule {
        SizeRule::Equal => Estimates::Nowhere,
        SizeRule::AtLeast => Estimates::Everywhere,
    };
    let mut calls = Calls::default();
    let ours = PovmeterBlock::new(nodes, plan, estimates);
    let both = LockstepBlock::new(ours, Some(peer.block()), rule, &mut calls);
    let outcome = build_block(both, plan, |_| {}).unwrap();
    (calls, outcome.failed.len())
}

#[track_caller]
fn assert_same(calls: &Calls) {
    assert_eq!(calls.differences, 0, "{:?}", calls.first);
}

#[test]
fn the_usual_block() {
    let plan = Plan::new(PlanOptions::default()).unwrap();
    for rule in [SizeRule::Equal, SizeRule::AtLeast] {
        let (calls, _) = lockstep(&plan, rule);
        assert_same(&calls);
        assert!(calls.reads > 40_000 && calls.sizes == 1_088, "{calls:?}");
    }
}

/// Returns nested batches of transfers. The sender has some of the amounts, and lacks others.
fn batches(rng: &mut SmallRng, plan: &Plan, depth: u32) -> RuntimeCall {
    let pick = rng.random_range(0..plan.extrinsics().len());
    let leaf = plan.extrinsics()[pick].function.clone();
    if depth == 0 || rng.random_range(0..4) == 0 {
        let RuntimeCall::Balances(pallet_balances::Call::transfer_keep_alive { dest, value }) =
            leaf
        else {
            panic!("expected a transfer, found {leaf:?}");
        };
        let value = match rng.random_range(0..3) {
            0 => u128::MAX / 4,
            _ => value,
        };
        return pallet_balances::Call::transfer_keep_alive { dest, value }.into();
    }
    let calls = (0..rng.random_range(1..4)).map(|_| batches(rng, plan, depth - 1));
    let calls = calls.collect();
    match rng.random_range(0..3) {
        0 => pallet_utility::Call::batch { calls },
        1 => pallet_utility::Call::batch_all { calls },
        _ => pallet_utility::Call::force_batch { calls },
    }
    .into()
}

#[test]
fn failing_and_nested_batches() {
    let mut failed = 0;
    for seed in 0..6 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let plan = Plan::new(PlanOptions {
            accounts: 100,
            transfers: 40,
            seed,
            ..PlanOptions::default()
        })
        .unwrap();
        let calls: Vec<_> = (0..40).map(|_| batches(&mut rng, &plan, 3)).collect();
        let plan = plan.with_calls(calls);
        let (calls, failures) = lockstep(&plan, SizeRule::AtLeast);
        assert_same(&calls);
        failed += failures;
    }
    assert!(failed > 10, "{failed} extrinsics failed");
}
