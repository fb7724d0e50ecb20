//! Threads that load the paths of keys into the cache.

use crate::{CachedSource, NodeCache};
use crossbeam_channel::{bounded, Receiver, Sender, TrySendError};
use povmeter_delta_root::{LoadError, NodeBatch, NodeSource, ShadowState};
use povmeter_primitives::{Root, TrieId};
use std::{
    io,
    num::NonZeroUsize,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
    },
    thread::{self, JoinHandle},
};

/// Threads that walk to keys in the state that a block starts from, so that the nodes and values are in the
/// cache before the block asks for them.
///
/// Nothing that a block counts depends on the warmer, because a block counts the nodes that it asks for,
/// wherever they were. A key that can't be loaded is counted and forgotten, because the block that needs it
/// gets the error.
///
/// Dropping the warmer waits until each thread has ended its piece of work, and drops the other keys.
///
/// ```
/// use povmeter::{Block, Root, StateVersion::V1, TrieId::Top};
/// use povmeter_node_cache::{CachedSource, NodeCache, Warmer, WarmerOptions};
/// use povmeter_store::{MemoryStore, NodeStore};
/// use std::sync::{Arc, RwLock};
///
/// # let mut store = MemoryStore::new();
/// # let mut genesis = Block::new(&store, Root::EMPTY);
/// # genesis.set(Top, b"alice", &[7; 40])?;
/// # genesis.set(Top, b"bobby", &[8; 40])?;
/// # store.commit(genesis.seal(V1)?.update())?;
/// # let mut parent = store.root();
/// // The warmer's threads read the store to which blocks are committed.
/// let store = Arc::new(RwLock::new(store));
/// let cache = Arc::new(NodeCache::new(1 << 20));
/// let warmer = Warmer::new(Arc::clone(&store), Arc::clone(&cache), WarmerOptions::default())?;
///
/// for value in [[1; 40], [2; 40]] {
///     // The keys of the next transactions, while the block executes the first ones.
///     warmer.start_block(parent);
///     warmer.warm(Top, &[b"alice".as_slice(), b"bobby"]);
/// #   warmer.wait();
/// #   assert_eq!(warmer.counters().failed, 0);
/// #   let before = cache.counters().misses;
///     let source = CachedSource::new(Arc::clone(&store), Arc::clone(&cache));
///     let mut block = Block::new(source, parent);
///     assert!(block.get(Top, b"bobby")?.is_some());
///     block.set(Top, b"alice", &value)?;
///     let sealed = block.seal(V1)?;
/// #   assert_eq!(cache.counters().misses, before);
///
///     store.write().map_err(|_| "a writer panicked")?.commit(sealed.update())?;
///     cache.apply(sealed.update());
///     parent = sealed.update().root;
/// }
/// # assert_eq!(warmer.counters().warmed, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Warmer {
    /// `Some` until the warmer is dropped.
    queue: Option<Sender<Job>>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The number of threads and the length of the queue of a [`Warmer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmerOptions {
    /// Number of threads. They mostly wait for the store.
    pub threads: NonZeroUsize,
    /// The most pieces of work that wait, of up to 32 keys each. Further pieces are refused. The memory of the queue
    /// is there from the start, about 100 bytes for each, so more than 65,536 are taken as 65,536.
    pub queue: usize,
}

impl Default for WarmerOptions {
    /// Four threads, 256 pieces of work.
    fn default() -> Self {
        Self {
            threads: NonZeroUsize::MIN.saturating_add(3),
            queue: 256,
        }
    }
}

/// What a [`Warmer`] did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmerCounters {
    /// Keys whose paths and values were loaded.
    pub warmed: u64,
    /// Keys that were refused because the queue was full.
    pub refused: u64,
    /// Keys that were dropped because their block was over before they were loaded.
    pub outdated: u64,
    /// Keys of pieces of work in which a node could not be loaded.
    pub failed: u64,
    /// Panics of the source, also while it was cloned, each of which lost up to 32 keys.
    pub panics: u64,
}

/// Keys of one trie of the state that `root` commits to.
#[derive(Debug)]
struct Job {
    /// Number of the block that the keys are for.
    block: u64,
    root: Root,
    child: Option<Box<[u8]>>,
    keys: Vec<Box<[u8]>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number and parent state of the current block.
    block: Mutex<(u64, Root)>,
    stop: AtomicBool,
    /// Jobs that are queued or being done.
    open: Mutex<usize>,
    none_open: Condvar,
    warmed: AtomicU64,
    refused: AtomicU64,
    outdated: AtomicU64,
    failed: AtomicU64,
    panics: AtomicU64,
}

/// The most nodes that a thread holds for one block. Then it begins anew, because its shadow trie is no
/// cache.
const MOST_NODES: usize = 50_000;
/// The most bytes of nodes and values that a thread holds before it begins a piece of work. Values can be long.
const MOST_BYTES: usize = 32 << 20;

/// The most pieces of work that a queue has room for.
const LONGEST_QUEUE: usize = 1 << 16;

impl Warmer {
    /// Starts threads that read from `source` through `cache`.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new<S>(source: S, cache: Arc<NodeCache>, options: WarmerOptions) -> io::Result<Self>
    where
        S: NodeSource + Clone + Send + 'static,
    {
        let (queue, jobs) = bounded(options.queue.min(LONGEST_QUEUE));
        let mut warmer = Self {
            queue: Some(queue),
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..options.threads.get() {
            let source = CachedSource::new(source.clone(), Arc::clone(&cache));
            let (jobs, shared) = (jobs.clone(), Arc::clone(&warmer.shared));
            let thread = thread::Builder::new().name(format!("povmeter-warmer-{number}"));
            // If a thread is refused, dropping the warmer ends those before it.
            warmer
                .threads
                .push(thread.spawn(move || work(&source, &jobs, &shared))?);
        }
        Ok(warmer)
    }

    /// Begins a block on the state that `parent` commits to: later calls of [`Self::warm`] are for it. Keys
    /// that still wait for an earlier block are dropped.
    pub fn start_block(&self, parent: Root) {
        let mut block = lock(&self.shared.block);
        *block = (block.0 + 1, parent);
    }

    /// Queues keys of the parent state, which may exist or not. Returns how many were queued: not all if
    /// the queue is full. Never waits.
    pub fn warm(&self, trie: TrieId<'_>, keys: &[impl AsRef<[u8]>]) -> usize {
        let (block, root) = *lock(&self.shared.block);
        let mut taken = 0;
        for keys in keys.chunks(NodeBatch::MOST) {
            let job = Job {
                block,
                root,
                child: match trie {
                    TrieId::Top => None,
                    TrieId::Child(storage_key) => Some(storage_key.into()),
                },
                keys: keys.iter().map(|key| key.as_ref().into()).collect(),
            };
            *lock(&self.shared.open) += 1;
            match self.queue.as_ref().map(|queue| queue.try_send(job)) {
                Some(Ok(())) => taken += keys.len(),
                Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => {
                    self.shared.refused.fetch_add(keys.len() as u64, Relaxed);
                    self.shared.close_one();
                }
            }
        }
        taken
    }

    /// Waits until no key is queued or being loaded.
    pub fn wait(&self) {
        let mut open = lock(&self.shared.open);
        while *open > 0 {
            open = self
                .shared
                .none_open
                .wait(open)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns what the warmer did so far.
    pub fn counters(&self) -> WarmerCounters {
        let Shared {
            warmed,
            refused,
            outdated,
            failed,
            panics,
            ..
        } = &*self.shared;
        WarmerCounters {
            warmed: warmed.load(Relaxed),
            refused: refused.load(Relaxed),
            outdated: outdated.load(Relaxed),
            failed: failed.load(Relaxed),
            panics: panics.load(Relaxed),
        }
    }
}

impl Drop for Warmer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.queue = None;
        for thread in self.threads.drain(..) {
            // Panics of the source are caught, and a thread has none of its own.
            let _ = thread.join();
        }
    }
}

/// Locks `mutex`, also after a panic, because no change under these locks can be left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn close_one(&self) {
        let mut open = lock(&self.open);
        *open -= 1;
        if *open == 0 {
            self.none_open.notify_all();
        }
    }

    fn is_over(&self, job: &Job) -> bool {
        self.stop.load(Relaxed) || lock(&self.block).0 != job.block
    }
}

/// Does jobs until the queue is closed.
fn work<S: NodeSource + Clone>(source: &CachedSource<S>, jobs: &Receiver<Job>, shared: &Shared) {
    let mut last = None;
    for job in jobs {
        if shared.is_over(&job) {
            shared.outdated.fetch_add(job.keys.len() as u64, Relaxed);
            shared.close_one();
            continue;
        }
        // All calls of the source are inside. A panic drops what it left of the state.
        let walked = catch_unwind(AssertUnwindSafe(|| {
            let mut state = state_for(&job, last.take(), source);
            let walked = walk(&mut state, &job);
            last = Some((job.block, state));
            walked
        }));
        let keys = job.keys.len() as u64;
        match walked {
            Ok(Ok(())) => shared.warmed.fetch_add(keys, Relaxed),
            Ok(Err(_)) => shared.failed.fetch_add(keys, Relaxed),
            Err(_) => shared.panics.fetch_add(1, Relaxed),
        };
        shared.close_one();
    }
}

/// Returns the state to walk in for `job`: that of the last job, emptied if it was for another block or has many
/// nodes.
fn state_for<S: NodeSource + Clone>(
    job: &Job,
    last: Option<(u64, ShadowState<S>)>,
    source: &S,
) -> ShadowState<S> {
    let Some((block, mut state)) = last else {
        return ShadowState::new(source.clone(), job.root);
    };
    let is_full = state.loaded_nodes() > MOST_NODES || state.table().memory() > MOST_BYTES;
    if block != job.block || is_full {
        state.rebase(job.root, |_| {});
    }
    state
}

/// Loads the paths and values of a job's keys.
fn walk<S: NodeSource>(state: &mut ShadowState<S>, job: &Job) -> Result<(), LoadError> {
    let trie = match &job.child {
        None => TrieId::Top,
        Some(storage_key) => TrieId::Child(storage_key),
    };
    state.prefetch(trie, &job.keys)
}
