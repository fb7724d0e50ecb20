//! A node source with committed nodes in memory on top.

use povmeter::{Bytes, NodeBatch, NodeHash, NodePrefix, NodeSource, RootUpdate, SourceError};
use std::collections::HashMap;

/// The nodes of `S` and the nodes committed meanwhile; lets a benchmark commit while a runtime executes.
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

    /// Adds the nodes that `update` inserts. Removed nodes stay, because other states may need them.
    pub(crate) fn commit(&mut self, update: &RootUpdate) {
        let inserted = update.inserted();
        let inserted = inserted.map(|node| (node.hash, update.nodes.share(node.encoded)));
        self.committed.extend(inserted);
    }

    /// Drops all committed nodes.
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
