//! Transactions of the host and of the runtime, and their misuse.

use crate::{accounts, key};
use povmeter::{
    Accounting, Advisory, Block, BlockError, Consensus, ProofSize, Root,
    StateVersion::V1,
    TransactionError,
    TrieId::{self, Child, Top},
};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};

type Misuse = fn(&mut Block<MemoryStore>) -> Result<(), BlockError>;

/// The text of the error that `misuse` returns.
fn refused(prepare: fn(&mut Block<MemoryStore>), misuse: Misuse) -> String {
    let store = accounts(10);
    let root = store.root();
    let mut block = Block::new(store, root);
    block.set(Top, &key(1), b"before").unwrap();
    prepare(&mut block);
    let depth = block.transaction_depth();
    let size = block.proof_size().unwrap();
    let error = misuse(&mut block).unwrap_err();
    assert!(matches!(error, BlockError::Transaction(_)), "{error:?}");
    assert_eq!(block.transaction_depth(), depth);
    assert_eq!(block.proof_size().unwrap(), size);
    assert_eq!(block.get(Top, &key(1)).unwrap(), Some(&b"before"[..]));
    error.to_string()
}

#[test]
fn closing_what_is_not_open_is_refused() {
    let expected = "expected an open transaction to close, found none";
    assert_eq!(refused(|_| (), Block::commit_transaction), expected);
    assert_eq!(refused(|_| (), Block::rollback_transaction), expected);
}

#[test]
fn the_runtime_can_not_close_what_the_host_opened() {
    let prepare = |block: &mut Block<_>| {
        block.start_transaction();
        block.start_transaction();
        block.enter_runtime().unwrap();
    };
    let expected = "expected a transaction opened by the runtime, \
                    found the innermost of 2 open ones opened by the host";
    assert_eq!(refused(prepare, Block::commit_transaction), expected);
    assert_eq!(refused(prepare, Block::rollback_transaction), expected);
}

#[test]
fn the_runtime_is_entered_and_left_in_turn() {
    let twice = refused(|block| block.enter_runtime().unwrap(), Block::enter_runtime);
    assert_eq!(
        twice,
        "expected the host to be in control, found the runtime, entered with 0 transactions open"
    );
    let unasked = refused(|_| (), |block| block.exit_runtime().map(drop));
    assert_eq!(
        unasked,
        "expected the runtime to be in control, found the host"
    );
}

#[test]
fn what_the_runtime_leaves_open_is_rolled_back() {
    let store = accounts(10);
    let mut block = Block::new(&store, store.root());
    block.start_transaction();
    block.enter_runtime().unwrap();
    block.set(Top, &key(1), b"kept").unwrap();
    block.start_transaction();
    block.set(Top, &key(1), b"lost").unwrap();
    block.start_transaction();
    block.remove(Top, &key(2)).unwrap();
    assert_eq!(block.exit_runtime().unwrap(), 2);
    assert_eq!(block.transaction_depth(), 1);
    assert_eq!(block.get(Top, &key(1)).unwrap(), Some(&b"kept"[..]));
    assert!(block.exists(Top, &key(2)).unwrap());
    block.commit_transaction().unwrap();
    assert_eq!(block.seal(V1).unwrap().top_changes().len(), 1);
}

#[test]
fn sealing_needs_every_transaction_closed() {
    let store = accounts(10);
    let mut block = Block::new(&store, store.root());
    block.start_transaction();
    block.start_transaction();
    let error = BlockError::from(block.seal(V1).unwrap_err());
    assert!(matches!(
        error,
        BlockError::Transaction(TransactionError::StillOpen { open: 2 })
    ));
    assert_eq!(
        error.to_string(),
        "expected every transaction to be closed, found 2 open"
    );
}

#[test]
fn the_host_forgets_what_it_rolls_back_and_the_runtime_does_not() {
    let store = accounts(1000);
    let mut block = Block::new(&store, store.root());
    block.set(Top, &key(1), b"paid").unwrap();
    let before = block.proof_size().unwrap();

    block.start_transaction();
    block.get(Top, &key(500)).unwrap();
    block.remove(Top, &key(600)).unwrap();
    let inside = block.proof_size().unwrap();
    assert!(inside.read_bytes > before.read_bytes && inside.root_bytes > 0);
    assert!(inside.total_bytes() > before.total_bytes());
    block.rollback_transaction().unwrap();
    assert_eq!(block.proof_size().unwrap(), before, "the host's");

    block.enter_runtime().unwrap();
    block.start_transaction();
    block.get(Top, &key(500)).unwrap();
    block.remove(Top, &key(600)).unwrap();
    assert_eq!(block.proof_size().unwrap(), inside, "loaded before or not");
    block.rollback_transaction().unwrap();
    assert_eq!(block.proof_size().unwrap(), inside, "the runtime's");
}

#[test]
fn advisory_sizes_go_with_the_runtimes_transaction() {
    let store = accounts(1000);
    let mut block = Block::with_accounting(&store, store.root(), Advisory);
    block.enter_runtime().unwrap();
    block.start_transaction();
    block.get(Top, &key(500)).unwrap();
    let read = block.proof_size().unwrap();
    block.remove(Top, &key(600)).unwrap();
    assert!(block.proof_size().unwrap().root_bytes > read.root_bytes);
    block.rollback_transaction().unwrap();
    assert_eq!(block.proof_size().unwrap(), read);
}

/// A transaction of the runtime that asks for the size and is rolled back leaves dirty what it changed, and no more.
#[test]
fn questions_inside_of_what_is_rolled_back_cost_little() {
    let store = accounts(100);
    let mut block = Block::new(&store, store.root());
    block.enter_runtime().unwrap();
    block.start_transaction();
    for number in 0..50 {
        block.remove(Top, &key(number)).unwrap();
    }
    let mut sizes = Vec::new();
    for number in 50..60 {
        block.start_transaction();
        block.proof_size().unwrap();
        block.rollback_transaction().unwrap();
        assert_eq!(block.overlay().dirty().len(), 0);
        block.start_transaction();
        block.remove(Top, &key(number)).unwrap();
        sizes.push(block.proof_size().unwrap());
        block.rollback_transaction().unwrap();
        assert_eq!(block.overlay().dirty().len(), 1);
    }
    block.commit_transaction().unwrap();
    block.exit_runtime().unwrap();
    // All that was counted stays, because the runtime was told so.
    assert!(sizes.is_sorted_by(|one, other| one.total_bytes() <= other.total_bytes()));
    assert_eq!(block.proof_size().unwrap(), sizes[9]);
    assert_eq!(block.seal(V1).unwrap().size(), sizes[9]);
}

/// An author that drops one transaction after the other hands in the keys of each twice, and no more.
#[test]
fn dropped_transactions_cost_later_ones_little() {
    let store = accounts(200);
    let mut block = Block::new(&store, store.root());
    let before = block.proof_size().unwrap();
    for number in 0..100 {
        block.start_transaction();
        block.remove(Top, &key(number)).unwrap();
        assert!(block.overlay().dirty().len() <= 3, "{number}");
        assert!(block.proof_size().unwrap().root_bytes > 0);
        block.rollback_transaction().unwrap();
    }
    assert_eq!(block.overlay().dirty().len(), 1);
    assert_eq!(block.proof_size().unwrap(), before);
}

/// Keys that lie close together, so that deletions merge branches, in three tries.
fn close_key(rng: &mut SmallRng) -> (TrieId<'static>, Vec<u8>) {
    let trie = [Top, Top, Child(b"c"), Child(b"d")][rng.random_range(0..4)];
    let len = rng.random_range(1..4);
    let byte = |_| [0x00, 0x01, 0x10, 0x11, 0x21][rng.random_range(0..5)];
    (trie, (0..len).map(byte).collect())
}

/// A random transaction with questions for the size, which it returns.
fn transaction<A: Accounting>(block: &mut Block<&MemoryStore, A>, seed: u64) -> Vec<ProofSize> {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let mut sizes = Vec::new();
    block.enter_runtime().unwrap();
    for _ in 0..rng.random_range(1..8) {
        let (trie, key) = close_key(rng);
        match rng.random_range(0..14) {
            0..3 => block.remove(trie, &key).unwrap(),
            3..5 => block.set(trie, &key, &[8; 40]).unwrap(),
            5 => _ = block.get(trie, &key).unwrap(),
            6 => block.start_transaction(),
            7 => _ = block.rollback_transaction(),
            8 => _ = block.commit_transaction(),
            9 => _ = block.root(V1).unwrap(),
            10 => _ = block.child_root(b"c", V1).unwrap(),
            11 => sizes.push(block.peek_proof_size().unwrap()),
            _ => sizes.push(block.proof_size().unwrap()),
        }
    }
    block.exit_runtime().unwrap();
    if rng.random_ratio(3, 4) {
        sizes.push(block.proof_size().unwrap());
    }
    sizes
}

/// An author drops transactions, of which an importer knows nothing.
fn drop_transactions<A: Accounting>(seed: u64) {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for _ in 0..rng.random_range(2..60) {
        let (trie, key) = close_key(rng);
        genesis.set(trie, &key, &[7; 40]).unwrap();
    }
    let genesis = genesis.seal(V1).unwrap();
    store.commit(genesis.update()).unwrap();
    let new = || Block::with_accounting(&store, store.root(), A::default());
    let (mut author, mut importer) = (new(), new());
    for _ in 0..25 {
        // Sometimes several in one, which is dropped as a whole.
        let together = rng.random_ratio(1, 3).then(|| rng.random_range(1..6));
        if together.is_some() {
            author.start_transaction();
        }
        let mut kept = Vec::new();
        for _ in 0..together.unwrap_or(1) {
            let seed = rng.random();
            author.start_transaction();
            let sizes = transaction(&mut author, seed);
            if rng.random_ratio(2, 3) {
                author.rollback_transaction().unwrap();
            } else {
                author.commit_transaction().unwrap();
                kept.push((seed, sizes));
            }
        }
        if together.is_some() {
            if rng.random() {
                author.rollback_transaction().unwrap();
                continue;
            }
            author.commit_transaction().unwrap();
        }
        for (seed, sizes) in kept {
            importer.start_transaction();
            assert_eq!(transaction(&mut importer, seed), sizes);
            importer.commit_transaction().unwrap();
        }
        if rng.random_ratio(1, 3) {
            assert_eq!(author.proof_size().unwrap(), importer.proof_size().unwrap());
        }
    }
    let [author, importer] = [author, importer].map(|block| block.seal(V1).unwrap());
    assert_eq!(author.update().root, importer.update().root);
    assert_eq!(author.size(), importer.size());
    assert_eq!(author.proof(), importer.proof());
}

#[test]
fn dropped_transactions_leave_no_trace_in_sizes() {
    for seed in 0..1_500 {
        drop_transactions::<Consensus>(seed);
        drop_transactions::<Advisory>(seed);
    }
}
