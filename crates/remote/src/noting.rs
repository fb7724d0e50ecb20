//! A source that notes the nodes that another source hands out.

use bytes::Bytes;
use povmeter_delta_root::{NodeBatch, NodeHash, NodePrefix, NodeSource, SourceError};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A source that notes each node that the source below hands out, for a
/// [`Recording`](crate::Recording). A clone shares the notes.
#[derive(Clone, Debug)]
pub struct NotingSource<S> {
    source: S,
    noted: Arc<Mutex<BTreeMap<NodeHash, Bytes>>>,
}

impl<S> NotingSource<S> {
    /// Wraps `source`.
    pub fn new(source: S) -> Self {
        Self {
            source,
            noted: Arc::default(),
        }
    }

    /// The nodes handed out so far, each once, by hash.
    pub fn noted(&self) -> Vec<Bytes> {
        self.nodes_noted().values().cloned().collect()
    }

    /// A poisoned lock does no harm: a node is noted or not.
    fn nodes_noted(&self) -> MutexGuard<'_, BTreeMap<NodeHash, Bytes>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: NodeSource> NodeSource for NotingSource<S> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let node = self.source.node(hash, prefix)?;
        if let Some(node) = &node {
            self.nodes_noted().insert(*hash, node.clone());
        }
        Ok(node)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let asked = batch.open();
        self.source.nodes(batch);
        let mut noted = self.nodes_noted();
        for index in asked {
            if let Ok(Some(node)) = batch.get(index) {
                let node = Bytes::copy_from_slice(node);
                noted.insert(batch.request(index).hash, node);
            }
        }
    }
}
