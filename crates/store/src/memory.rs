//! A node store in memory.

use crate::net::{net_changes, net_references, NetChange};
use crate::{NodeStore, StoreError};
use bytes::Bytes;
use foldhash::fast::RandomState;
use hash_db::{HashDB, EMPTY_PREFIX};
use memory_db::{HashKey, MemoryDB};
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError,
};
use std::{fmt, hint::black_box};

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
    root: Root,
    node_count: usize,
    byte_count: usize,
}

/// A batch gets a copy of a node of up to this many bytes; only values are longer.
const COPIED_BYTES: usize = 1024;

/// The most references that memory-db can count for one node.
const REFERENCE_LIMIT: u64 = i32::MAX as u64;

impl MemoryStore {
    /// Makes a store at the state without entries.
    pub fn new() -> Self {
        Self {
            nodes: Nodes::with_hasher(RandomState::default()),
            root: Root::EMPTY,
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
        // A count never falls below zero, because `check` refuses such a commit.
        self.nodes
            .raw(hash, EMPTY_PREFIX)
            .map_or(0, |(_, references)| u64::from(references.unsigned_abs()))
    }

    fn check(&self, change: &NetChange) -> Result<(), StoreError> {
        match change {
            NetChange::Gain {
                hash,
                references: gained,
                ..
            } => {
                let held = self.references(hash);
                if *gained > REFERENCE_LIMIT - held {
                    let (hash, gained, limit) = (*hash, *gained, REFERENCE_LIMIT);
                    return Err(StoreError::TooManyReferences {
                        hash,
                        gained,
                        held,
                        limit,
                    });
                }
            }
            NetChange::Loss {
                hash,
                references: lost,
            } => {
                let held = self.references(hash);
                if *lost > held {
                    return Err(StoreError::MissingReferences {
                        hash: *hash,
                        lost: *lost,
                        held,
                    });
                }
            }
        }
        Ok(())
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
            .field("root", &self.root)
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
        // The processor overlaps waits that have nothing between them, so do all of one kind first.
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

impl NodeStore for MemoryStore {
    fn root(&self) -> Root {
        self.root
    }

    fn commit(&mut self, update: &RootUpdate) -> Result<(), StoreError> {
        let changes = net_changes(update, self.root)?;
        changes.iter().try_for_each(|change| self.check(change))?;
        let root_node = update.root.node_hash();
        let held = i128::from(self.references(&root_node));
        if update.root != Root::EMPTY && held + net_references(&changes, &root_node) <= 0 {
            return Err(StoreError::MissingRoot { root: update.root });
        }
        changes.into_iter().for_each(|change| self.apply(change));
        self.root = update.root;
        Ok(())
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
