//! New nodes: whole subtrees, and branches that are left with one child.

use super::{
    node::{
        number, Built, Children, NewNode, NewPartial, NewValue, Parts, Place, Span, NO_CHILDREN,
    },
    Batch, NotLoaded,
};
use crate::{
    nibbles,
    shadow::{referred_hash, OldChild, OldValue},
    NodeHash, ShadowNode,
};

impl Batch<'_> {
    /// Builds a subtree from the changes of `span` alone. All are insertions, and their keys have a common
    /// prefix of `depth` nibbles.
    pub(super) fn grow_subtree(&mut self, mut span: Span, depth: usize) -> Built {
        if span.is_empty() {
            return Built::Empty;
        }
        let (first, last) = (self.key(span.start), self.key(span.end - 1));
        let branch = if span.len() == 1 {
            nibbles::count(first)
        } else {
            // Keys are sorted, so the first and the last have the common prefix of all.
            nibbles::common_prefix(first, last)
        };
        let place = Place::of(span.start, depth);
        let partial = self.nibbles((depth..branch).map(|index| nibbles::at(first, index)));
        let value = self.take_value(&mut span, branch);
        let mut children = NO_CHILDREN;
        while !span.is_empty() {
            let nibble = nibbles::at(self.key(span.start), branch);
            let group = self.split_off(&mut span, nibble, branch);
            children[usize::from(nibble)] = self.grow_subtree(group, branch + 1);
        }
        self.add_whole(place, partial, value.unwrap_or(NewValue::None), children)
    }

    /// Adds the node at `place` with these parts: none if nothing is left, the merged child if only one
    /// child is left.
    pub(super) fn finish(
        &mut self,
        place: Place,
        partial: NewPartial,
        value: NewValue,
        children: Children,
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
        place: Place,
        partial: NewPartial,
        value: NewValue,
        children: Children,
    ) -> Built {
        let is_branch = children.iter().any(|child| *child != Built::Empty);
        let heights = children.iter().filter_map(|child| match child {
            Built::New(child) => Some(self.above(*child)),
            _ => None,
        });
        let height = heights.max().unwrap_or(0);
        let children = is_branch.then(|| {
            self.memory.children.push(children);
            number(self.memory.children.len() - 1)
        });
        let parts = Parts::New {
            partial,
            value,
            children,
        };
        self.add(place, parts, height)
    }

    pub(super) fn add(&mut self, place: Place, parts: Parts, height: u32) -> Built {
        let nodes = &mut self.memory.nodes;
        nodes.push(NewNode {
            place,
            parts,
            replaces: None,
            height,
        });
        Built::New(number(nodes.len() - 1))
    }

    /// The least height of a parent of new node `child`.
    pub(super) fn above(&self, child: u32) -> u32 {
        self.memory.nodes[child as usize].height + 1
    }

    /// Merges a branch without a value with its only child, which takes the branch's place.
    fn merge(
        &mut self,
        place: Place,
        partial: NewPartial,
        nibble: u8,
        child: Built,
    ) -> Result<Built, NotLoaded> {
        let start = self.memory.nibbles.len();
        self.push_partial(&partial);
        self.memory.nibbles.push(nibble);
        let path = start..self.memory.nibbles.len();
        match child {
            Built::New(index) => self.merge_new(place, start, index),
            Built::Kept(at) => {
                self.remove_node(at, place, path);
                self.push_partial(&NewPartial::Of(at));
                let partial = NewPartial::Nibbles(start..self.memory.nibbles.len());
                let value = self.old_value(at);
                let children = self.old_children(at);
                Ok(self.add_whole(place, partial, value, children))
            }
            Built::Unloaded(branch, nibble) => match self.old_child(branch, nibble) {
                OldChild::Unloaded(reference) => Err(NotLoaded(referred_hash(reference))),
                OldChild::Empty | OldChild::Loaded(_) => Err(NotLoaded(NodeHash::default())),
            },
            Built::Empty => Ok(Built::Empty),
        }
    }

    /// Moves new node `index` to `place`; the nibbles from `start` on go before its partial key.
    fn merge_new(&mut self, place: Place, start: usize, index: u32) -> Result<Built, NotLoaded> {
        let node = &mut self.memory.nodes[index as usize];
        let (below, parts) = (node.place, node.parts.clone());
        if let Some(gone) = node.replaces.take() {
            self.remove_node(gone, below, 0..0);
        }
        let (below, value, children) = match parts {
            Parts::New {
                partial,
                value,
                children,
            } => (partial, value, children),
            Parts::Leaf(at, value) => (NewPartial::Of(at), value, None),
            Parts::Branch(at, others) => {
                let children = self.children_with(at, others);
                self.memory.children.push(children);
                let children = Some(number(self.memory.children.len() - 1));
                (NewPartial::Of(at), self.old_value(at), children)
            }
            // A subtree is computed apart only where its branch keeps two children.
            #[cfg(feature = "parallel")]
            Parts::Encoded(_) => return Ok(Built::New(index)),
        };
        self.push_partial(&below);
        let partial = NewPartial::Nibbles(start..self.memory.nibbles.len());
        let node = &mut self.memory.nodes[index as usize];
        node.place = place;
        node.parts = Parts::New {
            partial,
            value,
            children,
        };
        Ok(Built::New(index))
    }

    pub(super) fn old_value(&self, at: ShadowNode) -> NewValue {
        match self.old(at).value {
            OldValue::None => NewValue::None,
            _ => NewValue::Old(at),
        }
    }

    pub(super) fn nibbles(&mut self, nibbles: impl Iterator<Item = u8>) -> NewPartial {
        let start = self.memory.nibbles.len();
        self.memory.nibbles.extend(nibbles);
        NewPartial::Nibbles(start..self.memory.nibbles.len())
    }

    fn push_partial(&mut self, partial: &NewPartial) {
        match partial {
            NewPartial::Of(at) => {
                let partial = self.old(*at).partial;
                self.nibbles((0..partial.len()).map(|index| partial.at(index)));
            }
            NewPartial::Nibbles(range) => self.memory.nibbles.extend_from_within(range.clone()),
        }
    }
}
