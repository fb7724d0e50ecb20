//! The nodes that a block has loaded, each once, by hash.

use crate::{
    index::Index, node_batch::AnswerMemory, DecodeError, NodeBatch, NodeHash, NodePrefix,
    NodeRequest, NodeSource, SourceError,
};
use alloc::{format, string::String, vec::Vec};
use bytes::Bytes;
use core::{fmt, fmt::Write};
use hashbrown::{hash_table::Entry, HashTable};
use povmeter_primitives::{FastState, ShortHash};

/// The id of a node or value loaded in this block. Ids count from zero in the order of first loading.
///
/// Equal nodes at two places of a trie, or of two tries, share one id, as they share one place in a
/// proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) Index);

impl NodeId {
    /// The id as an index for tables beside [`NodeTable`].
    pub const fn index(self) -> usize {
        self.0.get()
    }
}

/// The path of nibbles to a node, as error messages show it.
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

    /// Names the trie whose root lies under this key, for an error: the top trie if the key is empty.
    pub(crate) fn to_trie_name(&self) -> String {
        match self.0.is_empty() {
            true => "the top trie".into(),
            false => format!("the child trie with its root at 0x{}", self.0),
        }
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

/// Why a node can't be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The source does not have the node.
    #[error("expected node {hash} at {path}, found nothing in the store")]
    Missing {
        /// Hash that the parent node, or the caller's root, names.
        hash: NodeHash,
        /// The node's place in the trie.
        path: KeyPath,
    },
    /// The source has bytes under the hash that are no node.
    #[error("expected a trie node {hash} at {path}, found other bytes: {error}")]
    Corrupt {
        /// Hash that the parent node, or the caller's root, names.
        hash: NodeHash,
        /// The node's place in the trie.
        path: KeyPath,
        /// What is wrong with the bytes.
        error: DecodeError,
    },
    /// The source failed.
    #[error("could not read node {hash} at {path}: {error}")]
    Source {
        /// Hash that the parent node, or the caller's root, names.
        hash: NodeHash,
        /// The node's place in the trie.
        path: KeyPath,
        /// The source's error.
        #[source]
        error: SourceError,
    },
    /// A node is an ancestor of itself: the store holds bytes with another hash under this one.
    #[error("expected a trie, found a cycle: node {hash} is an ancestor of itself")]
    Cycle {
        /// The hash.
        hash: NodeHash,
    },
    /// More nodes, or more child tries, than there are indices for.
    #[error("expected at most {limit} nodes and child tries in one block, found more")]
    TooMany {
        /// The most that one block can load.
        limit: u32,
    },
    /// An entry whose key is not a whole number of bytes.
    #[error("expected the entries of a state trie, found one at {path}, which is no key")]
    NoKey {
        /// The entry's place in the trie.
        path: KeyPath,
    },
    /// The top trie holds a value that is no root under a child trie's key.
    #[error("expected a root of 32 bytes under child storage key 0x{key}, found {found} bytes", key = Hex(.key))]
    ChildRoot {
        /// The child's storage key.
        key: Vec<u8>,
        /// Bytes of the value.
        found: usize,
    },
}

impl LoadError {
    fn missing(request: &NodeRequest<'_>) -> Self {
        Self::Missing {
            hash: request.hash,
            path: KeyPath::new(request.prefix),
        }
    }

    #[cold]
    fn too_long(request: &NodeRequest<'_>, found: usize) -> Self {
        Self::Corrupt {
            hash: request.hash,
            path: KeyPath::new(request.prefix),
            error: DecodeError::TooLong { found },
        }
    }

    #[cold]
    pub(crate) fn too_many() -> Self {
        Self::TooMany { limit: Index::END }
    }

    fn failed(request: &NodeRequest<'_>, error: SourceError) -> Self {
        Self::Source {
            hash: request.hash,
            path: KeyPath::new(request.prefix),
            error,
        }
    }
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

/// What [`NodeTable::look`] returns.
pub(crate) enum Looked<T> {
    /// The result of looking at a node, which was not kept.
    Seen(T),
    /// The node, which was kept because looking at it had no result.
    Kept(NodeId),
}

/// The node that a source answered `request` with.
///
/// # Errors
/// [`LoadError`] if the source answered with none.
fn found(
    request: &NodeRequest<'_>,
    answer: Result<Option<Bytes>, SourceError>,
) -> Result<Bytes, LoadError> {
    match answer {
        Ok(Some(node)) => Ok(node),
        Ok(None) => Err(LoadError::missing(request)),
        Err(error) => Err(LoadError::failed(request, error)),
    }
}

/// The encoded nodes and values that a block has loaded, each distinct hash once.
#[derive(Debug, Default)]
pub struct NodeTable {
    nodes: Vec<Loaded>,
    // Keyed, because the hashes are Blake2b of what users write, so users can grind collisions.
    by_hash: HashTable<(NodeId, ShortHash)>,
    hasher: FastState,
    answer_memory: AnswerMemory,
    /// Length of all nodes and values together.
    encoded_bytes: usize,
    /// Whether a node was refused: its bytes are no node, or a trie was full.
    has_refused: bool,
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
        (0..self.nodes.len()).filter_map(Index::new).map(NodeId)
    }

    /// Bytes of memory, including the encoded nodes and values.
    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Loaded>()
            + self.by_hash.capacity() * size_of::<(NodeId, ShortHash)>()
            + self.encoded_bytes
    }

    /// Notes that a node was refused.
    pub(crate) fn note_refused(&mut self) {
        self.has_refused = true;
    }

    /// Whether a node was refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused
    }

    /// The encoded node, or the value.
    ///
    /// # Panics
    /// If `id` comes from another table.
    #[inline]
    pub fn bytes(&self, id: NodeId) -> &Bytes {
        &self.nodes[id.index()].bytes
    }

    /// The hash that the node or value was loaded by.
    ///
    /// # Panics
    /// If `id` comes from another table.
    pub fn hash(&self, id: NodeId) -> &NodeHash {
        &self.nodes[id.index()].hash
    }

    /// The id of the node or value loaded under `hash`.
    #[inline]
    pub fn find(&self, hash: &NodeHash) -> Option<NodeId> {
        let short = ShortHash::of(&self.hasher, hash);
        let is_it = |(id, other): &(NodeId, ShortHash)| {
            *other == short && self.nodes[id.index()].hash == *hash
        };
        let (id, _) = self.by_hash.find(short.spread(), is_it)?;
        Some(*id)
    }

    /// The id of the requested node, which is loaded from `source` if it was not before.
    pub(crate) fn load(
        &mut self,
        request: NodeRequest<'_>,
        source: &impl NodeSource,
    ) -> Result<NodeId, LoadError> {
        if let Some(id) = self.find(&request.hash) {
            return Ok(id);
        }
        let mut loaded = None;
        self.load_all(&[request], source, |_, result| loaded = Some(result));
        loaded.unwrap_or_else(|| Err(LoadError::missing(&request)))
    }

    /// Asks `source` for a node, and hands it to `look`; keeps the node if `look` returns `None`.
    pub(crate) fn look<T>(
        &mut self,
        request: NodeRequest<'_>,
        source: &impl NodeSource,
        look: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Looked<T>, LoadError> {
        let requests = [request];
        let batch = self.ask(&requests, source);
        if let Ok(Some(seen)) = batch.get(0).map(|node| node.and_then(look)) {
            self.answer_memory = batch.discard();
            return Ok(Looked::Seen(seen));
        }
        match self.answer_of(batch, &request) {
            Ok(node) => self.insert(&request, node).map(Looked::Kept),
            // A preloaded node need not be in the source.
            Err(error) => self.find(&request.hash).map(Looked::Kept).ok_or(error),
        }
    }

    /// The bytes of a node or value. If it was not loaded before, it is not kept.
    pub(crate) fn share(
        &mut self,
        request: NodeRequest<'_>,
        source: &impl NodeSource,
    ) -> Result<Bytes, LoadError> {
        if let Some(id) = self.find(&request.hash) {
            return Ok(self.bytes(id).clone());
        }
        let requests = [request];
        let batch = self.ask(&requests, source);
        self.answer_of(batch, &request)
    }

    /// Forgets all nodes, and seeds the hasher anew; keeps memory for up to `most` nodes.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            nodes,
            by_hash,
            hasher,
            answer_memory,
            encoded_bytes,
            has_refused,
        } = self;
        *encoded_bytes = 0;
        *has_refused = false;
        nodes.clear();
        answer_memory.reclaim();
        nodes.shrink_to(most);
        by_hash.clear();
        by_hash.shrink_to(most, |_| 0);
        *hasher = FastState::default();
    }

    /// Loads the nodes, not more than [`NodeBatch::MOST`], from `source`, and tells `loaded` of each by its
    /// index in `requests`. A node that is requested twice, or was loaded before, is kept once.
    pub(crate) fn load_all(
        &mut self,
        requests: &[NodeRequest<'_>],
        source: &impl NodeSource,
        mut loaded: impl FnMut(usize, Result<NodeId, LoadError>),
    ) {
        let batch = self.ask(requests, source);
        self.answer_memory = batch.finish(|index, request, answer| {
            let found = found(request, answer).and_then(|node| self.insert(request, node));
            loaded(index, found);
        });
    }

    /// The batch of `requests` with the answers of `source`, in the memory of this table.
    fn ask<'r>(
        &mut self,
        requests: &'r [NodeRequest<'r>],
        source: &impl NodeSource,
    ) -> NodeBatch<'r> {
        let memory = core::mem::take(&mut self.answer_memory);
        let mut batch = NodeBatch::in_memory(requests, memory);
        source.nodes(&mut batch);
        batch
    }

    /// The node that `batch`, which has only this request, was answered with.
    fn answer_of(
        &mut self,
        batch: NodeBatch<'_>,
        request: &NodeRequest<'_>,
    ) -> Result<Bytes, LoadError> {
        let mut node = None;
        self.answer_memory = batch.finish(|_, request, answer| node = Some(found(request, answer)));
        node.unwrap_or_else(|| Err(LoadError::missing(request)))
    }

    /// The id of a node, which is added if the table does not have it.
    ///
    /// No node and no value in the table is longer than [`DecodeError::TooLong`] allows, so offsets
    /// into them are indices.
    pub(crate) fn insert(
        &mut self,
        request: &NodeRequest<'_>,
        bytes: Bytes,
    ) -> Result<NodeId, LoadError> {
        let Self {
            nodes,
            by_hash,
            hasher,
            encoded_bytes,
            ..
        } = self;
        let hash = request.hash;
        let short = ShortHash::of(hasher, hash);
        let place = by_hash.entry(
            short.spread(),
            |(id, other)| *other == short && nodes[id.index()].hash == hash,
            |(_, short)| short.spread(),
        );
        let place = match place {
            Entry::Occupied(known) => return Ok(known.get().0),
            Entry::Vacant(place) => place,
        };
        if Index::new(bytes.len()).is_none() {
            return Err(LoadError::too_long(request, bytes.len()));
        }
        let id = NodeId(Index::new(nodes.len()).ok_or_else(LoadError::too_many)?);
        place.insert((id, short));
        *encoded_bytes += bytes.len();
        nodes.push(Loaded { hash, bytes });
        Ok(id)
    }
}
