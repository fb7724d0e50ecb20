//! Values that are equal to the encoding of a node beside them.

#![allow(clippy::unwrap_used)]

use povmeter::{Advisory, Block, Consensus, Root, StateVersion::V1, TrieId::Top};
use povmeter_delta_root::Blake2b256;
use povmeter_dev_oracle::{run_case, Case, Flavour, Op, ParentState, TrieEntries, TrieName};
use povmeter_dev_runtime::runtime::Hashing;
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::to_prefixed_memory_db;
use sp_core::storage::StateVersion;

/// Deletes `f0`, whose value is the leaf into which its branch merges. In prefixed form the value node
/// and the leaf have one key, because the leaf's nibble `f` is written as the byte `f0`.
fn value_equal_to_the_merged_leaf() -> Case {
    let below = vec![0; 40];
    let leaf = [
        &[0x27, 0, 0x12, 0x10, 0x10][..],
        Blake2b256::hash(&below).as_ref(),
    ]
    .concat();
    let top = [
        (vec![0x11, 0x11], vec![1; 40]),
        (vec![0xf0], leaf),
        (vec![0xf0, 0x12, 0x10, 0x10], below),
    ];
    Case {
        parent: ParentState {
            top: TrieEntries::from(top),
            version: StateVersion::V1,
            ..ParentState::default()
        },
        ops: vec![Op::Remove {
            trie: TrieName::Top,
            key: vec![0xf0],
        }],
        version: StateVersion::V1,
    }
}

#[test]
fn a_value_node_that_moves_to_a_nodes_key_is_no_change_of_a_database() {
    let case = value_equal_to_the_merged_leaf();
    run_case::<Consensus>(&case).unwrap();
    run_case::<Advisory>(&case).unwrap();

    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for (key, value) in &case.parent.top {
        genesis.set(Top, key, value).unwrap();
    }
    let sealed = genesis.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    let mut block = Block::new(&store, store.root());
    block.remove(Top, &[0xf0]).unwrap();
    let sealed = block.seal(V1).unwrap();
    let moved = Blake2b256::hash(&case.parent.top[&[0xf0][..]]);
    // The trie has two places, but a database with prefixed keys sees one.
    let places = sealed
        .update()
        .nodes
        .iter()
        .filter(|node| node.hash == moved);
    assert_eq!(places.map(|node| node.references).sum::<i32>(), 0);
    let mut database = to_prefixed_memory_db::<Hashing>(sealed.update()).unwrap();
    let changes = database.drain();
    let of_moved = changes
        .iter()
        .filter(|(key, _)| key.ends_with(moved.as_ref()));
    assert!(of_moved
        .into_iter()
        .all(|(_, (_, references))| *references == 0));
}

/// The random cases in which such equal nodes were first found.
#[test]
fn random_values_equal_to_nodes() {
    for (flavour, seed) in [
        (Flavour::DeleteHeavy, 2645),
        (Flavour::DeleteHeavy, 3283),
        (Flavour::Adversarial, 1049),
        (Flavour::Adversarial, 1303),
    ] {
        let case = Case::random(seed, flavour);
        run_case::<Consensus>(&case).unwrap();
        run_case::<Advisory>(&case).unwrap();
    }
}
