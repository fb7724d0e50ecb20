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

mod effort;
mod encode;
#[cfg(feature = "parallel")]
mod split;
mod writes;

pub(crate) use effort::Effort;
#[cfg(feature = "parallel")]
pub use split::SPLIT_FROM;
pub(crate) use writes::Writes;
use writes::WrittenPlace;

use crate::{
    nibbles,
    root::KeyChanges,
    shadow::{referred_hash, OldSlot, OldValue, ShadowTrie},
    NodeHash, NodeTable, Root, ShadowNode, StateVersion,
};
use alloc::vec::Vec;
use core::{iter::empty, mem::take, ops::Range};

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
enum Built {
    Empty,
    /// A loaded node, unchanged.
    Kept(ShadowNode),
    /// A node not even looked at: what the branch holds for it at the nibble.
    Unloaded(ShadowNode, u8),
    /// Index into [`Batch::nodes`].
    New(u32),
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

/// The partial key of a new node.
#[derive(Clone, Debug)]
enum NewPartial {
    /// That of a loaded node.
    Of(ShadowNode),
    /// Range of [`Batch::nibbles`].
    Nibbles(Range<usize>),
}

/// What a new node is made of.
#[derive(Clone, Debug)]
enum Parts<'a> {
    /// A loaded branch, some of whose children are others: a range of [`Batch::others`].
    Other(ShadowNode, Range<usize>),
    /// `children` is an index into [`Batch::children`]; `None` for a leaf.
    Whole {
        partial: NewPartial,
        value: NewValue<'a>,
        children: Option<usize>,
    },
    /// A subtree that was encoded apart.
    #[cfg(feature = "parallel")]
    Done(encode::Reference),
}

/// A node of the new trie.
#[derive(Debug)]
struct NewNode<'a> {
    place: Place<'a>,
    parts: Parts<'a>,
    /// Levels of new nodes below.
    height: u32,
}

/// What comes of the children of a loaded branch.
enum Below {
    Kept,
    /// Some of those that there were are new ones, a range of [`Batch::others`].
    Others(Range<usize>),
    /// Children come or go.
    Whole([Built; 16]),
}

/// A root computation in progress.
struct Batch<'a> {
    trie: &'a ShadowTrie,
    table: &'a NodeTable,
    version: StateVersion,
    nodes: Vec<NewNode<'a>>,
    children: Vec<[Built; 16]>,
    /// New children of loaded branches: nibble, and index into [`Batch::nodes`].
    others: Vec<(u8, u32)>,
    nibbles: Vec<u8>,
    /// New values that are nodes of their own, with their keys.
    values: Vec<(&'a [u8], &'a [u8])>,
    writes: Writes,
    effort: Effort,
}

/// The root of `trie` after `changes`, sorted, none of which deletes a key that the trie does not
/// have, and at least one. Nodes gained and lost go into `writes`.
pub(crate) fn trie_root<'a>(
    trie: &'a ShadowTrie,
    table: &'a NodeTable,
    changes: &KeyChanges<'a>,
    version: StateVersion,
    effort: Effort,
    writes: &mut Writes,
) -> Result<Root, NotLoaded> {
    let mut batch = Batch::new(trie, table, version, effort);
    batch.writes = take(writes);
    batch.reserve(changes.len());
    let built = match trie.loaded_root() {
        _ if trie.root() == Root::EMPTY => batch.fresh(changes, 0),
        Some(root) => batch.apply(root, changes, 0)?,
        None => return Err(NotLoaded(trie.root().node_hash())),
    };
    let root = match built {
        Built::New(root) => batch.encode_root(root),
        Built::Kept(_) | Built::Unloaded(..) => trie.root(),
        Built::Empty => Root::EMPTY,
    };
    *writes = batch.writes;
    Ok(root)
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
    fn new(
        trie: &'a ShadowTrie,
        table: &'a NodeTable,
        version: StateVersion,
        effort: Effort,
    ) -> Self {
        Self {
            trie,
            table,
            version,
            nodes: Vec::new(),
            children: Vec::new(),
            others: Vec::new(),
            nibbles: Vec::new(),
            values: Vec::new(),
            writes: Writes::default(),
            effort,
        }
    }

    /// Makes room for what so many changes are likely to make.
    fn reserve(&mut self, changes: usize) {
        self.nodes.reserve(2 * changes);
        self.others.reserve(2 * changes);
        self.values.reserve(changes);
        self.writes.reserve(2 * changes);
    }

    /// The subtree of loaded node `at`, which begins at `depth`, after `changes`.
    fn apply(
        &mut self,
        at: ShadowNode,
        changes: &[Change<'a>],
        depth: usize,
    ) -> Result<Built, NotLoaded> {
        let Some((key, _)) = changes.first() else {
            return Ok(Built::Kept(at));
        };
        let place = Place::of(key, depth);
        let built = self.change(at, 0, place, changes)?;
        if built != Built::Kept(at) {
            self.remove_node(at, place, 0..0);
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
    ) -> Result<Built, NotLoaded> {
        let depth = place.depth();
        let old = self.trie.old(at, self.table);
        let length = old.partial.len() - skip;
        // Keys are sorted: those that leave the partial key first are at an end.
        let others = changes.len() > 1;
        let ends = changes.first().into_iter();
        let ends = ends.chain(changes.last().filter(|_| others));
        // As a rule none leaves it, and to see that is faster.
        if skip == 0
            && ends
                .clone()
                .all(|(key, _)| old.partial.is_prefix_at(key, depth))
        {
            return self.change_inside(at, skip, place, changes);
        }
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
    ) -> Result<Built, NotLoaded> {
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
        let partial = NewPartial::Nibbles(start..self.nibbles.len());
        self.finish(place, partial, value, children)
    }

    fn change_inside(
        &mut self,
        at: ShadowNode,
        skip: usize,
        place: Place<'a>,
        mut changes: &[Change<'a>],
    ) -> Result<Built, NotLoaded> {
        let old = self.trie.old(at, self.table);
        let branch = place.depth() + old.partial.len() - skip;
        let old_value = NewValue::of(old.value);
        let key = changes.first().map(|(key, _)| *key);
        let value = self.take_value(&mut changes, branch, old_value);
        if let (OldValue::Hash(hash), Some(key), true) = (old.value, key, value != old_value) {
            let place = self.writes.place(self.trie.keyspace(), key, None, empty());
            self.writes.remove(place, referred_hash(hash));
        }
        // Most changes are of a leaf's value.
        if skip == 0 && changes.is_empty() && !self.trie.is_branch(at) {
            return Ok(match value {
                NewValue::None => Built::Empty,
                value if value == old_value => Built::Kept(at),
                value => {
                    let partial = NewPartial::Of(at);
                    let children = None;
                    let parts = Parts::Whole {
                        partial,
                        value,
                        children,
                    };
                    self.add(place, parts)
                }
            });
        }
        let below = self.change_children(at, changes, branch)?;
        if skip == 0 && value == old_value {
            match below {
                Below::Kept => return Ok(Built::Kept(at)),
                Below::Others(others) => return Ok(self.add(place, Parts::Other(at, others))),
                Below::Whole(_) => {}
            }
        }
        let children = match below {
            Below::Kept => self.old_children(at),
            Below::Others(others) => self.children_with(at, &self.others[others]),
            Below::Whole(children) => children,
        };
        let partial = if skip == 0 {
            NewPartial::Of(at)
        } else {
            let start = self.nibbles.len();
            let rest = skip..old.partial.len();
            self.nibbles.extend(rest.map(|index| old.partial.at(index)));
            NewPartial::Nibbles(start..self.nibbles.len())
        };
        self.finish(place, partial, value, children)
    }

    /// The children of `at`, which begin at `depth` and one nibble, after `changes`.
    fn change_children(
        &mut self,
        at: ShadowNode,
        mut changes: &[Change<'a>],
        depth: usize,
    ) -> Result<Below, NotLoaded> {
        let mut built = [(0, Built::Empty); 16];
        let mut count = 0;
        let mut only_others = true;
        let mut all_kept = true;
        #[cfg(feature = "parallel")]
        let mut apart = self.change_apart(at, changes, depth)?.into_iter();
        while let Some((key, _)) = changes.first() {
            let nibble = nibbles::at(key, depth);
            let group = split_off(&mut changes, nibble, depth);
            let slot = self.trie.old_slot(at, nibble, self.table);
            #[cfg(feature = "parallel")]
            let apart = apart.next();
            #[cfg(not(feature = "parallel"))]
            let apart = None;
            let child = match apart {
                Some(child) => child,
                None => self.change_child(slot, group, depth + 1)?,
            };
            let kept = matches!(child, Built::Kept(_));
            all_kept &= kept;
            only_others &= kept || matches!((slot, child), (OldSlot::Loaded(_), Built::New(_)));
            built[count] = (nibble, child);
            count += 1;
        }
        let built = &built[..count];
        if all_kept {
            return Ok(Below::Kept);
        }
        if only_others {
            let start = self.others.len();
            let others = built.iter().filter_map(|(nibble, child)| match child {
                Built::New(index) => Some((*nibble, *index)),
                _ => None,
            });
            self.others.extend(others);
            return Ok(Below::Others(start..self.others.len()));
        }
        let mut children = self.old_children(at);
        for (nibble, child) in built {
            children[usize::from(*nibble)] = *child;
        }
        Ok(Below::Whole(children))
    }

    /// What is in a branch's slot, which begins at `depth`, after `changes`.
    fn change_child(
        &mut self,
        slot: OldSlot<'_>,
        changes: &[Change<'a>],
        depth: usize,
    ) -> Result<Built, NotLoaded> {
        match slot {
            OldSlot::Empty => Ok(self.fresh(changes, depth)),
            OldSlot::Loaded(child) => self.apply(child, changes, depth),
            OldSlot::Unloaded(reference) => Err(NotLoaded(referred_hash(reference))),
        }
    }

    /// The children of a loaded node as they are.
    fn old_children(&self, at: ShadowNode) -> [Built; 16] {
        let mut children = [Built::Empty; 16];
        for nibble in 0..16 {
            children[usize::from(nibble)] = match self.trie.old_slot(at, nibble, self.table) {
                OldSlot::Empty => Built::Empty,
                OldSlot::Unloaded(_) => Built::Unloaded(at, nibble),
                OldSlot::Loaded(child) => Built::Kept(child),
            };
        }
        children
    }

    /// The same with new ones at some nibbles.
    fn children_with(&self, at: ShadowNode, others: &[(u8, u32)]) -> [Built; 16] {
        let mut children = self.old_children(at);
        for (nibble, child) in others {
            children[usize::from(*nibble)] = Built::New(*child);
        }
        children
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
    fn fresh(&mut self, mut changes: &[Change<'a>], depth: usize) -> Built {
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
        let partial = NewPartial::Nibbles(start..self.nibbles.len());
        let value = self.take_value(&mut changes, branch, NewValue::None);
        let mut children = [Built::Empty; 16];
        while let Some((key, _)) = changes.first() {
            let nibble = nibbles::at(key, branch);
            let group = split_off(&mut changes, nibble, branch);
            children[usize::from(nibble)] = self.fresh(group, branch + 1);
        }
        self.add_whole(Place::of(first, depth), partial, value, children)
    }

    /// The node at `place` of these parts.
    fn finish(
        &mut self,
        place: Place<'a>,
        partial: NewPartial,
        value: NewValue<'a>,
        children: [Built; 16],
    ) -> Result<Built, NotLoaded> {
        let mut present = (0..16u8).filter(|nibble| children[usize::from(*nibble)] != Built::Empty);
        match (present.next(), present.next(), value) {
            (None, _, NewValue::None) => Ok(Built::Empty),
            (Some(nibble), None, NewValue::None) => {
                self.merge(place, partial, nibble, children[usize::from(nibble)])
            }
            _ => Ok(self.add_whole(place, partial, value, children)),
        }
    }

    fn add_whole(
        &mut self,
        place: Place<'a>,
        partial: NewPartial,
        value: NewValue<'a>,
        children: [Built; 16],
    ) -> Built {
        let is_branch = children.iter().any(|child| *child != Built::Empty);
        let children = is_branch.then(|| {
            self.children.push(children);
            self.children.len() - 1
        });
        let parts = Parts::Whole {
            partial,
            value,
            children,
        };
        self.add(place, parts)
    }

    fn add(&mut self, place: Place<'a>, parts: Parts<'a>) -> Built {
        let height = self.height(&parts);
        self.nodes.push(NewNode {
            place,
            parts,
            height,
        });
        // Four billion nodes do not fit into memory.
        Built::New(u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX))
    }

    fn height(&self, parts: &Parts<'a>) -> u32 {
        let above = |child: u32| self.nodes[child as usize].height + 1;
        let heights = match parts {
            Parts::Other(_, others) => {
                let others = self.others[others.clone()].iter();
                others.map(|(_, child)| above(*child)).max()
            }
            Parts::Whole { children, .. } => children.and_then(|children| {
                let children = self.children[children].iter();
                let heights = children.filter_map(|child| match child {
                    Built::New(child) => Some(above(*child)),
                    _ => None,
                });
                heights.max()
            }),
            #[cfg(feature = "parallel")]
            Parts::Done(_) => None,
        };
        heights.unwrap_or(0)
    }

    /// The only child of a branch without a value, in the branch's place.
    fn merge(
        &mut self,
        place: Place<'a>,
        partial: NewPartial,
        nibble: u8,
        child: Built,
    ) -> Result<Built, NotLoaded> {
        let start = self.nibbles.len();
        self.push_partial(&partial);
        self.nibbles.push(nibble);
        let way = start..self.nibbles.len();
        match child {
            Built::New(index) => {
                let node = &self.nodes[index as usize];
                let (below, value, children) = match node.parts.clone() {
                    Parts::Whole {
                        partial,
                        value,
                        children,
                    } => (partial, value, children),
                    Parts::Other(at, others) => {
                        self.children
                            .push(self.children_with(at, &self.others[others]));
                        let value = NewValue::of(self.trie.old(at, self.table).value);
                        (NewPartial::Of(at), value, Some(self.children.len() - 1))
                    }
                    // Children go apart only where two are left.
                    #[cfg(feature = "parallel")]
                    Parts::Done(_) => return Ok(child),
                };
                self.push_partial(&below);
                let node = &mut self.nodes[index as usize];
                node.place = place;
                node.parts = Parts::Whole {
                    partial: NewPartial::Nibbles(start..self.nibbles.len()),
                    value,
                    children,
                };
                Ok(Built::New(index))
            }
            Built::Kept(at) => {
                self.remove_node(at, place, way);
                self.push_partial(&NewPartial::Of(at));
                let partial = NewPartial::Nibbles(start..self.nibbles.len());
                let value = NewValue::of(self.trie.old(at, self.table).value);
                let children = self.old_children(at);
                Ok(self.add_whole(place, partial, value, children))
            }
            Built::Unloaded(branch, nibble) => {
                match self.trie.old_slot(branch, nibble, self.table) {
                    OldSlot::Unloaded(reference) => Err(NotLoaded(referred_hash(reference))),
                    OldSlot::Empty | OldSlot::Loaded(_) => Err(NotLoaded(NodeHash::default())),
                }
            }
            Built::Empty => Ok(Built::Empty),
        }
    }

    fn push_partial(&mut self, partial: &NewPartial) {
        match partial {
            NewPartial::Of(at) => {
                let partial = self.trie.old(*at, self.table).partial;
                let nibbles = 0..partial.len();
                self.nibbles.extend(nibbles.map(|index| partial.at(index)));
            }
            NewPartial::Nibbles(range) => self.nibbles.extend_from_within(range.clone()),
        }
    }

    /// Notes that `at`, which begins at `place` and then the nibbles of `way`, is gone.
    fn remove_node(&mut self, at: ShadowNode, place: Place<'a>, way: Range<usize>) {
        if let Some(hash) = self.trie.old_hash(at, self.table) {
            let place = self.written(place, way);
            self.writes.remove(place, hash);
        }
    }

    /// Has the writes take note of a place.
    fn written(&mut self, place: Place<'a>, way: Range<usize>) -> WrittenPlace {
        let Place { key, shared, more } = place;
        let odd = (shared % 2 == 1).then(|| key[shared / 2] & 0xf0);
        let nibbles = more.into_iter().chain(self.nibbles[way].iter().copied());
        let keyspace = self.trie.keyspace();
        self.writes
            .place(keyspace, &key[..shared / 2], odd, nibbles)
    }
}

impl<'a> NewValue<'a> {
    fn of(old: OldValue<'a>) -> Self {
        match old {
            OldValue::None => Self::None,
            OldValue::Inline(value) => Self::Inline(value),
            OldValue::Hash(hash) => Self::Kept(hash),
        }
    }
}
