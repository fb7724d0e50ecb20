//! Points of a block that a caller keeps: they are of no use in another block, nor once their block began anew.

use crate::{accounts, key};
use povmeter::{Block, BlockPool, SeenNodes, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::collections::BTreeSet;

type OnStore<'s> = Block<&'s MemoryStore>;

fn read(block: &mut OnStore<'_>, accounts: std::ops::Range<u32>) {
    for account in accounts {
        block.get(Top, &key(account)).unwrap();
    }
}

#[test]
fn a_mark_of_another_block_takes_nothing_back() {
    let store = accounts(40);
    let pool = BlockPool::new();
    let before = pool.block(&store, store.root());
    let of_before = before.reads_mark();
    drop(before);
    let mut block = pool.block(&store, store.root());
    let other = Block::new(&store, store.root());
    read(&mut block, 0..5);
    let size = block.recorded_size();
    assert!(size.total_bytes() > 0);
    for mark in [other.reads_mark(), of_before] {
        assert!(!block.forget_reads(mark));
        assert_eq!(block.recorded_size(), size);
    }
    let mark = block.reads_mark();
    read(&mut block, 5..10);
    assert_ne!(block.recorded_size(), size);
    assert!(block.forget_reads(mark));
    assert_eq!(block.recorded_size(), size);
}

/// Ways in which a block begins anew.
const ANEW: [fn(&mut OnStore<'_>, &OnStore<'_>); 2] = [
    |block, _| block.rebase(block.parent_root(), |_| ()),
    |block, other| block.copy_changes(other),
];

#[test]
fn a_mark_from_before_a_block_began_anew_takes_nothing_back() {
    let store = accounts(40);
    let other = Block::new(&store, store.root());
    for begin_anew in ANEW {
        for read_before in [0..0, 0..5] {
            let mut block = Block::new(&store, store.root());
            read(&mut block, read_before);
            let mark = block.reads_mark();
            begin_anew(&mut block, &other);
            read(&mut block, 0..10);
            let size = block.recorded_size();
            assert!(!block.forget_reads(mark));
            assert_eq!(block.recorded_size(), size);
        }
    }
}

/// How many nodes a host gets that has seen those in `seen`.
fn handed_out(block: &OnStore<'_>, seen: &mut SeenNodes) -> usize {
    let mut count = 0;
    block.for_each_recorded(seen, |_, _| count += 1);
    count
}

#[test]
fn a_host_gets_all_nodes_of_a_block_that_began_anew() {
    let store = accounts(40);
    let other = Block::new(&store, store.root());
    for begin_anew in ANEW {
        let mut block = Block::new(&store, store.root());
        let mut seen = SeenNodes::default();
        read(&mut block, 0..5);
        assert!(handed_out(&block, &mut seen) > 0);
        begin_anew(&mut block, &other);
        read(&mut block, 10..15);
        let recorded = block.recorded_proof().nodes().len();
        assert_eq!(handed_out(&block, &mut seen), recorded);
        assert_eq!(handed_out(&block, &mut seen), 0);
    }
}

#[test]
fn a_host_gets_all_nodes_of_another_block() {
    let store = accounts(40);
    let mut seen = SeenNodes::default();
    for accounts in [0..5, 10..15] {
        let mut block = Block::new(&store, store.root());
        read(&mut block, accounts);
        let recorded = block.recorded_proof().nodes().len();
        assert_eq!(handed_out(&block, &mut seen), recorded);
    }
}

/// A host that keeps its own record of the proof, and takes back what leaves the proof, has the whole proof after each
/// call, whether or not it says when something left.
#[test]
fn a_host_has_the_proof_after_rollbacks() {
    let store = accounts(60);
    for seed in 0..300 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut block = Block::new(&store, store.root());
        let mut seen = SeenNodes::default();
        let mut has = BTreeSet::new();
        let mut mark = block.reads_mark();
        for _ in 0..40 {
            match rng.random_range(0..8) {
                0..3 => {
                    let first = rng.random_range(0..55);
                    read(&mut block, first..first + 5);
                }
                3 => block.start_transaction(),
                4 => drop(block.rollback_transaction()),
                5 => mark = block.reads_mark(),
                6 => _ = block.forget_reads(mark),
                _ => _ = block.proof_size().unwrap(),
            }
            let proof: BTreeSet<_> = block.recorded_proof().nodes().iter().cloned().collect();
            has.retain(|node| proof.contains(node));
            if rng.random_bool(0.3) {
                block.forget_rolled_back(&mut seen);
            }
            if rng.random_bool(0.3) {
                block.for_each_recorded(&mut seen, |_, node| _ = has.insert(node.clone()));
                assert!(has == proof, "seed {seed}");
            }
        }
    }
}
