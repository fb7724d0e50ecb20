//! Where the walk meets the nodes of a proof.
//!
//! ```text
//! starts(node) = the base's own start, if node is one
//!                and for each reference to node from a parent:
//!                    for each of starts(parent): start + partial key of the parent + nibble
//! ```
//! A node is at several places if it, or a node above it, is referred to more than once. Their number
//! can multiply with each such level, so only the number and the first place are kept.

use super::links::Links;
use alloc::vec::Vec;
use hashbrown::HashMap;
use povmeter_delta_root::{NodeId, NodeTable, CHILD_ROOT_PREFIX};
use povmeter_primitives::FastState;

/// A place, ordered as the walk is: the storage key of the child trie, `None` for the top trie, which
/// comes first, and the path; both in nibbles.
pub(super) type Place = (Option<Vec<u8>>, Vec<u8>);

/// The keys under which one child root lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChildKeys {
    pub(super) count: u64,
    /// The first storage key, in nibbles.
    pub(super) first: Option<Vec<u8>>,
}

pub(super) type ChildRoots = HashMap<NodeId, ChildKeys, FastState>;

/// Where the paths to [`Places`] begin.
pub(super) enum Base<'a> {
    /// At the roots of all tries.
    Tries {
        top: Option<NodeId>,
        children: &'a ChildRoots,
    },
    /// At `node` of the top trie, at `path`: all keys of child roots lie below it.
    ChildKeys { node: NodeId, path: Vec<u8> },
}

impl Base<'_> {
    fn start(&self, node: NodeId) -> Option<Place> {
        match self {
            Self::Tries { top, .. } if *top == Some(node) => Some((None, Vec::new())),
            Self::Tries { children, .. } => {
                let keys = children.get(&node)?;
                Some((Some(keys.first.clone()?), Vec::new()))
            }
            Self::ChildKeys { node: base, path } => (*base == node).then(|| (None, path.clone())),
        }
    }
}

/// How many places a node has, and the first of them.
#[derive(Clone, Debug, Default)]
pub(super) struct NodePlaces {
    pub(super) count: u64,
    pub(super) first: Option<Place>,
}

impl NodePlaces {
    /// Adds the places of `other`.
    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        let firsts = self.first.take().into_iter().chain(other.first);
        self.first = firsts.min();
    }

    fn push(&mut self, backwards: &[u8]) {
        if let Some((_, path)) = &mut self.first {
            path.extend(backwards.iter().rev());
        }
    }
}

impl From<NodePlaces> for ChildKeys {
    fn from(keys: NodePlaces) -> Self {
        let prefix = 2 * CHILD_ROOT_PREFIX.len();
        let first = keys.first.map(|(_, path)| path);
        Self {
            count: keys.count,
            first: first.map(|path| path.get(prefix..).unwrap_or_default().to_vec()),
        }
    }
}

/// Finds the places of a node by walking up to the root.
pub(super) struct Places<'a> {
    links: &'a Links,
    table: &'a NodeTable,
    base: Base<'a>,
    /// The places of nodes with several references.
    known: HashMap<NodeId, NodePlaces, FastState>,
}

impl<'a> Places<'a> {
    pub(super) fn new(links: &'a Links, table: &'a NodeTable, base: Base<'a>) -> Self {
        Self {
            links,
            table,
            base,
            known: HashMap::default(),
        }
    }

    /// The base below which all keys of child roots lie, if the proof holds it.
    pub(super) fn child_keys(
        links: &Links,
        table: &NodeTable,
        top: NodeId,
    ) -> Option<Base<'static>> {
        let prefix: Vec<u8> = CHILD_ROOT_PREFIX
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 0x0f])
            .collect();
        let (mut node, mut depth) = (top, 0);
        loop {
            let references = links.get(node)?;
            let rest = &prefix[depth..];
            let common = rest.iter().zip(&references.partial);
            let common = common.take_while(|(one, other)| one == other).count();
            if common == rest.len() {
                let path = prefix[..depth].to_vec();
                return Some(Base::ChildKeys { node, path });
            }
            if common < references.partial.len() {
                return None;
            }
            let next = rest[common];
            let mut children = references.children.iter();
            let (_, hash) = children.find(|(nibble, _)| *nibble == next)?;
            node = table.find(hash)?;
            depth += common + 1;
        }
    }

    /// The path to the value of `node`, where the walk meets it first.
    pub(super) fn value_place(&mut self, node: NodeId) -> Option<Place> {
        self.ends(node).first
    }

    /// The path to `child` through `parent`, where the walk meets `parent` first.
    pub(super) fn child_place(&mut self, parent: NodeId, child: NodeId) -> Option<Place> {
        let mut ends = self.ends(parent);
        let nibble = self.nibble(parent, child)?;
        ends.push(&[nibble]);
        ends.first
    }

    /// The places of `node`, each extended by its partial key.
    pub(super) fn ends(&mut self, node: NodeId) -> NodePlaces {
        let mut places = self.starts(node);
        if let Some(references) = self.links.get(node) {
            let partial: Vec<u8> = references.partial.iter().rev().copied().collect();
            places.push(&partial);
        }
        places
    }

    fn nibble(&self, parent: NodeId, child: NodeId) -> Option<u8> {
        let hash = self.table.hash(child);
        let mut children = self.links.get(parent)?.children.iter();
        let (nibble, _) = children.find(|(_, child)| child == hash)?;
        Some(*nibble)
    }

    /// The places of `node`.
    pub(super) fn starts(&mut self, node: NodeId) -> NodePlaces {
        let (mut at, mut backwards) = (node, Vec::new());
        let mut steps = 0;
        // Nearly all nodes on a path have one reference.
        while let (None, [parent]) = (
            self.base.start(at),
            self.links.parents.list(self.table.hash(at)),
        ) {
            let Some(references) = self.links.get(*parent) else {
                return NodePlaces::default();
            };
            backwards.extend(self.nibble(*parent, at));
            backwards.extend(references.partial.iter().rev());
            at = *parent;
            steps += 1;
            if steps > self.links.len() {
                // A cycle. Only a source whose nodes do not match their hashes has one.
                return NodePlaces::default();
            }
        }
        let mut places = self.starts_of_shared(at);
        places.push(&backwards);
        places
    }

    fn starts_of_shared(&mut self, node: NodeId) -> NodePlaces {
        if let Some(known) = self.known.get(&node) {
            return known.clone();
        }
        // Ends a cycle. Only a source whose nodes do not match their hashes has one.
        self.known.insert(node, NodePlaces::default());
        let first = self.base.start(node);
        let count = u64::from(first.is_some());
        let mut places = NodePlaces { count, first };
        let links = self.links;
        for parent in links.parents.list(self.table.hash(node)) {
            let mut ends = self.ends(*parent);
            if let Some(nibble) = self.nibble(*parent, node) {
                ends.push(&[nibble]);
                places.add(ends);
            }
        }
        self.known.insert(node, places.clone());
        places
    }
}
