//! Replays the recorded block of 544 transfers call by call: all results, the root and the proof must
//! be the recorded ones.

#![allow(clippy::unwrap_used)]

use povmeter::{Advisory, Block, NodeSource, Root, SealedBlock, StateVersion, TrieId};
use povmeter_dev_data::{expect_data, read_trace, Removal, StorageCall, TraceRecord};
use povmeter_dev_runtime::{
    commit_state, Calls, Entries, Estimates, Host, LockstepBlock, Peer, PovmeterBlock, SharedNodes,
    SizeRule, TransactionStep,
};
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::{state_version, SizeSource, StateMachine};
use sp_core::{
    storage::{ChildInfo, StateVersion as PeerVersion},
    H256,
};
use sp_externalities::{with_externalities, Externalities, ExternalitiesExt, MultiRemovalResults};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::collections::BTreeMap;

/// The trace: its parent state and its records.
struct Trace {
    store: MemoryStore,
    records: Vec<TraceRecord>,
}

/// Reads the recorded trace.
fn trace() -> Trace {
    let path = expect_data().join("traces/transfers-544.trace.gz");
    let mut top = Entries::new();
    let mut records = Vec::new();
    for record in read_trace(&path).unwrap() {
        match record {
            TraceRecord::Storage {
                child: None,
                call: StorageCall::Genesis { key, value },
            } => {
                assert!(top.insert(key, value).is_none());
            }
            record => records.push(record),
        }
    }
    assert_eq!(top.len(), 10_014);
    let mut store = MemoryStore::new();
    commit_state(&mut store, &top, &BTreeMap::new(), version(&records), None).unwrap();
    Trace { store, records }
}

/// The state version of the root computation.
fn version(records: &[TraceRecord]) -> PeerVersion {
    let mut versions = records.iter().filter_map(|record| match record {
        TraceRecord::Storage {
            call: StorageCall::Root { version, .. },
            ..
        } => Some(*version),
        _ => None,
    });
    versions.next().unwrap()
}

#[track_caller]
fn assert_proof(block: &SealedBlock, parent: Root) {
    let proof = block.proof();
    assert_eq!(proof.recorded_bytes(), 327_526);
    assert_eq!(block.size().total_bytes(), 327_526);
    assert_eq!(proof.encoded_bytes(), 327_528);
    assert_eq!(proof.encode().len(), 327_528);
    assert_eq!(proof.nodes().len(), 2_350);
    assert_eq!(proof.to_compact(parent).unwrap().encode().len(), 251_928);
}

#[test]
#[ignore = "needs the real chain data"]
fn through_the_externalities() {
    let Trace { store, records } = trace();
    let (parent, version) = (store.root(), version(&records));
    let mut results = 0;
    for (sizes, at_boundaries) in [
        (SizeSource::Estimate, true),
        (SizeSource::Estimate, false),
        (SizeSource::Reads, false),
    ] {
        let mut machine = StateMachine::new(store.clone(), parent, sizes);
        let mut records = records.iter();
        while let Some(record) = records.next() {
            match record {
                TraceRecord::Enter => {
                    let inside = records
                        .by_ref()
                        .take_while(|record| **record != TraceRecord::Exit);
                    let call = || {
                        with_externalities(|ext| {
                            inside.map(|record| replay(ext, record)).sum::<u32>()
                        })
                    };
                    results += machine.execute(call).unwrap().unwrap();
                }
                TraceRecord::HostStart => machine.start_transaction(),
                TraceRecord::HostCommit => {
                    machine.commit_transaction().unwrap();
                    if at_boundaries {
                        machine.proof_size().unwrap();
                    }
                }
                TraceRecord::Phase(_) | TraceRecord::Extrinsic(_) => {}
                other => panic!("{other} outside of the runtime"),
            }
        }
        assert_eq!(machine.sizes().len(), 1088);
        let sealed = machine.seal(version).unwrap();
        assert_proof(&sealed.block, parent);
    }
    // 40,837 get, 1,633 exists, 1 clear, 1 root, three times.
    assert_eq!(results, 3 * RESULTS);
}

#[test]
#[ignore = "needs the real chain data"]
fn in_lockstep_with_the_peer() {
    let Trace { store, records } = trace();
    let (parent, version) = (store.root(), version(&records));
    let nodes = SharedNodes::new(store);
    for (sizes, rule) in [
        (SizeSource::Reads, SizeRule::Equal),
        (SizeSource::Estimate, SizeRule::AtLeast),
    ] {
        let estimates = Estimates::Nowhere;
        let ours = PovmeterBlock::on(nodes.clone(), parent, version, estimates, sizes);
        let peer = Peer::new(nodes.parent(H256(parent.into())), version);
        let mut calls = Calls::default();
        let mut both = LockstepBlock::new(ours, Some(peer.block()), rule, &mut calls);
        let mut records = records.iter();
        while let Some(record) = records.next() {
            match record {
                TraceRecord::Enter => {
                    let inside = records
                        .by_ref()
                        .take_while(|record| **record != TraceRecord::Exit);
                    let call = |ext: &mut dyn Externalities| {
                        inside.map(|record| replay(ext, record)).sum::<u32>()
                    };
                    both.execute(|| with_externalities(call)).unwrap().unwrap();
                }
                TraceRecord::HostStart => both.transaction(TransactionStep::Start).unwrap(),
                TraceRecord::HostCommit => both.transaction(TransactionStep::Commit).unwrap(),
                _ => {}
            }
        }
        let built = both.finish().unwrap();
        assert_eq!(built.proof.len(), 2_350);
        assert_eq!(calls.differences, 0, "{:?}", calls.first);
        assert!(
            calls.reads == 40_837 + 1_633 && calls.sizes == 1_088,
            "{calls:?}"
        );
    }
}

/// Number of results in the trace: of get, exists, clear and root.
const RESULTS: u32 = 40_837 + 1_633 + 1 + 1;

/// Makes a call of the runtime and compares its result. Returns the number of results compared.
fn replay(mut ext: &mut dyn Externalities, record: &TraceRecord) -> u32 {
    match record {
        TraceRecord::Start => ext.storage_start_transaction(),
        TraceRecord::Commit => ext.storage_commit_transaction().unwrap(),
        TraceRecord::Rollback => ext.storage_rollback_transaction().unwrap(),
        TraceRecord::ProofSize => {
            let size = ext
                .extension::<ProofSizeExt>()
                .unwrap()
                .storage_proof_size();
            assert!(size > 0);
        }
        TraceRecord::Offchain { key, value } => {
            ext.set_offchain_storage(key, value.as_deref());
        }
        TraceRecord::Storage { child: None, call } => return replay_storage(ext, call),
        TraceRecord::Storage {
            child: Some(child),
            call,
        } => return replay_child(ext, &ChildInfo::new_default(child), call),
        TraceRecord::KillChild { child, removal } => {
            let info = ChildInfo::new_default(child);
            let found = ext.kill_child_storage(&info, removal.limit, removal.cursor.as_deref());
            return compare_removal(found, removal);
        }
        other => panic!("{other} inside of the runtime"),
    }
    0
}

fn replay_storage(ext: &mut dyn Externalities, call: &StorageCall) -> u32 {
    match call {
        StorageCall::Get { key, value } => assert_eq!(&ext.storage(key), value, "{call:?}"),
        StorageCall::Hash { key, hash } => assert_eq!(&ext.storage_hash(key), hash, "{call:?}"),
        StorageCall::Exists { key, exists } => {
            assert_eq!(ext.exists_storage(key), *exists, "{call:?}");
        }
        StorageCall::Next { key, next } => assert_eq!(&ext.next_storage_key(key), next, "{call:?}"),
        StorageCall::Set { key, value } => {
            ext.set_storage(key.clone(), value.clone());
            return 0;
        }
        StorageCall::Delete { key } => {
            ext.clear_storage(key);
            return 0;
        }
        StorageCall::Append { key, element } => {
            ext.storage_append(key.clone(), element.clone());
            return 0;
        }
        StorageCall::Clear { prefix, removal } => {
            let found = ext.clear_prefix(prefix, removal.limit, removal.cursor.as_deref());
            return compare_removal(found, removal);
        }
        StorageCall::Root { version, root } => {
            assert_eq!(ext.storage_root(*version), root.as_bytes());
        }
        StorageCall::Genesis { .. } => panic!("an entry of the parent state inside of the block"),
    }
    1
}

/// As [`replay`], in a child trie. The recorded trace has no such call; other traces may.
fn replay_child(ext: &mut dyn Externalities, info: &ChildInfo, call: &StorageCall) -> u32 {
    match call {
        StorageCall::Get { key, value } => assert_eq!(&ext.child_storage(info, key), value),
        StorageCall::Set { key, value } => {
            ext.set_child_storage(info, key.clone(), value.clone());
            return 0;
        }
        other => panic!("{other:?} in a child trie"),
    }
    1
}

fn compare_removal(found: MultiRemovalResults, expected: &Removal) -> u32 {
    assert_eq!(found.maybe_cursor, expected.next_cursor);
    let counts = (found.backend, found.unique, found.loops);
    assert_eq!(counts, (expected.backend, expected.unique, expected.loops));
    1
}

#[test]
#[ignore = "needs the real chain data"]
fn through_the_block() {
    let Trace { store, records } = trace();
    let (parent, version) = (store.root(), state_version(version(&records)));
    let mut proven = Block::new(&store, parent);
    let mut advisory = Block::with_accounting(&store, parent, Advisory);
    let mut results = 0;
    for record in &records {
        results += replay_block(&mut proven, record, version);
        results += replay_block(&mut advisory, record, version);
        // Both read the same. Only with one of them the root's nodes count as read.
        if *record == TraceRecord::HostCommit {
            let [proven, advisory] = [proven.recorded_size(), advisory.recorded_size()];
            assert_eq!(proven.read_bytes, advisory.read_bytes);
        }
    }
    assert_eq!(results, 2 * RESULTS);
    let (proven, advisory) = (
        proven.seal(version).unwrap(),
        advisory.seal(version).unwrap(),
    );
    assert_proof(&proven, parent);
    assert_proof(&advisory, parent);
    assert_eq!(proven.update(), advisory.update());
}

/// As [`replay`], on a bare block with the accounting `A`.
fn replay_block<S: NodeSource, A: povmeter::Accounting>(
    block: &mut Block<S, A>,
    record: &TraceRecord,
    version: StateVersion,
) -> u32 {
    match record {
        TraceRecord::Enter => block.enter_runtime().unwrap(),
        TraceRecord::Exit => assert_eq!(block.exit_runtime().unwrap(), 0),
        TraceRecord::HostStart | TraceRecord::Start => block.start_transaction(),
        TraceRecord::HostCommit | TraceRecord::Commit => block.commit_transaction().unwrap(),
        TraceRecord::Rollback => block.rollback_transaction().unwrap(),
        TraceRecord::ProofSize => assert!(block.proof_size().unwrap().total_bytes() > 0),
        TraceRecord::Phase(_) | TraceRecord::Extrinsic(_) | TraceRecord::Offchain { .. } => {}
        TraceRecord::Storage { child: None, call } => return replay_call(block, call, version),
        other => panic!("{other} in a trace without child tries"),
    }
    0
}

fn replay_call<S: NodeSource, A: povmeter::Accounting>(
    block: &mut Block<S, A>,
    call: &StorageCall,
    version: StateVersion,
) -> u32 {
    const TOP: TrieId<'_> = TrieId::Top;
    match call {
        StorageCall::Get { key, value } => {
            assert_eq!(block.get(TOP, key).unwrap(), value.as_deref(), "{call:?}");
        }
        StorageCall::Exists { key, exists } => {
            assert_eq!(block.exists(TOP, key).unwrap(), *exists, "{call:?}");
        }
        StorageCall::Clear { prefix, removal } => {
            let cursor = removal.cursor.as_deref();
            let found = block
                .clear_prefix(TOP, prefix, removal.limit, cursor)
                .unwrap();
            assert_eq!(found.cursor, removal.next_cursor);
            let counts = (found.from_parent, found.unique, found.visited);
            assert_eq!(counts, (removal.backend, removal.unique, removal.loops));
        }
        StorageCall::Root { root, .. } => {
            let update = block.root(version).unwrap();
            assert_eq!(update.root.as_bytes(), root.as_fixed_bytes());
        }
        StorageCall::Set { key, value } => {
            block.set(TOP, key, value).unwrap();
            return 0;
        }
        StorageCall::Delete { key } => {
            block.remove(TOP, key).unwrap();
            return 0;
        }
        StorageCall::Append { key, element } => {
            block.append(TOP, key, element).unwrap();
            return 0;
        }
        other => panic!("{other:?} is not in this trace"),
    }
    1
}
