//! The root in one pass: sorted changes applied to the loaded nodes.
//!
//! ```text
//! change(node, changes of keys below it):
//!     if a key leaves the node's partial key before its end:
//!         a new branch there; the node goes below it with the rest of its partial key
//!     else: the value changes if a key ends here; each child gets the changes of its nibble
//!     nothing changed: the node is kept as it is
//!     nothing left: no node;  a value alone: a leaf
//!     one child and no value: the child replaces the node, and its partial key grows by the node's
//! ```
//! The result is a tree of new nodes over references to kept ones ([`apply`], [`grow`]). It is encoded
//! and hashed from the leaves up, one level at a time ([`encode`]). A node that is not kept is removed,
//! even if an equal node is inserted: the update counts net references ([`order`]).
//!
//! Depth of recursion: the number of branches on the longest changed key's path.

mod apply;
mod encode;
mod grow;
mod memory;
mod node;
mod options;
mod order;
#[cfg(feature = "parallel")]
mod split;
mod writes;

pub(crate) use memory::RootMemory;
pub(crate) use node::MOST_CHANGES;
pub(crate) use options::RootOptions;
#[cfg(feature = "parallel")]
pub use split::SPLIT_FROM;
use writes::Writes;

use crate::{shadow::ShadowTrie, NodeHash, NodeTable, Root, StateVersion};
use core::mem::take;
use memory::BatchMemory;
use node::{number, Built, Span};

/// A change of one key.
type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// The hash of a node that the root needs and that is not loaded; zero for a node inside its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotLoaded(pub(crate) NodeHash);

/// The input of a root computation.
#[derive(Clone, Copy)]
pub(crate) struct BatchInput<'a> {
    pub(crate) trie: &'a ShadowTrie,
    pub(crate) table: &'a NodeTable,
    /// One to [`MOST_CHANGES`] changes, sorted by key. None deletes a key that the trie does not have.
    pub(crate) changes: &'a [Change<'a>],
    pub(crate) version: StateVersion,
    pub(crate) options: RootOptions,
}

impl BatchInput<'_> {
    fn all(&self) -> Span {
        let (start, end) = (0, number(self.changes.len()));
        Span { start, end }
    }
}

/// A root computation in progress.
struct Batch<'a> {
    input: BatchInput<'a>,
    memory: BatchMemory,
    writes: Writes,
}

impl<'a> Batch<'a> {
    /// An empty batch, in the memory of earlier batches.
    fn new(input: BatchInput<'a>, memory: BatchMemory, writes: Writes) -> Self {
        Self {
            input,
            memory,
            writes,
        }
    }

    /// Reserves memory for the nodes that `changes` changes are likely to make.
    fn reserve(&mut self, changes: usize) {
        self.memory.nodes.reserve(2 * changes);
        self.memory.others.reserve(2 * changes);
        self.writes.reserve(3 * changes);
    }
}

/// Computes the root of the trie after the changes. Writes inserted and removed nodes to `memory`.
pub(crate) fn trie_root(input: BatchInput<'_>, memory: &mut RootMemory) -> Result<Root, NotLoaded> {
    memory.batch.clear();
    let mut batch = Batch::new(input, take(&mut memory.batch), take(&mut memory.writes));
    batch.reserve(input.changes.len());
    let root = batch.root();
    memory.batch = batch.memory;
    memory.writes = batch.writes;
    root
}

impl Batch<'_> {
    fn root(&mut self) -> Result<Root, NotLoaded> {
        let trie = self.input.trie;
        let built = match trie.loaded_root() {
            _ if trie.root() == Root::EMPTY => self.grow_subtree(self.input.all(), 0),
            Some(root) => self.apply(root, self.input.all(), 0)?,
            None => return Err(NotLoaded(trie.root().node_hash())),
        };
        Ok(match built {
            Built::New(root) => self.encode_root(root),
            Built::Kept(_) | Built::Unloaded(..) => trie.root(),
            Built::Empty => Root::EMPTY,
        })
    }
}
