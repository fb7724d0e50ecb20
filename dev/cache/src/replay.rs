//! Blocks of a trace, replayed on a cache.

use crate::{
    policies::{Found, Policy},
    trace::{Kind, NodeNumber, Trace},
};
use povmeter::RootUpdate;
use std::{sync::Barrier, thread, time::Instant};

/// What the look-ups of the second half of the blocks found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hits {
    look_ups: u64,
    hits: u64,
    leaf_look_ups: u64,
    leaf_hits: u64,
    pub(crate) stale: u64,
}

impl Hits {
    pub(crate) fn percent(&self) -> f64 {
        percent(self.hits, self.look_ups)
    }

    pub(crate) fn leaf_percent(&self) -> f64 {
        percent(self.leaf_hits, self.leaf_look_ups)
    }
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64 * 100.0
}

/// Replays all blocks.
pub(crate) fn replay(policy: &dyn Policy, trace: &Trace, updates: &[RootUpdate]) -> Hits {
    let (mut hits, mut memory) = (Hits::default(), Vec::new());
    let half = trace.blocks.len() / 2;
    for (number, (block, update)) in trace.blocks.iter().zip(updates).enumerate() {
        let mut view = policy.view();
        for &node in &block.reads {
            let found = view.look_up(trace, node);
            if found != Found::Hit {
                view.fill(trace, node, trace.content(node, &mut memory));
            }
            if number < half {
                continue;
            }
            let (hit, stale) = (
                u64::from(found == Found::Hit),
                u64::from(found == Found::Stale),
            );
            hits.look_ups += 1;
            hits.hits += hit;
            hits.stale += stale;
            if trace.node(node).kind != Kind::Branch {
                hits.leaf_look_ups += 1;
                hits.leaf_hits += hit;
            }
        }
        view.update(trace, block, update);
    }
    hits
}

/// The nodes of a trace that a cache has: their number, and the bytes of them and their hashes.
pub(crate) fn content(policy: &dyn Policy, trace: &Trace) -> (usize, u64) {
    let (mut count, mut bytes) = (0, 0);
    let mut view = policy.view();
    for (number, node) in (0..).zip(&trace.nodes) {
        if view.look_up(trace, number) == Found::Hit {
            count += 1;
            bytes += u64::from(node.length) + 32;
        }
    }
    (count, bytes)
}

/// Blocks whose reads are timed.
const TIMED_BLOCKS: usize = 10;
const ROUNDS: usize = 2;

/// Nanoseconds of a look-up on `threads` threads at once, in the fastest round.
pub(crate) fn look_up_ns(policy: &dyn Policy, trace: &Trace, threads: usize) -> f64 {
    let timed = &trace.blocks[trace.blocks.len().saturating_sub(TIMED_BLOCKS)..];
    let reads: Vec<NodeNumber> = timed
        .iter()
        .flat_map(|block| block.reads.iter().copied())
        .collect();
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Barrier::new(threads);
        let spent = thread::scope(|scope| {
            let run = |thread: usize| {
                let (start, reads) = (&start, &reads);
                // Each thread begins at another place.
                let from = reads.len() / threads * thread;
                move || {
                    let mut view = policy.view();
                    start.wait();
                    let begin = Instant::now();
                    let mut hits = 0_u64;
                    for &node in reads[from..].iter().chain(&reads[..from]) {
                        hits += u64::from(view.look_up(trace, node) == Found::Hit);
                    }
                    std::hint::black_box(hits);
                    begin.elapsed()
                }
            };
            let others: Vec<_> = (1..threads)
                .map(|thread| scope.spawn(run(thread)))
                .collect();
            let mut most = run(0)();
            for other in others {
                most = most.max(other.join().unwrap_or_default());
            }
            most
        });
        best = best.min(spent.as_secs_f64() * 1e9 / reads.len().max(1) as f64);
    }
    best
}
