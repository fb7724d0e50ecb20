//! The traps of the counting rule, each by hand on a state of a few keys.
//!
//! The expected set of nodes is put together from paths to keys: the nodes that `exists` reads in an
//! otherwise empty block.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter::{
    child_root_key, Accounting, Advisory, Block, BlockError, Consensus, NodeHash, NodePrefix,
    NodeSource, ProofSize, Root, SourceError, StateVersion,
    StateVersion::{V0, V1},
    TrieId::{self, Child, Top},
};
use povmeter_store::{MemoryStore, NodeStore};
use std::{cell::Cell, collections::BTreeSet, io};

type Nodes = BTreeSet<Bytes>;

/// A trie, a key and its value.
type Entry<'a> = (TrieId<'a>, &'a [u8], &'a [u8]);

/// Adds `entries` to the state in `store`.
fn write(store: &mut MemoryStore, version: StateVersion, entries: &[Entry<'_>]) {
    let mut block = Block::new(&*store, store.root());
    for (trie, key, value) in entries {
        block.set(*trie, key, value).unwrap();
    }
    let sealed = block.seal(version).unwrap();
    store.commit(sealed.update()).unwrap();
}

/// A state with these entries.
fn state_of(version: StateVersion, entries: &[Entry<'_>]) -> MemoryStore {
    let mut store = MemoryStore::new();
    write(&mut store, version, entries);
    store
}

/// A state of version 0 with another value of 40 bytes under each of these keys.
fn state(keys: &[&[u8]]) -> MemoryStore {
    let values: Vec<[u8; 40]> = keys.iter().zip(1..).map(|(_, byte)| [byte; 40]).collect();
    let entries = keys.iter().zip(&values);
    let entries: Vec<Entry> = entries
        .map(|(key, value)| (Top, *key, &value[..]))
        .collect();
    state_of(V0, &entries)
}

fn block(store: &MemoryStore) -> Block<&MemoryStore> {
    Block::new(store, store.root())
}

fn recorded<S: NodeSource, A: Accounting>(block: &Block<S, A>) -> Nodes {
    block.recorded_proof().nodes().iter().cloned().collect()
}

/// The nodes on the paths to `keys` of `trie`.
fn paths_in(store: &MemoryStore, trie: TrieId<'_>, keys: &[&[u8]]) -> Nodes {
    let mut block = block(store);
    for key in keys {
        block.exists(trie, key).unwrap();
    }
    recorded(&block)
}

fn paths(store: &MemoryStore, keys: &[&[u8]]) -> Nodes {
    paths_in(store, Top, keys)
}

/// Asks for the size, and returns the counted nodes.
fn counted<S: NodeSource, A: Accounting>(block: &mut Block<S, A>) -> Nodes {
    let size = block.proof_size().unwrap();
    let proof = block.recorded_proof();
    assert_eq!(proof.recorded_bytes(), size.total_bytes());
    recorded(block)
}

fn null_node() -> Nodes {
    Nodes::from([Bytes::from_static(&[0])])
}

/// A transaction of the host in which the runtime makes `change`.
fn extrinsic<S: NodeSource>(block: &mut Block<S>, change: impl FnOnce(&mut Block<S>)) {
    block.start_transaction();
    block.enter_runtime().unwrap();
    change(block);
    block.exit_runtime().unwrap();
    block.commit_transaction().unwrap();
}

const SIBLINGS: &[&[u8]] = &[&[0x31], &[0x32], &[0x33], &[0x70]];

#[test]
fn two_transactions_that_delete_a_sibling_each_need_the_third() {
    let store = state(SIBLINGS);
    let mut block = block(&store);
    extrinsic(&mut block, |block| block.remove(Top, &[0x31]).unwrap());
    assert_eq!(counted(&mut block), paths(&store, &[&[0x31]]));
    extrinsic(&mut block, |block| block.remove(Top, &[0x32]).unwrap());
    let third = paths(&store, &[&[0x31], &[0x32], &[0x33]]);
    assert_eq!(counted(&mut block), third);

    let mut second_alone = self::block(&store);
    second_alone.remove(Top, &[0x32]).unwrap();
    assert_eq!(counted(&mut second_alone), paths(&store, &[&[0x32]]));
}

#[test]
fn a_sibling_that_was_inserted_spares_no_merge() {
    let store = state(&[&[0x31], &[0x32], &[0x70]]);
    let mut block = block(&store);
    extrinsic(&mut block, |block| {
        block.set(Top, &[0x33], &[9; 40]).unwrap()
    });
    assert_eq!(counted(&mut block), paths(&store, &[&[0x33]]));
    extrinsic(&mut block, |block| block.remove(Top, &[0x31]).unwrap());
    assert_eq!(counted(&mut block), paths(&store, &[&[0x31], &[0x32]]));
}

#[test]
fn deletion_and_insertion_below_one_branch_need_its_other_child() {
    let store = state(&[&[0x3a], &[0x3c], &[0x70]]);
    let mut block = block(&store);
    block.remove(Top, &[0x3a]).unwrap();
    block.set(Top, &[0x3b], &[9; 40]).unwrap();
    assert_eq!(counted(&mut block), paths(&store, &[&[0x3a], &[0x3c]]));
}

#[test]
fn equal_subtrees_count_once() {
    let keys: &[&[u8]] = &[&[0x10, 0xaa], &[0x10, 0xbb], &[0x20, 0xaa], &[0x20, 0xbb]];
    let entries: Vec<Entry> = keys.iter().map(|key| (Top, *key, &[7; 40][..])).collect();
    let store = state_of(V0, &entries);
    let mut block = block(&store);
    block.remove(Top, keys[0]).unwrap();
    let merged = counted(&mut block);
    assert_eq!(merged.len(), 4, "root node, branch, two leaves");
    block.set(Top, keys[2], &[8; 40]).unwrap();
    block.get(Top, keys[3]).unwrap();
    assert_eq!(
        counted(&mut block),
        merged,
        "the same nodes in another place"
    );
}

#[test]
fn keys_are_told_apart_by_all_of_their_bytes() {
    let long = |last: &[u8]| [&[1; 32][..], last].concat();
    let (first, second, third) = (long(&[0x10]), long(&[0x20]), long(&[0x20, 0]));
    let store = state(&[&first, &second, &third, &long(&[0x20, 0x10])]);
    let mut block = block(&store);
    let mut so_far: Vec<&[u8]> = Vec::new();
    for key in [&first, &second, &third] {
        so_far.push(key);
        block.set(Top, key, &[9]).unwrap();
        assert_eq!(counted(&mut block), paths(&store, &so_far));
    }
    assert_ne!(paths(&store, &so_far), paths(&store, &so_far[..2]));
}

#[test]
fn the_root_reads_no_value_node() {
    let store = state_of(V1, &[(Top, &[0x31], &[1; 40]), (Top, &[0x32], &[2; 40])]);
    let value = Nodes::from([Bytes::from_static(&[1; 40])]);
    let (path, both) = (
        paths(&store, &[&[0x31]]),
        paths(&store, &[&[0x31], &[0x32]]),
    );
    assert!(path.is_disjoint(&value), "`exists` reads no value node");

    let mut written = block(&store);
    written.set(Top, &[0x31], &[9; 40]).unwrap();
    assert_eq!(counted(&mut written), path);
    let mut removed = block(&store);
    removed.remove(Top, &[0x31]).unwrap();
    assert_eq!(
        counted(&mut removed),
        both,
        "the merged sibling keeps its value"
    );

    let mut read = block(&store);
    assert_eq!(read.get(Top, &[0x31]).unwrap(), Some(&[1; 40][..]));
    assert_eq!(recorded(&read), &path | &value);
    let mut hashed = block(&store);
    hashed.value_hash(Top, &[0x31]).unwrap().unwrap();
    assert_eq!(recorded(&hashed), path);
}

#[test]
fn a_value_keeps_its_form_until_it_is_written_again() {
    let old: [Entry; 3] = [
        (Top, &[0x31], &[1; 40]),
        (Top, &[0x32], &[2; 40]),
        (Top, &[0x33], &[3; 40]),
    ];
    let mut store = state_of(V0, &old);
    write(&mut store, V1, &[(Top, &[0x31], &[1; 40])]);
    let mut read = block(&store);
    read.get(Top, &[0x31]).unwrap();
    read.get(Top, &[0x32]).unwrap();
    let rewritten = Nodes::from([Bytes::from_static(&[1; 40])]);
    let both = paths(&store, &[&[0x31], &[0x32]]);
    assert!(both.is_disjoint(&rewritten));
    assert_eq!(recorded(&read), &both | &rewritten);
}

#[test]
fn an_empty_value_is_a_value() {
    let store = state_of(
        V1,
        &[
            (Top, &[0x31], &[]),
            (Top, &[0x31, 0x10], &[1; 32]),
            (Top, &[0x31, 0x20], &[2; 32]),
            (Top, &[0x70], &[3; 32]),
            (Top, &[0x71], &[4; 32]),
        ],
    );
    let mut block = block(&store);
    assert!(block.exists(Top, &[0x31]).unwrap());
    assert_eq!(block.get(Top, &[0x31]).unwrap(), Some(&[][..]));
    block.remove(Top, &[0x31, 0x10]).unwrap();
    let path: &[&[u8]] = &[&[0x31, 0x10]];
    assert_eq!(
        counted(&mut block),
        paths(&store, path),
        "the value is live"
    );
    block.set(Top, &[0x70], &[]).unwrap();
    let path: &[&[u8]] = &[&[0x31, 0x10], &[0x70]];
    assert_eq!(
        counted(&mut block),
        paths(&store, path),
        "written, not deleted"
    );
    block.remove(Top, &[0x31]).unwrap();
    let path: &[&[u8]] = &[&[0x31, 0x10], &[0x70], &[0x31, 0x20]];
    assert_eq!(
        counted(&mut block),
        paths(&store, path),
        "no value any more"
    );
}

#[test]
fn a_value_at_a_branch_comes_before_the_children() {
    let store = state(&[&[0x31], &[0x31, 0x10], &[0x31, 0x20], &[0x70]]);
    let next = |after: &[u8]| {
        let mut block = block(&store);
        let next = block.next_key(Top, after).unwrap().unwrap();
        (next, recorded(&block))
    };
    let branch = paths(&store, &[&[0x31]]);
    assert_eq!(next(&[]), (vec![0x31], branch.clone()));
    assert_eq!(next(&[0x30]), (vec![0x31], branch));
    let leaf = paths(&store, &[&[0x31, 0x10]]);
    assert_eq!(next(&[0x31]), (vec![0x31, 0x10], leaf));
}

#[test]
fn a_child_trie_that_comes_into_being_counts_the_null_node() {
    let store = state(&[&[0x31], &[0x70]]);
    let mut block = block(&store);
    block.set(Child(b"farm"), &[1], &[1]).unwrap();
    let path = paths(&store, &[&child_root_key(b"farm")]);
    assert_eq!(counted(&mut block), &path | &null_node());
    let null_bytes = 2;
    let mut read = self::block(&store);
    read.exists(Child(b"farm"), &[1]).unwrap();
    assert_eq!(recorded(&read), path);
    let without = read.recorded_size().total_bytes();
    assert_eq!(block.recorded_size().total_bytes(), without + null_bytes);
}

/// A state with a branch at 1 in the top trie, and a child trie `pool` with `keys`.
fn pool(keys: &[&[u8]]) -> MemoryStore {
    let mut entries: Vec<Entry> = vec![(Top, &[0x1a], &[1; 40]), (Top, &[0x1b], &[2; 40])];
    entries.extend(keys.iter().map(|key| (Child(b"pool"), *key, &[3; 40][..])));
    state_of(V0, &entries)
}

#[test]
fn emptying_a_child_trie_deletes_its_root_from_the_top_trie() {
    let store = pool(&[&[0x1a]]);
    let mut block = block(&store);
    block.remove(Child(b"pool"), &[0x1a]).unwrap();
    let path = paths_in(&store, Child(b"pool"), &[&[0x1a]]);
    // The top trie's root node has one live child left: the branch at 1.
    let merged = paths(&store, &[&[0x1f]]);
    assert!(!merged.is_subset(&path));
    assert_eq!(counted(&mut block), &(&path | &merged) | &null_node());

    let mut refilled = self::block(&store);
    refilled.remove(Child(b"pool"), &[0x1a]).unwrap();
    refilled.set(Child(b"pool"), &[0x1b], &[9]).unwrap();
    assert_eq!(
        counted(&mut refilled),
        &path | &null_node(),
        "its root is written"
    );
}

#[test]
fn a_child_trie_killed_with_a_limit_goes_in_parts() {
    let store = pool(&[&[0x11], &[0x12], &[0x21]]);
    let child = Child(b"pool");
    let mut block = block(&store);
    let part = block.clear_prefix(child, &[], Some(1), None).unwrap();
    assert_eq!((part.from_parent, part.cursor), (1, Some(vec![0x12])));
    let seen = paths_in(&store, child, &[&[0x11], &[0x12]]);
    assert_eq!(recorded(&block), seen, "one key more than the limit");
    assert_eq!(counted(&mut block), seen);
    // The second key goes, with the branch at 1. The third is left to merge, and was already read.
    let part = block
        .clear_prefix(child, &[], Some(1), Some(&[0x12]))
        .unwrap();
    assert_eq!((part.from_parent, part.cursor), (1, Some(vec![0x21])));
    let seen = paths_in(&store, child, &[&[0x11], &[0x12], &[0x21]]);
    assert_eq!(counted(&mut block), seen);
    let part = block.clear_prefix(child, &[], None, Some(&[0x21])).unwrap();
    assert_eq!((part.from_parent, part.cursor), (1, None));
    let merged = paths(&store, &[&[0x1f]]);
    assert_eq!(counted(&mut block), &(&seen | &merged) | &null_node());
}

#[test]
fn a_trie_that_is_emptied_counts_the_null_node() {
    let store = state(&[&[0x31], &[0x32]]);
    let mut block = block(&store);
    block.remove(Top, &[0x31]).unwrap();
    block.remove(Top, &[0x32]).unwrap();
    let path = paths(&store, &[&[0x31], &[0x32]]);
    assert_eq!(counted(&mut block), &path | &null_node());
    let mut refilled = self::block(&store);
    refilled.remove(Top, &[0x31]).unwrap();
    refilled.remove(Top, &[0x32]).unwrap();
    refilled.set(Top, &[0x33], &[9; 40]).unwrap();
    assert_eq!(
        counted(&mut refilled),
        &path | &null_node(),
        "the parent trie is emptied"
    );
}

/// The nodes counted before a transaction, and those after it was rolled back.
fn rolled_back<A: Accounting>(store: &MemoryStore, by_runtime: bool) -> (Nodes, Nodes) {
    let mut block = Block::with_accounting(store, store.root(), A::default());
    block.set(Top, &[0x70], &[9]).unwrap();
    let before = counted(&mut block);
    if by_runtime {
        block.enter_runtime().unwrap();
    }
    block.start_transaction();
    block.get(Top, &[0x33]).unwrap();
    block.remove(Top, &[0x31]).unwrap();
    let inside = counted(&mut block);
    assert!(inside.len() > before.len());
    let loaded = block.loaded_nodes();
    block.rollback_transaction().unwrap();
    let after = recorded(&block);
    assert_eq!(counted(&mut block), after, "nothing is left to count");
    assert_eq!(block.loaded_nodes(), loaded, "nodes stay loaded");
    (before, after)
}

#[test]
fn a_transaction_that_the_runtime_rolls_back_keeps_what_a_validator_repeats() {
    let store = state(SIBLINGS);
    let (_, after) = rolled_back::<Consensus>(&store, true);
    assert_eq!(after, paths(&store, &[&[0x70], &[0x33], &[0x31]]));
    let (_, after) = rolled_back::<Advisory>(&store, true);
    assert_eq!(after, paths(&store, &[&[0x70], &[0x33]]), "reads stay");
}

#[test]
fn a_transaction_that_the_host_rolls_back_has_never_been() {
    let store = state(SIBLINGS);
    let (before, after) = rolled_back::<Consensus>(&store, false);
    assert_eq!(after, before);
    let (before, after) = rolled_back::<Advisory>(&store, false);
    assert_eq!(after, before);
}

#[test]
fn boundaries_in_nested_transactions_see_the_changes_of_all() {
    let store = state(SIBLINGS);
    let mut block = block(&store);
    block.start_transaction();
    block.remove(Top, &[0x31]).unwrap();
    assert_eq!(counted(&mut block), paths(&store, &[&[0x31]]));
    block.start_transaction();
    block.remove(Top, &[0x32]).unwrap();
    let all = paths(&store, &[&[0x31], &[0x32], &[0x33]]);
    assert_eq!(counted(&mut block), all);
    assert_eq!(counted(&mut block), all, "asked twice");
    block.rollback_transaction().unwrap();
    assert_eq!(counted(&mut block), paths(&store, &[&[0x31]]));
    // The same again, but committed.
    block.start_transaction();
    block.remove(Top, &[0x32]).unwrap();
    assert_eq!(counted(&mut block), all);
    block.commit_transaction().unwrap();
    assert_eq!(counted(&mut block), all);
    block.rollback_transaction().unwrap();
    assert_eq!(counted(&mut block), Nodes::new(), "all of it is taken back");
}

#[test]
fn a_key_changed_again_after_a_rollback_counts_again() {
    let store = state(SIBLINGS);
    let mut block = block(&store);
    block.start_transaction();
    block.remove(Top, &[0x31]).unwrap();
    counted(&mut block);
    block.rollback_transaction().unwrap();
    block.remove(Top, &[0x32]).unwrap();
    assert_eq!(counted(&mut block), paths(&store, &[&[0x32]]), "31 is live");
    block.remove(Top, &[0x31]).unwrap();
    assert_eq!(
        counted(&mut block),
        paths(&store, &[&[0x31], &[0x32], &[0x33]])
    );
}

#[test]
fn sizes_do_not_fall_between_boundaries() {
    let store = state(SIBLINGS);
    let mut block = block(&store);
    let mut last = ProofSize::default();
    let mut all = Nodes::new();
    for change in [(0x31, false), (0x32, false), (0x31, true), (0x32, true)] {
        match change {
            (key, true) => block.set(Top, &[key], &[9; 40]).unwrap(),
            (key, false) => block.remove(Top, &[key]).unwrap(),
        }
        let size = block.proof_size().unwrap();
        assert!(size.total_bytes() >= last.total_bytes(), "{change:?}");
        assert!(recorded(&block).is_superset(&all), "{change:?}");
        (last, all) = (size, recorded(&block));
    }
    assert_eq!(all, paths(&store, &[&[0x31], &[0x32], &[0x33]]));
}

#[test]
fn a_node_counts_as_read_or_for_the_root() {
    let store = state(SIBLINGS);
    let mut read = block(&store);
    read.exists(Top, &[0x31]).unwrap();
    let reads = read.recorded_size();
    read.set(Top, &[0x31], &[9]).unwrap();
    assert_eq!(read.proof_size().unwrap(), reads);
    assert_eq!(reads.root_bytes, 0);

    let mut written = block(&store);
    written.set(Top, &[0x31], &[9]).unwrap();
    let size = written.proof_size().unwrap();
    assert_eq!((size.read_bytes, size.root_bytes), (0, reads.read_bytes));
    written.exists(Top, &[0x30]).unwrap();
    written.exists(Top, &[0x32]).unwrap();
    let mixed = written.proof_size().unwrap();
    assert!(mixed.root_bytes > 0 && mixed.root_bytes < size.root_bytes);
    let both = paths(&store, &[&[0x31], &[0x32]]);
    let bytes: u64 = both.iter().map(|node| scale_bytes(node.len())).sum();
    assert_eq!(mixed.total_bytes(), bytes);
}

/// Bytes of a byte string in SCALE.
fn scale_bytes(length: usize) -> u64 {
    assert!(length < 1 << 14);
    length as u64 + if length < 64 { 1 } else { 2 }
}

/// A store that fails at one request only.
struct FailsOnce<'a> {
    store: &'a MemoryStore,
    requests_before: Cell<Option<usize>>,
}

impl NodeSource for FailsOnce<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        match self.requests_before.get() {
            Some(0) => {
                self.requests_before.set(None);
                Err(SourceError::new(io::Error::other("once")))
            }
            left => {
                self.requests_before.set(left.map(|left| left - 1));
                self.store.node(hash, prefix)
            }
        }
    }
}

fn change_much(block: &mut Block<impl NodeSource>) {
    block.remove(Top, &[0x1a]).unwrap();
    block.remove(Child(b"pool"), &[0x11]).unwrap();
    block.remove(Child(b"pool"), &[0x12]).unwrap();
    block.set(Child(b"farm"), &[0x11], &[9]).unwrap();
}

#[test]
fn a_boundary_that_failed_is_made_good_by_the_next() {
    let store = pool(&[&[0x11], &[0x12], &[0x21]]);
    let mut healthy = block(&store);
    change_much(&mut healthy);
    let expected = counted(&mut healthy);
    let mut failed = 0;
    loop {
        let source = FailsOnce {
            store: &store,
            requests_before: Cell::new(Some(failed)),
        };
        let mut block = Block::new(source, store.root());
        change_much(&mut block);
        match block.proof_size() {
            Err(error) => assert!(matches!(error, BlockError::Load(_)), "{error}"),
            Ok(_) => break,
        }
        assert_ne!(recorded(&block), expected);
        assert_eq!(counted(&mut block), expected, "failed at request {failed}");
        assert_eq!(block.proof_size().unwrap(), healthy.proof_size().unwrap());
        failed += 1;
    }
    assert!(
        failed >= expected.len() - 1,
        "the null node is not asked for"
    );
}

#[test]
fn an_empty_state_is_the_null_node() {
    let store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    block.set(Top, &[1], &[1]).unwrap();
    assert_eq!(counted(&mut block), null_node());
    assert_eq!(block.recorded_size().total_bytes(), 2);
}
