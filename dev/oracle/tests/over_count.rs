//! Cases in which the counting rule asks for more than one computation of the root reads, why no rule can ask for less,
//! and that the root is found without these nodes. The examples are those of docs/proof-size.md, section "Why not less".

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter::{
    Accounting, Advisory, Block, Consensus, ProofNodes, Root, StateVersion, StorageProof, TrieId,
};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use sp_core::{Blake2Hasher as Hashing, H256};
use sp_trie::{recorder::Recorder, LayoutV0, MemoryDB, TrieDBMutBuilder};
use std::collections::{BTreeMap, BTreeSet};
use trie_db::TrieMut;

type Nodes = BTreeSet<Vec<u8>>;

/// A key with its value, or its deletion.
type Change<'a> = (&'a [u8], Option<[u8; 40]>);

const REMOVE_1A: Change<'_> = (&[0x1a], None);
const REMOVE_1B: Change<'_> = (&[0x1b], None);
const INSERT_10: Change<'_> = (&[0x10], Some([9; 40]));

/// The state of the worked examples, with `of_1c` bytes under `1c`.
fn state(of_1c: usize) -> MemoryStore {
    state_of([
        (vec![0x1a], vec![b'a'; 40]),
        (vec![0x1b], vec![b'b'; 40]),
        (vec![0x1c], vec![b'c'; of_1c]),
        (vec![0x2d], vec![b'd'; 40]),
    ])
}

/// The state of these entries, in version 0.
fn state_of(entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for (key, value) in entries {
        block.set(TrieId::Top, &key, &value).unwrap();
    }
    let sealed = block.seal(StateVersion::V0).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// All nodes of the state.
fn all_nodes(store: &MemoryStore) -> Vec<Bytes> {
    let mut block = Block::new(store, store.root());
    let mut key = Vec::new();
    while let Some(next) = block.next_key(TrieId::Top, &key).unwrap() {
        key = next;
    }
    block.recorded_proof().nodes().to_vec()
}

/// The node that holds `1c`.
fn leaf_1c(store: &MemoryStore) -> Vec<u8> {
    let node = all_nodes(store).into_iter();
    let leaf = node.filter(|node| node.ends_with(&[b'c'; 40]));
    leaf.map(Vec::from).next().unwrap()
}

/// Returns the nodes that trie-db reads when it applies `changes` one after the other.
fn read_by_trie_db(store: &MemoryStore, changes: &[Change<'_>]) -> Nodes {
    let mut db = MemoryDB::<Hashing>::default();
    for node in all_nodes(store) {
        hash_db::HashDB::insert(&mut db, hash_db::EMPTY_PREFIX, &node);
    }
    let recorder = Recorder::<Hashing>::default();
    let mut root = H256(*store.root().as_bytes());
    let mut touched = recorder.as_trie_recorder(root);
    let mut trie = TrieDBMutBuilder::<LayoutV0<Hashing>>::from_existing(&mut db, &mut root)
        .with_recorder(&mut touched)
        .build();
    for (key, value) in changes {
        match value {
            Some(value) => drop(trie.insert(key, value).unwrap()),
            None => drop(trie.remove(key).unwrap()),
        }
    }
    drop(trie);
    drop(touched);
    recorder.to_storage_proof().into_nodes()
}

/// Returns the nodes that the rule counts for `changes`.
fn counted(store: &MemoryStore, changes: &[Change<'_>]) -> Nodes {
    let mut block = Block::new(store, store.root());
    for change in changes {
        apply(&mut block, change);
    }
    block.proof_size().unwrap();
    let proof = block.recorded_proof();
    proof.nodes().iter().map(|node| node.to_vec()).collect()
}

/// Returns the nodes that a root in key order records for `changes`.
fn recorded_by_root<A: Accounting>(store: &MemoryStore, changes: &[Change<'_>]) -> Nodes {
    let mut block = Block::with_accounting(store, store.root(), A::default());
    block.count_roots_in_key_order();
    for change in changes {
        apply(&mut block, change);
    }
    let sealed = block.seal(StateVersion::V0).unwrap();
    let nodes = sealed.proof().nodes().iter();
    nodes.map(|node| node.to_vec()).collect()
}

fn apply<S: povmeter::NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    (key, value): &Change<'_>,
) {
    match value {
        Some(value) => block.set(TrieId::Top, key, value).unwrap(),
        None => block.remove(TrieId::Top, key).unwrap(),
    }
}

#[test]
fn the_rule_is_what_some_order_of_the_changes_reads() {
    let store = state(40);
    let in_key_order = [INSERT_10, REMOVE_1A, REMOVE_1B];
    let deletions_first = [REMOVE_1A, REMOVE_1B, INSERT_10];
    let counted = counted(&store, &in_key_order);
    assert!(counted.contains(&leaf_1c(&store)));
    assert!(!read_by_trie_db(&store, &in_key_order).contains(&leaf_1c(&store)));
    assert_eq!(read_by_trie_db(&store, &deletions_first), counted);
}

#[test]
fn the_rule_is_what_deletions_before_insertions_read() {
    let mut dice = SmallRng::seed_from_u64(1);
    let mut spared = 0;
    for _ in 0..2_000 {
        // Keys of one length, so that trie-db loses no value at a deletion.
        let keys = dice.random_range(2..20);
        let key =
            |dice: &mut SmallRng| vec![0x11 * dice.random_range(0..3), dice.random_range(0..16)];
        let entries: BTreeSet<_> = (0..keys).map(|_| key(&mut dice)).collect();
        let store = state_of(
            entries
                .iter()
                .cloned()
                .zip((0..).map(|byte| vec![byte; 40])),
        );
        let mut changes = BTreeMap::new();
        for entry in &entries {
            if dice.random_bool(0.6) {
                changes.insert(entry.clone(), None);
            }
        }
        // One entry stays, because the null node of an emptied trie is counted, but not always read.
        changes.remove(entries.first().unwrap());
        for _ in 0..dice.random_range(0..4) {
            changes.insert(key(&mut dice), Some([0xff; 40]));
        }
        let changes = changes.iter().map(|(key, value)| (&key[..], *value));
        let (mut deletions, insertions): (Vec<_>, Vec<_>) =
            changes.clone().partition(|(_, value)| value.is_none());
        deletions.extend(insertions);
        let counted = counted(&store, &deletions);
        assert_eq!(read_by_trie_db(&store, &deletions), counted);
        let in_key_order = read_by_trie_db(&store, &changes.collect::<Vec<_>>());
        assert!(in_key_order.is_subset(&counted));
        assert_eq!(
            recorded_by_root::<Consensus>(&store, &deletions),
            in_key_order
        );
        assert_eq!(
            recorded_by_root::<Advisory>(&store, &deletions),
            in_key_order
        );
        let spares = in_key_order.len() < counted.len();
        spared += usize::from(spares);
        root_of_proof::<Consensus>(&store, &deletions, &in_key_order, spares);
        root_of_proof::<Advisory>(&store, &deletions, &in_key_order, spares);
    }
    assert!(spared > 0, "an order that reads less");
}

/// Checks that a block on the nodes that trie-db has read finds the root, and gives no size if a counted node is not
/// among them.
fn root_of_proof<A: Accounting>(
    store: &MemoryStore,
    changes: &[Change<'_>],
    proof: &Nodes,
    spares: bool,
) {
    if changes.is_empty() {
        return;
    }
    let mut whole = Block::new(store, store.root());
    let nodes = source(proof.iter().cloned().map(Bytes::from));
    let mut block = Block::with_accounting(nodes, store.root(), A::default());
    for change in changes {
        apply(&mut whole, change);
        apply(&mut block, change);
    }
    let expected = whole.root(StateVersion::V0).unwrap().clone();
    for _ in 0..2 {
        assert_eq!(*block.root(StateVersion::V0).unwrap(), expected);
        assert_eq!(block.proof_size().is_err(), spares);
        assert_eq!(block.peek_proof_size().is_err(), spares);
        // The root is computed once more.
        apply(&mut block, &(&[0x33, 0x33], None));
    }
    // A node that the root needs.
    for missing in proof {
        let nodes = proof.iter().filter(|node| *node != missing);
        let nodes = source(nodes.cloned().map(Bytes::from));
        let mut block = Block::with_accounting(nodes, store.root(), A::default());
        for change in changes {
            apply(&mut block, change);
        }
        match block.root(StateVersion::V0) {
            Ok(found) => assert_eq!(*found, expected),
            Err(error) => {
                let missing = povmeter_delta_root::Blake2b256::hash(missing);
                let text = error.to_string();
                assert!(text.contains(&format!("{missing} at")), "{text}");
            }
        }
    }
}

/// Returns the sizes after `1a` and `1b` are removed, and at the end, after `1b` is set again.
fn sizes(nodes: ProofNodes, root: Root) -> Result<[u64; 2], povmeter::BlockError> {
    let mut block = Block::new(nodes, root);
    apply(&mut block, &REMOVE_1A);
    apply(&mut block, &REMOVE_1B);
    let asked = block.proof_size()?.total_bytes();
    apply(&mut block, &(&[0x1b], Some([9; 40])));
    Ok([asked, block.proof_size()?.total_bytes()])
}

fn source(nodes: impl IntoIterator<Item = Bytes>) -> ProofNodes {
    StorageProof::new(nodes).to_source()
}

#[test]
fn an_answer_once_given_needs_the_node_that_it_was_made_of() {
    let (store, longer) = (state(40), state(41));
    let needed_at_the_end = read_by_trie_db(&store, &[REMOVE_1A, (&[0x1b], Some([9; 40]))]);
    assert!(!needed_at_the_end.contains(&leaf_1c(&store)));

    // Two states whose nodes differ in length only at this leaf, so only the leaf decides the answer.
    let told = sizes(source(all_nodes(&store)), store.root()).unwrap();
    let told_longer = sizes(source(all_nodes(&longer)), longer.root()).unwrap();
    assert_eq!(told_longer, told.map(|size| size + 1));
    let lengths = |store: &MemoryStore| {
        let mut lengths: Vec<usize> = all_nodes(store).iter().map(Bytes::len).collect();
        lengths.sort_unstable();
        lengths
    };
    let (one, mut other) = (lengths(&store), lengths(&longer));
    let longest_leaf = other.iter().rposition(|length| *length == 43).unwrap();
    other[longest_leaf] -= 1;
    other.sort_unstable();
    assert_eq!(one, other);

    // A validator without the leaf can't answer.
    let leaf = leaf_1c(&store);
    let without = all_nodes(&store).into_iter().filter(|node| *node != leaf);
    assert!(sizes(source(without), store.root()).is_err());
}
