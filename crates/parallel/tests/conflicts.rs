//! Blocks full of conflicts or traps, and blocks that end early.

#![allow(clippy::unwrap_used)]

use povmeter::{Block, BlockError, Root, StateVersion::V1, TrieId::Top};
use povmeter_parallel::{
    Addition, CounterWidth, Ending, Executor, Interrupt, Parallel, ParallelError, Statistics,
    Strategy, Trap, Verdict, View,
};
use povmeter_store::{MemoryStore, NodeStore};
use std::{fmt::Debug, num::NonZeroUsize};

fn workers(count: usize, strategy: Strategy) -> Parallel {
    Parallel::new(NonZeroUsize::new(count).unwrap()).with_strategy(strategy)
}

/// Reads the counter and writes one more.
struct Increment;

impl Executor for Increment {
    type Worker = ();
    type Output = u64;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), _: u32, view: &mut View<'_>) -> Result<u64, Interrupt> {
        let value = view.get(Top, b"counter")?.map(<[u8; 8]>::try_from);
        let value = match value {
            Some(Ok(bytes)) => u64::from_le_bytes(bytes),
            Some(Err(error)) => return Err(Interrupt::failed(error)),
            None => 0,
        };
        view.set(Top, b"counter", &(value + 1).to_le_bytes())?;
        Ok(value)
    }
}

fn count_to(transactions: u32, parallel: Parallel) {
    let store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    let batch = parallel
        .execute(&mut block, &store, &Increment, transactions)
        .unwrap();
    let seen = batch
        .transactions
        .into_iter()
        .map(|executed| match executed.ending {
            Ending::Kept(seen) => seen,
            other => panic!("{other:?}"),
        });
    assert!(seen.eq(0..u64::from(transactions)));
    let value = block.get(Top, b"counter").unwrap().map(<[u8]>::to_vec);
    let expected = u64::from(transactions).to_le_bytes().to_vec();
    assert_eq!(value, (transactions > 0).then_some(expected));
}

#[test]
fn no_update_is_lost() {
    for round in 0..1_500 {
        let strategy = [Strategy::Always, Strategy::EachAhead][round % 2];
        count_to(80, workers(8, strategy));
    }
}

/// Additions with and without bounds, which conflict only if the answer changes.
struct Add;

impl Executor for Add {
    type Worker = ();
    type Output = bool;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<bool, Interrupt> {
        view.append(Top, b"events", &[7])?;
        let one = Addition::new(CounterWidth::U64, 1);
        if !index.is_multiple_of(3) {
            return Ok(view.try_add(Top, b"total", one.at_most(200))?);
        }
        view.add(Top, b"total", one)?;
        Ok(true)
    }
}

#[test]
fn additions_are_committed_ahead() {
    let store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    let way = workers(1, Strategy::EachAhead);
    let batch = way.execute(&mut block, &store, &Add, 600).unwrap();
    let made = batch
        .transactions
        .iter()
        .filter(|executed| matches!(executed.ending, Ending::Kept(true)));
    // 200 transactions, until the bound is reached; then every third one.
    assert_eq!(made.count(), 200 + 400 / 3);
    let total = block.get(Top, b"total").unwrap().unwrap();
    assert_eq!(total, (200_u64 + 400 / 3).to_le_bytes());
    assert_eq!(block.get(Top, b"events").unwrap().unwrap().len(), 2 + 600);
    // The answer changes once, and the transactions that are ahead then are executed again.
    assert!(batch.statistics.in_order < 20, "{:?}", batch.statistics);
}

/// Adds to one counter again and again, asks each time whether it could, and reads a list after each append to it.
struct Repeat;

impl Executor for Repeat {
    type Worker = ();
    type Output = (usize, usize);

    fn worker(&self) {}

    fn execute(
        &self,
        (): &mut (),
        index: u32,
        view: &mut View<'_>,
    ) -> Result<(usize, usize), Interrupt> {
        let one = Addition::new(CounterWidth::U64, 1).at_most(1_000);
        let times = [5, 700][index as usize % 2];
        let (mut made, mut read) = (0, 0);
        for _ in 0..times {
            made += usize::from(view.try_add(Top, b"total", one)?);
            view.append(Top, b"events", &[7; 40])?;
            read += view.get(Top, b"events")?.map_or(0, <[u8]>::len);
        }
        Ok((made, read))
    }
}

/// Writes items as long as there is room, which is always.
struct Fill;

impl Executor for Fill {
    type Worker = ();
    type Output = usize;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<usize, Interrupt> {
        let times = [3, 300][index as usize % 2];
        for item in 0..times {
            let key = [index, item].map(u32::to_le_bytes).concat();
            view.set(Top, &key, &[7; 40])?;
            if !view.proof_size_at_most(1 << 40)? {
                return Ok(item as usize);
            }
        }
        Ok(times as usize)
    }
}

/// What is of little cost on a block, and costs an execution ahead all steps before it again: questions for the size after
/// appends to one key, reads of such a key, and next keys after keys that the transaction deleted itself.
enum Costly {
    Sizes,
    Reads,
    NextKeys,
}

impl Executor for Costly {
    type Worker = ();
    type Output = usize;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<usize, Interrupt> {
        let times = [3, 1_500][index as usize % 2];
        let mut found = 0;
        for item in 0..times {
            match self {
                Self::Sizes => {
                    for _ in 0..10 {
                        view.append(Top, b"events", &[7; 40])?;
                    }
                    found += usize::from(view.proof_size_at_most(1 << 40)?);
                }
                Self::Reads => {
                    view.append(Top, b"events", &[7])?;
                    found += view.get(Top, b"events")?.map_or(0, <[u8]>::len);
                }
                Self::NextKeys => {
                    view.remove(Top, &[&b"gone"[..], &u32::to_be_bytes(item)].concat())?;
                    found += usize::from(view.next_key(Top, b"gone")?.is_none());
                }
            }
        }
        Ok(found)
    }
}

fn run<E: Executor<Output: Debug>>(
    executor: &E,
    strategy: Strategy,
) -> (Vec<E::Output>, Root, Statistics) {
    let store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    let way = workers(1, strategy);
    let batch = way.execute(&mut block, &store, executor, 6).unwrap();
    let outputs = batch.transactions.into_iter().map(|of| match of.ending {
        Ending::Kept(output) => output,
        other => panic!("{other:?}"),
    });
    let outputs = outputs.collect();
    let sealed = block.seal(V1).unwrap();
    (outputs, sealed.update().root, batch.statistics)
}

#[test]
fn what_costs_more_ahead_with_each_call_is_left_to_the_turn() {
    for costly in [Costly::Sizes, Costly::Reads, Costly::NextKeys] {
        let (expected, root, _) = run(&costly, Strategy::Adaptive);
        let (found, found_root, statistics) = run(&costly, Strategy::EachAhead);
        assert_eq!((found, found_root), (expected, root));
        let counts = (statistics.ahead, statistics.in_order);
        assert_eq!(counts, (3, 3), "{statistics:?}");
    }
}

/// What a transaction may ask ahead of its turn is bounded, because each answer holds all steps before it.
#[test]
fn repeated_questions_are_left_to_the_turn() {
    let (expected, root, _) = run(&Repeat, Strategy::Adaptive);
    assert_eq!(expected.iter().map(|of| of.0).sum::<usize>(), 1_000);
    let (found, found_root, statistics) = run(&Repeat, Strategy::EachAhead);
    assert_eq!((found, found_root), (expected, root));
    assert!(statistics.in_order >= 3, "{statistics:?}");

    let (expected, root, _) = run(&Fill, Strategy::Adaptive);
    assert_eq!(expected, [3, 300, 3, 300, 3, 300]);
    let (found, found_root, statistics) = run(&Fill, Strategy::EachAhead);
    assert_eq!((found, found_root), (expected, root));
    let counts = (statistics.ahead, statistics.in_order);
    assert_eq!(counts, (3, 3), "{statistics:?}");
}

/// Reads a large value and writes it again; every fifth transaction changes a byte of it.
struct Rewrite;

impl Executor for Rewrite {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        let mut value = view.get(Top, b"large")?.unwrap_or_default().to_vec();
        if index % 5 == 4 {
            value[0] += 1;
        }
        view.set(Top, b"large", &value)?;
        Ok(())
    }
}

#[test]
fn a_large_value_that_is_written_again_is_not_copied() {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    genesis.set(Top, b"large", &[7; 64 << 10]).unwrap();
    let sealed = genesis.seal(V1).unwrap();
    store.commit(sealed.update()).unwrap();
    for threads in [1, 3] {
        let way = workers(threads, Strategy::EachAhead);
        let mut block = Block::new(&store, store.root());
        let parents = block.peek_parent(Top, b"large").unwrap().unwrap();
        way.execute(&mut block, &store, &Rewrite, 4).unwrap();
        let value = block.get(Top, b"large").unwrap().unwrap();
        assert_eq!(value.as_ptr(), parents.as_ptr());
        assert!(block.is_changed(Top, b"large"));
        let batch = way.execute(&mut block, &store, &Rewrite, 40).unwrap();
        assert_eq!(batch.transactions.len(), 40);
        let value = block.get(Top, b"large").unwrap().unwrap();
        assert_eq!((value[0], value[1], value.len()), (7 + 8, 7, 64 << 10));
        assert_eq!(*parents, *vec![7; 64 << 10]);
    }
}

/// Some transactions fail, some panic; the others count.
struct Faulty;

impl Executor for Faulty {
    type Worker = ();
    type Output = u64;

    fn worker(&self) {}

    fn execute(&self, worker: &mut (), index: u32, view: &mut View<'_>) -> Result<u64, Interrupt> {
        let seen = Increment.execute(worker, index, view)?;
        match index % 10 {
            3 => Err(Interrupt::failed("refused")),
            7 => panic!("expected"),
            _ => Ok(seen),
        }
    }
}

#[test]
fn traps_belong_to_their_transaction() {
    std::panic::set_hook(Box::new(|_| {}));
    for strategy in [Strategy::Always, Strategy::EachAhead, Strategy::Adaptive] {
        let store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        let batch = workers(4, strategy)
            .execute(&mut block, &store, &Faulty, 200)
            .unwrap();
        let mut next = 0;
        for (executed, index) in batch.transactions.into_iter().zip(0..) {
            match (index % 10, executed.ending) {
                (3, Ending::Trapped(Trap::Failed(error))) => {
                    assert_eq!(error.to_string(), "refused");
                }
                (7, Ending::Trapped(Trap::Panicked { message })) => {
                    assert_eq!(message, "expected");
                }
                (_, Ending::Kept(seen)) => {
                    assert_eq!(seen, next);
                    next += 1;
                }
                (_, other) => panic!("{index}: {other:?}"),
            }
        }
        assert_eq!(next, 160);
    }
    drop(std::panic::take_hook());
}

/// Some transactions clear a prefix that covers the roots of child tries.
struct ClearAll;

impl Executor for ClearAll {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        view.set(Top, &index.to_be_bytes(), b"value")?;
        if index % 10 == 3 {
            view.clear_prefix(Top, b"", None, None)?;
        }
        Ok(())
    }
}

#[test]
fn a_refused_prefix_is_a_trap_of_its_transaction() {
    for strategy in [Strategy::Always, Strategy::EachAhead, Strategy::Adaptive] {
        let store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        let way = workers(4, strategy);
        let batch = way.execute(&mut block, &store, &ClearAll, 40).unwrap();
        for (executed, index) in batch.transactions.into_iter().zip(0..) {
            match (index % 10, executed.ending) {
                (3, Ending::Trapped(Trap::Refused(error))) => assert!(
                    matches!(&*error, BlockError::ChildRootPrefix { prefix } if prefix.is_empty()),
                    "{error}"
                ),
                (3, other) => panic!("{index}: {other:?}"),
                (_, ending) => assert!(matches!(ending, Ending::Kept(())), "{index}: {ending:?}"),
            }
        }
        assert_eq!(block.seal(V1).unwrap().top_changes().len(), 36);
    }
}

#[test]
fn an_open_transaction_of_the_host_stays_open_around_the_batch() {
    for strategy in [Strategy::Always, Strategy::EachAhead, Strategy::Adaptive] {
        let store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        let way = workers(4, strategy);
        way.execute(&mut block, &store, &Increment, 20).unwrap();
        let before = block.recorded_size();
        block.start_transaction();
        let batch = way.execute(&mut block, &store, &Increment, 30).unwrap();
        for (executed, index) in batch.transactions.into_iter().zip(20..) {
            assert!(matches!(executed.ending, Ending::Kept(seen) if seen == index));
        }
        assert_eq!(block.transaction_depth(), 1);
        block.rollback_transaction().unwrap();
        assert_eq!(block.recorded_size(), before);
        let value = block.get(Top, b"counter").unwrap();
        assert_eq!(value, Some(&20_u64.to_le_bytes()[..]));
        block.seal(V1).unwrap();
    }
}

#[test]
fn a_stopped_block_holds_what_was_before() {
    for strategy in [Strategy::Always, Strategy::EachAhead] {
        let store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        let way = workers(8, strategy);
        let batch = way.execute_if(
            &mut block,
            &store,
            &Increment,
            1_000,
            |decided| match decided.index {
                60 => Verdict::Stop,
                index if index % 2 == 1 => Verdict::LeaveOut,
                _ => Verdict::Keep,
            },
        );
        let transactions = batch.unwrap().transactions;
        assert_eq!(transactions.len(), 61);
        let last = transactions.last().map(|last| &last.ending);
        assert!(matches!(last, Some(Ending::LeftOut(_))), "{last:?}");
        assert_eq!(block.transaction_depth(), 0);
        assert_eq!(
            block.get(Top, b"counter").unwrap(),
            Some(&30_u64.to_le_bytes()[..])
        );
        // The block continues from there in another batch.
        let batch = way.execute(&mut block, &store, &Increment, 50).unwrap();
        assert_eq!(batch.transactions.len(), 50);
        assert_eq!(
            block.get(Top, b"counter").unwrap(),
            Some(&80_u64.to_le_bytes()[..])
        );
        assert!(block.seal(V1).is_ok());
    }
}

/// The store lacks the node that the block needs.
#[test]
fn a_missing_node_fails_the_block_and_names_the_transaction() {
    let mut full = MemoryStore::new();
    let mut genesis = Block::new(&full, Root::EMPTY);
    genesis.set(Top, b"counter", &[1; 40]).unwrap();
    let update = genesis.seal(V1).unwrap();
    full.commit(update.update()).unwrap();
    let root = update.update().root;
    let empty = MemoryStore::new();
    for strategy in [Strategy::Always, Strategy::EachAhead] {
        let mut block = Block::new(&empty, root);
        let failed = workers(3, strategy).execute(&mut block, &empty, &Increment, 20);
        let (before, error) = failed.unwrap_err().into_parts();
        assert!(before.transactions.is_empty());
        let ParallelError::Block { index: 0, error } = error else {
            panic!("{error}");
        };
        assert!(error.to_string().contains(&root.to_string()), "{error}");
        assert_eq!(block.transaction_depth(), 0);
    }
}

#[test]
fn nothing_is_a_block_too() {
    count_to(0, workers(8, Strategy::Always));
    count_to(1, workers(8, Strategy::EachAhead));
    count_to(3_000, workers(4, Strategy::Adaptive));
}

/// Some transactions ask for the size and wait for their turn. The thread of the block is slow, so that other threads
/// commit.
struct Ask(std::thread::ThreadId);

impl Executor for Ask {
    type Worker = ();
    type Output = u64;

    fn worker(&self) {}

    fn execute(&self, worker: &mut (), index: u32, view: &mut View<'_>) -> Result<u64, Interrupt> {
        if std::thread::current().id() == self.0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if index.is_multiple_of(3) {
            view.proof_size()?;
        }
        Increment.execute(worker, index, view)
    }
}

/// The panic ends the block on any thread.
#[test]
fn a_panic_in_a_decision_hangs_nothing() {
    std::panic::set_hook(Box::new(|_| {}));
    for at in 0..60 {
        let executed = std::panic::catch_unwind(|| {
            let store = MemoryStore::new();
            let mut block = Block::new(&store, Root::EMPTY);
            let decide = |decided: povmeter_parallel::Decided<'_, u64>| {
                assert_ne!(decided.index, at, "expected");
                Verdict::Keep
            };
            let way = workers(3, Strategy::Always);
            let ask = Ask(std::thread::current().id());
            way.execute_if(&mut block, &store, &ask, 64, decide)
                .map(drop)
        });
        // The panic itself, whichever thread it was on.
        let panic = executed.map(drop).unwrap_err();
        let text = panic.downcast_ref::<String>();
        assert!(
            text.is_some_and(|text| text.contains("expected")),
            "at {at}"
        );
    }
    drop(std::panic::take_hook());
}
