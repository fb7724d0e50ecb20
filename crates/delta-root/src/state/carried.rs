//! The loaded part of a state, carried from block to block.

use super::{ShadowScratch, ShadowState};
use crate::{
    shadow::ShadowTrie, state::scratch::KEPT_NODES, NodeHash, NodeId, NodeRequest, NodeTable, Root,
    RootUpdate,
};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use bytes::{Bytes, BytesMut};
use core::cmp::Reverse;

/// The part of a state that a finished block has loaded, for a block on the same state, or on the state
/// after an update of it.
///
/// The next block finds these nodes decoded and linked, so it asks its source for none of them. An
/// observer is told the same as without them, so no count changes.
///
/// ```text
/// ShadowState ── into_carried ──> CarriedState ── in_carried ──> ShadowState on the same root
///                                    │      ^
///                                    advance(update): the same, on the root after the update
/// ```
#[derive(Debug)]
pub struct CarriedState {
    table: NodeTable,
    top: ShadowTrie,
    carried: Carried,
}

/// The rest of a carried state: child tries that the block has not opened yet, and the ages of nodes.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// By storage key; those with a loaded node.
    children: BTreeMap<Vec<u8>, ShadowTrie>,
    uses: Uses,
}

impl Carried {
    /// Removes and returns the loaded part of child trie `storage_key`, if its root is `root`.
    pub(super) fn take_child(&mut self, storage_key: &[u8], root: Root) -> Option<ShadowTrie> {
        let found = self.children.remove(storage_key);
        found.filter(|trie| trie.root() == root)
    }
}

/// The block in which each node was last used.
#[derive(Debug)]
struct Uses {
    /// By node id; [`Self::NEVER`] for a node that is not needed any more.
    last: Vec<u32>,
    /// Number of the current block.
    block: u32,
}

impl Default for Uses {
    fn default() -> Self {
        Self {
            last: Vec::new(),
            block: Self::NEVER + 1,
        }
    }
}

impl Uses {
    const NEVER: u32 = 0;

    fn of(&self, node: NodeId) -> u32 {
        self.last.get(node.index()).copied().unwrap_or(Self::NEVER)
    }

    fn set(&mut self, node: NodeId, block: u32) {
        let index = node.index();
        if self.last.len() <= index {
            self.last.resize(index + 1, Self::NEVER);
        }
        self.last[index] = block;
    }
}

impl<S> ShadowState<S> {
    /// The loaded part of the state, for the next block, and the other memory. `used` are the nodes that this
    /// block needed: [`CarriedState::shrink`] drops them last. `None` if the source returned bytes that are
    /// no node, because every later block would refuse them.
    pub fn into_carried(
        self,
        used: impl IntoIterator<Item = NodeId>,
    ) -> (Option<CarriedState>, ShadowScratch) {
        if self.table.has_refused() {
            return (None, self.into_scratch());
        }
        let Self {
            source: _,
            table,
            mut top,
            children,
            child_handles: _,
            mut carried,
            options: _,
            mut root_memory,
        } = self;
        let uses = &mut carried.uses;
        // After 2^32 blocks, all later blocks share the last number.
        uses.block = uses.block.saturating_add(1);
        let block = uses.block;
        used.into_iter().for_each(|node| uses.set(node, block));
        top.end_block();
        for child in children {
            let mut trie = child.trie;
            if child.exists && trie.len() > 0 {
                trie.end_block();
                carried.children.insert(trie.keyspace().to_vec(), trie);
            }
        }
        root_memory.reset(KEPT_NODES);
        let scratch = ShadowScratch {
            root_memory,
            ..ShadowScratch::default()
        };
        let state = CarriedState {
            table,
            top,
            carried,
        };
        (Some(state), scratch)
    }

    /// The state that `carried` is a part of, with that part loaded; the memory is that of `scratch`.
    ///
    /// The source must be the one that the part was loaded from, or have all nodes of that source, because
    /// it is not asked for loaded nodes again.
    pub fn in_carried(source: S, carried: CarriedState, scratch: ShadowScratch) -> Self {
        let CarriedState {
            table,
            top,
            carried,
        } = carried;
        let scratch = ShadowScratch { table, ..scratch };
        let mut state = Self::in_scratch(source, top.root(), scratch);
        state.top = top;
        state.carried = carried;
        state
    }
}

impl CarriedState {
    /// Root of the state.
    pub fn root(&self) -> Root {
        self.top.root()
    }

    /// Number of trie nodes loaded, including nodes that earlier blocks replaced.
    pub fn nodes(&self) -> usize {
        let children = self.carried.children.values().map(ShadowTrie::len);
        self.top.len() + children.sum::<usize>()
    }

    /// Bytes of memory, including the encoded nodes.
    pub fn memory(&self) -> usize {
        let Carried { children, uses } = &self.carried;
        let children = children.values();
        let children = children.map(|trie| trie.memory() + child_bytes(trie));
        self.top.memory()
            + children.sum::<usize>()
            + self.table.memory()
            + uses.last.capacity() * size_of::<u32>()
    }

    /// Becomes the loaded part of the state after `update`: the nodes that it inserts are loaded, and the
    /// nodes that it removes are not needed any more. Returns `false`, and does nothing, if the update does
    /// not start from this state.
    ///
    /// The inserted nodes share the memory of the update.
    ///
    /// # Cost
    /// Decodes each inserted node that replaces a loaded one, and adds all inserted nodes to a table.
    pub fn advance(&mut self, update: &RootUpdate) -> bool {
        if update.parent != self.root() {
            return false;
        }
        let Self {
            table,
            top,
            carried: Carried { children, uses },
        } = self;
        let block = uses.block;
        for node in update.removed() {
            if let Some(id) = table.find(&node.hash) {
                uses.set(id, Uses::NEVER);
            }
        }
        for node in update.inserted() {
            // A full table does not get the node, so the block asks its source for it.
            let encoded = update.nodes.share(node.encoded);
            if let Ok(id) = insert(table, node.hash, encoded) {
                uses.set(id, block);
            }
        }
        top.renew(update.root, table);
        for (storage_key, root) in &update.children {
            if *root == Root::EMPTY {
                children.remove(storage_key);
            } else if let Some(trie) = children.get_mut(storage_key) {
                trie.renew(*root, table);
                if trie.len() == 0 {
                    children.remove(storage_key);
                }
            }
        }
        true
    }

    /// Drops nodes until about `most` bytes of memory are left, at most a quarter more: first nodes that no block
    /// used, or that are not needed any more, then nodes whose last use is the longest ago. Among nodes last used
    /// in one block, it drops those loaded last, because they usually lie deeper in the trie. Drops child tries in
    /// the same way, because each takes memory besides its nodes.
    ///
    /// # Cost
    /// Copies and decodes all nodes that stay; several times if equal nodes lie at many places, and so take more memory
    /// than a node usually does.
    pub fn shrink(&mut self, most: usize) {
        let mut tried = most;
        self.shrink_once(tried);
        while self.memory() > most.saturating_add(most / 4) && self.nodes() > 0 {
            tried /= 2;
            self.shrink_once(tried);
        }
    }

    fn shrink_once(&mut self, most: usize) {
        let (mut ids, fits) = self.last_used(most);
        let Self {
            table,
            top,
            carried: Carried { children, uses },
        } = self;
        // Parents come before children again, as they were loaded, so that a walk finds them close together.
        ids.sort_unstable();
        let lengths = ids.iter().map(|id| table.bytes(*id).len());
        let mut copies = BytesMut::with_capacity(lengths.sum());
        let mut kept = NodeTable::default();
        let mut kept_uses = Uses {
            last: Vec::with_capacity(ids.len()),
            block: uses.block,
        };
        for id in ids {
            copies.extend_from_slice(table.bytes(id));
            let copy = copies.split().freeze();
            if let Ok(copy) = insert(&mut kept, *table.hash(id), copy) {
                kept_uses.set(copy, uses.of(id));
            }
        }
        *top = top.retained(table, &kept);
        let mut fits = fits.into_iter();
        children.retain(|_, trie| {
            let fits = fits.next().unwrap_or(false);
            if fits {
                *trie = trie.retained(table, &kept);
            }
            fits && trie.len() > 0
        });
        *table = kept;
        *uses = kept_uses;
    }

    /// The nodes that fit into `most` bytes, those last used first, and for each child trie whether it fits, in the order
    /// of their storage keys.
    fn last_used(&self, most: usize) -> (Vec<NodeId>, Vec<bool>) {
        let Carried { children, uses } = &self.carried;
        let children: Vec<_> = children.values().collect();
        let roots = children.iter().enumerate();
        let roots = roots.filter_map(|(child, trie)| {
            let root = self.table.find(&trie.root().node_hash())?;
            Some((root, Some(child)))
        });
        let nodes = self.table.ids().map(|id| (id, None));
        let mut parts: Vec<_> = nodes
            .chain(roots)
            .map(|(id, child)| (Reverse(uses.of(id)), id, child))
            .filter(|(last_use, ..)| last_use.0 != Uses::NEVER)
            .collect();
        // The child tries with one root come right after the root node.
        parts.sort_unstable();
        let mut left = most;
        let (mut ids, mut fits) = (Vec::new(), vec![false; children.len()]);
        for (_, id, child) in parts {
            let bytes = match child {
                None => LOADED_NODE_BYTES + self.table.bytes(id).len(),
                Some(child) => child_bytes(children[child]),
            };
            let Some(rest) = left.checked_sub(bytes) else {
                break;
            };
            left = rest;
            match child {
                None => ids.push(id),
                Some(child) => fits[child] = true,
            }
        }
        (ids, fits)
    }
}

/// About the bytes of memory of a loaded node, without its encoding: half a cache line, one cache line for
/// its children, and its entry in the table.
const LOADED_NODE_BYTES: usize = 176;

/// About the bytes of memory of a child trie besides its arena: its entry in a map that is two thirds full, and its
/// storage key, once in the trie and once in the map.
fn child_bytes(trie: &ShadowTrie) -> usize {
    size_of::<(Vec<u8>, ShadowTrie)>() * 3 / 2 + 2 * trie.keyspace().len()
}

/// Adds a node to `table`.
fn insert(
    table: &mut NodeTable,
    hash: NodeHash,
    encoded: Bytes,
) -> Result<NodeId, crate::LoadError> {
    let request = NodeRequest {
        hash,
        ..NodeRequest::default()
    };
    table.insert(&request, encoded)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        state_update, Changes, NodePrefix, NodeSource, SourceError,
        StateVersion::V1,
        TrieId::{Child, Top},
    };

    #[derive(Default)]
    struct Nodes(BTreeMap<NodeHash, Bytes>);

    impl NodeSource for Nodes {
        fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
            Ok(self.0.get(hash).cloned())
        }
    }

    #[test]
    fn child_tries_without_a_loaded_node_are_not_carried() {
        let mut state = ShadowState::new(Nodes::default(), Root::EMPTY);
        let entry = || vec![(&b"key"[..], Some(&[7; 40][..]))];
        let children = [&b"opened"[..], b"read"].map(|name| (name, entry()));
        let changes = Changes {
            top: entry(),
            children: children.into(),
        };
        let update = state_update(&mut state, &changes, V1, &mut ()).unwrap();
        let nodes = update.inserted();
        let nodes = nodes.map(|node| (node.hash, update.nodes.share(node.encoded)));
        let mut state = ShadowState::new(Nodes(nodes.collect()), update.root);
        let read = state.open(Child(b"read"), &mut ()).unwrap();
        assert!(state.find(read, b"key", &mut ()).unwrap().is_some());
        state.open(Child(b"opened"), &mut ()).unwrap();
        state.open(Top, &mut ()).unwrap();
        let (carried, _) = state.into_carried([]);
        let carried = carried.unwrap().carried.children;
        assert_eq!(carried.keys().collect::<Vec<_>>(), [b"read"]);
    }
}
