//! The shadow trie: the part of a parent trie that a block has loaded so far.
//!
//! Nodes lie in an arena, decoded once, linked by index both ways. Nothing here is encoded, hashed
//! or committed. A node has the structure of the parent trie, and knows which parts of it are live after
//! the block's changes ([`liveness`]); insertions do not appear at all.

mod cursor;
mod liveness;
mod node;
mod once;
mod renewal;
mod successor;
mod view;
mod walk;

pub(crate) use successor::Bound;
pub(crate) use view::{referred_hash, OldChild, OldNode, OldValue};
pub(crate) use walk::{Awaited, Progress, Walk};

use crate::{
    decode::{self, ChildOffsets, DecodedNode, NULL_NODE},
    index::{Index, OptionalIndex},
    nibbles::{Partial, Prefixes},
    table::KeyPath,
    DecodeError, KeptValue, LoadError, NodeHash, NodeId, NodePrefix, NodeRequest, NodeSource,
    NodeTable, Root, TrieHandle, HASH_LENGTH,
};
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Range;
use cursor::Cursor;
use node::{offset, Branch, ChildSlot, Node, Value};

/// Is told of every node and value with a hash of its own that an operation needs, each time.
///
/// Recorders implement it; `()` ignores everything.
pub trait Observer {
    /// `node`, of `length` bytes, was needed.
    fn touched(&mut self, node: NodeId, length: usize);

    /// `node` is a value with a hash of its own, which was read. Calls [`Self::touched`] unless an
    /// observer treats the two differently.
    #[inline]
    fn value(&mut self, node: NodeId, length: usize) {
        self.touched(node, length);
    }

    /// `node` is on no path to a changed key, but a root computation will merge it with the branch
    /// above it; or it is the null node, for a trie that lost all its entries. Calls [`Self::touched`]
    /// unless an observer treats the two differently.
    #[inline]
    fn merged(&mut self, node: NodeId, length: usize) {
        self.touched(node, length);
    }
}

/// An observer that may remember keys whose paths it has counted, so that no path is walked again.
///
/// An observer that remembers nothing, such as `()`, implements no method.
pub trait PathCache: Observer {
    /// The entry at `key` of `trie`, if the observer remembers it and has already counted the nodes on
    /// the path; then the path is not walked. `Some(None)` if the trie has no entry there.
    #[inline]
    fn known(&self, trie: TrieHandle, key: &[u8]) -> Option<Option<ShadowNode>> {
        let _ = (trie, key);
        None
    }

    /// The path to `key` of `trie` was walked to its end, and the observer was told of all nodes on it;
    /// `found` is what [`Self::known`] may return.
    #[inline]
    fn found(&mut self, trie: TrieHandle, key: &[u8], found: Option<ShadowNode>) {
        let _ = (trie, key, found);
    }
}

impl Observer for () {
    fn touched(&mut self, _: NodeId, _: usize) {}
}

impl PathCache for () {}

/// A node of a shadow trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShadowNode(Index);

impl ShadowNode {
    pub(crate) const ROOT: Self = Self(Index::ZERO);

    fn index(self) -> usize {
        self.0.get()
    }
}

/// The place of a value among the loaded nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePlace {
    node: NodeId,
    start: Index,
    /// `None` if the value is the whole node.
    length: OptionalIndex,
}

impl ValuePlace {
    fn range(self, node: &Bytes) -> Range<usize> {
        match self.length.get() {
            Some(length) => Node::range(self.start, length.get()),
            None => 0..node.len(),
        }
    }

    /// The value, borrowed from the table.
    ///
    /// # Panics
    /// If the place is of another table.
    pub fn bytes(self, table: &NodeTable) -> &[u8] {
        let node = table.bytes(self.node);
        &node[self.range(node)]
    }

    /// The value, sharing memory with the loaded node.
    ///
    /// # Panics
    /// If the place is of another table.
    pub fn share(self, table: &NodeTable) -> Bytes {
        let node = table.bytes(self.node);
        node.slice(self.range(node))
    }

    /// The value, for a caller that keeps it: shared with the loaded node unless it is short.
    ///
    /// # Panics
    /// If the place is of another table.
    pub fn keep(self, table: &NodeTable) -> KeptValue {
        let node = table.bytes(self.node);
        let range = self.range(node);
        KeptValue::short(&node[range.clone()])
            .unwrap_or_else(|| KeptValue::sharing(node.slice(range)))
    }
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
    /// The bytes before every node prefix: none in the top trie, else the child's storage key.
    keyspace: Vec<u8>,
    nodes: Vec<Node>,
    branches: Vec<Branch>,
    /// Nodes that have lost a live part, now live again or not, each once.
    marked: Vec<ShadowNode>,
    /// Reused memory for the prefix of a node.
    prefixes: Prefixes,
    /// The end of the last search for a next key. It refers to nodes, so it is reset if nodes are replaced.
    cursor: Cursor,
}

impl ShadowTrie {
    /// The trie under `root`, with nothing loaded yet.
    pub(crate) fn new(root: Root, keyspace: Vec<u8>) -> Self {
        Self {
            root,
            keyspace,
            nodes: Vec::new(),
            branches: Vec::new(),
            marked: Vec::new(),
            prefixes: Prefixes::default(),
            cursor: Cursor::default(),
        }
    }

    /// Becomes the top trie under `new_root`, with nothing loaded yet; keeps memory for up to `most` nodes.
    pub(crate) fn reset(&mut self, new_root: Root, most: usize) {
        let Self {
            root,
            keyspace,
            nodes,
            branches,
            marked,
            prefixes,
            cursor,
        } = self;
        prefixes.clear();
        // Its memory is not kept, because it grows with the longest path.
        *cursor = Cursor::default();
        marked.clear();
        marked.shrink_to(most);
        *root = new_root;
        keyspace.clear();
        nodes.clear();
        nodes.shrink_to(most);
        branches.clear();
        branches.shrink_to(most);
    }

    pub(crate) fn root(&self) -> Root {
        self.root
    }

    /// Number of nodes loaded, those inside their parents included.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The loaded nodes of the trie without those inside their parents, each node before its children.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (ShadowNode, NodeId)> + '_ {
        let mut pending: Vec<_> = (!self.nodes.is_empty())
            .then_some(ShadowNode::ROOT)
            .into_iter()
            .collect();
        let all = core::iter::from_fn(move || {
            let at = pending.pop()?;
            pending.extend((0..16).filter_map(|nibble| match self.slot(at, nibble) {
                ChildSlot::Loaded(child) => Some(child),
                ChildSlot::Empty | ChildSlot::At(_) => None,
            }));
            Some((at, &self.nodes[at.index()]))
        });
        all.filter(|(_, node)| !node.inlined())
            .map(|(at, node)| (at, node.data))
    }

    /// Bytes of memory that the arena holds, without the encoded nodes.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.branches.capacity() * size_of::<Branch>()
            + self.marked.capacity() * size_of::<ShadowNode>()
    }

    /// Ends a block: marks every entry as live, and frees memory that only a block in progress needs, because the trie may
    /// be kept for long.
    pub(crate) fn end_block(&mut self) {
        self.revive();
        self.marked = Vec::new();
        self.prefixes = Prefixes::default();
        self.cursor = Cursor::default();
    }

    /// The place of the value of entry `at`, which was found at `key`. Loads and observes a value that is a
    /// node of its own.
    pub(crate) fn value<S: NodeSource>(
        &mut self,
        at: ShadowNode,
        key: &[u8],
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<Option<ValuePlace>, LoadError> {
        let node = &self.nodes[at.index()];
        match node.value() {
            Value::None => Ok(None),
            Value::Inline { start, length } => Ok(Some(ValuePlace {
                node: node.data,
                start,
                length: OptionalIndex::some(length),
            })),
            Value::Hashed { start, loaded } => {
                let id = match loaded {
                    Some(id) => id,
                    None => {
                        let hash = hash_at(loader.table.bytes(node.data), start.get());
                        let id = self.load_bytes(&hash, (key, None), loader)?;
                        self.nodes[at.index()].set_loaded_value(id);
                        id
                    }
                };
                let length = loader.table.bytes(id).len();
                observer.value(id, length);
                Ok(Some(ValuePlace {
                    node: id,
                    start: Index::ZERO,
                    length: OptionalIndex::NONE,
                }))
            }
        }
    }

    /// The hash of the value of entry `at`, if the value is a node of its own that is not loaded.
    pub(crate) fn awaited_value(&self, at: ShadowNode, table: &NodeTable) -> Option<NodeHash> {
        let node = &self.nodes[at.index()];
        match node.value() {
            Value::Hashed {
                start,
                loaded: None,
            } => {
                let hash = hash_at(table.bytes(node.data), start.get());
                table.find(&hash).is_none().then_some(hash)
            }
            Value::None | Value::Inline { .. } | Value::Hashed { .. } => None,
        }
    }

    /// The hash of the value of entry `at`; a value that is a node of its own is not loaded.
    pub(crate) fn value_hash(&self, at: ShadowNode, table: &NodeTable) -> Option<NodeHash> {
        let node = &self.nodes[at.index()];
        let data = table.bytes(node.data);
        match node.value() {
            Value::None => None,
            Value::Inline { start, length } => Some(crate::Blake2b256::hash(
                &data[Node::range(start, length.get())],
            )),
            Value::Hashed { start, .. } => Some(hash_at(data, start.get())),
        }
    }

    /// Node `at` and its partial key. Tells the observer of the node.
    #[inline]
    fn observed<'t>(
        &self,
        at: ShadowNode,
        table: &'t NodeTable,
        observer: &mut impl Observer,
    ) -> (&Node, Partial<'t>) {
        let node = &self.nodes[at.index()];
        if !node.inlined() {
            observer.touched(node.data, node.stored_length());
        }
        // Most branches of a large trie have no partial key, so their bytes are not read.
        let partial = match node.partial_nibbles() {
            0 => Partial::default(),
            _ => node.partial(table.bytes(node.data)),
        };
        (node, partial)
    }

    /// The root node, which is loaded if it was not before.
    pub(crate) fn load_root<S: NodeSource>(
        &mut self,
        loader: &mut Loader<'_, S>,
    ) -> Result<ShadowNode, LoadError> {
        if !self.nodes.is_empty() {
            return Ok(ShadowNode::ROOT);
        }
        let hash = self.root.node_hash();
        let data = match loader.table.find(&hash) {
            Some(id) => id,
            // No store needs to have the null node.
            None if self.root == Root::EMPTY => {
                let request = NodeRequest {
                    hash,
                    ..NodeRequest::default()
                };
                let null = Bytes::from_static(NULL_NODE);
                loader.table.insert(&request, null)?
            }
            None => self.load_bytes(&hash, hash_db::EMPTY_PREFIX, loader)?,
        };
        let length = loader.table.bytes(data).len();
        self.add(data, 0..length, None, loader.table)
            .map_err(|refused| {
                loader.table.note_refused();
                refused.at(hash, KeyPath::new(hash_db::EMPTY_PREFIX))
            })
    }

    /// Loads the root node if it was not loaded before, and observes it.
    pub(crate) fn observe_root<S: NodeSource>(
        &mut self,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        let root = self.load_root(loader)?;
        self.observed(root, loader.table, observer);
        Ok(())
    }

    /// The place for the child of `parent` at `nibble`.
    #[inline]
    fn slot(&self, parent: ShadowNode, nibble: u8) -> ChildSlot {
        match self.nodes[parent.index()].branch() {
            Some(branch) => self.branches[branch].slot(nibble),
            None => ChildSlot::Empty,
        }
    }

    /// The child of `parent` at `nibble`, which is loaded if it was not before. `prefix` is its place;
    /// `loaded` are its bytes, if they were loaded for it and it is not inside its parent.
    fn child<S: NodeSource>(
        &mut self,
        parent: ShadowNode,
        nibble: u8,
        prefix: NodePrefix<'_>,
        loaded: Option<NodeId>,
        loader: &mut Loader<'_, S>,
    ) -> Result<Option<ShadowNode>, LoadError> {
        let offset = match self.slot(parent, nibble) {
            ChildSlot::Empty => return Ok(None),
            ChildSlot::Loaded(child) => return Ok(Some(child)),
            ChildSlot::At(offset) => offset,
        };
        let data = match loaded {
            Some(id) => Some(id),
            None => self.load_child(parent, offset, prefix, loader)?,
        };
        let (data, range) = match data {
            Some(id) => (id, 0..loader.table.bytes(id).len()),
            None => {
                let data = self.nodes[parent.index()].data;
                let length = decode::child_length(loader.table.bytes(data), offset);
                (data, offset..offset + length)
            }
        };
        let added = self.add(data, range, Some((parent, nibble)), loader.table);
        let child = added.map_err(|refused| {
            loader.table.note_refused();
            refused.at(*loader.table.hash(data), self.key_path(prefix))
        })?;
        if let Some(branch) = self.nodes[parent.index()].branch() {
            self.branches[branch].set_loaded(nibble, child);
        }
        Ok(Some(child))
    }

    /// Loads the bytes of the child at `offset` of `parent`; returns `None` if it is inside its parent.
    fn load_child<S: NodeSource>(
        &self,
        parent: ShadowNode,
        offset: usize,
        prefix: NodePrefix<'_>,
        loader: &mut Loader<'_, S>,
    ) -> Result<Option<NodeId>, LoadError> {
        let data = loader.table.bytes(self.nodes[parent.index()].data);
        if decode::child_length(data, offset) != HASH_LENGTH {
            return Ok(None);
        }
        let hash = hash_at(data, offset);
        self.load_bytes(&hash, prefix, loader).map(Some)
    }

    fn load_bytes<S: NodeSource>(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
        loader: &mut Loader<'_, S>,
    ) -> Result<NodeId, LoadError> {
        self.requested(hash, prefix, |request| {
            loader.table.load(request, loader.source)
        })
    }

    /// Calls `ask` with the request for `hash` at `prefix` of this trie.
    fn requested<R>(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
        ask: impl FnOnce(NodeRequest<'_>) -> R,
    ) -> R {
        if self.keyspace.is_empty() {
            return ask(NodeRequest {
                hash: *hash,
                prefix,
            });
        }
        let path = [self.keyspace.as_slice(), prefix.0].concat();
        ask(NodeRequest {
            hash: *hash,
            prefix: (&path, prefix.1),
        })
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
    ) -> Result<ShadowNode, Refused> {
        let at = ShadowNode(Index::new(self.nodes.len()).ok_or(Refused::TooMany)?);
        let (mut node, branch) = decoded(data, range, parent, table)?;
        if let Some(branch) = branch {
            self.push_branch(&mut node, branch)?;
        }
        self.nodes.push(node);
        Ok(at)
    }

    /// Adds `branch` to the arena, as the places for the children of `node`.
    #[inline]
    fn push_branch(&mut self, node: &mut Node, branch: Branch) -> Result<(), Refused> {
        let index = Index::new(self.branches.len()).ok_or(Refused::TooMany)?;
        node.set_branch(index, branch.count());
        self.branches.push(branch);
        Ok(())
    }
}

/// Decodes the node at `range` of `data`, below `parent`: all of it is live, and no child is loaded. The
/// node does not refer to the places of its children yet.
#[inline]
fn decoded(
    data: NodeId,
    range: Range<usize>,
    parent: Option<(ShadowNode, u8)>,
    table: &NodeTable,
) -> Result<(Node, Option<Branch>), Refused> {
    let base = range.start;
    let length = range.len();
    // A node with a hash of its own fills the bytes it was loaded as.
    let inlined = table.bytes(data).len() != length;
    let mut children = ChildOffsets::default();
    let decoded = decode::decode(&table.bytes(data)[range], &mut children)?;
    let mut node = Node::null(data, offset(length)?);
    if let Some((parent, nibble)) = parent {
        node.place(parent, nibble);
        if inlined {
            node.set_inlined(offset(base)?);
        }
    }
    match decoded {
        DecodedNode::Null if parent.is_some() => Err(DecodeError::NullBelowRoot.into()),
        DecodedNode::Null => Ok((node, None)),
        DecodedNode::Node {
            partial,
            partial_nibbles,
            value,
            is_branch,
            end,
        } => {
            if inlined && end != length {
                let (expected, found) = (end, length);
                return Err(DecodeError::Trailing { expected, found }.into());
            }
            node.set_parts(partial.start, partial_nibbles, value, base)?;
            let base = offset(base)?;
            Ok((node, is_branch.then(|| Branch::new(children, base))))
        }
    }
}

/// Why a node is not added to a trie.
enum Refused {
    Decode(DecodeError),
    TooMany,
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl Refused {
    #[cold]
    fn at(self, hash: NodeHash, path: KeyPath) -> LoadError {
        match self {
            Self::Decode(error) => LoadError::Corrupt { hash, path, error },
            Self::TooMany => LoadError::too_many(),
        }
    }
}

fn hash_at(data: &[u8], offset: usize) -> NodeHash {
    let mut hash = [0; HASH_LENGTH];
    hash.copy_from_slice(&data[offset..offset + HASH_LENGTH]);
    NodeHash::from(hash)
}

/// The first `depth` nibbles of `key`, as a node prefix.
fn key_prefix(key: &[u8], depth: usize) -> NodePrefix<'_> {
    let whole = &key[..depth / 2];
    (whole, (depth % 2 == 1).then(|| key[depth / 2] & 0xf0))
}
