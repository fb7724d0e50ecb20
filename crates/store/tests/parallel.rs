//! Tests of reading a batch on several threads.
#![cfg(feature = "parallel")]
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{encoded, hash};
use povmeter_delta_root::{NodeBatch, NodeHash, NodePrefix, NodeRequest, NodeSource, SourceError};
use povmeter_store::ParallelReads;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long a thread may take to start reading.
const PATIENCE: Duration = Duration::from_secs(60);

/// What happens when a node is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Present,
    Absent,
    Fails,
    Panics,
}

/// A source that may wait, fail or panic in a read.
struct SlowSource {
    nodes: BTreeMap<NodeHash, (String, Kind)>,
    wait: Duration,
    calls: AtomicUsize,
    threads: Mutex<HashSet<ThreadId>>,
    /// Reads wait until so many threads have come, except on the first thread, without which no other comes.
    awaited: usize,
    came: Condvar,
    made: Instant,
}

impl SlowSource {
    fn new(nodes: impl IntoIterator<Item = (String, Kind)>, wait: Duration) -> Self {
        let nodes = nodes
            .into_iter()
            .map(|(name, kind)| (hash(&name), (name, kind)));
        Self {
            nodes: nodes.collect(),
            wait,
            calls: AtomicUsize::new(0),
            threads: Mutex::default(),
            awaited: 0,
            came: Condvar::new(),
            made: Instant::now(),
        }
    }

    /// Notes that this thread reads, and waits for others.
    fn meet(&self) {
        let mut threads = self.threads.lock().unwrap();
        threads.insert(thread::current().id());
        self.came.notify_all();
        if threads.len() > 1 {
            let left = PATIENCE.saturating_sub(self.made.elapsed());
            let is_few = |threads: &mut HashSet<_>| threads.len() < self.awaited;
            drop(self.came.wait_timeout_while(threads, left, is_few));
        }
    }
}

impl NodeSource for SlowSource {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.meet();
        thread::sleep(self.wait);
        let (name, kind) = &self.nodes[hash];
        assert_eq!(
            prefix,
            (name.as_bytes(), Some(0x70)),
            "the position belongs to the node"
        );
        match kind {
            Kind::Present => Ok(Some(encoded(name))),
            Kind::Absent => Ok(None),
            Kind::Fails => Err(SourceError::new(std::fmt::Error)),
            Kind::Panics => panic!("reading {name}"),
        }
    }
}

/// Asks for all nodes of `source` through `threads` threads and checks each answer.
fn ask(source: SlowSource, threads: usize, limit: Duration) -> SlowSource {
    let threads = NonZeroUsize::new(threads).unwrap();
    let parallel = ParallelReads::new(source, threads)
        .unwrap()
        .with_limit(limit);
    let source = parallel.get_ref();
    let names: Vec<_> = source
        .nodes
        .values()
        .map(|(name, _)| name.clone())
        .collect();
    let request = |name: &'_ String| hash(name);
    let hashes: Vec<_> = names.iter().map(request).collect();
    let requests: Vec<_> = names
        .iter()
        .zip(&hashes)
        .map(|(name, hash)| NodeRequest {
            hash: *hash,
            prefix: (name.as_bytes(), Some(0x70)),
        })
        .collect();
    for mut batch in NodeBatch::of(&requests) {
        // Answers that are already there stay.
        batch.answer_with_copy(0, b"from above");
        parallel.nodes(&mut batch);
        assert_eq!(batch.get(0).unwrap(), Some(&b"from above"[..]));
        for index in 1..batch.len() {
            let (name, kind) = &source.nodes[&batch.request(index).hash];
            match (kind, batch.get(index)) {
                (Kind::Present, Ok(Some(node))) => assert_eq!(node, encoded(name)),
                (Kind::Absent, Ok(None)) => {}
                (Kind::Fails, Err(error)) => {
                    assert_eq!(error.to_string(), std::fmt::Error.to_string());
                }
                (Kind::Panics, Err(error)) => {
                    let text = error.to_string();
                    assert!(
                        text.contains(&format!("panicked: reading {name}")),
                        "{text}"
                    );
                    assert!(text.contains(&hash(name).to_string()), "{text}");
                }
                (kind, answer) => panic!("{name}: {kind:?} {answer:?}"),
            }
        }
    }
    parallel.into_inner()
}

fn nodes(count: usize, kind: impl Fn(usize) -> Kind) -> Vec<(String, Kind)> {
    (0..count)
        .map(|number| (format!("node {number}"), kind(number)))
        .collect()
}

#[test]
fn answers_stay_with_their_requests() {
    let kinds = [Kind::Present, Kind::Absent, Kind::Fails, Kind::Panics];
    for threads in [1, 2, 8] {
        for count in [1, 2, 3, 31, 32, 33, 100] {
            for wait in [Duration::ZERO, Duration::from_micros(50)] {
                let nodes = nodes(count, |number| kinds[number % 7 % 4]);
                let source = ask(
                    SlowSource::new(nodes, wait),
                    threads,
                    Duration::from_micros(20),
                );
                let calls = source.calls.load(Ordering::Relaxed);
                assert_eq!(
                    calls,
                    count - count.div_ceil(32),
                    "each open request is read once"
                );
            }
        }
    }
}

#[test]
fn a_fast_source_is_read_on_the_calling_thread() {
    let source = SlowSource::new(nodes(64, |_| Kind::Present), Duration::ZERO);
    let source = ask(source, 8, Duration::MAX);
    let threads = source.threads.into_inner().unwrap();
    assert_eq!(threads, HashSet::from([thread::current().id()]));
}

#[test]
fn a_slow_source_is_read_on_many() {
    let mut source = SlowSource::new(nodes(32, |_| Kind::Present), Duration::from_millis(2));
    source.awaited = 3;
    let source = ask(source, 8, Duration::from_micros(20));
    let threads = source.threads.into_inner().unwrap();
    assert!(threads.len() > 2, "{}", threads.len());
    assert!(threads.contains(&thread::current().id()), "the first node");
}

/// While a thread of a pool waits for another pool, it executes tasks of its own pool: here, it would do so in the middle
/// of a read.
#[test]
fn a_thread_of_another_pool_reads_alone() {
    let source = SlowSource::new(nodes(6, |_| Kind::Present), Duration::from_millis(1));
    let other = rayon::ThreadPoolBuilder::new().num_threads(1);
    let other = other.build().unwrap();
    let source = other.install(|| ask(source, 2, Duration::ZERO));
    // One has an answer from above.
    assert_eq!(source.calls.load(Ordering::Relaxed), 5);
    let reader = other.install(|| thread::current().id());
    assert_eq!(*source.threads.lock().unwrap(), HashSet::from([reader]));
}
