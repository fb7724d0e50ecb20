//! Other ways to ask for a value or a key have the same answers, and count the same.

use crate::{key, store_with};
use povmeter::{Block, NodeSource, StateVersion::V1, TrieId};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::collections::BTreeMap;

const TOP: TrieId<'_> = TrieId::Top;
/// Lengths below and above all limits: in a leaf, a node of its own, memory of its own in the overlay.
const LENGTHS: [usize; 6] = [0, 1, 40, 300, 70_000, 300_000];

fn store() -> MemoryStore {
    let value = |number: u32| vec![7; LENGTHS[number as usize % LENGTHS.len()]];
    store_with(V1, (0..40).map(|number| (key(number), value(number))))
}

#[test]
fn values_to_keep_are_those_of_get_and_stay() {
    let store = store();
    for seed in 0..50 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut borrowed = Block::new(&store, store.root());
        let mut kept = Block::new(&store, store.root());
        let mut all = Vec::new();
        for step in 0..40_u8 {
            // Some are not in the state.
            let key = key(random.random_range(0..50));
            match random.random_range(0..6) {
                0 | 1 => {
                    let value = vec![step; LENGTHS[random.random_range(0..LENGTHS.len())]];
                    borrowed.set(TOP, &key, &value).unwrap();
                    kept.set(TOP, &key, &value).unwrap();
                }
                2 => {
                    borrowed.remove(TOP, &key).unwrap();
                    kept.remove(TOP, &key).unwrap();
                }
                _ => {
                    let expected = borrowed.get(TOP, &key).unwrap().map(<[u8]>::to_vec);
                    let value = kept.get_bytes(TOP, &key).unwrap();
                    assert_eq!(value.as_deref(), expected.as_deref(), "{seed}, {step}");
                    all.push((value, expected));
                }
            }
            assert_eq!(kept.proof_size().unwrap(), borrowed.proof_size().unwrap());
        }
        // Later writes to the same keys changed none of them.
        for (value, expected) in all {
            assert_eq!(value.as_deref(), expected.as_deref(), "{seed}");
        }
        assert_eq!(
            kept.seal(V1).unwrap().update().root,
            borrowed.seal(V1).unwrap().update().root
        );
    }
}

/// The first key after `after`, as if `block` had made `changes`: one question for each gap between them.
fn next_key_beside<S: NodeSource>(
    block: &mut Block<S>,
    changes: &BTreeMap<[u8; 32], bool>,
    after: &[u8],
) -> Option<Vec<u8>> {
    let mut after = after.to_vec();
    loop {
        let change = changes.iter().find(|(key, _)| key[..] > after[..]);
        let before = change.map(|(key, _)| &key[..]);
        let found = block.next_key_before(TOP, &after, before).unwrap();
        match (found, change) {
            (Some(found), _) => return Some(found),
            (None, None) => return None,
            (None, Some((key, true))) => return Some(key.to_vec()),
            (None, Some((key, false))) => after = key.to_vec(),
        }
    }
}

#[test]
fn gaps_between_keys_answer_for_the_block_that_changed_them() {
    let store = store();
    let mut with_answer = 0;
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let changes: BTreeMap<_, _> = (0..random.random_range(0..30))
            .map(|_| (key(random.random_range(0..60)), random.random()))
            .collect();
        let mut changed = Block::new(&store, store.root());
        for (key, has_value) in &changes {
            if *has_value {
                changed.set(TOP, key, b"new").unwrap();
            } else {
                changed.remove(TOP, key).unwrap();
            }
        }
        let mut beside = Block::new(&store, store.root());
        for _ in 0..10 {
            let after = key(random.random_range(0..80));
            let expected = changed.next_key(TOP, &after).unwrap();
            let found = next_key_beside(&mut beside, &changes, &after);
            assert_eq!(found, expected, "{seed}");
            with_answer += u32::from(found.is_some());
            // Without an estimate these are the reads alone.
            assert_eq!(beside.recorded_size(), changed.recorded_size(), "{seed}");
        }
    }
    assert!(with_answer > 1000, "{with_answer}");
}
