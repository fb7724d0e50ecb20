//! What earlier calls leave over: marks of a peek, marks of reads, and nodes that a root did without.

use crate::store_with;
use povmeter::{
    Accounting, Advisory, Block, BlockError, Bytes, Consensus, LoadError, NodeHash, NodePrefix,
    NodeSource, SourceError,
    StateVersion::{V0, V1},
    TrieId::Top,
};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::cell::Cell;

/// Bytes of the nodes of [`state`].
const ROOT: u64 = 71;
const BRANCH: u64 = 104;
const LEAF: u64 = 43;

/// The state of `docs/proof-size.md`: a branch at 1 with three leaves, and a leaf beside it.
fn state() -> MemoryStore {
    let keys = [[0x1a], [0x1b], [0x1c], [0x2d]];
    store_with(V0, keys.map(|key| (key, [key[0]; 40])))
}

/// The estimator remembers by their numbers the keys that a peek has marked. They are others after the changes of
/// another block were taken over.
#[test]
fn a_peek_leaves_no_marks_to_changes_that_are_taken_over() {
    let store = state();
    let mut other = Block::new(&store, store.root());
    other.remove(Top, &[0x1a]).unwrap();
    other.start_transaction();
    other.set(Top, &[0x66], b"rolled back").unwrap();
    other.rollback_transaction().unwrap();
    other.remove(Top, &[0x1b]).unwrap();

    let mut block = Block::new(&store, store.root());
    block.set(Top, &[0x55], b"value").unwrap();
    block.remove(Top, &[0x1a]).unwrap();
    block.peek_proof_size().unwrap();
    block.copy_changes(&other);
    let size = block.proof_size().unwrap();
    assert_eq!(size.total_bytes(), ROOT + BRANCH + 3 * LEAF);
    assert_eq!(block.seal(V0).unwrap().size(), size);
}

/// A store that lacks the leaf at `1c` while `lost` is set.
struct Lacking<'s> {
    store: &'s MemoryStore,
    lost: Cell<bool>,
}

impl<'s> Lacking<'s> {
    fn new(store: &'s MemoryStore) -> Self {
        let lost = Cell::new(true);
        Self { store, lost }
    }
}

impl NodeSource for &Lacking<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        match prefix == (&[0x1c], None) && self.lost.get() {
            true => Ok(None),
            false => self.store.node(hash, prefix),
        }
    }
}

/// Deletes all leaves below the branch but `1c`. In the order of the keys the branch always keeps two, so a root needs
/// no node at `1c`.
fn leave_one<S: NodeSource, A: Accounting>(block: &mut Block<S, A>) {
    block.remove(Top, &[0x1a]).unwrap();
    block.remove(Top, &[0x1b]).unwrap();
    block.set(Top, &[0x10], b"value").unwrap();
    block.root(V0).unwrap();
}

fn expect_missing<R: std::fmt::Debug>(result: Result<R, BlockError>) {
    let error = result.unwrap_err();
    let is_missing = matches!(error, BlockError::Load(LoadError::Missing { .. }));
    assert!(is_missing, "{error}");
}

#[test]
fn a_node_that_a_root_did_without_is_needed_as_long_as_its_changes_are() {
    let store = state();
    let source = Lacking::new(&store);
    let mut block = Block::new(&source, store.root());
    block.start_transaction();
    leave_one(&mut block);
    expect_missing(block.proof_size());
    expect_missing(block.peek_proof_size());
    block.rollback_transaction().unwrap();
    assert_eq!(block.proof_size().unwrap().total_bytes(), 0);
    // It was forgotten, so the same changes need it again.
    block.start_transaction();
    leave_one(&mut block);
    expect_missing(block.proof_size());
    block.rollback_transaction().unwrap();
    assert_eq!(block.seal(V0).unwrap().update().root, store.root());
}

#[test]
fn a_node_that_a_root_did_without_is_looked_for_again() {
    let store = state();
    let source = Lacking::new(&store);
    let mut block = Block::new(&source, store.root());
    leave_one(&mut block);
    // Now the root needs it, because no other key is below the branch.
    block.remove(Top, &[0x10]).unwrap();
    expect_missing(block.root(V0));
    expect_missing(block.proof_size());
    source.lost.set(false);
    let all = ROOT + BRANCH + 3 * LEAF;
    assert_eq!(block.peek_proof_size().unwrap().total_bytes(), all);
    // A rollback takes back what is counted in the transaction, and the next call counts it again.
    block.start_transaction();
    assert_eq!(block.proof_size().unwrap().total_bytes(), all);
    block.rollback_transaction().unwrap();
    let size = block.proof_size().unwrap();
    assert_eq!(size.total_bytes(), all);
    let sealed = block.seal(V0).unwrap();
    assert_eq!(sealed.size(), size);
    let mut expected = Block::new(&store, store.root());
    expected.remove(Top, &[0x1a]).unwrap();
    expected.remove(Top, &[0x1b]).unwrap();
    let expected = expected.seal(V0).unwrap();
    assert_eq!(sealed.update().root, expected.update().root);
}

/// Who opens the transaction in which a root does without a node, and whether it is rolled back.
#[derive(Clone, Copy, Debug)]
enum Opened {
    ByHost { kept: bool },
    ByRuntime,
}

/// Computes the root of [`leave_one`] in a transaction, then restores a leaf, so that no root needs `1c` any more.
fn leave_one_for_a_while<S: NodeSource, A: Accounting>(block: &mut Block<S, A>, opened: Opened) {
    if let Opened::ByRuntime = opened {
        block.enter_runtime().unwrap();
    }
    block.start_transaction();
    leave_one(block);
    match opened {
        Opened::ByHost { kept: true } => block.commit_transaction().unwrap(),
        Opened::ByHost { kept: false } | Opened::ByRuntime => block.rollback_transaction().unwrap(),
    }
    block.remove(Top, &[0x1a]).unwrap();
    block.set(Top, &[0x1b], b"restored").unwrap();
}

/// A root counts a node that it may need, so the node counts whatever follows, as if the source had it.
fn leave_one_and_ask<A: Accounting>(accounting: impl Fn() -> A) {
    let store = state();
    for (opened, counts) in [
        (Opened::ByHost { kept: true }, true),
        (Opened::ByHost { kept: false }, false),
        // What a root counts stays counted if the runtime rolls back.
        (Opened::ByRuntime, true),
    ] {
        let source = Lacking::new(&store);
        let mut block = Block::with_accounting(&source, store.root(), accounting());
        let mut whole = Block::with_accounting(&store, store.root(), accounting());
        leave_one_for_a_while(&mut block, opened);
        leave_one_for_a_while(&mut whole, opened);
        let size = whole.peek_proof_size().unwrap().total_bytes();
        assert_eq!(size, ROOT + BRANCH + (2 + u64::from(counts)) * LEAF);
        if counts {
            expect_missing(block.peek_proof_size());
            expect_missing(block.proof_size());
            source.lost.set(false);
        }
        for size_of in [Block::peek_proof_size, Block::proof_size] {
            assert_eq!(
                size_of(&mut block).unwrap().total_bytes(),
                size,
                "{opened:?}"
            );
        }
        assert_eq!(whole.proof_size().unwrap().total_bytes(), size);
    }
}

#[test]
fn a_node_that_a_root_did_without_counts_when_it_is_not_needed_any_more() {
    leave_one_and_ask(|| Consensus);
    leave_one_and_ask(|| Advisory);
}

/// The logs of counts have shrunk and grown again since the mark was taken.
#[test]
fn a_mark_of_another_transaction_takes_nothing_back() {
    let store = state();
    let all = ROOT + BRANCH + LEAF;
    let absent = |block: &mut Block<&MemoryStore>| {
        for key in [0x3f, 0x4f] {
            assert_eq!(block.get(Top, &[key]).unwrap(), None);
        }
    };
    let mut block = Block::new(&store, store.root());
    block.start_transaction();
    absent(&mut block);
    let mark = block.reads_mark();
    block.rollback_transaction().unwrap();
    block.get(Top, &[0x1a]).unwrap();
    let _ = block.forget_reads(mark);
    block.get(Top, &[0x1a]).unwrap();
    assert_eq!(block.recorded_size().total_bytes(), all);

    let mut block = Block::new(&store, store.root());
    let mark = block.reads_mark();
    absent(&mut block);
    block.start_transaction();
    let _ = block.forget_reads(mark);
    block.get(Top, &[0x1a]).unwrap();
    block.rollback_transaction().unwrap();
    block.get(Top, &[0x1a]).unwrap();
    assert_eq!(block.recorded_size().total_bytes(), all);
}

/// Changes that stay, and what they read of the parent state.
#[test]
fn what_a_change_has_read_is_not_forgotten() {
    // A list of ten elements, which is a node of its own.
    let list = [&[40][..], &[1; 40]].concat();
    let store = store_with(V1, [([0x1a], &list), ([0x1b], &list), ([0x2d], &list)]);
    let changes: [fn(&mut Block<&dyn NodeSource>); 2] = [
        |block| block.append(Top, &[0x1a], &[1; 4]).unwrap(),
        |block| drop(block.clear_prefix(Top, &[0x1a], None, None).unwrap()),
    ];
    for change in changes {
        let mut block = Block::new(&store as &dyn NodeSource, store.root());
        let mark = block.reads_mark();
        change(&mut block);
        assert!(!block.forget_reads(mark));
        // With its list in the block, the next change reads nothing.
        let mark = block.reads_mark();
        block.get(Top, &[0x2d]).unwrap();
        block.append(Top, &[0x1a], &[1; 4]).unwrap();
        assert!(block.forget_reads(mark));
        let sealed = block.seal(V1).unwrap();
        let proof = sealed.proof().to_source();
        let mut again = Block::new(&proof as &dyn NodeSource, store.root());
        change(&mut again);
        again.append(Top, &[0x1a], &[1; 4]).unwrap();
        assert_eq!(again.root(V1).unwrap().root, sealed.update().root);
    }
}

/// The place that such a mark names is one between other reads.
#[test]
fn a_mark_is_void_once_reads_were_taken_back_to_an_earlier_one() {
    let store = state();
    let read = |block: &mut Block<_>, key: u8| {
        block.get(Top, &[key]).unwrap();
        block.recorded_size().total_bytes()
    };
    let mut block = Block::new(&store, store.root());
    let first = block.reads_mark();
    assert_eq!(read(&mut block, 0x3f), ROOT);
    let second = block.reads_mark();
    assert!(block.forget_reads(first));
    assert_eq!(read(&mut block, 0x1a), ROOT + BRANCH + LEAF);
    assert!(!block.forget_reads(second));
    assert_eq!(read(&mut block, 0x1a), ROOT + BRANCH + LEAF);
    // Earlier marks, and those taken since, still count.
    let third = block.reads_mark();
    assert_eq!(read(&mut block, 0x1b), ROOT + BRANCH + 2 * LEAF);
    assert!(block.forget_reads(third));
    assert_eq!(block.recorded_size().total_bytes(), ROOT + BRANCH + LEAF);
    assert!(block.forget_reads(third));
    assert!(block.forget_reads(first));
    assert_eq!(block.recorded_size().total_bytes(), 0);
    assert!(!block.forget_reads(third));
}

/// Reads, transactions and marks in any order: what was read and not taken back can be read from the proof alone.
#[test]
fn what_was_read_is_in_the_proof_whatever_mark_is_used() {
    const KEYS: [[u8; 1]; 6] = [[0x1a], [0x1b], [0x1c], [0x2d], [0x3f], [0x4f]];
    let store = state();
    let (mut forgotten, mut kept) = (0, 0);
    for seed in 0..20_000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut block = Block::new(&store, store.root());
        let mut marks = Vec::new();
        for _ in 0..20 {
            match rng.random_range(0..8) {
                0 => block.start_transaction(),
                1 => drop(block.commit_transaction()),
                2 => drop(block.rollback_transaction()),
                3 => marks.push(block.reads_mark()),
                4 if !marks.is_empty() => {
                    let before = block.recorded_size();
                    let _ = block.forget_reads(marks[rng.random_range(0..marks.len())]);
                    match block.recorded_size() == before {
                        true => kept += 1,
                        false => forgotten += 1,
                    }
                }
                _ => drop(
                    block
                        .get(Top, &KEYS[rng.random_range(0..KEYS.len())])
                        .unwrap(),
                ),
            }
        }
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let value = block.get(Top, &key).unwrap().map(<[u8]>::to_vec);
        let mut again = Block::new(block.recorded_proof().to_source(), store.root());
        assert_eq!(
            again.get(Top, &key).unwrap(),
            value.as_deref(),
            "seed {seed}"
        );
    }
    assert!(forgotten > 100 && kept > 100, "{forgotten} {kept}");
}
