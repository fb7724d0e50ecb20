//! The bound that `EstimatePolicy::NearLimit` gives is never below the size itself.

#![allow(clippy::unwrap_used)]

use povmeter::{
    Accounting, Advisory, Attributed, Block, EstimatePolicy, Root, SizeBound, StateVersion, TrieId,
};
use povmeter_delta_root::{state_update, Changes, ShadowState};
use povmeter_store::{MemoryStore, NodeStore};

/// Keys that share prefixes of every length.
fn key(index: u32) -> Vec<u8> {
    let mixed = index.wrapping_mul(0x9e37_79b9).to_be_bytes();
    [&[0x11; 4][..], &mixed[..1 + index as usize % 4]].concat()
}

fn store() -> MemoryStore {
    let entries: std::collections::BTreeMap<_, _> = (0..500)
        .map(|index| {
            (
                key(index),
                vec![index.to_le_bytes()[0]; index as usize % 40],
            )
        })
        .collect();
    let top = entries
        .iter()
        .map(|(key, value)| (&key[..], Some(&value[..])))
        .collect();
    let changes = Changes {
        top,
        children: Vec::new(),
    };
    let mut store = MemoryStore::new();
    let mut empty = ShadowState::new(&store, Root::EMPTY);
    let update = state_update(&mut empty, &changes, StateVersion::V1, &mut ()).unwrap();
    store.commit(&update).unwrap();
    store
}

fn change<A: Accounting>(block: &mut Block<&MemoryStore, A>, index: u32) {
    let key = key(index * 7 % 520);
    match index % 3 {
        0 => block.remove(TrieId::Top, &key).unwrap(),
        1 => block.set(TrieId::Top, &key, &[7; 33]).unwrap(),
        _ => block.set(TrieId::Child(b"child"), &key, &[7]).unwrap(),
    }
}

#[test]
fn the_bound_holds_and_gives_way_to_the_size_near_the_limit() {
    let store = store();
    let policy = EstimatePolicy::NearLimit {
        limit_bytes: 200_000,
        largest_node_bytes: 600,
    };
    let mut bounded = Block::with_accounting(&store, store.root(), Attributed(Advisory));
    let mut exact = Block::with_accounting(&store, store.root(), Advisory);
    // Asks for the size itself, at the boundaries at which `bounded` finds it.
    let mut twin = Block::with_accounting(&store, store.root(), Advisory);
    let (mut bounds, mut sizes) = (0, 0);
    for index in 0..300u32 {
        change(&mut bounded, index);
        change(&mut exact, index);
        change(&mut twin, index);
        let size = exact.proof_size().unwrap().total_bytes();
        match bounded.proof_size_within(policy).unwrap() {
            SizeBound::AtMost { bytes } => {
                assert!(
                    bytes >= size && bytes < 200_000,
                    "{size} bytes, bound {bytes}"
                );
                bounds += 1;
            }
            SizeBound::Exact(estimated) => {
                assert!(
                    estimated.total_bytes() <= size,
                    "fewer boundaries count no more"
                );
                assert_eq!(estimated, twin.proof_size().unwrap(), "{index}");
                sizes += 1;
            }
        }
    }
    assert!(bounds > 0 && sizes > 0, "{bounds} bounds, {sizes} sizes");
    let always = bounded
        .proof_size_within(EstimatePolicy::EveryBoundary)
        .unwrap();
    assert_eq!(always, SizeBound::Exact(twin.proof_size().unwrap()));
}

/// States on which the bound is close to the size: a chain of branches, one below each nibble of a key, in a child trie
/// whose root lies below such a chain, too. All of them are as large as the policy says.
#[test]
fn the_bound_holds_for_a_node_at_each_nibble() {
    let deep = |stem: &[u8], end: usize| -> Vec<Vec<u8>> {
        // Beside each nibble of the longest key there is another one.
        let longest = [stem, &vec![0x11; end - stem.len()]].concat();
        let mut keys = vec![longest.clone()];
        for at in stem.len()..end {
            for other in [0x21, 0x12] {
                let mut key = longest[..=at].to_vec();
                key[at] = other;
                keys.push(key);
            }
        }
        keys
    };
    let child = [0x11; 20];
    let id = TrieId::Child(&child);
    let mut store = MemoryStore::new();
    let mut parent = Block::new(&store, Root::EMPTY);
    for key in deep(b"", 20) {
        parent.set(TrieId::Top, &key, &[1; 32]).unwrap();
        parent.set(id, &key, &[2; 32]).unwrap();
    }
    let root_key = povmeter::child_root_key(&child);
    for key in deep(b":child_storage:default:", root_key.len()) {
        // Other child tries, whose roots lie beside that of the first.
        if key != root_key {
            let name = &key[b":child_storage:default:".len()..];
            parent.set(TrieId::Child(name), b"key", &[3; 32]).unwrap();
        }
    }
    store
        .commit(parent.seal(StateVersion::V1).unwrap().update())
        .unwrap();

    let mut largest = Block::new(&store, store.root());
    for key in deep(b"", 20) {
        largest.get(TrieId::Top, &key).unwrap();
        largest.get(id, &key).unwrap();
    }
    let sealed = largest.seal(StateVersion::V1).unwrap();
    let nodes = sealed.proof().nodes();
    let policy = EstimatePolicy::NearLimit {
        limit_bytes: u64::MAX,
        largest_node_bytes: nodes.iter().map(|node| node.len() as u64).max().unwrap(),
    };
    let deepest = [0x11; 20];
    for (trie, deletes) in [
        (TrieId::Top, false),
        (TrieId::Top, true),
        (id, false),
        (id, true),
    ] {
        let mut block = Block::with_accounting(&store, store.root(), Advisory);
        match deletes {
            true => block.remove(trie, &deepest).unwrap(),
            false => block.set(trie, &deepest, &[9; 32]).unwrap(),
        }
        let SizeBound::AtMost { bytes } = block.proof_size_within(policy).unwrap() else {
            panic!("expected a bound");
        };
        let size = block.proof_size().unwrap().total_bytes();
        assert!(size <= bytes, "{size} bytes, bound {bytes}");
    }
}
