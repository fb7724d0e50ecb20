//! Panics of sources, and of threads that execute ahead: the outcome is that of a block without them, or a panic of the
//! call.

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use povmeter::{
    Block, NodeHash, NodePrefix, NodeSource, Root, SourceError, StateVersion::V1, TrieId::Top,
};
use povmeter_parallel::{Ending, Executor, Interrupt, Parallel, Strategy, View};
use povmeter_store::{MemoryStore, NodeStore};
use std::{
    num::NonZeroUsize,
    ops::Range,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use support::program::{Flavour, Programs};

fn workers(count: usize, strategy: Strategy) -> Parallel {
    Parallel::new(NonZeroUsize::new(count).unwrap()).with_strategy(strategy)
}

/// A source that panics at some of its calls, on any thread.
struct Panicking<'s> {
    store: &'s MemoryStore,
    at: Range<usize>,
    calls: AtomicUsize,
    panics: AtomicUsize,
}

impl<'s> Panicking<'s> {
    fn new(store: &'s MemoryStore, at: Range<usize>) -> Self {
        Self {
            store,
            at,
            calls: AtomicUsize::new(0),
            panics: AtomicUsize::new(0),
        }
    }

    fn panics(&self) -> usize {
        self.panics.load(Relaxed)
    }
}

impl NodeSource for Panicking<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let call = self.calls.fetch_add(1, Relaxed);
        if self.at.contains(&call) {
            self.panics.fetch_add(1, Relaxed);
            panic!("source at call {call}");
        }
        self.store.node(hash, prefix)
    }
}

/// The threads read ahead from a source that panics once, or always from some call on. The block has its own source.
#[test]
fn a_panic_of_the_threads_source_changes_no_outcome() {
    support::quiet();
    let store = support::parent_state();
    let flavour = Flavour {
        transactions: 40,
        ops: 10,
        keys: support::program::KEYS,
        rare: true,
    };
    for strategy in [Strategy::EachAhead, Strategy::Always, Strategy::Prepare] {
        for count in 1..=4 {
            let mut panics = 0;
            for call in 0..40 {
                let programs = Programs::random(6_000 + call as u64, flavour);
                let expected = support::sequential(&store, &programs);
                for at in [call..call + 1, call..usize::MAX] {
                    let mut way = workers(count, strategy);
                    let source = Panicking::new(&store, at.clone());
                    let found = support::parallel_beside(&store, &source, &programs, &mut way);
                    panics += source.panics();
                    for (index, pair) in found
                        .transactions
                        .iter()
                        .zip(&expected.transactions)
                        .enumerate()
                    {
                        assert_eq!(pair.0, pair.1, "transaction {index}, calls {at:?}, {way:?}");
                    }
                    assert!(found == expected, "calls {at:?}, {way:?}");
                }
            }
            // Whether other threads read anything is up to them.
            assert!(
                panics > 0 || strategy != Strategy::EachAhead,
                "{count} workers"
            );
        }
    }
}

/// Panics in each execution ahead, as where a thread has less memory than that of the block.
struct PanicsAhead;

impl Executor for PanicsAhead {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        assert!(!view.is_ahead(), "transaction {index}, ahead");
        Ok(view.set(Top, &index.to_le_bytes(), b"value")?)
    }
}

#[test]
fn a_panic_ahead_of_the_turn_does_not_count() {
    support::quiet();
    for strategy in [Strategy::EachAhead, Strategy::Always] {
        for count in 1..=4 {
            let store = MemoryStore::new();
            let mut block = Block::new(&store, Root::EMPTY);
            let way = workers(count, strategy);
            let batch = way.execute(&mut block, &store, &PanicsAhead, 50).unwrap();
            for executed in batch.transactions {
                assert!(matches!(executed.ending, Ending::Kept(())), "{executed:?}");
            }
            let statistics = batch.statistics;
            assert_eq!(statistics.in_order, 50);
            assert_eq!(statistics.halts, statistics.speculations);
            assert!(statistics.halts == 50 || strategy == Strategy::Always);
        }
    }
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
}

/// Asks for the size after a look that the block's source does not serve, and after a removal that needs more nodes. So
/// the thread that waits for the turn is the first that needs the block's source, where it repeats the look.
struct Asks;

impl Executor for Asks {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        assert!(view.exists(Top, &key(index))?);
        view.remove(Top, &key(index))?;
        view.proof_size()?;
        Ok(())
    }
}

/// A panic of the block's source is a trap of the transaction that is executed on the block, or ends the call. It never
/// leaves a part of a transaction on the block.
#[test]
fn a_panic_of_the_blocks_source_leaves_nothing_half_done() {
    support::quiet();
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    for number in 0..40 {
        block.set(Top, &key(number), &[7; 40]).unwrap();
    }
    store.commit(block.seal(V1).unwrap().update()).unwrap();
    let mut ended = 0;
    for call in 0..60 {
        for count in 1..=4 {
            let source = Panicking::new(&store, call..call + 1);
            let mut block = Block::new(&source, store.root());
            let way = workers(count, Strategy::EachAhead);
            let execute = || way.execute(&mut block, &store, &Asks, 40);
            let Ok(batch) = catch_unwind(AssertUnwindSafe(execute)) else {
                ended += 1;
                continue;
            };
            // A block without the transactions that trapped.
            let mut plain = Block::new(&store, store.root());
            let mut trapped = 0;
            for (executed, index) in batch.unwrap().transactions.into_iter().zip(0..) {
                if matches!(executed.ending, Ending::Kept(())) {
                    plain.start_transaction();
                    assert!(plain.exists(Top, &key(index)).unwrap());
                    plain.remove(Top, &key(index)).unwrap();
                    plain.proof_size().unwrap();
                    plain.commit_transaction().unwrap();
                } else {
                    trapped += 1;
                }
                assert_eq!(
                    executed.size,
                    plain.proof_size().unwrap(),
                    "call {call}, {index}"
                );
            }
            assert!(trapped <= source.panics(), "call {call}, {count} workers");
            assert_eq!(block.transaction_depth(), 0, "call {call}, {count} workers");
            let [sealed, expected] = [block.seal(V1).unwrap(), plain.seal(V1).unwrap()];
            assert_eq!(sealed.update(), expected.update());
            assert_eq!(sealed.proof(), expected.proof());
        }
    }
    // One worker ends in the same way each time.
    assert!(ended > 0);
}
