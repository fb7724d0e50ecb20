//! The shadow trie: the part of a parent trie that a block has loaded so far.
//!
//! Nodes lie in an arena, decoded once, linked by index both ways. Nothing here is encoded, hashed
//! or committed. Besides the parent's structure a node knows how much of it the block's changes
//! left alive ([`liveness`]); what the block inserts does not appear at all.
//!
//! ```text
//! find(key):
//!     node = root, depth = 0
//!     loop
//!         tell the observer of the node, if it has a hash of its own
//!         if the node's partial key is not what key holds at depth: nothing is there
//!         depth += length of the partial key
//!         if depth = length of key: the entry is this node's value, if any
//!         node = child at key[depth], loaded if it is not; if none: nothing is there
//!         depth += 1
//! ```

mod liveness;
mod successor;
mod view;

pub(crate) use successor::Bound;
pub(crate) use view::{referred_hash, OldSlot, OldValue};

use crate::{
    decode::{self, DecodedNode, DecodedValue, NULL_NODE},
    nibbles::{self, Partial},
    table::KeyPath,
    DecodeError, LoadError, NodeHash, NodeId, NodePrefix, NodeSource, NodeTable, Root, HASH_LENGTH,
};
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Range;

/// Is told of every node and value with a hash of its own that an operation passes, each time.
///
/// Implemented by what counts for a proof; `()` does not care.
pub trait Observer {
    /// `node`, of `length` bytes, was needed.
    fn touched(&mut self, node: NodeId, length: usize);
}

impl Observer for () {
    fn touched(&mut self, _: NodeId, _: usize) {}
}

/// A node of a shadow trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShadowNode(u32);

/// Where a value lies among the loaded nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePlace {
    node: NodeId,
    start: u32,
    length: u32,
}

impl ValuePlace {
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }

    /// The value, borrowed from the table.
    ///
    /// # Panics
    /// If the place is of another table.
    pub fn bytes(self, table: &NodeTable) -> &[u8] {
        &table.bytes(self.node)[self.range()]
    }

    /// The value, sharing memory with the loaded node.
    ///
    /// # Panics
    /// If the place is of another table.
    pub fn share(self, table: &NodeTable) -> Bytes {
        table.bytes(self.node).slice(self.range())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    None,
    Inline {
        start: u32,
        length: u32,
    },
    /// The hash lies at `start`; the value itself is loaded when somebody reads it.
    Hashed {
        start: u32,
        loaded: Option<NodeId>,
    },
}

#[derive(Debug)]
struct Node {
    /// The loaded bytes that hold this node.
    data: NodeId,
    /// Where in them.
    start: u32,
    length: u32,
    /// Whether the node is a part of its parent's bytes, and so has no hash.
    inlined: bool,
    value_live: bool,
    live_children: u8,
    /// Nibble of this node in its parent.
    nibble: u8,
    partial_nibbles: u32,
    partial_start: u32,
    value: Value,
    parent: Option<ShadowNode>,
    /// Index into [`ShadowTrie::branches`].
    branch: Option<u32>,
}

impl Node {
    /// The node's partial key, in the `data` that holds the node.
    fn partial<'t>(&self, data: &'t [u8]) -> Partial<'t> {
        let start = self.partial_start as usize;
        let nibbles = self.partial_nibbles as usize;
        Partial::new(&data[start..start + nibbles.div_ceil(2)], nibbles)
    }
}

/// A place for a child in a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Empty,
    /// Not loaded; its hash or its bytes begin at this offset of the branch's data.
    At(u32),
    Loaded(ShadowNode),
}

/// What a shadow trie loads from.
pub(crate) struct Loader<'a, S> {
    pub(crate) table: &'a mut NodeTable,
    pub(crate) source: &'a S,
}

/// The loaded part of one trie.
#[derive(Debug)]
pub(crate) struct ShadowTrie {
    root: Root,
    /// Goes before every node prefix: empty in the top trie, else the child's storage key.
    keyspace: Vec<u8>,
    nodes: Vec<Node>,
    branches: Vec<[Slot; 16]>,
}

impl ShadowTrie {
    /// The trie under `root`, nothing of it loaded yet.
    pub(crate) fn new(root: Root, keyspace: Vec<u8>) -> Self {
        Self {
            root,
            keyspace,
            nodes: Vec::new(),
            branches: Vec::new(),
        }
    }

    pub(crate) fn root(&self) -> Root {
        self.root
    }

    /// Number of nodes loaded, those inside their parents included.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes loaded since there were `from`, with their number in the arena, without those
    /// inside their parents.
    pub(crate) fn loaded_since(
        &self,
        from: usize,
    ) -> impl Iterator<Item = (ShadowNode, NodeId)> + '_ {
        let added = self.nodes.iter().enumerate().skip(from);
        added
            .filter(|(_, node)| !node.inlined)
            .map(|(index, node)| (ShadowNode(u32_offset(index)), node.data))
    }

    /// Bytes of memory that the arena holds, without the encoded nodes.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.branches.capacity() * size_of::<[Slot; 16]>()
    }

    /// The node that holds the value at `key`, if the trie has that entry.
    pub(crate) fn find<S: NodeSource>(
        &mut self,
        key: &[u8],
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<Option<ShadowNode>, LoadError> {
        let end = nibbles::count(key);
        let mut depth = 0;
        let mut at = self.load_root(loader)?;
        loop {
            let (node, partial) = self.observed(at, loader.table, observer);
            if !partial.is_prefix_at(key, depth) {
                return Ok(None);
            }
            depth += partial.len();
            if depth == end {
                return Ok((node.value != Value::None).then_some(at));
            }
            let nibble = nibbles::at(key, depth);
            match self.child(at, nibble, key_prefix(key, depth + 1), loader)? {
                Some(child) => at = child,
                None => return Ok(None),
            }
            depth += 1;
        }
    }

    /// Where the value of entry `at`, found under `key`, lies; a value that is a node of its own is
    /// loaded and observed.
    pub(crate) fn value<S: NodeSource>(
        &mut self,
        at: ShadowNode,
        key: &[u8],
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<Option<ValuePlace>, LoadError> {
        let node = &self.nodes[at.0 as usize];
        match node.value {
            Value::None => Ok(None),
            Value::Inline { start, length } => Ok(Some(ValuePlace {
                node: node.data,
                start,
                length,
            })),
            Value::Hashed { start, loaded } => {
                let id = match loaded {
                    Some(id) => id,
                    None => {
                        let hash = hash_at(loader.table.bytes(node.data), start as usize);
                        let id = self.load_bytes(&hash, (key, None), loader)?;
                        self.nodes[at.0 as usize].value = Value::Hashed {
                            start,
                            loaded: Some(id),
                        };
                        id
                    }
                };
                let length = loader.table.bytes(id).len();
                observer.touched(id, length);
                Ok(Some(ValuePlace {
                    node: id,
                    start: 0,
                    length: u32_offset(length),
                }))
            }
        }
    }

    /// The hash of the value of entry `at`; a value that is a node of its own is not loaded.
    pub(crate) fn value_hash(&self, at: ShadowNode, table: &NodeTable) -> Option<NodeHash> {
        let node = &self.nodes[at.0 as usize];
        let data = table.bytes(node.data);
        match node.value {
            Value::None => None,
            Value::Inline { start, length } => Some(crate::Blake2b256::hash(
                &data[start as usize..start as usize + length as usize],
            )),
            Value::Hashed { start, .. } => Some(hash_at(data, start as usize)),
        }
    }

    /// Node `at` and its partial key, with the observer told of it.
    fn observed<'t>(
        &self,
        at: ShadowNode,
        table: &'t NodeTable,
        observer: &mut impl Observer,
    ) -> (&Node, Partial<'t>) {
        let node = &self.nodes[at.0 as usize];
        let data = table.bytes(node.data);
        if !node.inlined {
            observer.touched(node.data, data.len());
        }
        (node, node.partial(data))
    }

    /// The root node, loaded if it is not.
    pub(crate) fn load_root<S: NodeSource>(
        &mut self,
        loader: &mut Loader<'_, S>,
    ) -> Result<ShadowNode, LoadError> {
        if !self.nodes.is_empty() {
            return Ok(ShadowNode(0));
        }
        let hash = self.root.node_hash();
        let data = match loader.table.find(&hash) {
            Some(id) => id,
            // No store needs to have the null node.
            None if self.root == Root::EMPTY => {
                loader.table.insert(hash, Bytes::from_static(NULL_NODE))
            }
            None => self.load_bytes(&hash, hash_db::EMPTY_PREFIX, loader)?,
        };
        let length = loader.table.bytes(data).len();
        self.add(data, 0..length, None, loader.table)
            .map_err(|error| LoadError::Corrupt {
                hash,
                path: KeyPath::new(hash_db::EMPTY_PREFIX),
                error,
            })
    }

    /// Loads the root node, if it is not loaded, and observes it.
    pub(crate) fn observe_root<S: NodeSource>(
        &mut self,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        let root = self.load_root(loader)?;
        self.observed(root, loader.table, observer);
        Ok(())
    }

    /// The child of `parent` at `nibble`, loaded if it is not. `prefix` is the child's place.
    fn child<S: NodeSource>(
        &mut self,
        parent: ShadowNode,
        nibble: u8,
        prefix: NodePrefix<'_>,
        loader: &mut Loader<'_, S>,
    ) -> Result<Option<ShadowNode>, LoadError> {
        let node = &self.nodes[parent.0 as usize];
        let Some(branch) = node.branch else {
            return Ok(None);
        };
        let offset = match self.branches[branch as usize][usize::from(nibble)] {
            Slot::Empty => return Ok(None),
            Slot::Loaded(child) => return Ok(Some(child)),
            Slot::At(offset) => offset as usize,
        };
        let data = loader.table.bytes(node.data);
        let length = decode::child_length(data, offset);
        let (hash, data, range) = if length == HASH_LENGTH {
            let hash = hash_at(data, offset);
            let id = self.load_bytes(&hash, prefix, loader)?;
            (hash, id, 0..loader.table.bytes(id).len())
        } else {
            (
                *loader.table.hash(node.data),
                node.data,
                offset..offset + length,
            )
        };
        let added = self.add(data, range, Some((parent, nibble)), loader.table);
        let child = added.map_err(|error| LoadError::Corrupt {
            hash,
            path: self.key_path(prefix),
            error,
        })?;
        self.branches[branch as usize][usize::from(nibble)] = Slot::Loaded(child);
        Ok(Some(child))
    }

    fn load_bytes<S: NodeSource>(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
        loader: &mut Loader<'_, S>,
    ) -> Result<NodeId, LoadError> {
        if self.keyspace.is_empty() {
            return loader.table.load(hash, prefix, loader.source);
        }
        let path = [self.keyspace.as_slice(), prefix.0].concat();
        loader.table.load(hash, (&path, prefix.1), loader.source)
    }

    fn key_path(&self, prefix: NodePrefix<'_>) -> KeyPath {
        KeyPath::new((&[self.keyspace.as_slice(), prefix.0].concat(), prefix.1))
    }

    /// Decodes the node at `range` of `data` into the arena.
    fn add(
        &mut self,
        data: NodeId,
        range: Range<usize>,
        parent: Option<(ShadowNode, u8)>,
        table: &NodeTable,
    ) -> Result<ShadowNode, DecodeError> {
        let base = range.start;
        let length = range.len();
        // A node with a hash of its own fills the bytes it was loaded as.
        let inlined = table.bytes(data).len() != length;
        let decoded = decode::decode(&table.bytes(data)[range])?;
        let mut node = Node {
            data,
            start: u32_offset(base),
            length: u32_offset(length),
            inlined,
            value_live: false,
            live_children: 0,
            nibble: parent.map_or(0, |(_, nibble)| nibble),
            partial_nibbles: 0,
            partial_start: 0,
            value: Value::None,
            parent: parent.map(|(parent, _)| parent),
            branch: None,
        };
        match decoded {
            DecodedNode::Null if parent.is_some() => return Err(DecodeError::NullBelowRoot),
            DecodedNode::Null => {}
            DecodedNode::Node {
                partial,
                partial_nibbles,
                value,
                children,
                end,
            } => {
                if inlined && end != length {
                    return Err(DecodeError::Trailing {
                        expected: end,
                        found: length,
                    });
                }
                node.partial_start = u32_offset(base + partial.start);
                node.partial_nibbles = u32_offset(partial_nibbles);
                node.value_live = value.is_some();
                node.value = match value {
                    None => Value::None,
                    Some(DecodedValue::Inline(at)) => Value::Inline {
                        start: u32_offset(base + at.start),
                        length: u32_offset(at.len()),
                    },
                    Some(DecodedValue::Hash(at)) => Value::Hashed {
                        start: u32_offset(base + at.start),
                        loaded: None,
                    },
                };
                if let Some(children) = children {
                    let slots = children.map(|offset| match offset {
                        0 => Slot::Empty,
                        _ => Slot::At(u32_offset(base) + offset),
                    });
                    let live = slots.iter().filter(|slot| **slot != Slot::Empty).count();
                    // Sixteen at most.
                    node.live_children = u8::try_from(live).unwrap_or(16);
                    node.branch = Some(u32_offset(self.branches.len()));
                    self.branches.push(slots);
                }
            }
        }
        let at = ShadowNode(u32_offset(self.nodes.len()));
        self.nodes.push(node);
        Ok(at)
    }
}

/// Offsets and counts below are of things in memory, far below the range of `u32`: a node of more
/// than 4 GiB is refused by [`decode::decode`].
fn u32_offset(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

fn hash_at(data: &[u8], offset: usize) -> NodeHash {
    let mut hash = [0; HASH_LENGTH];
    hash.copy_from_slice(&data[offset..offset + HASH_LENGTH]);
    NodeHash::from(hash)
}

/// The first `depth` nibbles of `key` as a node prefix.
fn key_prefix(key: &[u8], depth: usize) -> NodePrefix<'_> {
    let whole = &key[..depth / 2];
    (whole, (depth % 2 == 1).then(|| key[depth / 2] & 0xf0))
}
