//! Blocks in memory of earlier ones behave like new ones, however the earlier ones ended.

use crate::{accounts, key};
use povmeter::{
    Block, BlockError, BlockPool, Consensus, Hashing, NodeHash, NodePrefix, NodeSource,
    PooledBlock, ProofSize, Root, SealedBlock, SourceError, StateVersion::V1, TrieId,
};
use povmeter_delta_root::Blake2b256;
use povmeter_store::{MemoryStore, NodeStore};
use std::{
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};

const TOP: TrieId<'_> = TrieId::Top;
const CHILD: TrieId<'_> = TrieId::Child(b"child");

/// All kinds of calls, over a state of 100 accounts; they differ by `number`.
fn work<S: NodeSource>(block: &mut Block<S>, number: u32) -> Result<Vec<ProofSize>, BlockError> {
    let mut sizes = Vec::new();
    for extrinsic in 0..20 {
        let at = number * 31 + extrinsic * 7;
        block.start_transaction();
        block.enter_runtime()?;
        let _ = block.get(TOP, &key(at % 100))?;
        block.set(TOP, &key((at + 1) % 100), &number.to_le_bytes())?;
        block.set(CHILD, &key(at % 5), &[7; 50])?;
        block.start_transaction();
        block.remove(TOP, &key((at + 2) % 100))?;
        block.append(TOP, b"list", &at.to_le_bytes())?;
        sizes.push(block.proof_size()?);
        if at.is_multiple_of(3) {
            block.rollback_transaction()?;
        } else {
            block.commit_transaction()?;
        }
        let _ = block.next_key(TOP, &key(at % 100))?;
        block.exit_runtime()?;
        sizes.push(block.peek_proof_size()?);
        block.commit_transaction()?;
    }
    sizes.push(block.proof_size()?);
    Ok(sizes)
}

/// The whole result of a block.
fn outcome(sealed: &SealedBlock) -> String {
    format!("{sealed:?}")
}

fn fresh(store: &MemoryStore, number: u32) -> (Vec<ProofSize>, String) {
    let mut block = Block::new(store, store.root());
    let sizes = work(&mut block, number).unwrap();
    (sizes, outcome(&block.seal(V1).unwrap()))
}

#[track_caller]
fn assert_as_fresh(pool: &BlockPool, store: &MemoryStore, number: u32) {
    let mut block = pool.block(store, store.root());
    assert_eq!(block.transaction_depth(), 0);
    assert_eq!(block.recorded_size(), ProofSize::default());
    assert_eq!(block.loaded_nodes(), 0);
    let sizes = work(&mut block, number).unwrap();
    let sealed = block.seal(V1).unwrap();
    assert_eq!((sizes, outcome(&sealed)), fresh(store, number));
    assert_eq!(pool.spare_blocks(), 1, "the memory came back");
}

#[test]
fn one_block_after_the_other() {
    let (store, pool) = (accounts(100), BlockPool::new());
    for number in 0..5 {
        assert_as_fresh(&pool, &store, number);
    }
}

/// A later block inherits no transaction of host or runtime that was open when a block ended.
#[test]
fn no_open_transaction_is_left() {
    let (store, pool) = (accounts(100), BlockPool::new());
    let parts = |block: &Block<_>| {
        let block = format!("{block:?}");
        block.matches("TransactionMark {").count() + block.matches("OpenTransaction {").count()
    };
    let mut block = pool.block(&store, store.root());
    block.start_transaction();
    block.enter_runtime().unwrap();
    for at in 0..3 {
        block.start_transaction();
        block.set(TOP, &key(at), b"value").unwrap();
        block.proof_size().unwrap();
    }
    assert!(parts(&block) >= 8, "four in the block, four in its overlay");
    drop(block);
    let mut block = pool.block(&store, store.root());
    assert_eq!(parts(&block), 0);
    assert!(block.commit_transaction().is_err());
    block.enter_runtime().unwrap();
    drop(block);
    assert_as_fresh(&pool, &store, 1);
}

#[test]
fn what_was_handed_out_is_not_in_memory_that_is_used_again() {
    let (store, pool) = (accounts(100), BlockPool::new());
    let mut block = pool.block(&store, store.root());
    work(&mut block, 1).unwrap();
    let proof = block.recorded_proof();
    let sealed = block.seal(V1).unwrap();
    let (before, encoded) = (outcome(&sealed), proof.encode());
    for number in 2..5 {
        assert_as_fresh(&pool, &store, number);
    }
    assert_eq!(outcome(&sealed), before);
    assert_eq!(proof.encode(), encoded);
    assert_eq!(before, fresh(&store, 1).1);
}

/// A block after a recycled one uses that one's memory, and has the results of a new one.
#[test]
fn sealed_blocks_that_are_handed_back_leave_their_memory_and_nothing_else() {
    let (store, pool) = (accounts(100), BlockPool::new());
    let mut earlier = None;
    for number in 0..6 {
        let mut block = pool.block(&store, store.root());
        let sizes = work(&mut block, number).unwrap();
        let sealed = block.seal(V1).unwrap();
        assert_eq!((sizes, outcome(&sealed)), fresh(&store, number));
        let nodes = &sealed.update().nodes;
        let first = nodes.iter().map(|node| node.encoded.as_ptr()).min();
        // The first blocks grow the memory.
        if number > 2 {
            assert_eq!(
                first, earlier,
                "nodes are in the memory of the block before"
            );
        }
        earlier = first;
        pool.recycle(sealed);
        assert_eq!(pool.spare_blocks(), 1, "no slot is lost, and none is made");
    }
}

/// A store in memory shares nodes without a copy, and so does a proof that is sent later.
#[test]
fn nodes_that_somebody_shares_are_theirs() {
    let (store, pool) = (accounts(100), BlockPool::new());
    let mut shared = Vec::new();
    for number in 0..6 {
        let mut block = pool.block(&store, store.root());
        work(&mut block, number).unwrap();
        let value = block.append(TOP, b"list", b"more");
        value.unwrap();
        let proof = block.recorded_proof();
        let sealed = block.seal(V1).unwrap();
        let update = sealed.update();
        for node in update.inserted() {
            shared.push((update.nodes.share(node.encoded), node.hash));
        }
        // One node of the proof is enough.
        let node = proof.nodes()[number as usize].clone();
        shared.push((node.clone(), povmeter_delta_root::Blake2b256::hash(&node)));
        drop(proof);
        pool.recycle(sealed);
        for (node, hash) in &shared {
            assert_eq!(
                povmeter_delta_root::Blake2b256::hash(node),
                *hash,
                "after {number}"
            );
        }
        assert_as_fresh(&pool, &store, number + 100);
    }
}

#[test]
fn sealed_blocks_come_back_in_any_order_and_from_anywhere() {
    let (small, large) = (accounts(100), accounts(3_000));
    let pool = BlockPool::new();
    // Two at a time, one of them from no pool.
    for number in 0..4 {
        let mut first = pool.block(&small, small.root());
        let mut second = Block::new(&large, large.root());
        work(&mut first, number).unwrap();
        work(&mut second, number).unwrap();
        let second = second.seal(V1).unwrap();
        let first = first.seal(V1).unwrap();
        let clone = first.clone();
        pool.recycle(second);
        pool.recycle(first);
        assert_as_fresh(&pool, &large, number + 1);
        assert_eq!(outcome(&clone), fresh(&small, number).1);
        assert_as_fresh(&pool, &small, number + 2);
    }
}

/// A root is computed and then dropped, by a rollback, another change, an error or a panic.
#[test]
fn a_root_that_is_not_sealed_leaves_nothing() {
    let (store, pool) = (accounts(100), BlockPool::new());
    for round in 0..8 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut block = pool.block(&store, store.root());
            work(&mut block, round).unwrap();
            block.root(V1).unwrap();
            block.start_transaction();
            block.set(TOP, b"another", b"root").unwrap();
            block.root(V1).unwrap();
            if round % 2 == 0 {
                block.rollback_transaction().unwrap();
                let root = block.root(V1).unwrap().clone();
                drop(block);
                let sealed = fresh(&store, round).1;
                assert!(sealed.contains(&format!("{root:?}")), "{root:?}");
                return;
            }
            if round % 4 == 1 {
                assert!(block.seal(V1).is_err(), "a transaction is open");
                return;
            }
            panic!("the runtime trapped");
        }));
        assert_eq!(caught.is_err(), round % 4 == 3);
        assert_eq!(pool.spare_blocks(), 1, "no slot is lost");
        assert_as_fresh(&pool, &store, round + 1);
    }
}

/// Blocks share a pool, and are dropped before it or after it.
#[test]
fn a_shared_pool_lives_as_long_as_its_blocks() {
    let store = accounts(100);
    let pool = Arc::new(BlockPool::new());
    for number in 0..3 {
        let mut block = PooledBlock::new(Arc::clone(&pool), &store, store.root(), Consensus);
        let sizes = work(&mut block, number).unwrap();
        let sealed = block.seal(V1).unwrap();
        assert_eq!((sizes, outcome(&sealed)), fresh(&store, number));
        pool.recycle(sealed);
        assert_eq!(pool.spare_blocks(), 1);
    }
    let mut last = PooledBlock::new(pool, &store, store.root(), Consensus);
    last.set(TOP, b"key", b"value").unwrap();
    last.seal(V1).unwrap();
}

/// A store that has no more nodes after `left` requests.
struct Losing<'a> {
    store: &'a MemoryStore,
    left: std::cell::Cell<u32>,
}

impl NodeSource for Losing<'_> {
    fn node(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
    ) -> Result<Option<bytes::Bytes>, SourceError> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                self.store.node(hash, prefix)
            }
            None => Ok(None),
        }
    }
}

#[test]
fn a_block_that_fails_leaves_nothing() {
    let (store, pool) = (accounts(100), BlockPool::new());
    for left in 0..60 {
        let left = std::cell::Cell::new(left);
        let losing = Losing {
            store: &store,
            left,
        };
        let mut block = pool.block(losing, store.root());
        let failed = work(&mut block, 3).is_err();
        assert!(failed == block.seal(V1).is_err());
        assert_as_fresh(&pool, &store, 4);
    }
}

/// Sealing fails after everything else succeeded, because a transaction is open.
#[test]
fn a_block_that_cannot_be_sealed_leaves_nothing() {
    let (store, pool) = (accounts(100), BlockPool::new());
    let mut block = pool.block(&store, store.root());
    work(&mut block, 1).unwrap();
    block.start_transaction();
    block.set(TOP, b"open", b"still").unwrap();
    let refused = block.seal(V1).map_err(BlockError::from);
    assert!(matches!(refused, Err(BlockError::Transaction(_))));
    assert_as_fresh(&pool, &store, 2);
}

#[test]
fn a_block_that_ends_in_a_panic_leaves_nothing_and_its_memory() {
    let (store, pool) = (accounts(100), BlockPool::new());
    for round in 0..20 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut block = pool.block(&store, store.root());
            work(&mut block, round).unwrap();
            block.start_transaction();
            block.enter_runtime().unwrap();
            block.start_transaction();
            block.set(TOP, b"half", b"done").unwrap();
            panic!("the runtime trapped");
        }));
        assert!(caught.is_err());
        assert_eq!(pool.spare_blocks(), 1, "no slot is lost");
        assert_as_fresh(&pool, &store, round + 1);
    }
}

/// The panic may be a fault of this crate, so what the block has loaded may be wrong.
#[test]
fn a_block_that_ends_in_a_panic_carries_nothing() {
    let (store, pool) = (accounts(100), BlockPool::carrying(1 << 20));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut block = pool.block(&store, store.root());
        work(&mut block, 1).unwrap();
        panic!("a fault");
    }));
    assert!(caught.is_err());
    assert_eq!(pool.carried_bytes(), 0);
    assert_eq!(pool.block(&store, store.root()).loaded_nodes(), 0);
}

/// Dropped with the runtime in control, transactions open, a root kept, and the compact length known.
#[test]
fn no_flag_survives() {
    let (store, pool) = (accounts(100), BlockPool::new());
    let mut block = pool.block(&store, store.root());
    work(&mut block, 1).unwrap();
    block.compact_proof_bytes().unwrap();
    block.start_transaction();
    block.enter_runtime().unwrap();
    block.start_transaction();
    block.root(V1).unwrap();
    drop(block);

    let mut block = pool.block(&store, store.root());
    assert!(block.exit_runtime().is_err(), "the host is in control");
    assert!(block.commit_transaction().is_err(), "nothing is open");
    assert_eq!(block.root(V1).unwrap().root, store.root());
    drop(block);
    assert_as_fresh(&pool, &store, 2);
}

#[test]
fn another_state_and_several_at_once() {
    let (small, large) = (accounts(100), accounts(3_000));
    let pool = BlockPool::new();
    std::thread::scope(|scope| {
        for number in 0..4_u32 {
            let (pool, small, large) = (&pool, &small, &large);
            scope.spawn(move || {
                for number in number..number + 6 {
                    let store = if number.is_multiple_of(2) {
                        small
                    } else {
                        large
                    };
                    let mut block = pool.block(store, store.root());
                    let sizes = work(&mut block, number).unwrap();
                    let sealed = block.seal(V1).unwrap();
                    assert_eq!((sizes, outcome(&sealed)), fresh(store, number));
                }
            });
        }
    });
    assert!((1..=4).contains(&pool.spare_blocks()));
}

/// The memory of one block of unusual size is not kept for all later ones.
#[test]
fn no_more_is_kept_than_usual_blocks_need() {
    let store = MemoryStore::new();
    let pool = BlockPool::new();
    let mut block = pool.block(&store, Root::EMPTY);
    for at in 0..100_000_u32 {
        block.set(TOP, &at.to_le_bytes(), &[1; 600]).unwrap();
    }
    drop(block);
    let kept: usize = pool.spare_bytes();
    assert!(kept < 32 << 20, "{kept}");
    // The memory of a usual block is kept.
    assert!(kept > 1 << 20, "{kept}");

    let many: Vec<_> = (0..40).map(|_| pool.block(&store, Root::EMPTY)).collect();
    drop(many);
    assert!(pool.spare_blocks() <= 8);
}

/// A pool without a useful limit, and a block from it on `store` that `touches` what it is to carry.
fn carried_bytes(store: &MemoryStore, touches: impl FnOnce(&mut Block<&MemoryStore>)) -> usize {
    let pool = BlockPool::carrying(usize::MAX);
    let mut block = pool.block(store, store.root());
    touches(&mut block);
    drop(block);
    pool.carried_bytes()
}

/// An author peeks after each extrinsic. The next block has no use for the memory of that.
#[test]
fn what_is_carried_does_not_grow_with_peeks() {
    let store = accounts(1_000);
    let carried_after = |peeks: u32| {
        carried_bytes(&store, |block| {
            for account in 0..200 {
                block.remove(TOP, &key(account)).unwrap();
            }
            for _ in 0..peeks {
                block.peek_proof_size().unwrap();
            }
        })
    };
    assert_eq!(carried_after(200), carried_after(1));
}

/// The storage keys of many child tries with an entry each, all `alike` or not, and their store.
fn many_children(count: u32, alike: bool) -> (Vec<[u8; 32]>, MemoryStore) {
    let names: Vec<_> = (0..count).map(key).collect();
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for name in &names {
        let value = if alike { &[7; 32] } else { name };
        block.set(TrieId::Child(name), b"key", value).unwrap();
    }
    let sealed = block.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    (names, store)
}

/// The heap grows by about 1,100 bytes for each of these child tries. Without the tries themselves, 680 would be counted.
#[test]
fn what_is_carried_counts_each_child_trie() {
    let (names, store) = many_children(1_000, false);
    let carried = carried_bytes(&store, |block| {
        for name in &names {
            let value = block.get(TrieId::Child(name), b"key").unwrap();
            assert_eq!(value, Some(&name[..]));
        }
    });
    assert!(carried > names.len() * 900, "{carried}");
}

/// The memory of many small child tries is full: most of them go, but not all. They may share all their nodes.
#[test]
fn child_tries_are_dropped_until_they_fit() {
    for alike in [false, true] {
        assert_children_fit(alike);
    }
}

fn assert_children_fit(alike: bool) {
    let (names, store) = many_children(2_000, alike);
    let pool = BlockPool::carrying(1 << 20);
    let mut loaded = Vec::new();
    for _ in 0..3 {
        let mut block = pool.block(&store, store.root());
        for name in &names {
            let found = block.get(TrieId::Child(name), b"key").unwrap();
            assert!(found.is_some());
        }
        drop(block);
        let carried = pool.carried_bytes();
        assert!(carried > 0 && carried <= 1 << 20, "{carried}");
        let block = pool.block(&store, store.root());
        loaded.push(block.loaded_nodes());
    }
    assert!(loaded.iter().all(|loaded| *loaded > 0), "{loaded:?}");
}

/// A block without changes was proposed elsewhere on the state after the last block.
#[test]
fn an_empty_block_does_not_hide_the_block_before_it() {
    let mut store = accounts(1_000);
    let pool = BlockPool::carrying(64 << 20);
    let mut block = pool.block(&store, store.root());
    for account in 0..1_000 {
        block.get(TOP, &key(account)).unwrap();
    }
    block.set(TOP, &key(1), b"value").unwrap();
    let sealed = block.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    pool.recycle(sealed);
    let empty = Block::new(&store, store.root()).seal(V1).unwrap();
    pool.recycle(empty);
    let next = pool.block(&store, store.root());
    assert!(next.loaded_nodes() > 1_000, "{}", next.loaded_nodes());
}

/// Several blocks on one state delete the same entries, and each finds them alive.
#[test]
fn what_a_block_deleted_is_carried_alive() {
    let store = accounts(100);
    let pool = BlockPool::carrying(64 << 20);
    for round in 0..4 {
        let mut block = pool.block(&store, store.root());
        assert_eq!(block.loaded_nodes() > 0, round > 0);
        let mut fresh = Block::new(&store, store.root());
        for block in [&mut *block, &mut fresh] {
            for account in 0..90 {
                let is_deleted = (account + round) % 2 == 0;
                if is_deleted {
                    block.remove(TOP, &key(account)).unwrap();
                }
            }
            block.peek_proof_size().unwrap();
        }
        assert_eq!(block.proof_size().unwrap(), fresh.proof_size().unwrap());
        let [block, fresh] = [block.seal(V1).unwrap(), fresh.seal(V1).unwrap()];
        assert_eq!(outcome(&block), outcome(&fresh), "round {round}");
    }
}

static HASHED: AtomicUsize = AtomicUsize::new(0);

fn counted(node: &[u8]) -> [u8; 32] {
    HASHED.fetch_add(1, Ordering::Relaxed);
    *Blake2b256::hash(node).as_bytes()
}

#[test]
fn only_the_block_that_was_told_hashes_by_a_function() {
    let mut store = accounts(100);
    for pool in [BlockPool::new(), BlockPool::carrying(1 << 20)] {
        for (number, by_function) in [(1, true), (2, false)] {
            let (_, expected) = fresh(&store, number);
            let before = HASHED.load(Ordering::Relaxed);
            let mut block = pool.block(&store, store.root());
            if by_function {
                block = block.with_hashing(Hashing::with_function(counted));
            }
            work(&mut block, number).unwrap();
            let sealed = block.seal(V1).unwrap();
            assert_eq!(outcome(&sealed), expected);
            assert_eq!(HASHED.load(Ordering::Relaxed) > before, by_function);
            store.commit(sealed.update()).unwrap();
            pool.recycle(sealed);
        }
    }
}
