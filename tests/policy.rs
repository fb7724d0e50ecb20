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
