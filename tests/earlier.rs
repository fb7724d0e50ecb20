//! Blocks that ignore the nodes of earlier ones, and reads that are no part of a block.

#![allow(clippy::unwrap_used)]

use povmeter::{
    Block, BlockError, BlockPool, EarlierNodes, ProofNodes, Root, StateVersion::V1, StorageProof,
    TrieId, TrieId::Top,
};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};

/// A state of 300 keys in the top trie and 40 in a child.
fn state() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for number in 0..300_u16 {
        genesis.set(Top, &key(number), &[1; 40]).unwrap();
    }
    for number in 0..40_u16 {
        genesis
            .set(TrieId::Child(b"child"), &key(number), &[2; 20])
            .unwrap();
    }
    store.commit(genesis.seal(V1).unwrap().update()).unwrap();
    store
}

fn key(number: u16) -> Vec<u8> {
    let spread = number.wrapping_mul(40_503).to_be_bytes();
    [&spread[..], &number.to_be_bytes()].concat()
}

/// Random calls; the same for the same seed.
fn calls<S: povmeter::NodeSource>(block: &mut Block<S>, seed: u64) -> Vec<u64> {
    let mut dice = SmallRng::seed_from_u64(seed);
    let mut sizes = Vec::new();
    for _ in 0..40 {
        let (trie, most) = match dice.random_bool(0.7) {
            true => (Top, 300),
            false => (TrieId::Child(b"child"), 40),
        };
        let key = key(dice.random_range(0..most + 5));
        match dice.random_range(0..4) {
            0 => drop(block.get(trie, &key).unwrap().map(<[u8]>::to_vec)),
            1 => block.set(trie, &key, &[dice.random(); 40]).unwrap(),
            2 => block.remove(trie, &key).unwrap(),
            _ => sizes.push(block.proof_size().unwrap().total_bytes()),
        }
    }
    sizes
}

#[test]
fn a_node_counts_once_in_a_pov() {
    for seed in 0..100 {
        let mut store = state();
        let parent = store.root();
        let mut earlier = EarlierNodes::new();
        let mut bytes = 0;
        let mut all = Vec::new();
        let mut asked = Vec::new();
        for number in 0..3 {
            let mut block = Block::new(&store, store.root());
            block.ignore(&earlier).unwrap();
            asked.push(calls(&mut block, 3 * seed + number));
            let sealed = block.seal(V1).unwrap();
            earlier.extend(&sealed);
            bytes += sealed.size().total_bytes();
            all.extend(sealed.proof().nodes().iter().cloned());
            store.commit(sealed.update()).unwrap();
        }
        // No node comes twice: the proof of all blocks is as large as the proofs of the single blocks.
        let proof = StorageProof::new(all);
        assert_eq!(proof.recorded_bytes(), bytes, "seed {seed}");
        // It is a proof of the first parent, and a validator with it alone gets the same sizes.
        let compact = proof.to_compact(parent).unwrap();
        let mut nodes: ProofNodes = compact.to_source(parent).unwrap();
        let (mut root, mut earlier) = (parent, EarlierNodes::new());
        for (number, asked) in (0..).zip(&asked) {
            let mut block = Block::new(&nodes, root);
            block.ignore(&earlier).unwrap();
            assert_eq!(calls(&mut block, 3 * seed + number), *asked, "seed {seed}");
            let sealed = block.seal(V1).unwrap();
            earlier.extend(&sealed);
            root = sealed.update().root;
            nodes.extend(sealed.update());
        }
        assert_eq!(root, store.root());
    }
}

#[test]
fn what_counted_before_stays_counted() {
    let store = state();
    let mut first = Block::new(&store, store.root());
    first.get(Top, &key(1)).unwrap();
    let mut earlier = EarlierNodes::new();
    earlier.extend(&first.seal(V1).unwrap());

    let mut block = Block::new(&store, store.root());
    block.get(Top, &key(1)).unwrap();
    let before = block.recorded_size();
    block.ignore(&earlier).unwrap();
    assert_eq!(block.recorded_size(), before);
    assert!(block.compact_proof_bytes().is_ok(), "nothing is ignored");
    // A rollback by the host takes back what was counted, and nothing that is ignored.
    let mut other = Block::new(&store, store.root());
    other.ignore(&earlier).unwrap();
    other.start_transaction();
    other.get(Top, &key(1)).unwrap();
    other.get(Top, &key(2)).unwrap();
    let size = other.recorded_size();
    other.rollback_transaction().unwrap();
    assert_eq!(other.recorded_size().total_bytes(), 0);
    other.get(Top, &key(1)).unwrap();
    assert_eq!(other.recorded_size().total_bytes(), 0);
    other.get(Top, &key(2)).unwrap();
    assert_eq!(other.recorded_size(), size);
    let refused = other.compact_proof_bytes().unwrap_err();
    assert!(matches!(refused, BlockError::NotAlone { ignored } if ignored == earlier.len()));
}

/// A part of a PoV knows nodes of earlier parts, which the source of a later block may lack.
#[test]
fn a_block_that_ignores_nodes_carries_nothing() {
    let (store, pool) = (state(), BlockPool::carrying(1 << 20));
    let mut first = Block::new(&store, store.root());
    first.get(Top, &key(1)).unwrap();
    let mut earlier = EarlierNodes::new();
    earlier.extend(&first.seal(V1).unwrap());

    let mut block = pool.block(&store, store.root());
    block.ignore(&earlier).unwrap();
    calls(&mut block, 1);
    drop(block);
    assert_eq!(pool.carried_bytes(), 0);
    let mut block = pool.block(&store, store.root());
    assert_eq!(block.loaded_nodes(), 0);
    calls(&mut block, 1);
    drop(block);
    assert!(pool.carried_bytes() > 0);
}

/// What a call counts a node for.
#[derive(Clone, Copy)]
enum Call {
    Get,
    Remove,
    Size,
}

fn make<S: povmeter::NodeSource>(block: &mut Block<S>, call: Call) {
    match call {
        Call::Get => assert!(block.get(Top, &key(1)).unwrap().is_some()),
        Call::Remove => block.remove(Top, &key(2)).unwrap(),
        Call::Size => drop(block.proof_size().unwrap()),
    }
}

/// A node that was counted when it was to be ignored is ignored once the transaction that counted it is rolled back.
#[test]
fn what_a_rollback_takes_back_is_ignored() {
    use Call::{Get, Remove, Size};
    let store = state();
    let all = [Get, Remove, Size];
    let mut first = Block::new(&store, store.root());
    all.iter().for_each(|call| make(&mut first, *call));
    let mut earlier = EarlierNodes::new();
    earlier.extend(&first.seal(V1).unwrap());

    let counted: [&[Call]; 4] = [
        &[Get],
        &[Remove, Size],
        &[Get, Remove, Size],
        &[Remove, Size, Get],
    ];
    for calls in counted {
        let mut block = Block::new(&store, store.root());
        block.start_transaction();
        calls.iter().for_each(|call| make(&mut block, *call));
        let before = block.recorded_size();
        assert!(before.total_bytes() > 0);
        block.ignore(&earlier).unwrap();
        assert_eq!(block.recorded_size(), before);
        block.rollback_transaction().unwrap();
        all.iter().for_each(|call| make(&mut block, *call));
        assert_eq!(block.recorded_size().total_bytes(), 0);
        let refused = block.compact_proof_bytes().unwrap_err();
        let all_ignored =
            matches!(refused, BlockError::NotAlone { ignored } if ignored == earlier.len());
        assert!(all_ignored, "{refused}");
        // Other nodes count.
        block.get(Top, &key(3)).unwrap();
        assert!(block.recorded_size().total_bytes() > 0);
    }
}

#[test]
fn reads_can_be_forgotten() {
    let store = state();
    let mut block = Block::new(&store, store.root());
    block.set(Top, &key(1), b"new").unwrap();
    block.get(Top, &key(2)).unwrap();
    let size = block.proof_size().unwrap();
    let root = block.root(V1).unwrap().root;
    let mark = block.reads_mark();
    for number in 0..50 {
        block.get(Top, &key(number)).unwrap();
        block.exists(TrieId::Child(b"child"), &key(number)).unwrap();
    }
    assert!(block.recorded_size().total_bytes() > size.total_bytes());
    assert!(block.forget_reads(mark));
    assert_eq!(block.recorded_size().total_bytes(), size.total_bytes());
    let mut other = Block::new(&store, store.root());
    let mark = other.reads_mark();
    other.get(Top, &key(1)).unwrap();
    other.remove(Top, &key(1)).unwrap();
    let needed = other.proof_size().unwrap();
    assert!(!other.forget_reads(mark));
    assert_eq!(other.recorded_size(), needed, "the size relies on the read");
    let sealed = block.seal(V1).unwrap();
    assert_eq!(sealed.update().root, root);
    assert_eq!(sealed.proof().recorded_bytes(), size.total_bytes());
}
