//! A node store in memory.

use crate::engine::{self, engine_store, Batch, Engine, Held};
use crate::history::{KeptStates, StateId};
use crate::journal::StateDiff;
use crate::net::NetChange;
use crate::stored::{CountedNode, StoredNodes};
use crate::{NodeStore, StoreError};
use bytes::Bytes;
use foldhash::fast::RandomState;
use hash_db::{HashDB, EMPTY_PREFIX};
use memory_db::{HashKey, MemoryDB};
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeHash, NodePrefix, NodeSource, Root, SourceError,
};
use std::{collections::BTreeMap, fmt, hint::black_box, ops::ControlFlow};

/// An encoded node in the form memory-db keeps; a clone copies no bytes.
#[derive(Clone, Default, PartialEq)]
struct StoredNode(Bytes);

impl From<&[u8]> for StoredNode {
    fn from(encoded: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(encoded))
    }
}

impl AsRef<[u8]> for StoredNode {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

type Nodes = MemoryDB<Blake2b256, HashKey<Blake2b256>, StoredNode, RandomState>;

/// A store that keeps nodes in memory, keyed by hash, with exact reference counts.
///
/// A clone is an independent store at the same state. It shares the encoded nodes and costs one
/// pass over the table.
#[derive(Clone)]
pub struct MemoryStore {
    nodes: Nodes,
    kept: KeptStates,
    /// Records about the kept states, by key.
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    node_count: usize,
    byte_count: usize,
}

/// Nodes of up to this many bytes are copied into a batch; only values are longer.
pub(crate) const COPIED_BYTES: usize = 1024;

impl MemoryStore {
    /// Makes a store at the state without entries.
    pub fn new() -> Self {
        Self {
            nodes: Nodes::with_hasher(RandomState::default()),
            kept: KeptStates::only(0, 0, Root::EMPTY),
            records: BTreeMap::new(),
            node_count: 0,
            byte_count: 0,
        }
    }

    /// Number of distinct nodes in the store, without the null node.
    pub fn node_count(&self) -> usize {
        self.node_count
    }

    /// Total bytes of the distinct encoded nodes in the store, without the null node.
    pub fn byte_count(&self) -> usize {
        self.byte_count
    }

    fn stored(&self, hash: &NodeHash) -> Option<&Bytes> {
        let stored = self.nodes.raw(hash, EMPTY_PREFIX);
        stored
            .filter(|(_, references)| *references > 0)
            .map(|(StoredNode(node), _)| node)
    }

    /// Reference count of the node `hash`.
    fn references(&self, hash: &NodeHash) -> u64 {
        // A count never falls below zero, because such a write is refused.
        self.nodes
            .raw(hash, EMPTY_PREFIX)
            .map_or(0, |(_, references)| u64::from(references.unsigned_abs()))
    }

    fn apply(&mut self, change: NetChange) {
        match change {
            NetChange::Gain {
                hash,
                references,
                encoded,
            } => {
                if self.references(&hash) == 0 {
                    self.node_count += 1;
                    self.byte_count += encoded.len();
                }
                for _ in 0..references {
                    self.nodes
                        .emplace(hash, EMPTY_PREFIX, StoredNode(encoded.clone()));
                }
            }
            NetChange::Loss { hash, references } => {
                for _ in 0..references {
                    if let Some(purged) = self.nodes.remove_and_purge(&hash, EMPTY_PREFIX) {
                        self.node_count -= 1;
                        self.byte_count -= purged.0.len();
                    }
                }
            }
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("root", &self.root())
            .field("kept", &self.kept.len())
            .field("node_count", &self.node_count)
            .field("byte_count", &self.byte_count)
            .finish()
    }
}

impl NodeSource for MemoryStore {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        Ok(HashDB::get(&self.nodes, hash, EMPTY_PREFIX).map(|node| node.0))
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        // In a large store each look-up waits for memory twice: for the table, then for the node.
        // The processor overlaps waits that follow each other directly, so all waits for the table
        // come first.
        let mut found = [None; NodeBatch::MOST];
        for index in batch.open() {
            found[index] = self.stored(&batch.request(index).hash);
        }
        let found = &found[..batch.len()];
        black_box(found.iter().flatten().filter_map(|node| node.first()).max());
        for index in batch.open() {
            match found[index] {
                Some(node) if node.len() <= COPIED_BYTES => batch.answer_with_copy(index, node),
                node => batch.answer(index, Ok(node.cloned())),
            }
        }
    }
}

impl Engine for MemoryStore {
    /// memory-db counts in an `i32`.
    const REFERENCE_LIMIT: u64 = i32::MAX as u64;

    fn kept(&self) -> &KeptStates {
        &self.kept
    }

    fn kept_mut(&mut self) -> &mut KeptStates {
        &mut self.kept
    }

    fn held(&self, hash: &NodeHash) -> Result<Held, StoreError> {
        Ok(Held::Count(self.references(hash)))
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.records.get(key).cloned())
    }

    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        batch
            .nodes
            .into_iter()
            .for_each(|change| self.apply(change));
        for (key, value) in batch.records {
            match value {
                Some(value) => self.records.insert(key, value),
                None => self.records.remove(&key),
            };
        }
        Ok(())
    }
}

engine_store!(MemoryStore);

impl StoredNodes for MemoryStore {
    fn each_node(
        &mut self,
        visit: &mut dyn FnMut(CountedNode<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        for hash in self.nodes.keys().into_keys() {
            let references = self.references(&hash);
            let Some(encoded) = self.stored(&hash) else {
                continue;
            };
            let node = CountedNode {
                hash,
                references,
                encoded,
            };
            if visit(node).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn diff(&self, state: StateId) -> Result<StateDiff, StoreError> {
        engine::diff(self, state)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::net::NULL_NODE;

    #[test]
    fn null_node_is_the_one_of_memory_db() {
        let store = MemoryStore::new();
        let node = store.node(&Root::EMPTY.node_hash(), EMPTY_PREFIX).unwrap();
        assert_eq!(node.unwrap(), NULL_NODE);
    }
}
