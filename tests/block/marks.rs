//! Points of a block that a caller keeps: they are of no use in another block, nor once their block began anew.

use crate::{accounts, key};
use povmeter::{Block, BlockPool, RecordedNodes, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};

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
            block.forget_reads(mark);
            assert_eq!(block.recorded_size(), size);
        }
    }
}

/// How many nodes a host gets that has seen those in `seen`.
fn handed_out(block: &OnStore<'_>, seen: &mut RecordedNodes) -> usize {
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
        let mut seen = RecordedNodes::default();
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
    let mut seen = RecordedNodes::default();
    for accounts in [0..5, 10..15] {
        let mut block = Block::new(&store, store.root());
        read(&mut block, accounts);
        let recorded = block.recorded_proof().nodes().len();
        assert_eq!(handed_out(&block, &mut seen), recorded);
    }
}
