//! A source with nodes committed on top of it in memory.

use povmeter::{NodeHash, NodePrefix, NodeSource, RootUpdate, SourceError};
use std::collections::HashMap;

/// Nodes of `S`, and those committed while running: what lets a benchmark commit under a runtime.
#[derive(Debug)]
pub(crate) struct Layered<S> {
    base: S,
    committed: HashMap<NodeHash, bytes::Bytes>,
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
    fn node(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
    ) -> Result<Option<bytes::Bytes>, SourceError> {
        if !self.committed.is_empty() {
            if let Some(node) = self.committed.get(hash) {
                return Ok(Some(node.clone()));
            }
        }
        self.base.node(hash, prefix)
    }
}
