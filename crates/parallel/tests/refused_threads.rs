//! A system that refuses to start threads: the thread of the block executes all transactions.

#![allow(clippy::unwrap_used)]
// Elsewhere, a system may start a thread with more stack than there is memory.
#![cfg(target_os = "linux")]

use povmeter::{Block, Root, TrieId::Top};
use povmeter_parallel::{Ending, Executor, Interrupt, Parallel, Strategy, View};
use povmeter_store::MemoryStore;
use std::{env, num::NonZeroUsize, process::Command, thread};

/// The standard library reads this once in a process, so the blocks need a process of their own.
const STACK: &str = "RUST_MIN_STACK";
/// More than there are addresses.
const TOO_MUCH: usize = usize::MAX / 4;

/// Each transaction replaces a number by the next one.
struct Counts;

impl Executor for Counts {
    type Worker = ();
    type Output = usize;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), _: u32, view: &mut View<'_>) -> Result<usize, Interrupt> {
        let count = view.get(Top, b"count")?.map_or(0, <[u8]>::len);
        view.set(Top, b"count", &vec![0; count + 1])?;
        Ok(count)
    }
}

#[test]
fn a_block_needs_no_other_thread() {
    let too_much = TOO_MUCH.to_string();
    if env::var(STACK).is_ok_and(|stack| stack == too_much) {
        return without_threads();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_block_needs_no_other_thread"])
        // The harness starts no thread for the test, either.
        .arg("--test-threads=1")
        .env(STACK, too_much)
        .output()
        .unwrap();
    let [printed, errors] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let passed = output.status.success() && printed.contains("1 passed");
    assert!(passed, "{printed}{errors}");
}

fn without_threads() {
    assert!(thread::Builder::new().spawn(|| ()).is_err());
    for strategy in [
        Strategy::Adaptive,
        Strategy::Always,
        Strategy::EachAhead,
        Strategy::Prepare,
    ] {
        for workers in [2, 4] {
            let store = MemoryStore::new();
            let mut block = Block::new(&store, Root::EMPTY);
            let way = Parallel::new(NonZeroUsize::new(workers).unwrap()).with_strategy(strategy);
            let batch = way.execute(&mut block, &store, &Counts, 100).unwrap();
            let counts = batch.transactions.iter().map(|executed| &executed.ending);
            for (index, ending) in counts.enumerate() {
                let right = matches!(ending, Ending::Kept(count) if *count == index);
                assert!(right, "transaction {index}, {way:?}: {ending:?}");
            }
            assert_eq!(batch.transactions.len(), 100);
            let count = block.get(Top, b"count").unwrap();
            assert_eq!(count, Some(&[0; 100][..]), "{way:?}");
        }
    }
}
