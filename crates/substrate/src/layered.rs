//! A source with nodes committed on top of it in memory.

use povmeter::{Bytes, NodeBatch, NodeHash, NodePrefix, NodeSource, RootUpdate, SourceError};
use std::collections::HashMap;

/// Nodes of `S`, and those committed while running: what lets a benchmark commit under a runtime.
#[derive(Debug)]
pub(crate) struct Layered<S> {
    base: S,
    committed: HashMap<NodeHash, Bytes>,
}

impl<S> Layered<S> {
    pub(crate) fn new(base: S) -> Self {
        Self {
            base,
            committed: HashMap::new(),
        }
    }

    /// Adds what `update` inserts. What it removes stays: other states may need it.
    pub(crate) fn commit(&mut self, update: &RootUpdate) {
        let inserted = update.inserted();
        let inserted = inserted.map(|node| (node.hash, update.nodes.share(node.encoded)));
        self.committed.extend(inserted);
    }

    /// Forgets all that was committed.
    pub(crate) fn wipe(&mut self) {
        self.committed.clear();
    }
}

impl<S: NodeSource> NodeSource for Layered<S> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if !self.committed.is_empty() {
            if let Some(node) = self.committed.get(hash) {
                return Ok(Some(node.clone()));
            }
        }
        self.base.node(hash, prefix)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        if !self.committed.is_empty() {
            for index in batch.open() {
                if let Some(node) = self.committed.get(&batch.request(index).hash) {
                    batch.answer(index, Ok(Some(node.clone())));
                }
            }
            if batch.open().len() == 0 {
                return;
            }
        }
        self.base.nodes(batch);
    }
}
