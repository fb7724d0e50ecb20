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

/// The first key after `after`, as if `block` had made `changes`: one call for each gap between them.
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

/// Up to `most` keys of `block` that begin with `prefix`, from `from` on.
fn keys_from<S: NodeSource>(
    block: &mut Block<S>,
    prefix: &[u8],
    from: &[u8],
    most: usize,
) -> Vec<Vec<u8>> {
    let exists = block.exists(TOP, from).unwrap();
    let mut next = match exists {
        true => Some(from.to_vec()),
        false => block.next_key(TOP, from).unwrap(),
    };
    let mut keys = Vec::new();
    while let Some(key) = next.filter(|key| key.starts_with(prefix) && keys.len() < most) {
        next = block.next_key(TOP, &key).unwrap();
        keys.push(key);
    }
    keys
}

/// In between, the block changes and reads keys, rolls back and computes sizes.
#[test]
fn a_look_at_the_parent_state_counts_nothing_and_sees_no_change() {
    let store = store();
    for seed in 0..50 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut plain = Block::new(&store, store.root());
        let mut looked_at = Block::new(&store, store.root());
        for step in 0..60_u8 {
            // Some are not in the state.
            let key = key(random.random_range(0..50));
            let all = [&mut plain, &mut looked_at];
            match random.random_range(0..6) {
                0 => all.map(|block| block.set(TOP, &key, &[step]).unwrap()),
                1 => all.map(|block| block.remove(TOP, &key).unwrap()),
                2 => all.map(|block| assert!(block.get(TOP, &key).is_ok())),
                3 => all.map(Block::start_transaction),
                4 => all.map(|block| _ = block.rollback_transaction()),
                _ => all.map(|block| assert!(block.exists(TOP, &key).is_ok())),
            };
            let other = self::key(random.random_range(0..50));
            let peeked = looked_at.peek_parent(TOP, &other).unwrap();
            let mut parent = Block::new(&store, store.root());
            let expected = parent.get(TOP, &other).unwrap();
            assert_eq!(peeked.as_deref(), expected, "{seed}");
            let (prefix, most) = (
                &other[..random.random_range(0..2)],
                random.random_range(1..9),
            );
            let mut found = Vec::new();
            let look = |key: &[u8]| {
                found.push(key.to_vec());
                found.len() < most
            };
            looked_at
                .peek_parent_keys(TOP, prefix, &other, look)
                .unwrap();
            let expected = keys_from(&mut parent, prefix, &other, most);
            assert_eq!(found, expected, "{seed}");
            let sizes = [&mut plain, &mut looked_at].map(|block| block.proof_size().unwrap());
            assert_eq!(sizes[0], sizes[1], "{seed}");
        }
        while plain.rollback_transaction().is_ok() {
            looked_at.rollback_transaction().unwrap();
        }
        let [plain, looked_at] = [plain, looked_at].map(|block| block.seal(V1).unwrap());
        assert_eq!(plain.update().root, looked_at.update().root);
        assert_eq!(plain.size(), looked_at.size());
    }
}

#[test]
fn a_look_at_a_parent_state_that_is_not_there_fails() {
    let store = store();
    let mut block = Block::new(povmeter::ProofNodes::default(), store.root());
    assert!(block.peek_parent(TOP, &key(1)).is_err());
    let looked = block.peek_parent_keys(TOP, &[], &[], |key| panic!("found {key:?}"));
    assert!(looked.is_err());
    assert_eq!(block.recorded_size().total_bytes(), 0);
}
