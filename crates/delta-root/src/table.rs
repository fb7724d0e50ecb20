//! The nodes a block has loaded, each once, by hash.

use crate::{DecodeError, NodeHash, NodePrefix, NodeSource, SourceError};
use alloc::{string::String, vec::Vec};
use bytes::Bytes;
use core::{fmt, fmt::Write, hash::BuildHasher};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// A node or value loaded in this block, dense from zero in the order of first loading.
///
/// Two places of a trie, or of two tries, that hold equal nodes share one id, as they share one
/// place in a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The id as an index, for tables beside this one.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The path of nibbles to a node: what error messages call the place of a node.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPath(String);

impl KeyPath {
    pub(crate) fn new(prefix: NodePrefix<'_>) -> Self {
        let mut path = String::with_capacity(prefix.0.len() * 2 + 1);
        for byte in prefix.0 {
            // Writing to a string does not fail.
            let _ = write!(path, "{byte:02x}");
        }
        if let Some(nibble) = prefix.1 {
            let _ = write!(path, "{:x}", nibble >> 4);
        }
        Self(path)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            f.write_str("the root")
        } else {
            write!(f, "path 0x{}", self.0)
        }
    }
}

impl fmt::Debug for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPath({self})")
    }
}

/// A node that is needed can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The source does not have the node.
    #[error("expected node {hash} at {path}, found nothing in the store")]
    Missing {
        /// Hash that the parent node, or the caller's root, names.
        hash: NodeHash,
        /// Where in the trie.
        path: KeyPath,
    },
    /// What the source has under the hash is no node.
    #[error("expected a trie node {hash} at {path}, found other bytes: {error}")]
    Corrupt {
        /// Hash that the parent node, or the caller's root, names.
        hash: NodeHash,
        /// Where in the trie.
        path: KeyPath,
        /// What is wrong with the bytes.
        error: DecodeError,
    },
    /// The source failed.
    #[error("could not read node {hash} at {path}: {error}")]
    Source {
        /// Hash that the parent node, or the caller's root, names.
        hash: NodeHash,
        /// Where in the trie.
        path: KeyPath,
        /// What the source says.
        error: SourceError,
    },
    /// A node below itself: the store holds other bytes under the hash than those hashed.
    #[error("expected a trie, found node {hash} below itself")]
    Circle {
        /// The hash.
        hash: NodeHash,
    },
    /// An entry whose key is not a whole number of bytes.
    #[error("expected the entries of a state trie, found one at {path}, which is no key")]
    NoKey {
        /// Where in the trie.
        path: KeyPath,
    },
    /// The top trie holds something that is no root under a child trie's key.
    #[error("expected a root of 32 bytes under child storage key 0x{key}, found {found} bytes", key = Hex(.key))]
    ChildRoot {
        /// The child's storage key.
        key: Vec<u8>,
        /// Bytes found.
        found: usize,
    },
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[derive(Debug)]
struct Loaded {
    hash: NodeHash,
    bytes: Bytes,
}

/// The encoded nodes and values a block has loaded, each distinct hash once.
#[derive(Debug, Default)]
pub struct NodeTable {
    nodes: Vec<Loaded>,
    // Keyed per process: the hashes are Blake2b of what users write, and so can be ground.
    by_hash: HashTable<u32>,
    hasher: RandomState,
}

impl NodeTable {
    /// Number of distinct nodes and values loaded.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing is loaded.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The ids given out, in the order of loading.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> {
        // As many as were given out.
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// The encoded node, or the value.
    ///
    /// # Panics
    /// If `id` comes from another table.
    pub fn bytes(&self, id: NodeId) -> &Bytes {
        &self.nodes[id.index()].bytes
    }

    /// The hash it was loaded by.
    ///
    /// # Panics
    /// If `id` comes from another table.
    pub fn hash(&self, id: NodeId) -> &NodeHash {
        &self.nodes[id.index()].hash
    }

    /// The id of what is loaded under `hash`.
    pub fn find(&self, hash: &NodeHash) -> Option<NodeId> {
        self.by_hash
            .find(self.hasher.hash_one(hash), |&index| {
                self.nodes[index as usize].hash == *hash
            })
            .map(|&index| NodeId(index))
    }

    /// The id under which `hash` is loaded, from `source` unless it was before.
    pub(crate) fn load(
        &mut self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
        source: &impl NodeSource,
    ) -> Result<NodeId, LoadError> {
        if let Some(id) = self.find(hash) {
            return Ok(id);
        }
        match source.node(hash, prefix) {
            Ok(Some(bytes)) => Ok(self.insert(*hash, bytes)),
            Ok(None) => Err(LoadError::Missing {
                hash: *hash,
                path: KeyPath::new(prefix),
            }),
            Err(error) => Err(LoadError::Source {
                hash: *hash,
                path: KeyPath::new(prefix),
                error,
            }),
        }
    }

    /// Adds a node known not to be there.
    pub(crate) fn insert(&mut self, hash: NodeHash, bytes: Bytes) -> NodeId {
        // Four billion nodes do not fit into memory; the index type is a matter of size only.
        let index = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(Loaded { hash, bytes });
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.by_hash
            .insert_unique(hasher.hash_one(hash), index, |&index| {
                hasher.hash_one(nodes[index as usize].hash)
            });
        NodeId(index)
    }
}
