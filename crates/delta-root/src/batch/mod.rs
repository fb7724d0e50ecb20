//! The root in one pass: sorted changes applied to the loaded nodes.
//!
//! ```text
//! change(node, changes of keys below it):
//!     where keys leave the node's partial key before its end:
//!         a new branch there; the node goes below it with the rest of its partial key
//!     else: the value changes if a key ends here; each child takes the changes of its nibble
//!     nothing changed: the node is kept as it is
//!     nothing left: no node;  a value alone: a leaf
//!     one child and no value: the child takes the place, its partial key put together
//! ```
//! What comes out is a tree of new nodes over references to kept ones. [`encode`] turns it into bytes
//! and hashes, from the leaves up, one level at a time. A node that is not kept is removed, also
//! where the same node comes out again: the update counts net references.
//!
//! Depth of recursion: the number of branches on the longest changed key's way.

mod encode;
mod writes;

pub(crate) use writes::Writes;

use crate::{
    nibbles,
    root::KeyChanges,
    shadow::{referred_hash, OldSlot, OldValue, ShadowTrie},
    Hashing, NodeHash, NodeTable, Root, ShadowNode, StateVersion,
};
use alloc::vec::Vec;
use core::ops::Range;

/// A change of one key.
type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// A node needed for the root that was not loaded, by hash (zero for one inside its parent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotLoaded(pub(crate) NodeHash);

/// Where a node begins: the first `shared` nibbles of `key`, and one more.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    key: &'a [u8],
    shared: usize,
    more: Option<u8>,
}

impl<'a> Place<'a> {
    fn of(key: &'a [u8], shared: usize) -> Self {
        Self {
            key,
            shared,
            more: None,
        }
    }

    fn depth(&self) -> usize {
        self.shared + usize::from(self.more.is_some())
    }
}

/// What comes of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Built<'a> {
    Empty,
    /// A loaded node, unchanged.
    Kept(ShadowNode),
    /// A node not even looked at: what its parent holds for it.
    Unloaded(&'a [u8]),
    /// Index into [`Batch::nodes`].
    New(usize),
}

/// The value of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewValue<'a> {
    None,
    Inline(&'a [u8]),
    /// The hash of a value that the parent state has as a node.
    Kept(&'a [u8]),
    /// Index into [`Batch::values`].
    Fresh(usize),
}

/// A node of the new trie.
#[derive(Debug)]
struct NewNode<'a> {
    place: Place<'a>,
    /// Range of [`Batch::nibbles`].
    partial: Range<usize>,
    value: NewValue<'a>,
    /// Index into [`Batch::children`]; `None` for a leaf.
    children: Option<usize>,
    /// Levels of new nodes below.
    height: usize,
}

/// A root computation in progress.
struct Batch<'a> {
    trie: &'a ShadowTrie,
    table: &'a NodeTable,
    version: StateVersion,
    hashing: Hashing,
    nodes: Vec<NewNode<'a>>,
    children: Vec<[Built<'a>; 16]>,
    nibbles: Vec<u8>,
    /// New values that are nodes of their own, with their keys.
    values: Vec<(&'a [u8], &'a [u8])>,
    writes: &'a mut Writes,
}

/// The root of `trie` after `changes`, sorted, none of which deletes a key that the trie does not
/// have, and at least one. Nodes gained and lost go into `writes`.
pub(crate) fn trie_root<'a>(
    trie: &'a ShadowTrie,
    table: &'a NodeTable,
    changes: &KeyChanges<'a>,
    version: StateVersion,
    hashing: Hashing,
    writes: &'a mut Writes,
) -> Result<Root, NotLoaded> {
    let mut batch = Batch {
        trie,
        table,
        version,
        hashing,
        nodes: Vec::with_capacity(2 * changes.len()),
        children: Vec::with_capacity(changes.len()),
        nibbles: Vec::new(),
        values: Vec::new(),
        writes,
    };
    let built = match trie.loaded_root() {
        _ if trie.root() == Root::EMPTY => batch.fresh(changes, 0),
        Some(root) => batch.apply(root, changes, 0)?,
        None => return Err(NotLoaded(trie.root().node_hash())),
    };
    match built {
        Built::New(root) => Ok(batch.encode(root)),
        Built::Kept(_) | Built::Unloaded(_) => Ok(trie.root()),
        Built::Empty => Ok(Root::EMPTY),
    }
}

/// Splits off the changes whose key has `nibble` at `depth`.
fn split_off<'c, 'a>(changes: &mut &'c [Change<'a>], nibble: u8, depth: usize) -> &'c [Change<'a>] {
    let count = changes
        .iter()
        .take_while(|(key, _)| nibbles::at(key, depth) == nibble)
        .count();
    let (group, rest) = changes.split_at(count);
    *changes = rest;
    group
}

impl<'a> Batch<'a> {
    /// The subtree of loaded node `at`, which begins at `depth`, after `changes`.
    fn apply(
        &mut self,
        at: ShadowNode,
        changes: &[Change<'a>],
        depth: usize,
    ) -> Result<Built<'a>, NotLoaded> {
        let Some((key, _)) = changes.first() else {
            return Ok(Built::Kept(at));
        };
        let place = Place::of(key, depth);
        let built = self.change(at, 0, place, changes)?;
        if built != Built::Kept(at) {
            self.remove_node(at, place, None);
        }
        Ok(built)
    }

    /// As [`Self::apply`], for a node without the first `skip` nibbles of its partial key; such a
    /// node is never kept. `place` is where the rest begins.
    fn change(
        &mut self,
        at: ShadowNode,
        skip: usize,
        place: Place<'a>,
        changes: &[Change<'a>],
    ) -> Result<Built<'a>, NotLoaded> {
        let depth = place.depth();
        let old = self.trie.old(at, self.table);
        let length = old.partial.len() - skip;
        // Keys are sorted: those that leave the partial key first are at an end.
        let ends = [changes.first(), changes.last()].into_iter().flatten();
        let shared = ends
            .map(|(key, _)| old.partial.shared_at(skip, key, depth))
            .min();
        match shared {
            Some(shared) if shared < length => self.split(at, skip, place, shared, changes),
            _ => self.change_inside(at, skip, place, changes),
        }
    }

    /// Puts a branch into the partial key of `at`, `shared` nibbles after `place`. Every change that
    /// leaves there is an insertion.
    fn split(
        &mut self,
        at: ShadowNode,
        skip: usize,
        place: Place<'a>,
        shared: usize,
        mut changes: &[Change<'a>],
    ) -> Result<Built<'a>, NotLoaded> {
        let branch = place.depth() + shared;
        let old = self.trie.old(at, self.table);
        let own = old.partial.at(skip + shared);
        let any_key = changes.first().map_or(place.key, |(key, _)| key);
        let value = self.take_value(&mut changes, branch, NewValue::None);
        let mut children = [Built::Empty; 16];
        for nibble in 0..16 {
            let group = split_off(&mut changes, nibble, branch);
            children[usize::from(nibble)] = if nibble == own {
                let below = match group.first() {
                    Some((key, _)) => Place::of(key, branch + 1),
                    None => Place {
                        key: any_key,
                        shared: branch,
                        more: Some(own),
                    },
                };
                self.change(at, skip + shared + 1, below, group)?
            } else {
                self.fresh(group, branch + 1)
            };
        }
        let start = self.nibbles.len();
        self.nibbles
            .extend((0..shared).map(|index| old.partial.at(skip + index)));
        self.finish(place, start, value, children)
    }

    fn change_inside(
        &mut self,
        at: ShadowNode,
        skip: usize,
        place: Place<'a>,
        mut changes: &[Change<'a>],
    ) -> Result<Built<'a>, NotLoaded> {
        let old = self.trie.old(at, self.table);
        let length = old.partial.len() - skip;
        let branch = place.depth() + length;
        let old_value = match old.value {
            OldValue::None => NewValue::None,
            OldValue::Inline(value) => NewValue::Inline(value),
            OldValue::Hash(hash) => NewValue::Kept(hash),
        };
        let key = changes.first().map(|(key, _)| *key);
        let value = self.take_value(&mut changes, branch, old_value);
        if let (OldValue::Hash(hash), Some(key), true) = (old.value, key, value != old_value) {
            self.writes
                .remove(self.trie.keyspace(), key, None, referred_hash(hash));
        }
        let mut changed = skip > 0 || value != old_value;
        let mut children = [Built::Empty; 16];
        for nibble in 0..16 {
            let group = split_off(&mut changes, nibble, branch);
            let child = match self.trie.old_slot(at, nibble, self.table) {
                OldSlot::Empty => self.fresh(group, branch + 1),
                OldSlot::Loaded(child) => self.apply(child, group, branch + 1)?,
                OldSlot::Unloaded(reference) if group.is_empty() => Built::Unloaded(reference),
                OldSlot::Unloaded(reference) => return Err(NotLoaded(referred_hash(reference))),
            };
            changed |= match child {
                Built::New(_) => true,
                // Of what was there, only the loaded can go.
                Built::Empty => !group.is_empty(),
                Built::Kept(_) | Built::Unloaded(_) => false,
            };
            children[usize::from(nibble)] = child;
        }
        if !changed {
            return Ok(Built::Kept(at));
        }
        let start = self.nibbles.len();
        self.nibbles
            .extend((0..length).map(|index| old.partial.at(skip + index)));
        self.finish(place, start, value, children)
    }

    /// The value that `changes` give to the key which ends at `depth`, `kept` if they do not.
    fn take_value(
        &mut self,
        changes: &mut &[Change<'a>],
        depth: usize,
        kept: NewValue<'a>,
    ) -> NewValue<'a> {
        match changes.first() {
            Some((key, value)) if nibbles::count(key) == depth => {
                *changes = &changes[1..];
                value.map_or(NewValue::None, |value| self.new_value(key, value))
            }
            _ => kept,
        }
    }

    fn new_value(&mut self, key: &'a [u8], value: &'a [u8]) -> NewValue<'a> {
        let by_hash =
            self.version == StateVersion::V1 && value.len() >= StateVersion::V1_NODE_VALUE as usize;
        if !by_hash {
            return NewValue::Inline(value);
        }
        self.values.push((key, value));
        NewValue::Fresh(self.values.len() - 1)
    }

    /// The subtree of `changes` alone, all of them insertions that share their first `depth`
    /// nibbles.
    fn fresh(&mut self, mut changes: &[Change<'a>], depth: usize) -> Built<'a> {
        let (Some(&(first, _)), Some(&(last, _))) = (changes.first(), changes.last()) else {
            return Built::Empty;
        };
        let most = nibbles::count(first).min(nibbles::count(last));
        let mut branch = depth;
        if changes.len() == 1 {
            branch = nibbles::count(first);
        } else {
            while branch < most && nibbles::at(first, branch) == nibbles::at(last, branch) {
                branch += 1;
            }
        }
        let start = self.nibbles.len();
        self.nibbles
            .extend((depth..branch).map(|index| nibbles::at(first, index)));
        let partial = start..self.nibbles.len();
        let value = self.take_value(&mut changes, branch, NewValue::None);
        let mut children = [Built::Empty; 16];
        for nibble in 0..16 {
            let group = split_off(&mut changes, nibble, branch);
            children[usize::from(nibble)] = self.fresh(group, branch + 1);
        }
        self.add(Place::of(first, depth), partial, value, children)
    }

    /// The node at `place` of these parts, the partial key being what was added to the nibbles since
    /// there were `start`.
    fn finish(
        &mut self,
        place: Place<'a>,
        start: usize,
        value: NewValue<'a>,
        children: [Built<'a>; 16],
    ) -> Result<Built<'a>, NotLoaded> {
        let partial = start..self.nibbles.len();
        let mut present = (0..16u8).filter(|nibble| children[usize::from(*nibble)] != Built::Empty);
        match (present.next(), present.next(), value) {
            (None, _, NewValue::None) => Ok(Built::Empty),
            (Some(nibble), None, NewValue::None) => {
                self.merge(place, partial, nibble, children[usize::from(nibble)])
            }
            _ => Ok(self.add(place, partial, value, children)),
        }
    }

    fn add(
        &mut self,
        place: Place<'a>,
        partial: Range<usize>,
        value: NewValue<'a>,
        children: [Built<'a>; 16],
    ) -> Built<'a> {
        let heights = children.iter().filter_map(|child| match child {
            Built::New(child) => Some(self.nodes[*child].height + 1),
            _ => None,
        });
        let height = heights.max().unwrap_or(0);
        let is_branch = children.iter().any(|child| *child != Built::Empty);
        let children = is_branch.then(|| {
            self.children.push(children);
            self.children.len() - 1
        });
        self.nodes.push(NewNode {
            place,
            partial,
            value,
            children,
            height,
        });
        Built::New(self.nodes.len() - 1)
    }

    /// The only child of a branch without a value, in the branch's place.
    fn merge(
        &mut self,
        place: Place<'a>,
        partial: Range<usize>,
        nibble: u8,
        child: Built<'a>,
    ) -> Result<Built<'a>, NotLoaded> {
        let length = partial.len();
        let start = self.nibbles.len();
        self.nibbles.extend_from_within(partial);
        self.nibbles.push(nibble);
        match child {
            Built::New(index) => {
                let below = self.nodes[index].partial.clone();
                self.nibbles.extend_from_within(below);
                let node = &mut self.nodes[index];
                node.place = place;
                node.partial = start..self.nibbles.len();
                Ok(Built::New(index))
            }
            Built::Kept(at) => {
                let old = self.trie.old(at, self.table);
                let way = start..start + length + 1;
                self.remove_node(at, place, Some(way));
                self.nibbles
                    .extend((0..old.partial.len()).map(|index| old.partial.at(index)));
                let value = match old.value {
                    OldValue::None => NewValue::None,
                    OldValue::Inline(value) => NewValue::Inline(value),
                    OldValue::Hash(hash) => NewValue::Kept(hash),
                };
                let mut children = [Built::Empty; 16];
                for nibble in 0..16 {
                    children[usize::from(nibble)] = match self.trie.old_slot(at, nibble, self.table)
                    {
                        OldSlot::Empty => Built::Empty,
                        OldSlot::Unloaded(reference) => Built::Unloaded(reference),
                        OldSlot::Loaded(child) => Built::Kept(child),
                    };
                }
                Ok(self.add(place, start..self.nibbles.len(), value, children))
            }
            Built::Unloaded(reference) => Err(NotLoaded(referred_hash(reference))),
            Built::Empty => Ok(Built::Empty),
        }
    }

    /// Notes that `at`, which begins at `place` and then the nibbles of `way`, is gone.
    fn remove_node(&mut self, at: ShadowNode, place: Place<'a>, way: Option<Range<usize>>) {
        if let Some(hash) = self.trie.old(at, self.table).hash {
            let way = &self.nibbles[way.unwrap_or(0..0)];
            let (path, odd) = place.path(way);
            self.writes.remove(self.trie.keyspace(), &path, odd, hash);
        }
    }
}

impl Place<'_> {
    /// Whole bytes and a last nibble of the place and then `way`.
    fn path(&self, way: &[u8]) -> (Vec<u8>, Option<u8>) {
        let mut path = self.key[..self.shared / 2].to_vec();
        let mut odd = (self.shared % 2 == 1).then(|| self.key[self.shared / 2] & 0xf0);
        for nibble in self.more.iter().chain(way) {
            match odd.take() {
                Some(high) => path.push(high | nibble),
                None => odd = Some(nibble << 4),
            }
        }
        (path, odd)
    }
}
