//! The scheduler with simple transactions: each reads one key below it and writes one.
//!
//! Blocks are right whatever the scheduler does, because the committer compares again. So these tests check what the
//! scheduler promises beyond that: no two threads have one transaction at once, no thread waits for ever, and no work
//! is lost. That is, when no thread finds a task any more, every transaction in the window was executed, on the
//! values that the others have written.

use super::try_orders;
use crate::{
    scheduler::{Claim, Limits, Scheduler, Task},
    store::{Content, KeyId, MultiVersion, Nearest, WriteSetBuilder},
};
#[cfg(povmeter_loom)]
use loom::thread;
use povmeter::TrieId::Top;
#[cfg(povmeter_shuttle)]
use shuttle::thread;
use std::{
    ops::Range,
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        Arc, Mutex,
    },
};

/// The keys of a transaction: it reads one, and writes the value that it read, plus one, to the other.
#[derive(Clone, Copy, Debug)]
struct Step {
    reads: usize,
    writes: usize,
}

const fn step(reads: usize, writes: usize) -> Step {
    Step { reads, writes }
}

/// What the tests observe of a transaction. These are not primitives of the tools, so they add no orders.
#[derive(Debug, Default)]
struct Observed {
    /// Whether a thread has the transaction.
    held: AtomicBool,
    seen: AtomicU32,
    executions: AtomicU32,
}

/// A block of steps.
struct Block {
    steps: &'static [Step],
    keys: Vec<KeyId>,
    store: MultiVersion,
    scheduler: Scheduler,
    observed: Vec<Observed>,
    committed: Mutex<Vec<u32>>,
}

enum Found {
    Value(u32),
    Estimate(u32),
}

impl Block {
    fn new(steps: &'static [Step], window: u32, left_to_block: u32) -> Self {
        let transactions = u32::try_from(steps.len()).unwrap();
        let store = MultiVersion::new(transactions + 1);
        Self {
            keys: (0..3).map(|key| store.keys.number(Top, &[key])).collect(),
            steps,
            store,
            scheduler: Scheduler::new(Limits {
                transactions,
                window,
                waiting: transactions,
                left_to_block,
            }),
            observed: steps.iter().map(|_| Observed::default()).collect(),
            committed: Mutex::default(),
        }
    }

    fn of(&self, index: u32) -> (Step, &Observed) {
        (self.steps[index as usize], &self.observed[index as usize])
    }

    /// Returns the value that `index` finds now.
    fn find(&self, index: u32) -> Found {
        let key = self.keys[self.of(index).0.reads];
        match self.store.nearest(index + 1, key) {
            Nearest::Parent => Found::Value(0),
            Nearest::Estimate(writer) => Found::Estimate(writer - 1),
            Nearest::Written(_, writes, Content::Value(span)) => {
                let bytes = writes.bytes(span).try_into().unwrap();
                Found::Value(u32::from_le_bytes(bytes))
            }
            Nearest::Written(_, _, other) => panic!("nobody writes {other:?}"),
        }
    }

    fn publish(&self, index: u32, value: u32) -> bool {
        let (step, observed) = self.of(index);
        observed.seen.store(value, Ordering::Relaxed);
        let mut writes = WriteSetBuilder::default();
        let key = self.keys[step.writes];
        writes.write(key, Some(&(value + 1).to_le_bytes())).unwrap();
        self.store
            .publish(index + 1, Arc::new(writes.finish()))
            .seen
    }

    fn hold(&self, index: u32) {
        let held = self.of(index).1.held.swap(true, Ordering::Relaxed);
        assert!(!held, "two threads have transaction {index}");
    }

    fn release(&self, index: u32) {
        self.of(index).1.held.store(false, Ordering::Relaxed);
    }

    fn perform(&self, task: Task) {
        match task {
            Task::Execute(index) => {
                self.hold(index);
                self.of(index).1.executions.fetch_add(1, Ordering::Relaxed);
                let since = self.scheduler.changes();
                match self.find(index) {
                    Found::Estimate(writer) => {
                        self.release(index);
                        self.scheduler.wait_for(index, writer, &self.store);
                    }
                    Found::Value(value) => {
                        let changed = self.publish(index, value);
                        self.release(index);
                        self.scheduler.finish(index, changed, since);
                    }
                }
            }
            Task::Validate(index) => {
                let seen = self.of(index).1.seen.load(Ordering::Relaxed);
                if !matches!(self.find(index), Found::Value(value) if value == seen) {
                    self.scheduler.abort(index, &self.store);
                }
            }
        }
    }

    fn work_until_idle(&self) {
        while let Some(task) = self.scheduler.next_task(false) {
            self.perform(task);
        }
    }

    fn work(&self) {
        while !self.scheduler.is_over() {
            match self.scheduler.next_task(false) {
                Some(task) => self.perform(task),
                None => self.scheduler.wait_for_task(),
            }
        }
    }

    /// Commits all transactions as the committer does, and pauses for those of `rest`.
    fn commit_all(&self, rest: &Range<u32>) {
        let mut index = 0;
        while index < u32::try_from(self.steps.len()).unwrap() {
            let resting = rest.contains(&index);
            if resting {
                self.scheduler.pause();
            }
            let claim = if resting && self.scheduler.reserve_from(index) {
                self.commit_reserved(index..rest.end - 1);
                index = rest.end - 1;
                Claim::ToExecute
            } else {
                self.claim(index)
            };
            self.hold(index);
            let Found::Value(value) = self.find(index) else {
                panic!("a committed transaction is an estimate");
            };
            let seen = self.of(index).1.seen.load(Ordering::Relaxed);
            let right = claim == Claim::Executed && seen == value;
            if claim == Claim::Executed {
                self.scheduler.compared(right);
            }
            let changed = !right && self.publish(index, value);
            self.committed.lock().unwrap().push(value);
            if resting && index + 1 == rest.end {
                self.scheduler.resume(index);
            }
            self.release(index);
            self.scheduler.commit(index, changed);
            index += 1;
        }
        self.scheduler.end();
    }

    fn claim(&self, index: u32) -> Claim {
        loop {
            match self.scheduler.claim(index) {
                Claim::Busy => {}
                claim => return claim,
            }
            match self.scheduler.next_task(true) {
                Some(task) => self.perform(task),
                None => self.scheduler.wait_while_busy(index),
            }
        }
    }

    /// Executes transactions that no other thread may begin.
    fn commit_reserved(&self, reserved: Range<u32>) {
        for index in reserved {
            self.hold(index);
            let Found::Value(value) = self.find(index) else {
                panic!("a committed transaction is an estimate");
            };
            self.publish(index, value);
            self.committed.lock().unwrap().push(value);
            self.release(index);
        }
    }

    /// Returns the values that the steps read if they are executed one after the other.
    fn expected(&self) -> Vec<u32> {
        let mut state = [0_u32; 3];
        let read = |step: &Step| {
            let value = state[step.reads];
            state[step.writes] = value + 1;
            value
        };
        self.steps.iter().map(read).collect()
    }
}

/// How often a thread without work looks again. With loom, each look adds many orders.
const LOOKS: u32 = if cfg!(povmeter_loom) { 1 } else { 4 };

/// Threads work without a committer until they find no task.
fn speculate(steps: &'static [Step], threads: usize, left_to_block: u32) {
    let block = Arc::new(Block::new(steps, u32::MAX, left_to_block));
    let threads: Vec<_> = (1..threads)
        .map(|_| {
            let block = block.clone();
            thread::spawn(move || {
                // Looks again, because another thread may make a task meanwhile.
                for _ in 0..LOOKS {
                    block.work_until_idle();
                    thread::yield_now();
                }
            })
        })
        .collect();
    block.work_until_idle();
    for thread in threads {
        thread.join().unwrap();
    }
    // The last thread may leave before another one makes a task.
    block.work_until_idle();
    for (index, expected) in (0..).zip(block.expected()) {
        assert!(block.scheduler.is_due(index), "{index} was not executed");
        assert!(
            !block.store.is_estimate(index + 1),
            "{index} is an estimate"
        );
        let seen = block.of(index).1.seen.load(Ordering::Relaxed);
        assert_eq!(seen, expected, "transaction {index}");
    }
}

/// Threads work while one thread commits, but begin no task while it commits the transactions of `rest`.
fn commit(
    steps: &'static [Step],
    threads: usize,
    (window, left_to_block): (u32, u32),
    rest: Range<u32>,
) {
    let block = Arc::new(Block::new(steps, window, left_to_block));
    let threads: Vec<_> = (1..threads)
        .map(|_| {
            let block = block.clone();
            thread::spawn(move || block.work())
        })
        .collect();
    block.commit_all(&rest);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*block.committed.lock().unwrap(), block.expected());
}

/// The second transaction reads what the first writes.
const PAIR: &[Step] = &[step(0, 0), step(0, 1)];

#[test]
fn a_pair_loses_no_work() {
    try_orders(3_000, || speculate(PAIR, 2, 1));
    try_orders(3_000, || speculate(PAIR, 2, 2));
}

#[test]
fn a_pair_is_committed() {
    try_orders(3_000, || commit(PAIR, 2, (2, 1), 0..0));
    try_orders(3_000, || commit(PAIR, 2, (2, 2), 0..0));
}

/// The committer pauses before or after another thread has begun a transaction.
#[test]
fn a_pair_is_committed_in_order() {
    try_orders(3_000, || commit(PAIR, 2, (2, 1), 0..1));
    try_orders(3_000, || commit(PAIR, 2, (2, 2), 1..2));
}

#[cfg(povmeter_shuttle)]
mod larger {
    use super::*;

    const ALL: u32 = u32::MAX;
    const CHAIN: &[Step] = &[step(0, 0); 5];
    const LONG: &[Step] = &[step(0, 0); 8];
    /// The second transaction writes the key that all later ones read.
    const FAN: &[Step] = &[step(1, 2), step(2, 0), step(0, 1), step(0, 2), step(0, 1)];

    /// One thread has only validations to do.
    #[test]
    fn a_pair_among_three_loses_no_work() {
        try_orders(10_000, || speculate(PAIR, 3, 1));
        try_orders(10_000, || speculate(PAIR, 3, 2));
    }

    #[test]
    fn a_chain_loses_no_work() {
        try_orders(3_000, || speculate(CHAIN, 3, 1));
        try_orders(3_000, || speculate(CHAIN, 3, 3));
    }

    #[test]
    fn readers_of_one_key_lose_no_work() {
        try_orders(3_000, || speculate(FAN, 3, 1));
        try_orders(3_000, || speculate(FAN, 3, 2));
    }

    #[test]
    fn all_are_committed() {
        try_orders(2_000, || commit(CHAIN, 3, (ALL, 1), 0..0));
        try_orders(2_000, || commit(CHAIN, 3, (ALL, 3), 0..0));
        try_orders(2_000, || commit(FAN, 3, (2, 1), 0..0));
        try_orders(2_000, || commit(FAN, 3, (3, 2), 0..0));
    }

    #[test]
    fn some_are_committed_in_order() {
        try_orders(2_000, || commit(CHAIN, 3, (2, 1), 1..4));
        try_orders(2_000, || commit(FAN, 3, (1, 1), 0..3));
        try_orders(2_000, || commit(LONG, 3, (2, 1), 1..7));
        try_orders(2_000, || commit(LONG, 3, (4, 3), 1..5));
    }
}
