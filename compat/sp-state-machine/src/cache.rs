//! Trie nodes that blocks, forks and calls share.
//!
//! The update of a block enters the cache only when a block is built on its state. Until then it is not known
//! whether the block is imported, and other blocks on its parent, such as the next proposal, still need the
//! nodes that it replaces.

use crate::nodes::AtHand;
use ::povmeter::{
    Bytes, NodeBatch, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError,
};
use povmeter_node_cache::{CacheCounters, CachedSource, NodeCache};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The most updates that wait for a block on their state. The oldest is dropped, because proposals that are
/// not imported wait forever.
const MOST_WAITING: usize = 8;

/// A cache of nodes for the states of the node's databases.
#[derive(Debug)]
pub(crate) struct Cache {
    nodes: Arc<NodeCache>,
    /// The updates of finished blocks, the oldest first.
    waiting: Mutex<VecDeque<RootUpdate>>,
}

impl Cache {
    /// A cache of at most `bytes` bytes; `None` if that is 0.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        (bytes > 0).then(|| Self {
            nodes: Arc::new(NodeCache::new(bytes)),
            waiting: Mutex::default(),
        })
    }

    /// The source of a block on the state of `root`. An update that waits for this state enters the cache.
    pub(crate) fn source(&self, root: Root) -> Source {
        // Hold the lock during the search only, not while the update is applied.
        let entering = {
            let mut waiting = self.waiting();
            let found = waiting.iter().position(|update| update.root == root);
            found.and_then(|index| waiting.remove(index))
        };
        if let Some(update) = entering {
            self.nodes.apply(&update);
        }
        Source::Cached(CachedSource::new(AtHand, self.nodes.clone()))
    }

    /// Keeps the update of a finished block until a block is built on it. Leaves out an update that would
    /// fill more than half of the cache.
    pub(crate) fn finished(&self, update: &RootUpdate) {
        if update.root == update.parent || update.nodes.memory() > self.nodes.capacity_bytes() / 2 {
            return;
        }
        let mut waiting = self.waiting();
        // Another database of the process has imported the same block.
        if waiting.iter().any(|other| other.root == update.root) {
            return;
        }
        if waiting.len() == MOST_WAITING {
            waiting.pop_front();
        }
        waiting.push_back(update.clone());
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        self.nodes.counters()
    }

    /// A poisoned lock does no harm, because no change under it can be left half done.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<RootUpdate>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The nodes of the backend at hand, with the cache in front of them or without.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Plain(AtHand),
    Cached(CachedSource<AtHand>),
}

impl NodeSource for Source {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        match self {
            Self::Plain(nodes) => nodes.node(hash, prefix),
            Self::Cached(nodes) => nodes.node(hash, prefix),
        }
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        match self {
            Self::Plain(nodes) => nodes.nodes(batch),
            Self::Cached(nodes) => nodes.nodes(batch),
        }
    }
}
