//! Transactions of the host and of the runtime, and their misuse.

use crate::{accounts, key};
use povmeter::{Advisory, Block, BlockError, StateVersion::V1, TransactionError, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};

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
