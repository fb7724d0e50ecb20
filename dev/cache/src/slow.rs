//! A block over a state whose store needs long for each node.

use crate::{
    state::{key, state, value, KEY_BYTES, VERSION},
    CacheError,
};
use bytes::Bytes;
use povmeter::{Block, BlockError, BlockPool, NodeSource, Root, TrieId::Top};
use povmeter_delta_root::{NodeHash, NodePrefix, SourceError};
use povmeter_node_cache::{CachedSource, NodeCache, Warmer, WarmerOptions};
use povmeter_parallel::{Executor, Interrupt, Parallel, ParallelError, Strategy, View};
use povmeter_store::{MemoryStore, NodeStore, ParallelReads, ThreadsError};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use sp_core::{Blake2Hasher, H256};
use sp_state_machine::{
    Backend, DBValue, OverlayedChanges, TrieBackend, TrieBackendBuilder, TrieBackendStorage,
};
use sp_trie::{
    cache::{CacheSize, LocalTrieCache, SharedTrieCache},
    recorder::Recorder,
};
use std::{
    io,
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

/// The block to execute, and the state under it.
#[derive(Clone, Copy, Debug)]
pub struct SlowOptions {
    /// Accounts in the state.
    pub accounts: usize,
    /// Transfers in the block: each reads and writes two accounts.
    pub transfers: usize,
    /// How long the store needs for a node.
    pub wait: Duration,
    /// Threads that read the nodes of one batch; as many execute transactions ahead.
    pub threads: NonZeroUsize,
    /// Bytes of each cache.
    pub cache_bytes: usize,
    /// Seed of the accounts that a block touches.
    pub seed: u64,
}

impl Default for SlowOptions {
    /// 1,000,000 accounts, 500 transfers, 100 microseconds, 8 threads, 256 MiB.
    fn default() -> Self {
        Self {
            accounts: 1_000_000,
            transfers: 500,
            wait: Duration::from_micros(100),
            threads: NonZeroUsize::MIN.saturating_add(7),
            cache_bytes: 256 << 20,
            seed: 1,
        }
    }
}

/// One way to execute the block.
#[derive(Clone, Debug)]
pub struct SlowRow {
    /// The state machine, and how it gets its nodes.
    pub what: &'static str,
    /// From the first read to the root, in milliseconds on the wall.
    pub ms: f64,
    /// Nodes that the store was asked for meanwhile.
    pub asked: u64,
}

/// A store that sleeps before it answers.
#[derive(Clone)]
struct Slow {
    store: Arc<MemoryStore>,
    wait: Duration,
    asked: Arc<AtomicU64>,
}

impl Slow {
    fn wait(&self) {
        self.asked.fetch_add(1, Relaxed);
        thread::sleep(self.wait);
    }
}

// Does not implement `nodes`, because a database answers one node at a time, too.
impl NodeSource for Slow {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.wait();
        self.store.node(hash, prefix)
    }
}

impl TrieBackendStorage<Blake2Hasher> for Slow {
    fn get(&self, hash: &H256, prefix: NodePrefix<'_>) -> Result<Option<DBValue>, String> {
        self.wait();
        let node = self.store.node(&NodeHash::from(hash.0), prefix);
        let node = node.map_err(|error| error.to_string())?;
        Ok(node.map(|node| node.to_vec()))
    }
}

/// The keys of both accounts.
type Transfer = [[u8; KEY_BYTES]; 2];

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlowError {
    /// The state could not be made.
    #[error(transparent)]
    State(#[from] CacheError),
    /// A block on povmeter failed.
    #[error("the block failed on povmeter: {0}")]
    Block(#[from] BlockError),
    /// A block on sp-state-machine failed.
    #[error("the block failed on sp-state-machine: {0}")]
    Peer(String),
    /// A block on povmeter, executed by several threads, failed.
    #[error(transparent)]
    Workers(#[from] ParallelError),
    /// A pool of threads could not be started.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The warmer could not be started.
    #[error("could not start the warmer: {0}")]
    Warmer(#[from] io::Error),
    /// Two ways to execute one block ended on two roots.
    #[error("{what}: expected root {expected}, found {found}")]
    Root {
        /// The second way.
        what: &'static str,
        /// Root of the first way.
        expected: Root,
        /// Root of the second way.
        found: Root,
    },
}

/// Executes one block in each way, and returns a row for each.
///
/// # Errors
/// [`SlowError`], also if two ways have different roots.
pub fn measure_slow_source(options: &SlowOptions) -> Result<Vec<SlowRow>, SlowError> {
    let mut dice = SmallRng::seed_from_u64(options.seed);
    let mut account = || key(dice.random_range(0..options.accounts));
    let transfers: Vec<Transfer> = (0..options.transfers)
        .map(|_| [account(), account()])
        .collect();
    let slow = Slow {
        store: Arc::new(state(options.accounts)?),
        wait: options.wait,
        asked: Arc::default(),
    };
    let mut rows = Rows {
        asked: Arc::clone(&slow.asked),
        root: None,
        rows: Vec::new(),
    };
    measure_peer(&mut rows, &slow, &transfers, options)?;
    measure_ours(&mut rows, &slow, &transfers, options)?;
    Ok(rows.rows)
}

fn measure_peer(
    rows: &mut Rows,
    slow: &Slow,
    transfers: &[Transfer],
    options: &SlowOptions,
) -> Result<(), SlowError> {
    rows.measure("sp-state-machine", || on_peer(slow, None, transfers))?;
    let shared = SharedTrieCache::new(CacheSize::new(options.cache_bytes), None);
    for what in [
        "sp-state-machine, empty trie cache",
        "sp-state-machine, warm trie cache",
    ] {
        rows.measure(what, || {
            on_peer(slow, Some(shared.local_cache_trusted()), transfers)
        })?;
    }
    Ok(())
}

fn measure_ours(
    rows: &mut Rows,
    slow: &Slow,
    transfers: &[Transfer],
    options: &SlowOptions,
) -> Result<(), SlowError> {
    let parent = slow.store.root();
    let keys = transfers.as_flattened();
    rows.measure("povmeter", || {
        on_block(&mut Block::new(slow, parent), transfers)
    })?;

    let parallel = ParallelReads::new(slow, options.threads)?;
    rows.measure("povmeter, prefetch", || {
        let mut block = Block::new(&parallel, parent);
        block.prefetch(Top, keys)?;
        on_block(&mut block, transfers)
    })?;

    rows.measure("povmeter, executed ahead by as many threads", || {
        ahead(&parallel, slow, parent, transfers, options.threads)
    })?;
    let cache = Arc::new(NodeCache::new(options.cache_bytes));
    let cached = CachedSource::new(&parallel, cache);
    rows.measure("povmeter, the same over an empty node cache", || {
        ahead(&cached, &cached, parent, transfers, options.threads)
    })?;

    let cache = Arc::new(NodeCache::new(options.cache_bytes));
    let cached = CachedSource::new(slow, Arc::clone(&cache));
    let threads = options.threads;
    let warmer_options = WarmerOptions {
        threads,
        ..WarmerOptions::default()
    };
    let warmer = Warmer::new(slow.clone(), cache, warmer_options)?;
    rows.measure("povmeter, warmer", || {
        warmer.start_block(parent);
        warmer.warm(Top, keys);
        on_block(&mut Block::new(&cached, parent), transfers)
    })?;
    warmer.wait();
    rows.measure("povmeter, warm node cache", || {
        on_block(&mut Block::new(&cached, parent), transfers)
    })?;

    let pool = BlockPool::carrying(options.cache_bytes);
    on_block(&mut pool.block(&*slow.store, parent), transfers)?;
    rows.measure("povmeter, loaded nodes carried on", || {
        on_block(&mut pool.block(slow, parent), transfers)
    })
}

/// The rows so far, and the root that all of them have.
struct Rows {
    asked: Arc<AtomicU64>,
    root: Option<Root>,
    rows: Vec<SlowRow>,
}

impl Rows {
    fn measure(
        &mut self,
        what: &'static str,
        block: impl FnOnce() -> Result<Root, SlowError>,
    ) -> Result<(), SlowError> {
        let asked = self.asked.load(Relaxed);
        let start = Instant::now();
        let found = block()?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let asked = self.asked.load(Relaxed) - asked;
        self.rows.push(SlowRow { what, ms, asked });
        let expected = *self.root.get_or_insert(found);
        if found != expected {
            return Err(SlowError::Root {
                what,
                expected,
                found,
            });
        }
        Ok(())
    }
}

/// Reads and writes both accounts of each transfer, with an estimate after each; then the root.
fn on_block<S: NodeSource>(
    block: &mut Block<S>,
    transfers: &[Transfer],
) -> Result<Root, SlowError> {
    for (number, accounts) in transfers.iter().enumerate() {
        block.start_transaction();
        for key in accounts {
            block.get(Top, key)?;
        }
        for (at, key) in accounts.iter().enumerate() {
            block.set(Top, key, &value(at, number))?;
        }
        block.commit_transaction()?;
        block.proof_size()?;
    }
    Ok(block.root(VERSION)?.root)
}

/// As [`on_block`], by several threads. The block loads from `source`, the other threads from `of_threads`.
fn ahead<S: NodeSource + Send>(
    source: S,
    of_threads: &(impl NodeSource + Sync),
    parent: Root,
    transfers: &[Transfer],
    threads: NonZeroUsize,
) -> Result<Root, SlowError> {
    let mut block = Block::new(source, parent);
    let count = u32::try_from(transfers.len()).unwrap_or(u32::MAX);
    let workers = Parallel::new(threads).with_strategy(Strategy::Always);
    let executed = workers.execute(&mut block, of_threads, &Transfers(transfers), count);
    executed.map_err(ParallelError::from)?;
    Ok(block.root(VERSION)?.root)
}

struct Transfers<'t>(&'t [Transfer]);

impl Executor for Transfers<'_> {
    type Worker = ();
    type Output = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<(), Interrupt> {
        let number = index as usize;
        let accounts = &self.0[number];
        for key in accounts {
            view.get(Top, key)?;
        }
        for (at, key) in accounts.iter().enumerate() {
            view.set(Top, key, &value(at, number))?;
        }
        Ok(())
    }
}

/// As [`on_block`], on sp-state-machine with its recorder, without estimates.
fn on_peer(
    slow: &Slow,
    cache: Option<LocalTrieCache<Blake2Hasher>>,
    transfers: &[Transfer],
) -> Result<Root, SlowError> {
    let parent = H256(slow.store.root().into());
    let backend: TrieBackend<_, Blake2Hasher, _, _> = TrieBackendBuilder::new(slow.clone(), parent)
        .with_recorder(Recorder::default())
        .with_optional_cache(cache)
        .build();
    let mut overlay = OverlayedChanges::<Blake2Hasher>::default();
    for (number, accounts) in transfers.iter().enumerate() {
        overlay.start_transaction();
        for key in accounts {
            if overlay.storage(key).is_none() {
                backend.storage(key).map_err(SlowError::Peer)?;
            }
        }
        for (at, key) in accounts.iter().enumerate() {
            overlay.set_storage(key.to_vec(), Some(value(at, number).to_vec()));
        }
        (overlay.commit_transaction()).map_err(|error| SlowError::Peer(format!("{error:?}")))?;
    }
    let (root, _) = overlay.storage_root(&backend, sp_core::storage::StateVersion::V1);
    Ok(Root::from(root.0))
}
