//! How many blocks workers execute per second when they share the nodes in a Redis Cluster: 1, 2 and 4
//! workers, without a cache, with an empty cache each, and with the cache that the run before filled.
//!
//! `cargo run --release -p povmeter-store --features redis --example redis_workers`
//!
//! starts a cluster of three masters here, in a temporary folder. `-- redis://HOST:PORT ...` uses another
//! cluster, and leaves the nodes there under the namespace `povmeter-example`.
//!
//! A block is a chain of transfers between random accounts. Every worker has its own connections, as on a
//! machine of its own, and executes the next block that no worker has taken. A root that differs from the
//! root over a store in memory ends the program.

// Not a test, but it uses the cluster of the tests.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/cluster.rs"]
mod cluster;

use povmeter::{
    Block, Bytes, NodeBatch, NodeHash, NodePrefix, NodeSource, Root, SourceError, StateVersion::V1,
    TrieId::Top,
};
use povmeter_store::{ClusterOptions, MemoryStore, NodeStore, RedisCluster};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: u32 = 100_000;
const BLOCKS: usize = 24;
const TRANSFERS: usize = 250;
const WORKERS: [usize; 3] = [1, 2, 4];

type Anyhow<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A block to execute: its parent state, its root, and the seed of its transfers.
struct Job {
    parent: Root,
    root: Root,
    seed: u64,
}

/// How a block touches its accounts.
#[derive(Clone, Copy)]
enum Access {
    /// Reads an account, then writes it. Each read waits for its nodes, one after the other.
    ReadAndWrite,
    /// Only writes. The seal of the block asks for the nodes of many keys together.
    WriteOnly,
}

/// A worker's own cache without a bound, in front of the shared nodes. It has the nodes that the worker
/// read, and those that its blocks inserted.
struct Cached<'a> {
    shared: &'a RedisCluster,
    nodes: Option<RefCell<HashMap<NodeHash, Bytes>>>,
    requests: Cell<usize>,
    reads: Cell<usize>,
}

impl Cached<'_> {
    fn cached(&self, hash: &NodeHash) -> Option<Bytes> {
        self.requests.set(self.requests.get() + 1);
        let found = self.nodes.as_ref()?.borrow().get(hash).cloned();
        found
    }

    fn fill(&self, hash: NodeHash, node: Option<Bytes>) {
        self.reads.set(self.reads.get() + 1);
        if let (Some(nodes), Some(node)) = (&self.nodes, node) {
            nodes.borrow_mut().insert(hash, node);
        }
    }
}

impl NodeSource for Cached<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if let Some(node) = self.cached(hash) {
            return Ok(Some(node));
        }
        let node = self.shared.node(hash, prefix)?;
        self.fill(*hash, node.clone());
        Ok(node)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        for index in batch.open() {
            if let Some(node) = self.cached(&batch.request(index).hash) {
                batch.answer(index, Ok(Some(node)));
            }
        }
        let asked = batch.open();
        self.shared.nodes(batch);
        for index in asked {
            self.fill(batch.request(index).hash, batch.share(index));
        }
    }
}

fn account(number: u32) -> [u8; 32] {
    let mut key = [0; 32];
    SmallRng::seed_from_u64(number.into()).fill(&mut key);
    key
}

fn execute(
    source: impl NodeSource,
    job: (Root, u64),
    access: Access,
) -> Anyhow<povmeter::SealedBlock> {
    let (parent, seed) = job;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut block = Block::new(source, parent);
    for _ in 0..TRANSFERS * 2 {
        let key = account(rng.random_range(0..ACCOUNTS));
        if let Access::ReadAndWrite = access {
            block.get(Top, &key)?.ok_or("an account is missing")?;
        }
        block.set(Top, &key, &rng.random::<[u8; 32]>().repeat(2))?;
    }
    block.seal(V1).map_err(|error| error.to_string().into())
}

/// Makes the state and the blocks, in memory and in the cluster.
fn prepare(nodes: &RedisCluster) -> Anyhow<Vec<Job>> {
    let started = Instant::now();
    let mut memory = MemoryStore::new();
    let mut genesis = Block::new(&memory, Root::EMPTY);
    for number in 0..ACCOUNTS {
        genesis.set(Top, &account(number), &[7; 64])?;
    }
    let sealed = genesis.seal(V1).map_err(|error| error.to_string())?;
    nodes.insert(sealed.update())?;
    memory.commit(sealed.update())?;
    let mut jobs = Vec::new();
    for seed in 0..BLOCKS as u64 {
        let parent = memory.root();
        let sealed = execute(&memory, (parent, seed), Access::WriteOnly)?;
        nodes.insert(sealed.update())?;
        memory.commit(sealed.update())?;
        let root = memory.root();
        jobs.push(Job { parent, root, seed });
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{ACCOUNTS} accounts and {BLOCKS} blocks of {TRANSFERS} transfers in the cluster after {seconds:.1} s");
    Ok(jobs)
}

/// What a worker did.
#[derive(Default)]
struct Work {
    requests: usize,
    reads: usize,
}

/// Takes blocks until none is left.
fn work(source: &Cached<'_>, jobs: &[Job], next: &AtomicUsize, access: Access) -> Anyhow<Work> {
    let before = (source.requests.get(), source.reads.get());
    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
        let sealed = execute(source, (job.parent, job.seed), access)?;
        if sealed.update().root != job.root {
            return Err(
                format!("expected root {}, found {}", job.root, sealed.update().root).into(),
            );
        }
        if let Some(nodes) = &source.nodes {
            let inserted = sealed.update().inserted();
            let inserted = inserted.map(|node| (node.hash, Bytes::copy_from_slice(node.encoded)));
            nodes.borrow_mut().extend(inserted);
        }
    }
    Ok(Work {
        requests: source.requests.get() - before.0,
        reads: source.reads.get() - before.1,
    })
}

/// Runs the workers over all blocks `runs` times; a run begins when all workers have ended the run
/// before. Returns the time of each run and the work of all workers in it.
fn measure(
    connect: &impl Fn() -> Anyhow<RedisCluster>,
    (workers, has_cache, runs): (usize, bool, usize),
    jobs: &[Job],
    access: Access,
) -> Anyhow<Vec<(Duration, Work)>> {
    let connections: Vec<RedisCluster> = (0..workers).map(|_| connect()).collect::<Anyhow<_>>()?;
    let next: Vec<_> = (0..runs).map(|_| AtomicUsize::new(0)).collect();
    let barrier = std::sync::Barrier::new(workers + 1);
    std::thread::scope(|scope| {
        let (next, barrier) = (&next, &barrier);
        let worker = move |shared| {
            let source = Cached {
                shared,
                nodes: has_cache.then(RefCell::default),
                requests: Cell::new(0),
                reads: Cell::new(0),
            };
            let mut done = Vec::new();
            for next in next {
                barrier.wait();
                done.push(work(&source, jobs, next, access));
                barrier.wait();
            }
            done.into_iter().collect::<Anyhow<Vec<Work>>>()
        };
        let threads: Vec<_> = connections
            .iter()
            .map(|shared| scope.spawn(move || worker(shared)))
            .collect();
        let times: Vec<Duration> = (0..runs)
            .map(|_| {
                barrier.wait();
                let started = Instant::now();
                barrier.wait();
                started.elapsed()
            })
            .collect();
        let mut results: Vec<_> = times
            .into_iter()
            .map(|time| (time, Work::default()))
            .collect();
        for thread in threads {
            let done = thread.join().map_err(|_| "a worker panicked")??;
            for ((_, sum), work) in results.iter_mut().zip(done) {
                sum.requests += work.requests;
                sum.reads += work.reads;
            }
        }
        Ok(results)
    })
}

fn main() -> Anyhow<()> {
    let mut addresses: Vec<String> = std::env::args().skip(1).collect();
    let cluster = if addresses.is_empty() {
        let Some(cluster) = cluster::TestCluster::start(cluster::PATIENT) else {
            return Ok(());
        };
        addresses = cluster.addresses();
        Some(cluster)
    } else {
        None
    };
    let connect = || -> Anyhow<RedisCluster> {
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let options = ClusterOptions::new("povmeter-example")?;
        Ok(RedisCluster::connect(&addresses, options)?)
    };
    let jobs = prepare(&connect()?)?;
    println!("| access | workers | cache | blocks/s | us/node read | nodes read/block | hits |");
    println!("|---|--:|---|--:|--:|--:|--:|");
    for (access, label) in [
        (Access::ReadAndWrite, "read, then write"),
        (Access::WriteOnly, "write only, in batches"),
    ] {
        for workers in WORKERS {
            let none = measure(&connect, (workers, false, 1), &jobs, access)?;
            let cached = measure(&connect, (workers, true, 2), &jobs, access)?;
            let names = ["none", "empty at first", "of the run before"];
            for (name, (time, work)) in names.iter().zip(none.into_iter().chain(cached)) {
                let rate = BLOCKS as f64 / time.as_secs_f64();
                let per_read = time.as_secs_f64() * 1e6 * workers as f64 / work.reads.max(1) as f64;
                let per_read = if work.reads == 0 {
                    "–".into()
                } else {
                    format!("{per_read:.0}")
                };
                let reads = work.reads / BLOCKS;
                let hits = 100.0 * (1.0 - work.reads as f64 / work.requests as f64);
                println!("| {label} | {workers} | {name} | {rate:.1} | {per_read} | {reads} | {hits:.0} % |");
            }
        }
    }
    drop(cluster);
    Ok(())
}
