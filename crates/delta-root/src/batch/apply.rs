//! Changes applied to loaded nodes: the tree of new nodes.

use super::{
    node::{
        number, Built, Children, NewPartial, NewValue, NewValueNode, Parts, Place, Span,
        NO_CHILDREN,
    },
    writes::WrittenPlace,
    Batch, NotLoaded,
};
use crate::{
    nibbles,
    shadow::{referred_hash, OldChild, OldNode, OldValue},
    ShadowNode, StateVersion,
};
use core::ops::Range;

/// The children of a loaded branch after the changes.
enum NewChildren {
    Kept,
    /// Some children are replaced, and none is added or removed: the range of the new ones in the batch's
    /// `others`, and the height of a node above them.
    Replaced(Range<u32>, u32),
    /// Children are added or removed.
    Rebuilt(Children),
}

impl<'a> Batch<'a> {
    pub(super) fn key(&self, change: u32) -> &'a [u8] {
        self.input.changes[change as usize].0
    }

    /// Removes the changes whose keys have `nibble` at `depth` from the start of `span`, and returns them.
    pub(super) fn split_off(&self, span: &mut Span, nibble: u8, depth: usize) -> Span {
        let has = |key: &[u8]| nibbles::at(key, depth) == nibble;
        let changes = &self.input.changes[span.range()];
        let count = match changes.last() {
            // In most spans, all keys have one nibble there.
            Some((last, _)) if has(last) => changes.len(),
            _ => changes.iter().take_while(|(key, _)| has(key)).count(),
        };
        let (start, middle) = (span.start, span.start + number(count));
        span.start = middle;
        Span { start, end: middle }
    }

    pub(super) fn old(&self, at: ShadowNode) -> OldNode<'a> {
        self.input.trie.old(at, self.input.table)
    }

    pub(super) fn old_child(&self, at: ShadowNode, nibble: u8) -> OldChild<'a> {
        self.input.trie.old_child(at, nibble, self.input.table)
    }

    /// Applies the changes of `span` to the subtree of loaded node `at`, which begins at `depth`.
    pub(super) fn apply(
        &mut self,
        at: ShadowNode,
        span: Span,
        depth: usize,
    ) -> Result<Built, NotLoaded> {
        if span.is_empty() {
            return Ok(Built::Kept(at));
        }
        let place = Place::of(span.start, depth);
        let built = self.change(at, 0, place, span)?;
        match built {
            Built::Kept(_) => {}
            // The new node is at the place of `at`.
            Built::New(new) => self.memory.nodes[new as usize].replaces = Some(at),
            _ => self.remove_node(at, place, 0..0),
        }
        Ok(built)
    }

    /// Applies the changes of `span` to a node without the first `skip` nibbles of its partial key. If
    /// `skip` is not zero, the node is never kept. The rest of the node begins at `place`.
    fn change(
        &mut self,
        at: ShadowNode,
        skip: usize,
        place: Place,
        span: Span,
    ) -> Result<Built, NotLoaded> {
        let depth = place.depth();
        let old = self.old(at);
        // Keys are sorted, so the first or the last key leaves the partial key first.
        let ends = match &self.input.changes[span.range()] {
            [] => [None; 2],
            [(only, _)] => [Some(only), None],
            [(first, _), .., (last, _)] => [Some(first), Some(last)],
        };
        let mut ends = ends.into_iter().flatten();
        // Usually no key leaves it, and that is faster to test.
        let stays = skip == 0 && ends.clone().all(|key| old.partial.is_prefix_at(key, depth));
        if !stays {
            let length = old.partial.len() - skip;
            let shared = |key: &&[u8]| old.partial.shared_at(skip, key, depth);
            let shared = ends.by_ref().map(shared).min();
            if let Some(shared) = shared.filter(|shared| *shared < length) {
                return self.split(at, skip, place, shared, span);
            }
        }
        self.change_inside(at, &old, skip, place, span)
    }

    /// Puts a branch into the partial key of `at`, `shared` nibbles after `place`. Every change whose key
    /// leaves the partial key there is an insertion.
    fn split(
        &mut self,
        at: ShadowNode,
        skip: usize,
        place: Place,
        shared: usize,
        mut span: Span,
    ) -> Result<Built, NotLoaded> {
        let branch = place.depth() + shared;
        let partial = self.old(at).partial;
        let own = partial.at(skip + shared);
        // The changes that leave the partial key here.
        let any_change = span.start;
        let value = self.take_value(&mut span, branch);
        let mut children = NO_CHILDREN;
        for nibble in 0..16 {
            let group = self.split_off(&mut span, nibble, branch);
            children[usize::from(nibble)] = if nibble == own {
                let below = if group.is_empty() {
                    Place {
                        change: any_change,
                        shared: branch,
                        more: Some(own),
                    }
                } else {
                    Place::of(group.start, branch + 1)
                };
                self.change(at, skip + shared + 1, below, group)?
            } else {
                self.grow_subtree(group, branch + 1)
            };
        }
        let partial = self.nibbles((0..shared).map(|index| partial.at(skip + index)));
        self.finish(place, partial, value.unwrap_or(NewValue::None), children)
    }

    fn change_inside(
        &mut self,
        at: ShadowNode,
        old: &OldNode<'a>,
        skip: usize,
        place: Place,
        mut span: Span,
    ) -> Result<Built, NotLoaded> {
        let branch = place.depth() + old.partial.len() - skip;
        let old_value = match old.value {
            OldValue::None => NewValue::None,
            _ => NewValue::Old(at),
        };
        let mut value = old_value;
        let change = span.start;
        if let Some(new) = self.take_value(&mut span, branch) {
            if !self.is_as_before(new, old.value) {
                value = new;
                match (old.value, new) {
                    (OldValue::Hash(_), NewValue::ValueNode(new)) => {
                        self.memory.values[new as usize].replaces = Some(at);
                    }
                    (OldValue::Hash(hash), _) => {
                        let place = self.value_place(change);
                        self.writes.remove(place, referred_hash(hash));
                    }
                    _ => {}
                }
            }
        }
        // Most changes are of a leaf's value.
        if skip == 0 && span.is_empty() && !old.is_branch {
            return Ok(match value {
                NewValue::None => Built::Empty,
                value if value == old_value => Built::Kept(at),
                value => self.add(place, Parts::Leaf(at, value), 0),
            });
        }
        let below = self.change_children(at, span, branch)?;
        if skip == 0 && value == old_value {
            match below {
                NewChildren::Kept => return Ok(Built::Kept(at)),
                NewChildren::Replaced(others, height) => {
                    return Ok(self.add(place, Parts::Branch(at, others), height))
                }
                NewChildren::Rebuilt(_) => {}
            }
        }
        let children = match below {
            NewChildren::Kept => self.old_children(at),
            NewChildren::Replaced(others, _) => self.children_with(at, others),
            NewChildren::Rebuilt(children) => children,
        };
        let partial = if skip == 0 {
            NewPartial::Of(at)
        } else {
            let rest = skip..old.partial.len();
            self.nibbles(rest.map(|index| old.partial.at(index)))
        };
        self.finish(place, partial, value, children)
    }

    /// Applies the changes of `span` to the children of `at`, which begin at `depth` plus one nibble.
    fn change_children(
        &mut self,
        at: ShadowNode,
        mut span: Span,
        depth: usize,
    ) -> Result<NewChildren, NotLoaded> {
        let mut built = [(0, Built::Empty); 16];
        let mut count = 0;
        let mut only_others = true;
        let mut height = 0;
        #[cfg(feature = "parallel")]
        let mut apart = self.change_apart(at, span, depth)?.into_iter();
        while !span.is_empty() {
            let nibble = nibbles::at(self.key(span.start), depth);
            let group = self.split_off(&mut span, nibble, depth);
            let slot = self.old_child(at, nibble);
            #[cfg(feature = "parallel")]
            let apart = apart.next();
            #[cfg(not(feature = "parallel"))]
            let apart = None;
            let child = match apart {
                Some(child) => child,
                None => self.change_child(slot, group, depth + 1)?,
            };
            match (slot, child) {
                (_, Built::Kept(_)) => continue,
                (OldChild::Loaded(_), Built::New(new)) => height = height.max(self.above(new)),
                _ => only_others = false,
            }
            built[count] = (nibble, child);
            count += 1;
        }
        let built = &built[..count];
        if built.is_empty() {
            return Ok(NewChildren::Kept);
        }
        if only_others {
            let others = &mut self.memory.others;
            let start = number(others.len());
            others.extend(built.iter().filter_map(|(nibble, child)| match child {
                Built::New(new) => Some((*nibble, *new)),
                _ => None,
            }));
            return Ok(NewChildren::Replaced(start..number(others.len()), height));
        }
        let mut children = self.old_children(at);
        for (nibble, child) in built {
            children[usize::from(*nibble)] = *child;
        }
        Ok(NewChildren::Rebuilt(children))
    }

    /// Applies the changes of `span` to the child in a slot of a branch, which begins at `depth`.
    pub(super) fn change_child(
        &mut self,
        slot: OldChild<'_>,
        span: Span,
        depth: usize,
    ) -> Result<Built, NotLoaded> {
        match slot {
            OldChild::Empty => Ok(self.grow_subtree(span, depth)),
            OldChild::Loaded(child) => self.apply(child, span, depth),
            OldChild::Unloaded(reference) => Err(NotLoaded(referred_hash(reference))),
        }
    }

    /// The children of a loaded node, unchanged.
    pub(super) fn old_children(&self, at: ShadowNode) -> Children {
        let mut children = NO_CHILDREN;
        for (child, nibble) in children.iter_mut().zip(0..) {
            *child = match self.old_child(at, nibble) {
                OldChild::Empty => Built::Empty,
                OldChild::Unloaded(_) => Built::Unloaded(at, nibble),
                OldChild::Loaded(child) => Built::Kept(child),
            };
        }
        children
    }

    /// The children of a loaded node, with new ones at some nibbles.
    pub(super) fn children_with(&self, at: ShadowNode, others: Range<u32>) -> Children {
        let mut children = self.old_children(at);
        for (nibble, child) in self.others(others) {
            children[usize::from(*nibble)] = Built::New(*child);
        }
        children
    }

    pub(super) fn others(&self, range: Range<u32>) -> &[(u8, u32)] {
        &self.memory.others[range.start as usize..range.end as usize]
    }

    /// Removes the change of the key that ends at `depth` from `span`, and returns the value that it
    /// writes. Returns `None` if there is no such change.
    pub(super) fn take_value(&mut self, span: &mut Span, depth: usize) -> Option<NewValue> {
        let (key, value) = self.input.changes[span.range()].first()?;
        if nibbles::count(key) != depth {
            return None;
        }
        let change = span.start;
        span.start += 1;
        let Some(value) = value else {
            return Some(NewValue::None);
        };
        let apart = self.input.version == StateVersion::V1
            && value.len() >= StateVersion::V1_NODE_VALUE as usize;
        if !apart {
            return Some(NewValue::Inline(change));
        }
        self.memory.values.push(NewValueNode {
            change,
            replaces: None,
        });
        Some(NewValue::ValueNode(number(self.memory.values.len() - 1)))
    }

    /// Whether a change writes the old value again. Returns `false` for a value that is a node of its own,
    /// because only the hash of the new value, which is not computed yet, could show it.
    fn is_as_before(&self, new: NewValue, old: OldValue<'_>) -> bool {
        match (new, old) {
            (NewValue::None, OldValue::None) => true,
            (NewValue::Inline(change), OldValue::Inline(old)) => {
                self.input.changes[change as usize].1 == Some(old)
            }
            _ => false,
        }
    }

    /// Notes that `at` is removed; its path is `place` with the nibbles of `path` after it.
    pub(super) fn remove_node(&mut self, at: ShadowNode, place: Place, path: Range<usize>) {
        if let Some(hash) = self.input.trie.old_hash(at, self.input.table) {
            let mut place = self.written(place);
            for index in path {
                place = self.writes.further(place, self.memory.nibbles[index]);
            }
            self.writes.remove(place, hash);
        }
    }

    /// Stores the place of a change's value in the writes.
    pub(super) fn value_place(&mut self, change: u32) -> WrittenPlace {
        let (keyspace, key) = (self.input.trie.keyspace(), self.key(change));
        self.writes.place(keyspace, key, None)
    }

    /// Stores a place in the writes.
    #[inline]
    pub(super) fn written(&mut self, place: Place) -> WrittenPlace {
        let Place {
            change,
            shared,
            more,
        } = place;
        let key = self.key(change);
        let odd = (shared % 2 == 1).then(|| key[shared / 2] & 0xf0);
        let keyspace = self.input.trie.keyspace();
        let place = self.writes.place(keyspace, &key[..shared / 2], odd);
        match more {
            None => place,
            Some(nibble) => self.writes.further(place, nibble),
        }
    }
}
