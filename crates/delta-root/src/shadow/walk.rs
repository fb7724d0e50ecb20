//! The walk to a key.
//!
//! ```text
//! find(key):
//!     node = root, depth = 0
//!     loop
//!         tell the observer of the node, if it has a hash of its own
//!         if key does not hold the node's partial key at depth: there is no entry
//!         depth += length of the partial key
//!         if depth = length of key: the entry is this node's value, if any
//!         node = child at key[depth], loaded if it was not; if none: there is no entry
//!         depth += 1
//! ```

use super::{hash_at, key_prefix, node::ChildSlot, Loader, Observer, ShadowNode, ShadowTrie};
use crate::{decode, nibbles, LoadError, NodeId, NodeRequest, NodeSource, NodeTable, HASH_LENGTH};

/// A walk that is not at its end. The next node begins at `depth`: it is `at`, or, if the walk is stopped,
/// the child of `at`, which is not loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    at: ShadowNode,
    depth: usize,
}

impl Walk {
    /// Nibbles of the key on the path so far.
    pub(crate) fn depth(self) -> usize {
        self.depth
    }
}

/// How far a walk is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// Before a loaded node.
    Goes(Walk),
    /// Before a node that is not loaded.
    Stopped(Walk),
    /// At the node that holds the key's value, or `None` if there is no entry.
    Ended(Option<ShadowNode>),
}

/// What a stopped walk waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited<'k> {
    /// No node that could be loaded with others: the child is inside its parent, or is loaded by now.
    Nothing,
    /// A node that was loaded at another place.
    Loaded(NodeId),
    /// A node that is not loaded; the prefix is without the keyspace of the trie.
    Node(NodeRequest<'k>),
}

impl ShadowTrie {
    /// The node that holds the value at `key`, if the trie has that entry.
    pub(crate) fn find<S: NodeSource>(
        &mut self,
        key: &[u8],
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<Option<ShadowNode>, LoadError> {
        let mut walk = self.begin(loader)?;
        loop {
            let stopped = loop {
                match self.step(key, walk, loader.table, observer) {
                    Progress::Goes(on) => walk = on,
                    Progress::Stopped(stopped) => break stopped,
                    Progress::Ended(found) => return Ok(found),
                }
            };
            walk = self.resume(key, stopped, None, loader)?;
        }
    }

    /// Whether the loaded nodes lead to an entry at `key`.
    pub(crate) fn has_loaded_entry(&self, key: &[u8], table: &NodeTable) -> bool {
        let Some(at) = self.loaded_root() else {
            return false;
        };
        let mut walk = Walk { at, depth: 0 };
        loop {
            match self.step(key, walk, table, &mut ()) {
                Progress::Goes(on) => walk = on,
                Progress::Stopped(_) => return false,
                Progress::Ended(found) => return found.is_some(),
            }
        }
    }

    /// The walk that begins at the root.
    pub(crate) fn begin<S: NodeSource>(
        &mut self,
        loader: &mut Loader<'_, S>,
    ) -> Result<Walk, LoadError> {
        let at = self.load_root(loader)?;
        Ok(Walk { at, depth: 0 })
    }

    /// Moves the walk past one node.
    #[inline(always)]
    pub(crate) fn step(
        &self,
        key: &[u8],
        Walk { at, depth }: Walk,
        table: &NodeTable,
        observer: &mut impl Observer,
    ) -> Progress {
        let (node, partial) = self.observed(at, table, observer);
        if !partial.is_prefix_at(key, depth) {
            return Progress::Ended(None);
        }
        let depth = depth + partial.len();
        if depth == nibbles::count(key) {
            return Progress::Ended(node.has_value().then_some(at));
        }
        let slot = self.slot(at, nibbles::at(key, depth));
        let depth = depth + 1;
        match slot {
            ChildSlot::Loaded(at) => Progress::Goes(Walk { at, depth }),
            ChildSlot::At(_) => Progress::Stopped(Walk { at, depth }),
            ChildSlot::Empty => Progress::Ended(None),
        }
    }

    /// Continues the walk where it stopped. Loads the node there, unless it is given as `loaded`.
    pub(crate) fn resume<S: NodeSource>(
        &mut self,
        key: &[u8],
        Walk { at, depth }: Walk,
        loaded: Option<NodeId>,
        loader: &mut Loader<'_, S>,
    ) -> Result<Walk, LoadError> {
        let nibble = nibbles::at(key, depth - 1);
        let child = self.child(at, nibble, key_prefix(key, depth), loaded, loader)?;
        // A walk stops only before a child that exists.
        let at = child.unwrap_or(at);
        Ok(Walk { at, depth })
    }

    /// The first byte of the hash of the node that a stopped walk waits for, or of the node itself, if it is
    /// inside its parent.
    #[inline]
    pub(crate) fn first_awaited_byte(
        &self,
        key: &[u8],
        Walk { at, depth }: Walk,
        table: &NodeTable,
    ) -> u8 {
        match self.slot(at, nibbles::at(key, depth - 1)) {
            ChildSlot::At(offset) => {
                let data = table.bytes(self.nodes[at.index()].data);
                data.get(offset).copied().unwrap_or(0)
            }
            ChildSlot::Loaded(_) | ChildSlot::Empty => 0,
        }
    }

    /// What a stopped walk waits for.
    pub(crate) fn awaited<'k>(&self, key: &'k [u8], walk: Walk, table: &NodeTable) -> Awaited<'k> {
        match self.request(key, walk, table) {
            None => Awaited::Nothing,
            Some(request) => match table.find(&request.hash) {
                Some(loaded) => Awaited::Loaded(loaded),
                None => Awaited::Node(request),
            },
        }
    }

    /// The request for the node that a stopped walk waits for, unless the node is inside its parent; the
    /// prefix is without the keyspace of the trie.
    pub(super) fn request<'k>(
        &self,
        key: &'k [u8],
        Walk { at, depth }: Walk,
        table: &NodeTable,
    ) -> Option<NodeRequest<'k>> {
        let ChildSlot::At(offset) = self.slot(at, nibbles::at(key, depth - 1)) else {
            return None;
        };
        let data = table.bytes(self.nodes[at.index()].data);
        if decode::child_length(data, offset) != HASH_LENGTH {
            return None;
        }
        Some(NodeRequest {
            hash: hash_at(data, offset),
            prefix: key_prefix(key, depth),
        })
    }
}
