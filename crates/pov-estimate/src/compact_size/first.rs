//! Finds the reference by which the walk meets a node first.

use super::{
    links::Referrers,
    places::{Place, Places},
    CompactSize,
};
use alloc::vec::Vec;
use povmeter_delta_root::{NodeId, NodeTable};

/// How the walk meets a node first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// It is the state's root node.
    Top,
    /// It is the root node of the child trie of this storage key, in nibbles.
    Child(Vec<u8>),
    /// It is a child of this node.
    Parent(NodeId),
}

/// Finds the referrers by which the walk meets nodes first.
pub(super) struct FirstFinder<'a> {
    pub(super) size: &'a CompactSize,
    pub(super) places: Places<'a>,
    pub(super) table: &'a NodeTable,
    /// Whether referrers that were compared before have to be compared again.
    pub(super) all: bool,
}

impl FirstFinder<'_> {
    /// How the walk meets `node` first; `None` if the walk does not meet `node`.
    pub(super) fn first(&mut self, node: NodeId, top: Option<NodeId>) -> Option<First> {
        let size = self.size;
        size.links.get(node)?;
        if top == Some(node) {
            return Some(First::Top);
        }
        let keys = size.child_roots.get(&node);
        let key = keys.and_then(|keys| keys.first.clone());
        let parents = size.links.parents.get(self.table.hash(node));
        let lone = parents.map(Referrers::list);
        match (lone, key) {
            (None | Some([]), key) => key.map(First::Child),
            (Some([parent]), None) => Some(First::Parent(*parent)),
            (_, key) => {
                let old = match size.counted.get(&node)?.first {
                    Some(First::Parent(parent)) => Some(parent),
                    _ => None,
                };
                let place = |places: &mut Places<'_>, parent| places.child_place(parent, node);
                let parent = self.least(parents?, old, place);
                let parent = parent.map(|(place, parent)| (place, First::Parent(parent)));
                let root = key.map(|key| ((Some(key.clone()), Vec::new()), First::Child(key)));
                let both = parent.into_iter().chain(root);
                let first = both.min_by(|(one, _), (other, _)| one.cmp(other));
                first.map(|(_, first)| first)
            }
        }
    }

    /// The node at which the walk meets `value` first.
    pub(super) fn user(&mut self, value: NodeId) -> Option<NodeId> {
        let users = self.size.links.users.get(self.table.hash(value))?;
        match users.list() {
            [user] => Some(*user),
            _ => {
                let old = self.size.counted.get(&value)?.user;
                let place = |places: &mut Places<'_>, user| places.value_place(user);
                self.least(users, old, place).map(|(_, user)| user)
            }
        }
    }

    /// The referrer with the first place in the walk; `old` is the result of the last search.
    fn least(
        &mut self,
        referrers: &Referrers,
        old: Option<NodeId>,
        place: impl Fn(&mut Places<'_>, NodeId) -> Option<Place>,
    ) -> Option<(Place, NodeId)> {
        let new = match old {
            Some(_) if !self.all => referrers.new_ones(),
            _ => referrers.list(),
        };
        let candidates = old.into_iter().chain(new.iter().copied());
        let places = candidates.filter_map(|node| Some((place(&mut self.places, node)?, node)));
        places.min()
    }
}
