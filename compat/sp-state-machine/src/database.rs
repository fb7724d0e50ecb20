//! What the blocks on the states of one database share.

use crate::cache::Cache;
use ::povmeter::BlockPool;
use povmeter_node_cache::CacheCounters;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// An open database. It is told from others by the address of its storage, which no other storage gets as long
/// as a `Database` of it exists.
#[derive(Clone)]
pub struct Database {
    address: usize,
    storage: Arc<dyn IsOpen>,
}

impl Database {
    pub(crate) fn of<S: ?Sized + Send + Sync + 'static>(storage: &Arc<S>) -> Self {
        Self {
            address: Arc::as_ptr(storage).cast::<()>() as usize,
            storage: Arc::new(Arc::downgrade(storage)),
        }
    }
}

impl PartialEq for Database {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl Eq for Database {}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({:#x})", self.address)
    }
}

/// A reference to a storage that does not keep it open.
trait IsOpen: Send + Sync {
    fn is_open(&self) -> bool;
}

impl<S: ?Sized + Send + Sync> IsOpen for Weak<S> {
    fn is_open(&self) -> bool {
        self.strong_count() > 0
    }
}

/// What goes from one block of a database to the next.
#[derive(Clone, Debug)]
pub(crate) struct BlockMemory {
    /// `None` if the node has chosen that there is none.
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) pool: Arc<BlockPool>,
}

/// The open databases whose states were used.
#[derive(Debug, Default)]
pub(crate) struct Databases(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    open: Vec<(Database, BlockMemory)>,
    /// What the caches of closed databases have counted. A node's metrics must not go back.
    closed: CacheCounters,
}

impl Databases {
    /// The memory of `database`. The first call for a database calls `make`.
    pub(crate) fn memory_of(
        &self,
        database: &Database,
        make: impl FnOnce() -> BlockMemory,
    ) -> BlockMemory {
        let mut all = self.known();
        let mut open = all.open.iter();
        if let Some((_, memory)) = open.find(|(known, _)| known == database) {
            return memory.clone();
        }
        let memory = make();
        all.open.push((database.clone(), memory.clone()));
        memory
    }

    /// The counters of all caches, added up. Of closed databases, only what they have counted.
    pub(crate) fn counters(&self) -> CacheCounters {
        let all = self.known();
        let caches = all.open.iter().filter_map(|(_, memory)| counters(memory));
        caches.chain([all.closed]).sum()
    }

    /// What is known. Drops the memory of databases that were closed.
    fn known(&self) -> MutexGuard<'_, Known> {
        // A poisoned lock does no harm, because no change under it can be left half done.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { open, closed } = &mut *all;
        open.retain(|(database, memory)| {
            if database.storage.is_open() {
                // Each block asks, so nothing is locked here.
                return true;
            }
            if let Some(last) = counters(memory) {
                *closed = [*closed, without_content(last)].into_iter().sum();
            }
            false
        });
        all
    }
}

fn counters(memory: &BlockMemory) -> Option<CacheCounters> {
    memory.cache.as_ref().map(|cache| cache.counters())
}

/// What was counted, without what a cache holds now.
fn without_content(mut counters: CacheCounters) -> CacheCounters {
    counters.entries = 0;
    counters.node_bytes = 0;
    counters.memory_bytes = 0;
    counters.capacity_bytes = 0;
    counters.shards = 0;
    counters
}
