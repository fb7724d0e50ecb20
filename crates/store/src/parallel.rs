//! A wrapper that reads the nodes of a batch on several threads.

use crate::history::{KeptState, KeptStates, StateHistory, StateId};
use crate::panic::panic_text;
use crate::{NodeStore, StoreError};
use bytes::Bytes;
use povmeter_delta_root::{
    NodeBatch, NodeHash, NodePrefix, NodeRequest, NodeSource, Root, RootUpdate, SourceError,
};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

/// A source that reads the nodes of a batch on several threads if the source below is slow. Both
/// databases block on a read, so one thread waits for one page at a time.
///
/// The calling thread starts to read. As soon as one of its reads takes longer than a limit, the
/// threads of this wrapper's pool read the other nodes. So nodes in memory cost nothing more, and a
/// slow batch costs one slow read and then the time of the slowest thread. [`NodeSource::node`] never
/// uses the pool, and a call on a thread of another pool of rayon reads alone: while that thread waited, it would execute
/// other tasks of its pool in the middle of the call.
///
/// The answers are those of the source below, request by request. A panic while a batch is read becomes
/// the error of its request.
///
/// Put it directly around a store, below caches and [`Verified`](crate::Verified), because it asks for
/// one node at a time.
pub struct ParallelReads<S> {
    source: S,
    pool: ThreadPool,
    limit: Duration,
}

/// A read that takes longer was not answered from memory. To use the threads costs about as much.
const SLOW_READ: Duration = Duration::from_micros(20);

/// The threads of a [`ParallelReads`] could not be started.
#[derive(Debug, thiserror::Error)]
#[error("could not start {threads} threads: {source}")]
#[non_exhaustive]
pub struct ThreadsError {
    /// Number of threads that were to be started.
    pub threads: usize,
    /// Error of the system.
    source: ThreadPoolBuildError,
}

/// The error inside the [`SourceError`] of a request whose read panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading node {hash} panicked: {message}")]
#[non_exhaustive]
pub struct ReadPanic {
    /// Hash of the node.
    pub hash: NodeHash,
    /// Message of the panic.
    pub message: String,
}

impl<S> ParallelReads<S> {
    /// Wraps `source` and starts `threads` threads, which wait until they are needed. More threads than
    /// processors are useful, because they wait for the disk: 8 suit a local disk.
    ///
    /// # Errors
    /// [`ThreadsError`] if the system refuses a thread.
    pub fn new(source: S, threads: NonZeroUsize) -> Result<Self, ThreadsError> {
        let threads = threads.get();
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("povmeter-read-{number}"))
            .build()
            .map_err(|source| ThreadsError { threads, source })?;
        Ok(Self {
            source,
            pool,
            limit: SLOW_READ,
        })
    }

    /// Uses the threads as soon as a read takes `limit`, in place of 20 microseconds.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The wrapped source.
    pub const fn get_ref(&self) -> &S {
        &self.source
    }

    /// The wrapped source, for calls that the wrapper does not have, such as a backup of a store.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Stops the threads and unwraps the source.
    pub fn into_inner(self) -> S {
        self.source
    }
}

impl<S: fmt::Debug> fmt::Debug for ParallelReads<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelReads")
            .field("source", &self.source)
            .field("threads", &self.pool.current_num_threads())
            .field("limit", &self.limit)
            .finish()
    }
}

/// Returns the answer of `source` to `request`, or an error if `source` panics.
fn read(source: &impl NodeSource, request: &NodeRequest<'_>) -> Result<Option<Bytes>, SourceError> {
    // A source is shared by threads already, so it has to be sound after a panic in one of them.
    let read = || source.node(&request.hash, request.prefix);
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        Err(SourceError::new(ReadPanic {
            hash: request.hash,
            message: panic_text(panic.as_ref()),
        }))
    })
}

impl<S: NodeSource + Sync> NodeSource for ParallelReads<S> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.source.node(hash, prefix)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let mut open = batch.open();
        while let Some(index) = open.next() {
            let start = Instant::now();
            let answer = read(&self.source, batch.request(index));
            batch.answer(index, answer);
            // A single read that is left takes as long here as on another thread.
            if open.len() > 1 && start.elapsed() >= self.limit {
                break;
            }
        }
        let left: Vec<_> = open.map(|index| (index, *batch.request(index))).collect();
        if left.is_empty() {
            return;
        }
        // A thread of another pool would execute tasks of that pool while it waits, in the middle of this call: a task that
        // waits for a lock which the caller holds would never end.
        let is_foreign =
            rayon::current_thread_index().is_some() && self.pool.current_thread_index().is_none();
        let answers: Vec<_> = if is_foreign {
            let reads = left.iter();
            reads
                .map(|(_, request)| read(&self.source, request))
                .collect()
        } else {
            self.pool.install(|| {
                let reads = left.par_iter().with_max_len(1);
                reads
                    .map(|(_, request)| read(&self.source, request))
                    .collect()
            })
        };
        for ((index, _), answer) in left.into_iter().zip(answers) {
            batch.answer(index, answer);
        }
    }
}

impl<S: NodeStore + Sync> NodeStore for ParallelReads<S> {
    fn root(&self) -> Root {
        self.source.root()
    }

    fn commit(&mut self, update: &RootUpdate) -> Result<(), StoreError> {
        self.source.commit(update)
    }
}

impl<S: StateHistory + Sync> StateHistory for ParallelReads<S> {
    fn states(&self) -> &KeptStates {
        self.source.states()
    }

    fn keep(&mut self, parent: StateId, update: &RootUpdate) -> Result<StateId, StoreError> {
        self.source.keep(parent, update)
    }

    fn prune(&mut self, base: StateId) -> Result<Vec<KeptState>, StoreError> {
        self.source.prune(base)
    }

    fn discard(&mut self, state: StateId) -> Result<Vec<KeptState>, StoreError> {
        self.source.discard(state)
    }
}
