//! A source of nodes with a cache in front of it.

use crate::{path::PathKey, NodeCache};
use bytes::Bytes;
use povmeter_delta_root::{NodeBatch, NodePrefix, NodeSource, SourceError};
use povmeter_primitives::NodeHash;
use std::sync::Arc;

/// A [`NodeSource`] that answers from a [`NodeCache`] what the cache has, and reads the rest from the
/// source below, in one call for each batch. The nodes that it read enter the cache.
#[derive(Clone, Debug)]
pub struct CachedSource<S> {
    source: S,
    cache: Arc<NodeCache>,
}

impl<S> CachedSource<S> {
    /// Puts `cache` in front of `source`.
    ///
    /// `source` may be of any state, because a node is found by its path and identified by its hash.
    pub fn new(source: S, cache: Arc<NodeCache>) -> Self {
        Self { source, cache }
    }

    /// The source below.
    pub fn get_ref(&self) -> &S {
        &self.source
    }

    /// The source below, to commit an update to it. Afterwards call [`NodeCache::apply`] with the
    /// update.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The source below, without the cache.
    pub fn into_inner(self) -> S {
        self.source
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<NodeCache> {
        &self.cache
    }
}

impl<S: NodeSource> NodeSource for CachedSource<S> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let key = self.cache.key(prefix);
        if let Some(node) = self.cache.look_up(key, hash, Bytes::copy_from_slice) {
            return Ok(Some(node));
        }
        let updates = self.cache.updates();
        let node = self.source.node(hash, prefix)?;
        if let Some(encoded) = &node {
            self.cache.fill(key, hash, encoded, updates);
        }
        Ok(node)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let mut keys = [PathKey::default(); NodeBatch::MOST];
        for index in batch.open() {
            keys[index] = self.cache.key(batch.request(index).prefix);
        }
        for index in batch.open() {
            let hash = &batch.request(index).hash;
            self.cache.look_up(keys[index], hash, |node| {
                batch.answer_with_copy(index, node)
            });
        }
        let missed = batch.open();
        if missed.len() == 0 {
            return;
        }
        let updates = self.cache.updates();
        self.source.nodes(batch);
        for index in missed {
            if let Ok(Some(encoded)) = batch.get(index) {
                let hash = &batch.request(index).hash;
                self.cache.fill(keys[index], hash, encoded, updates);
            }
        }
    }
}
