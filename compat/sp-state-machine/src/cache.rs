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

/// A cache of nodes for the states of one database.
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

    /// Keeps the update of a finished block until a block is built on it. All updates that wait take at most half
    /// as much memory as the cache; a larger one is left out.
    pub(crate) fn finished(&self, update: &RootUpdate) {
        let most = self.nodes.capacity_bytes() / 2;
        let Some(most_others) = most.checked_sub(update.nodes.memory()) else {
            return;
        };
        if update.root == update.parent {
            return;
        }
        let mut waiting = self.waiting();
        // The block was proposed, and is now imported.
        if waiting.iter().any(|other| other.root == update.root) {
            return;
        }
        while waiting.len() >= MOST_WAITING || memory_of(&waiting) > most_others {
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

/// Bytes of memory of the nodes of `updates`.
fn memory_of(updates: &VecDeque<RootUpdate>) -> usize {
    updates.iter().map(|update| update.nodes.memory()).sum()
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use ::povmeter::{Block, StateVersion::V1, TrieId::Top};

    /// A source for the state without entries.
    struct Nothing;

    impl NodeSource for Nothing {
        fn node(&self, _: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
            Ok(None)
        }
    }

    /// The update of a block that writes a value of `length` bytes, all of which are `byte`.
    fn update(byte: u8, length: usize) -> RootUpdate {
        let mut block = Block::new(Nothing, Root::EMPTY);
        block.set(Top, b"key", &vec![byte; length]).unwrap();
        let sealed = block.seal(V1).unwrap();
        sealed.update().clone()
    }

    #[test]
    fn updates_that_wait_take_at_most_half_of_the_cache() {
        let cache = Cache::new(1 << 20).unwrap();
        let waiting = |cache: &Cache| {
            let waiting = cache.waiting();
            (waiting.len(), memory_of(&waiting))
        };
        for byte in 0..30 {
            cache.finished(&update(byte, 100_000));
            assert!(waiting(&cache).1 <= 1 << 19);
        }
        assert!((2..=5).contains(&waiting(&cache).0));
        // The newest are kept, and one that is too large is left out.
        cache.finished(&update(30, 600_000));
        let newest = cache.waiting().back().map(|update| update.root);
        assert_eq!(newest, Some(update(29, 100_000).root));
        for byte in 0..30 {
            cache.finished(&update(byte, 10));
        }
        assert_eq!(waiting(&cache).0, MOST_WAITING);
    }
}
