//! `peek_proof_size` and `peek_compact_proof_bytes` leave no trace.

#![allow(clippy::unwrap_used)]

use povmeter::{Block, Consensus, Root, StateVersion, TrieId};
use povmeter_delta_root::{state_update, Changes, ShadowState};
use povmeter_store::{MemoryStore, NodeStore};
use std::collections::BTreeMap;

fn store(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> MemoryStore {
    let top = entries
        .iter()
        .map(|(key, value)| (&key[..], Some(&value[..])))
        .collect();
    let child = entries
        .iter()
        .take(9)
        .map(|(key, value)| (&key[..], Some(&value[..])))
        .collect();
    let changes = Changes {
        top,
        children: vec![(b"child", child)],
    };
    let mut store = MemoryStore::new();
    let mut empty = ShadowState::new(&store, Root::EMPTY);
    let update = state_update(&mut empty, &changes, StateVersion::V1, &mut ()).unwrap();
    store.commit(&update).unwrap();
    store
}

#[test]
fn a_peek_between_two_extrinsics_changes_no_later_size() {
    let keys = [[0x51], [0x52], [0x60]].map(|key| (key.to_vec(), vec![1; 32]));
    let store = store(&BTreeMap::from(keys));
    let told = |peek: bool| {
        let mut block = Block::with_accounting(&store, store.root(), Consensus);
        block.remove(TrieId::Top, &[0x51]).unwrap();
        if peek {
            block.peek_proof_size().unwrap();
        }
        block.set(TrieId::Top, &[0x51], &[2; 32]).unwrap();
        block.proof_size().unwrap()
    };
    assert_eq!(told(true), told(false));
}

/// A small random number generator, the same on every machine.
fn next(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap()
}

/// One random call, the same on every block of the same seed.
fn step(block: &mut Block<&MemoryStore>, seed: &mut u64, keys: &[Vec<u8>]) {
    let key = &keys[next(seed) % keys.len()];
    let trie = if next(seed).is_multiple_of(4) {
        TrieId::Child(b"child")
    } else {
        TrieId::Top
    };
    match next(seed) % 12 {
        0..4 => block.remove(trie, key).unwrap(),
        4..7 => block.set(trie, key, &vec![7; next(seed) % 40]).unwrap(),
        7 => block.start_transaction(),
        // Without an open transaction, closing is refused and changes nothing.
        8 => drop(block.commit_transaction()),
        9 => drop(block.rollback_transaction()),
        10 => drop(block.get(trie, key).unwrap().map(<[u8]>::to_vec)),
        _ => drop(block.proof_size().unwrap()),
    }
}

#[test]
fn peeks_anywhere_tell_the_size_and_leave_all_else_alone() {
    for case in 0..300u64 {
        let keys: Vec<Vec<u8>> = (0..24u8)
            .map(|index| {
                vec![index % 4 * 0x11, (index / 4 * 0x10) | (index % 3)][..1 + index as usize % 2]
                    .to_vec()
            })
            .collect();
        let entries = keys
            .iter()
            .step_by(2)
            .map(|key| (key.clone(), vec![key[0]; 33]));
        let store = store(&entries.collect());
        let mut peeking = Block::with_accounting(&store, store.root(), Consensus);
        let mut other = Block::with_accounting(&store, store.root(), Consensus);
        let (mut first, mut second) = (case, case);
        for at in 0..120 {
            step(&mut peeking, &mut first, &keys);
            step(&mut other, &mut second, &keys);
            let peeked = peeking.peek_proof_size().unwrap();
            let compact = peeking.peek_compact_proof_bytes().unwrap();
            assert_eq!(
                peeking.recorded_size(),
                other.recorded_size(),
                "case {case}, step {at}"
            );
            if at % 7 == 0 {
                assert_eq!(
                    other.proof_size().unwrap(),
                    peeked,
                    "case {case}, step {at}"
                );
                assert_eq!(
                    peeking.proof_size().unwrap(),
                    peeked,
                    "case {case}, step {at}"
                );
                for block in [&mut other, &mut peeking] {
                    let told = block.compact_proof_bytes().unwrap();
                    assert_eq!(told, compact, "case {case}, step {at}");
                }
            }
        }
        while peeking.transaction_depth() > 0 {
            peeking.commit_transaction().unwrap();
            other.commit_transaction().unwrap();
        }
        let sealed = [peeking, other].map(|block| block.seal(StateVersion::V1).unwrap());
        assert_eq!(sealed[0].proof(), sealed[1].proof(), "case {case}");
        assert_eq!(sealed[0].update(), sealed[1].update(), "case {case}");
    }
}

/// The store of 60 entries, and a block on it that deletes half of them.
fn with_deletions(store: &MemoryStore) -> Block<&MemoryStore> {
    let mut block = Block::new(store, store.root());
    for number in (0..60).step_by(2) {
        block.remove(TrieId::Top, &[number, number]).unwrap();
    }
    block
}

fn sixty() -> MemoryStore {
    let entries = (0..60).map(|number| (vec![number, number], vec![number; 33]));
    store(&entries.collect())
}

/// A peek marks deleted entries and takes the marks back: the next one needs no more memory for that.
#[test]
fn repeated_peeks_take_no_memory() {
    let store = sixty();
    let mut block = with_deletions(&store);
    let mut peek = || {
        block.peek_proof_size().unwrap();
        block.peek_compact_proof_bytes().unwrap();
        block.loaded_bytes()
    };
    let after_one = peek();
    for _ in 0..300 {
        peek();
    }
    assert_eq!(block.loaded_bytes(), after_one);
}

/// Roots in the order of the keys mark deleted entries for themselves alone, as peeks do.
#[test]
fn repeated_roots_in_key_order_take_no_memory() {
    let store = sixty();
    let mut block = with_deletions(&store);
    block.count_roots_in_key_order();
    block.root(StateVersion::V1).unwrap();
    let after_one = block.loaded_bytes();
    for round in 0..=255 {
        block.set(TrieId::Top, &[1, 1], &[round; 33]).unwrap();
        block.root(StateVersion::V1).unwrap();
    }
    assert_eq!(block.loaded_bytes(), after_one);
}
