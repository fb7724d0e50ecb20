//! The threads that a block starts: how much stack they have, and what happens if there are none.

#![allow(clippy::unwrap_used)]

use povmeter::{Block, Root};
use povmeter_parallel::{Executor, Interrupt, Parallel, Strategy, View};
use povmeter_store::MemoryStore;
use std::{
    hint::black_box,
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

/// A system that refuses to start threads: the thread of the block executes all transactions.
// Elsewhere, a system may start a thread with more stack than there is memory.
#[cfg(target_os = "linux")]
mod refused {
    use super::*;
    use povmeter::TrieId::Top;
    use povmeter_parallel::Ending;

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
        let refused = thread::Builder::new().stack_size(TOO_MUCH).spawn(|| ());
        assert!(refused.is_err());
        for strategy in [
            Strategy::Adaptive,
            Strategy::Always,
            Strategy::EachAhead,
            Strategy::Prepare,
        ] {
            for workers in [2, 4] {
                let store = MemoryStore::new();
                let mut block = Block::new(&store, Root::EMPTY);
                let way = Parallel::new(NonZeroUsize::new(workers).unwrap())
                    .with_strategy(strategy)
                    .with_stack_size(TOO_MUCH);
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
}

const MIB: usize = 1 << 20;

/// Uses `mebibytes` of stack.
fn use_stack(mebibytes: usize) -> usize {
    let mut block = [0_u8; MIB];
    black_box(&mut block);
    let below = match mebibytes {
        0 | 1 => 0,
        more => use_stack(more - 1),
    };
    // Its memory is in use until here, so no optimization makes a loop of the calls.
    black_box(&block);
    below + 1
}

/// Each transaction uses more stack than a thread has by default.
struct Deep {
    caller: ThreadId,
    elsewhere: AtomicUsize,
}

impl Executor for Deep {
    type Worker = ();
    type Output = usize;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), _: u32, _: &mut View<'_>) -> Result<usize, Interrupt> {
        if thread::current().id() != self.caller {
            self.elsewhere.fetch_add(1, Relaxed);
        }
        // Time for the other threads to begin, on a busy machine, too.
        let begun = Instant::now();
        while self.elsewhere.load(Relaxed) == 0 && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(use_stack(8))
    }
}

/// With a smaller stack, the process would end.
#[test]
fn threads_have_the_stack_that_they_are_given() {
    let run = || {
        let deep = Deep {
            caller: thread::current().id(),
            elsewhere: AtomicUsize::new(0),
        };
        let store = MemoryStore::new();
        let mut block = Block::new(&store, Root::EMPTY);
        let way = Parallel::new(NonZeroUsize::new(3).unwrap())
            .with_strategy(Strategy::Always)
            .with_stack_size(16 * MIB);
        let batch = way.execute(&mut block, &store, &deep, 40).unwrap();
        assert_eq!(batch.transactions.len(), 40);
        assert!(deep.elsewhere.into_inner() > 0);
    };
    // The thread of a test has no more than others.
    let caller = thread::Builder::new().stack_size(16 * MIB).spawn(run);
    caller.unwrap().join().unwrap();
}
