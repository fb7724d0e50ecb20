//! What a host asks of a machine, and that a machine which is not sealed is not lost.
#![allow(clippy::unwrap_used)]

use povmeter::{
    Accounting, Advisory, Block, BlockPool, Bytes, Consensus, EstimatePolicy, NodeHash, NodePrefix,
    NodeSource, SizeBound, SourceError, TrieId::Top,
};
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::{MachineError, SizeSource, StateMachine};
use sp_core::storage::StateVersion::V1;
use sp_externalities::with_externalities;
use std::{cell::Cell, sync::Arc};

fn key(number: u8) -> [u8; 2] {
    [number % 16 * 16, number]
}

fn store() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, store.root());
    for number in 0..100 {
        genesis.set(Top, &key(number), &[number; 40]).unwrap();
    }
    let genesis = genesis.seal(povmeter::StateVersion::V1).unwrap();
    store.commit(genesis.update()).unwrap();
    store
}

/// A call of the runtime, which reads, changes and deletes.
fn work<S: NodeSource, A: Accounting>(machine: &mut StateMachine<S, A>, number: u8) {
    let call = || {
        with_externalities(|ext| {
            assert_eq!(ext.storage(&key(number)), Some(vec![number; 40]));
            ext.set_storage(key(number + 1).to_vec(), vec![7]);
            ext.clear_storage(&key(number + 2));
            ext.set_offchain_storage(b"offchain", Some(&[number]));
        });
    };
    machine.start_transaction();
    machine.execute(call).unwrap();
    machine.commit_transaction().unwrap();
}

fn answers<A: Accounting + Copy>(accounting: A) {
    let store = store();
    let machine = || {
        let pool = Arc::new(BlockPool::new());
        StateMachine::with_accounting(pool, &store, store.root(), SizeSource::Reads, accounting)
    };
    let (mut asked, mut plain) = (machine(), machine());
    asked.prefetch_for(Top, &[key(9)], &[key(10)]).unwrap();
    let loaded = asked.loaded().0;
    assert!(loaded > 0);
    assert_eq!(asked.recorded_size().total_bytes(), 0);
    for number in [1, 9, 40] {
        work(&mut asked, number);
        work(&mut plain, number);
        let (size, compact) = (
            asked.proof_size().unwrap(),
            asked.compact_proof_bytes().unwrap(),
        );
        // As if the block ended now.
        let mut ends_now = machine();
        for number in [1, 9, 40].into_iter().take_while(|of| *of <= number) {
            work(&mut ends_now, number);
        }
        let root = ends_now.root(V1).unwrap();
        let proof = ends_now.recorded_proof();
        assert_eq!(ends_now.recorded_size().total_bytes(), size.total_bytes());
        let sealed = ends_now.seal(V1).unwrap().block;
        assert_eq!(sealed.update().root, root);
        assert_eq!(sealed.proof().nodes(), proof.nodes());
        let expected = sealed.proof().to_compact(store.root()).unwrap();
        assert_eq!(compact, expected.encoded_bytes());
    }
    // The questions leave no trace.
    let [asked, plain] = [asked, plain].map(|machine| machine.seal(V1).unwrap().block);
    assert_eq!(asked.proof().nodes(), plain.proof().nodes());
}

#[test]
fn a_host_learns_sizes_root_and_proof() {
    answers(Consensus);
    answers(Advisory);
}

#[test]
fn an_advisory_host_asks_for_a_bound() {
    let store = store();
    let pool = Arc::new(BlockPool::new());
    let sizes = SizeSource::Reads;
    let mut machine = StateMachine::with_accounting(pool, &store, store.root(), sizes, Advisory);
    work(&mut machine, 3);
    let far = EstimatePolicy::NearLimit {
        limit_bytes: u64::MAX,
        largest_node_bytes: 1000,
    };
    let bound = machine.proof_size_within(far).unwrap();
    let exact = machine
        .proof_size_within(EstimatePolicy::EveryBoundary)
        .unwrap();
    let size = machine.proof_size().unwrap();
    assert_eq!(exact, SizeBound::Exact(size));
    assert!(matches!(bound, SizeBound::AtMost { bytes } if bytes >= size.total_bytes()));
}

/// A store that can be unreachable.
struct Unreliable<'s>(&'s MemoryStore, &'s Cell<bool>);

impl NodeSource for Unreliable<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if self.1.get() {
            return Err(SourceError::new("unreachable"));
        }
        self.0.node(hash, prefix)
    }
}

#[test]
fn a_machine_that_is_not_sealed_comes_back() {
    let (store, fails) = (store(), Cell::new(false));
    let expected = {
        let mut machine = StateMachine::new(&store, store.root(), SizeSource::Reads);
        work(&mut machine, 5);
        machine.seal(V1).unwrap()
    };
    let source = Unreliable(&store, &fails);
    let mut machine = StateMachine::new(source, store.root(), SizeSource::Reads);
    machine.start_transaction();
    work(&mut machine, 5);
    let (mut machine, error) = machine.seal(V1).unwrap_err().into_parts();
    assert_eq!(
        error.to_string(),
        "expected every transaction to be closed, found 1 open"
    );
    machine.commit_transaction().unwrap();
    fails.set(true);
    // The sibling of the deleted key is not loaded yet.
    assert!(matches!(machine.root(V1), Err(MachineError::Block(_))));
    let (machine, error) = machine.seal(V1).unwrap_err().into_parts();
    assert!(error.to_string().contains("unreachable"), "{error}");
    fails.set(false);
    let sealed = machine.seal(V1).unwrap();
    assert_eq!(sealed.block.update().root, expected.block.update().root);
    assert_eq!(sealed.block.proof().nodes(), expected.block.proof().nodes());
    assert_eq!(sealed.offchain, expected.offchain);
}
