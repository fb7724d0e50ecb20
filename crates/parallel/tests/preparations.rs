//! Which transactions executors are asked to prepare, and what preparations find.

#![allow(clippy::unwrap_used)]

use povmeter::{Block, Root, StateVersion::V1, TrieId::Top};
use povmeter_parallel::{Executor, Interrupt, Parallel, Statistics, Strategy, View};
use povmeter_store::{MemoryStore, NodeStore};
use std::{
    num::NonZeroUsize,
    panic::resume_unwind,
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        Condvar, Mutex,
    },
    thread::{self, ThreadId},
    time::Duration,
};

const TRANSACTIONS: u32 = 100;

/// Its first transaction ends when `until` transactions are prepared.
struct Probe {
    until: usize,
    prepared: Mutex<Vec<u32>>,
    changed: Condvar,
    use_of: fn(u32) -> bool,
}

impl Probe {
    fn new(until: usize, use_of: fn(u32) -> bool) -> Self {
        Self {
            until,
            prepared: Mutex::default(),
            changed: Condvar::new(),
            use_of,
        }
    }
}

impl Executor for Probe {
    type Worker = ();
    type Output = Vec<u8>;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<Vec<u8>, Interrupt> {
        assert!(!view.is_ahead());
        if index == 0 {
            let prepared = self.prepared.lock().unwrap();
            let wait = Duration::from_secs(60);
            let few = |prepared: &mut Vec<u32>| prepared.len() < self.until;
            let ended = self.changed.wait_timeout_while(prepared, wait, few);
            assert!(!ended.unwrap().1.timed_out(), "too few preparations");
        }
        let before = view.get(Top, b"last")?.unwrap().to_vec();
        view.set(Top, b"last", &index.to_le_bytes())?;
        Ok(before)
    }

    fn prepare(&self, (): &mut (), index: u32, view: &mut View<'_>) -> bool {
        assert!(view.is_ahead());
        // Keys that the block changed before its first transaction, and one that it did not.
        assert_eq!(view.get(Top, b"last").unwrap(), Some(&b"begun"[..]));
        assert_eq!(view.guess(Top, b"there").unwrap(), Some(&b"parent"[..]));
        assert_eq!(view.get(Top, b"removed").unwrap(), None);
        assert!(!view.exists(Top, b"removed").unwrap() && view.exists(Top, b"there").unwrap());
        view.start_transaction().unwrap();
        let next = view.next_key(Top, b"last").unwrap();
        assert_eq!(next.as_deref(), Some(&b"there"[..]));
        view.rollback_transaction().unwrap();
        match index % 4 {
            0 => assert!(view.set(Top, b"last", b"other").is_err()),
            1 => assert!(view.proof_size().is_err()),
            2 => assert!(view.append(Top, b"list", b"one").is_err()),
            _ => assert!(view.commit_transaction().is_err()),
        }
        assert!(view.get(Top, b"last").is_err() && view.start_transaction().is_err());
        self.prepared.lock().unwrap().push(index);
        self.changed.notify_all();
        if index.is_multiple_of(7) {
            resume_unwind(Box::new("of no use"));
        }
        (self.use_of)(index)
    }
}

fn run(probe: &Probe, workers: usize) -> (Vec<u32>, Statistics) {
    let mut store = MemoryStore::new();
    let mut parent = Block::new(&store, Root::EMPTY);
    for key in ["removed", "there"] {
        parent.set(Top, key.as_bytes(), b"parent").unwrap();
    }
    store.commit(parent.seal(V1).unwrap().update()).unwrap();
    let mut block = Block::new(&store, store.root());
    block.set(Top, b"last", b"begun").unwrap();
    block.remove(Top, b"removed").unwrap();
    let workers = NonZeroUsize::new(workers).unwrap();
    let parallel = Parallel::new(workers).with_strategy(Strategy::Prepare);
    let batch = parallel.execute(&mut block, &store, probe, TRANSACTIONS);
    let batch = batch.unwrap();
    for (index, executed) in (0..).zip(&batch.transactions) {
        let found = format!("{:?}", executed.ending);
        let expected = match u32::checked_sub(index, 1) {
            Some(before) => before.to_le_bytes().to_vec(),
            None => b"begun".to_vec(),
        };
        assert_eq!(found, format!("Kept({expected:?})"));
    }
    assert_eq!(batch.transactions.len(), TRANSACTIONS as usize);
    let mut prepared = probe.prepared.lock().unwrap().clone();
    prepared.sort_unstable();
    (prepared, batch.statistics)
}

/// The first two transactions begin too soon to be prepared.
#[test]
fn each_transaction_is_prepared_once() {
    for workers in [2, 4] {
        let all: Vec<u32> = (2..TRANSACTIONS).collect();
        let (found, statistics) = run(&Probe::new(all.len(), |_| true), workers);
        assert_eq!(found, all);
        assert_eq!(statistics.preparations, all.len() as u64);
        assert_eq!(statistics.in_order, u64::from(TRANSACTIONS));
    }
}

#[test]
fn what_is_of_no_use_ends_soon() {
    let (found, _) = run(&Probe::new(32, |_| false), 2);
    assert_eq!(found, (2..34).collect::<Vec<_>>());
    let (found, _) = run(&Probe::new(64, |_| false), 3);
    assert_eq!(found.len(), 64);
    // Some preparations are of use.
    let (found, _) = run(&Probe::new(98, |index| index % 30 == 4), 2);
    assert_eq!(found.len(), 98);
}

/// Without other threads nothing is prepared, and a block that is over waits for no preparation.
#[test]
fn nobody_waits_for_preparations() {
    let (found, statistics) = run(&Probe::new(0, |_| true), 1);
    assert!(found.is_empty() && statistics.preparations == 0);
    for _ in 0..20 {
        run(&Probe::new(0, |_| true), 4);
    }
}

/// Makes a worker for the thread of the block, and a number of others.
struct Fewer {
    block: ThreadId,
    others: AtomicUsize,
}

impl Executor for Fewer {
    type Worker = ();
    type Output = u32;

    fn worker(&self) {
        let others = &self.others;
        let left = || others.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if thread::current().id() != self.block && left().is_err() {
            resume_unwind(Box::new("no instance of the runtime"));
        }
    }

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<u32, Interrupt> {
        view.set(Top, &index.to_le_bytes(), b"value")?;
        Ok(index)
    }

    fn prepare(&self, (): &mut (), _: u32, _: &mut View<'_>) -> bool {
        // Takes another worker.
        resume_unwind(Box::new("of no use"));
    }
}

/// A block needs no preparation, so a thread that cannot prepare is no error.
#[test]
fn a_thread_without_a_worker_prepares_nothing() {
    for others in [0, 1, 3] {
        let store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        let fewer = Fewer {
            block: thread::current().id(),
            others: AtomicUsize::new(others),
        };
        let parallel = Parallel::new(NonZeroUsize::new(3).unwrap());
        let parallel = parallel.with_strategy(Strategy::Prepare);
        let batch = parallel.execute(&mut block, &store, &fewer, 2_000).unwrap();
        assert_eq!(batch.transactions.len(), 2_000);
        assert!(batch.statistics.preparations <= others as u64);
    }
}
