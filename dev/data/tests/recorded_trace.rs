//! Replays the recorded block of 544 transfers call by call: all results, the root and the proof must
//! be the recorded ones.

#![allow(clippy::unwrap_used)]

use povmeter::{Accounting, Advisory, Block, NodeSource, Root, SealedBlock, StateVersion};
use povmeter_dev_data::{expect_data, read_trace, Trace, TraceRecord};
use povmeter_dev_oracle::{ask, ask_externalities, Answer, Op};
use povmeter_dev_runtime::{
    commit_state, Calls, Estimates, Host, LockstepBlock, Peer, PovmeterBlock, SharedNodes,
    SizeRule, TransactionStep,
};
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::{state_version, SizeSource, StateMachine};
use sp_core::{storage::StateVersion as PeerVersion, H256};
use sp_externalities::{with_externalities, Externalities, ExternalitiesExt};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::slice::Iter;

/// The recorded block, and its parent state in a store.
struct Recorded {
    store: MemoryStore,
    version: PeerVersion,
    records: Vec<TraceRecord>,
}

impl Recorded {
    fn read() -> Self {
        let trace = read_trace(&expect_data().join("traces/transfers-544.trace.gz")).unwrap();
        let Trace { top, children, .. } = &trace;
        let version = trace.version.unwrap();
        let mut store = MemoryStore::new();
        commit_state(&mut store, top, children, version, None).unwrap();
        Self {
            store,
            version,
            records: trace.records,
        }
    }
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
    let Recorded {
        store,
        version,
        records,
    } = Recorded::read();
    let parent = store.root();
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
                TraceRecord::Call(Op::Enter, _) => {
                    let call = |ext: &mut dyn Externalities| replay(ext, &mut records, version);
                    let call = || with_externalities(call);
                    results += machine.execute(call).unwrap().unwrap();
                }
                TraceRecord::Call(Op::HostStart, _) => machine.start_transaction(),
                TraceRecord::Call(Op::HostCommit, _) => {
                    machine.commit_transaction().unwrap();
                    if at_boundaries {
                        machine.proof_size().unwrap();
                    }
                }
                TraceRecord::Phase(_) | TraceRecord::Extrinsic(_) => {}
                other => panic!("{other:?} outside of the runtime"),
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
    let Recorded {
        store,
        version,
        records,
    } = Recorded::read();
    let parent = store.root();
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
                TraceRecord::Call(Op::Enter, _) => {
                    let call = |ext: &mut dyn Externalities| replay(ext, &mut records, version);
                    both.execute(|| with_externalities(call)).unwrap().unwrap();
                }
                TraceRecord::Call(Op::HostStart, _) => {
                    both.transaction(TransactionStep::Start).unwrap()
                }
                TraceRecord::Call(Op::HostCommit, _) => {
                    both.transaction(TransactionStep::Commit).unwrap();
                }
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

/// Makes the calls of the runtime up to its exit, and compares their results. Returns the number of
/// results compared.
fn replay(
    mut ext: &mut dyn Externalities,
    records: &mut Iter<'_, TraceRecord>,
    version: PeerVersion,
) -> u32 {
    let mut results = 0;
    for record in records {
        match record {
            TraceRecord::Call(Op::Exit, _) => break,
            TraceRecord::Call(Op::Boundary, _) => {
                let size = ext.extension::<ProofSizeExt>().unwrap();
                assert!(size.storage_proof_size() > 0);
            }
            TraceRecord::Call(op, answer) => {
                assert_eq!(&ask_externalities(ext, op, version), answer, "{op}");
                results += u32::from(*answer != Answer::Done);
            }
            TraceRecord::Offchain { key, value } => {
                ext.set_offchain_storage(key, value.as_deref());
            }
            other => panic!("{other:?} inside of the runtime"),
        }
    }
    results
}

#[test]
#[ignore = "needs the real chain data"]
fn through_the_block() {
    let Recorded {
        store,
        version,
        records,
    } = Recorded::read();
    let (parent, version) = (store.root(), state_version(version));
    let mut proven = Block::new(&store, parent);
    let mut advisory = Block::with_accounting(&store, parent, Advisory);
    let mut results = 0;
    for record in &records {
        results += replay_block(&mut proven, record, version);
        results += replay_block(&mut advisory, record, version);
        // Both blocks read the same nodes. Later only the advisory block counts the root's nodes as
        // read.
        if matches!(record, TraceRecord::Call(Op::HostCommit, _)) {
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

/// Makes the call of `record` on a block, and compares the result. Returns the number of results
/// compared.
fn replay_block<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    record: &TraceRecord,
    version: StateVersion,
) -> u32 {
    match record {
        TraceRecord::Call(Op::Boundary, _) => {
            assert!(block.proof_size().unwrap().total_bytes() > 0);
            0
        }
        TraceRecord::Call(op, answer) => {
            assert_eq!(&ask(block, op, version).unwrap(), answer, "{op}");
            u32::from(*answer != Answer::Done)
        }
        TraceRecord::Phase(_) | TraceRecord::Extrinsic(_) | TraceRecord::Offchain { .. } => 0,
    }
}
