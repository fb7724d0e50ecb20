//! Batches of nodes: how often a block calls its source, through every wrapper between them.

#![allow(clippy::unwrap_used)]

use povmeter::{
    Block, BlockPool, Bytes, Consensus, NodeBatch, NodeHash, NodePrefix, NodeSource, PooledBlock,
    Root, SourceError,
    StateVersion::V1,
    TrieId::{self, Child, Top},
};
use povmeter_store::{MemoryStore, NodeStore, Verified};
use povmeter_substrate::{SizeSource, StateMachine};
use sp_externalities::with_externalities;
use std::sync::{Arc, Mutex};

/// The calls of a source: the number of calls for one node, and the length of each batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Calls {
    node: usize,
    nodes: Vec<usize>,
}

/// A store that counts its calls.
struct Counting<'s> {
    store: &'s MemoryStore,
    calls: Mutex<Calls>,
}

impl<'s> Counting<'s> {
    fn new(store: &'s MemoryStore) -> Self {
        Self {
            store,
            calls: Mutex::default(),
        }
    }

    /// Returns the calls since the last `take`.
    fn take(&self) -> Calls {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl NodeSource for Counting<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.calls.lock().unwrap().node += 1;
        self.store.node(hash, prefix)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        self.calls.lock().unwrap().nodes.push(batch.open().len());
        self.store.nodes(batch);
    }
}

/// A key that is spread evenly, like those of a hashed map.
fn key(number: u32) -> [u8; 32] {
    povmeter_delta_root::Blake2b256::hash(&number.to_le_bytes()).into()
}

/// A state of 3,000 entries in the top trie and 3,000 in a child trie.
fn store() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for number in 0..3_000 {
        block.set(Top, &key(number), &[7; 40]).unwrap();
        block.set(POOL, &key(number), &[8; 40]).unwrap();
    }
    let sealed = block.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

const POOL: TrieId<'_> = Child(b"pool");

/// Keys of one boundary, few enough to be walked together.
fn keys() -> Vec<[u8; 32]> {
    (0..31).map(|number| key(97 * number)).collect()
}

/// The most nodes on the path to one of `keys`.
fn levels(store: &MemoryStore, trie: TrieId<'_>, keys: &[[u8; 32]]) -> usize {
    let nodes_to = |key: &[u8; 32]| {
        let mut block = Block::new(store, store.root());
        // The path to the root of the child trie does not count.
        let to_trie = match trie {
            Top => 0,
            Child(name) => {
                let root_key = povmeter_delta_root::child_root_key(name);
                block.exists(Top, &root_key).unwrap();
                block.recorded_proof().nodes().len()
            }
        };
        block.exists(trie, key).unwrap();
        block.recorded_proof().nodes().len() - to_trie
    };
    keys.iter().map(nodes_to).max().unwrap()
}

/// Checks that there is one call for each level, for all nodes that the walks need there, and each
/// node only once, though all walks pass the root's 16 children.
#[track_caller]
fn assert_by_level(calls: &Calls, levels: usize) {
    assert_eq!(calls.node, 0, "{calls:?}");
    assert_eq!(calls.nodes.len(), levels, "{calls:?}");
    assert_eq!(calls.nodes[0], 1);
    assert!((10..=16).contains(&calls.nodes[1]), "{calls:?}");
    assert!((20..=31).contains(&calls.nodes[2]), "{calls:?}");
}

/// Returns `block` after one boundary over [`keys`] of the top trie, none of which was read.
fn boundary<S: NodeSource>(mut block: Block<S>) -> Block<S> {
    for key in keys() {
        block.set(Top, &key, b"new").unwrap();
    }
    block.proof_size().unwrap();
    block
}

#[test]
fn a_boundary_calls_its_source_once_for_each_level() {
    let store = store();
    let levels = levels(&store, Top, &keys());
    assert!(levels >= 4, "{levels}");
    let source = Counting::new(&store);
    let block = boundary(Block::new(&source, store.root()));
    assert_by_level(&source.take(), levels);
    // The root needs no further call, because all of its nodes are loaded.
    block.seal(V1).unwrap();
    assert_eq!(source.take(), Calls::default());
}

// The source counts in cells, and the test has one thread.
#[allow(clippy::arc_with_non_send_sync)]
#[test]
fn pointers_and_a_verified_source_hand_batches_on() {
    let store = store();
    let levels = levels(&store, Top, &keys());
    let source = Counting::new(&store);
    boundary(Block::new(Verified::new(&source), store.root()));
    assert_by_level(&source.take(), levels);
    let boxed: Box<dyn NodeSource + '_> = Box::new(&source);
    boundary(Block::new(boxed, store.root()));
    assert_by_level(&source.take(), levels);
    let shared = Arc::new(Verified::new(&source));
    boundary(Block::new(shared, store.root()));
    assert_by_level(&source.take(), levels);
}

#[test]
fn blocks_of_a_pool_ask_as_others_do() {
    let store = store();
    let levels = levels(&store, Top, &keys());
    let source = Counting::new(&store);
    let pool = Arc::new(BlockPool::new());
    for _ in 0..3 {
        let mut block = pool.block(&source, store.root());
        for key in keys() {
            block.set(Top, &key, b"new").unwrap();
        }
        block.proof_size().unwrap();
        assert_by_level(&source.take(), levels);
        drop(block);
        let verified = Verified::new(&source);
        let mut block = PooledBlock::new(Arc::clone(&pool), verified, store.root(), Consensus);
        for key in keys() {
            block.set(Top, &key, b"new").unwrap();
        }
        block.proof_size().unwrap();
        assert_by_level(&source.take(), levels);
    }
}

#[test]
fn a_boundary_of_a_child_trie_calls_once_for_each_level() {
    let store = store();
    let source = Counting::new(&store);
    let mut block = Block::new(&source, store.root());
    block.exists(POOL, &key(0)).unwrap();
    source.take();
    for key in keys() {
        block.set(POOL, &key, b"new").unwrap();
        block.set(Top, &key, b"new").unwrap();
    }
    let of_child = levels(&store, POOL, &keys()[1..]);
    let of_top = levels(&store, Top, &keys());
    block.proof_size().unwrap();
    let calls = source.take();
    assert_eq!(calls.node, 0);
    // The roots are already loaded. There are twice as many keys as are walked together.
    let most = (of_child - 1) + (of_top - 1);
    assert!(calls.nodes.len() <= most, "{calls:?}, expected {most}");
    assert!(calls.nodes.iter().sum::<usize>() > 100, "{calls:?}");
}

/// Each of many branches loses all children but one, which is not loaded.
#[test]
fn merges_are_loaded_together() {
    for trie in [Top, POOL] {
        let mut store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        let pairs: Vec<_> = (0..16)
            .map(|high| [[high << 4, 1], [high << 4, 2]])
            .collect();
        for key in pairs.iter().flatten() {
            block.set(trie, key, &[key[0] + key[1]; 40]).unwrap();
        }
        let sealed = block.seal(V1).unwrap();
        store.commit(sealed.update()).unwrap();

        let source = Counting::new(&store);
        let mut block = Block::new(&source, store.root());
        for [first, _] in &pairs {
            block.exists(trie, first).unwrap();
            block.remove(trie, first).unwrap();
        }
        source.take();
        block.proof_size().unwrap();
        let expected = Calls {
            node: 0,
            nodes: vec![16],
        };
        assert_eq!(source.take(), expected, "{trie:?}");
    }
}

type Machine<'a> = StateMachine<&'a Counting<'a>>;

fn set(machine: &mut Machine<'_>, key: &[u8], value: &[u8]) {
    let call = || with_externalities(|ext| ext.set_storage(key.to_vec(), value.to_vec()));
    machine.execute(call).unwrap();
}

#[test]
fn a_machine_hands_batches_on() {
    let store = store();
    let levels = levels(&store, Top, &keys());
    let source = Counting::new(&store);
    let mut machine = Machine::new(&source, store.root(), SizeSource::Estimate);
    for key in keys() {
        set(&mut machine, &key, b"new");
    }
    machine.proof_size().unwrap();
    assert_by_level(&source.take(), levels);
    machine.seal(sp_core::storage::StateVersion::V1).unwrap();
}

/// Nodes committed while a runtime executes lie above the source. The machine asks the source for the
/// other nodes only, still in one call for each level.
#[test]
fn a_machine_with_nodes_of_its_own_hands_the_rest_on() {
    let store = store();
    let levels = levels(&store, Top, &keys()[1..]);
    let source = Counting::new(&store);
    let mut machine = Machine::new(&source, store.root(), SizeSource::Estimate);
    set(&mut machine, &keys()[0], b"newer");
    let commit = || with_externalities(|ext| ext.commit());
    machine.execute(commit).unwrap();
    source.take();
    for key in keys() {
        set(&mut machine, &key, b"new");
    }
    machine.proof_size().unwrap();
    let calls = source.take();
    assert_eq!(calls.node, 0, "{calls:?}");
    // The machine itself holds the root and one node of each level below it.
    assert_eq!(calls.nodes.len(), levels - 1, "{calls:?}");
    assert!(calls.nodes[0] > 10 && calls.nodes[1] > 20, "{calls:?}");
}
