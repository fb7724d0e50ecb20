//! Makes states in which one node, or its hash, occurs at several places.
//!
//! A proof holds a node once, wherever it occurs, so counts and packed proofs go wrong at equal nodes:
//! twin tries, a root node that is an inner node elsewhere, a value that is an encoded node, a value
//! that is the hash of one.

use super::{case::ParentNodes, ParentState, TrieEntries};
use povmeter_delta_root::NodeReferences;
use rand::{Rng, RngCore};
use sp_core::storage::StateVersion;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes in pairs that differ only in the last nibble, so that keys under a pair share a branch.
const SIBLINGS: [u8; 4] = [0x00, 0x01, 0x10, 0x11];
/// The length from which state version 1 stores a value as a value node.
const LEAST_VALUE_NODE: usize = 33;
/// The most of its keys that one change hands to the block.
const MOST_KEYS: usize = 24;

/// Length of values that give every node a hash.
const LONG_VALUE: usize = 40;

/// A trie: `None` for the top trie, or the storage key of a child trie.
type Place = Option<Vec<u8>>;

/// Makes equal nodes in `parent`, whose child tries may have these `names`.
pub(super) struct EqualNodes<'a, R> {
    pub(super) parent: &'a mut ParentState,
    pub(super) names: &'a [Vec<u8>],
    pub(super) dice: &'a mut R,
    /// Keys that the block should use.
    pub(super) keys: Vec<Vec<u8>>,
    /// Values that are nodes, or their hashes.
    pub(super) values: Vec<Vec<u8>>,
}

impl<R: RngCore> EqualNodes<'_, R> {
    /// Makes all values long, so that no node is inlined in its parent.
    pub(super) fn lengthen(&mut self) {
        let children = self.parent.children.values_mut();
        let tries = children.chain([&mut self.parent.top]);
        for value in tries.flat_map(|entries| entries.values_mut()) {
            value.resize(value.len().max(LONG_VALUE), 1);
        }
    }

    /// One change of any kind.
    pub(super) fn change(&mut self) {
        match self.dice.random_range(0..10) {
            0..2 => self.twin(),
            2..4 => self.part(),
            4..7 => self.graft(),
            7 => self.single(),
            8 => self.node_as_value(),
            _ => self.hash_as_value(),
        }
        self.parent
            .children
            .retain(|_, entries| !entries.is_empty());
    }

    fn any(&mut self) -> Place {
        let index = self.dice.random_range(0..=self.names.len());
        index.checked_sub(1).map(|index| self.names[index].clone())
    }

    /// Returns a trie that has entries, if there is one.
    fn some(&mut self) -> Place {
        let children = self.parent.children.keys().cloned().map(Some);
        let top = (!self.parent.top.is_empty()).then_some(None);
        let all: Vec<Place> = children.chain(top).collect();
        let index = self.dice.random_range(0..all.len().max(1));
        all.get(index).cloned().unwrap_or_default()
    }

    fn child(&mut self) -> Option<Vec<u8>> {
        let index = self.dice.random_range(0..self.names.len().max(1));
        self.names.get(index).cloned()
    }

    fn entries(&self, place: &Place) -> TrieEntries {
        match place {
            None => self.parent.top.clone(),
            Some(name) => self.parent.children.get(name).cloned().unwrap_or_default(),
        }
    }

    fn entries_mut(&mut self, place: Place) -> &mut TrieEntries {
        match place {
            None => &mut self.parent.top,
            Some(name) => self.parent.children.entry(name).or_default(),
        }
    }

    fn use_keys(&mut self, keys: impl IntoIterator<Item = Vec<u8>>) {
        let keys: Vec<_> = keys.into_iter().collect();
        let step = keys.len().div_ceil(MOST_KEYS).max(1);
        self.keys.extend(keys.into_iter().step_by(step));
    }

    /// Makes a child with the entries of another trie.
    fn twin(&mut self) {
        let (from, Some(to)) = (self.some(), self.child()) else {
            return;
        };
        let entries = self.entries(&from);
        self.parent.children.insert(to, entries);
    }

    /// Makes a child with the entries that another trie has below a prefix, so that a subtree
    /// becomes a trie.
    fn part(&mut self) {
        let (from, Some(to)) = (self.some(), self.child()) else {
            return;
        };
        let entries = self.entries(&from);
        let Some(prefix) = self.prefix(&entries) else {
            return;
        };
        let below = entries.iter().filter_map(|(key, value)| {
            let rest = key.strip_prefix(prefix.as_slice())?;
            Some((rest.to_vec(), value.clone()))
        });
        let below: TrieEntries = below.collect();
        self.use_keys(below.keys().cloned());
        self.parent.children.insert(to, below);
    }

    /// Puts the entries of a trie below a prefix of another trie, so that its root node becomes an
    /// inner node.
    fn graft(&mut self) {
        let (from, into) = (self.some(), self.any());
        let grafted = self.entries(&from);
        let mut prefix = self.prefix(&self.entries(&into)).unwrap_or_default();
        let last = SIBLINGS[self.dice.random_range(0..SIBLINGS.len())];
        prefix.push(last);
        let below = grafted.into_iter();
        let below: TrieEntries = below
            .map(|(key, value)| ([prefix.as_slice(), &key].concat(), value))
            .collect();
        let mut sibling = prefix.clone();
        sibling.pop();
        sibling.push(last ^ 0x01);
        self.use_keys(below.keys().cloned().chain([sibling.clone()]));
        let entries = self.entries_mut(into);
        entries.retain(|key, _| !key.starts_with(&prefix));
        entries.extend(below);
        entries
            .entry(sibling)
            .or_insert_with(|| vec![2; LONG_VALUE]);
    }

    /// Makes a child of one entry, whose leaf may equal a leaf of another trie.
    fn single(&mut self) {
        let (from, Some(to)) = (self.some(), self.child()) else {
            return;
        };
        let entries = self.entries(&from);
        let at = self.dice.random_range(0..entries.len().max(1));
        let Some((key, value)) = entries.iter().nth(at) else {
            return;
        };
        let rest = key[self.dice.random_range(0..=key.len())..].to_vec();
        self.use_keys([rest.clone()]);
        let single = TrieEntries::from([(rest, value.clone())]);
        self.parent.children.insert(to, single);
    }

    /// Returns a prefix of some key of `entries`.
    fn prefix(&mut self, entries: &TrieEntries) -> Option<Vec<u8>> {
        let at = self.dice.random_range(0..entries.len().max(1));
        let key = entries.keys().nth(at)?;
        Some(key[..self.dice.random_range(0..=key.len())].to_vec())
    }

    fn node_as_value(&mut self) {
        let nodes = TrieNodes::of(self.parent);
        let nodes: Vec<_> = nodes
            .all()
            .filter(|node| node.len() >= LEAST_VALUE_NODE)
            .collect();
        let at = self.dice.random_range(0..nodes.len().max(1));
        if let Some(node) = nodes.get(at) {
            self.add_value(node.to_vec());
        }
    }

    fn hash_as_value(&mut self) {
        let nodes = TrieNodes::of(self.parent);
        let hashes: Vec<_> = nodes.hashes().collect();
        let at = self.dice.random_range(0..hashes.len().max(1));
        if let Some(hash) = hashes.get(at) {
            self.add_value(hash.to_vec());
        }
    }

    /// Writes `value` under a key of some trie, as a value node if the version allows.
    fn add_value(&mut self, value: Vec<u8>) {
        self.values.push(value.clone());
        let place = self.any();
        let entries = self.entries(&place);
        let Some(key) = self.prefix(&entries) else {
            return;
        };
        self.use_keys([key.clone()]);
        if place.is_none() && self.parent.version == StateVersion::V0 && self.dice.random_bool(0.7)
        {
            self.parent.rewritten.insert(key, value);
        } else {
            self.entries_mut(place).insert(key, value);
        }
    }
}

/// The trie nodes of a state that have a hash, and the hashes in each trie.
pub(super) struct TrieNodes {
    by_hash: BTreeMap<[u8; 32], Vec<u8>>,
    /// The hashes of each trie: the top trie, then the children. Equal subtrees of a trie are walked
    /// once.
    tries: Vec<TrieOf>,
}

#[derive(Default)]
struct TrieOf {
    root: [u8; 32],
    hashes: BTreeSet<[u8; 32]>,
    references: usize,
}

impl TrieNodes {
    pub(super) fn of(parent: &ParentState) -> Self {
        let nodes = ParentNodes::new(parent);
        let by_hash = nodes.by_hash();
        let mut this = Self {
            by_hash,
            tries: Vec::new(),
        };
        let top = this.walk(*nodes.root().as_bytes());
        let roots: Vec<_> = this.child_roots(parent);
        this.tries.push(top);
        for root in roots {
            let child = this.walk(root);
            this.tries.push(child);
        }
        this
    }

    fn all(&self) -> impl Iterator<Item = &Vec<u8>> {
        let hashes = self.hashes();
        hashes.filter_map(|hash| self.by_hash.get(hash))
    }

    fn hashes(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.tries.iter().flat_map(|of| &of.hashes)
    }

    fn child_roots(&self, parent: &ParentState) -> Vec<[u8; 32]> {
        let children = parent.children.values().map(|entries| {
            let alone = ParentState {
                top: entries.clone(),
                version: parent.version,
                ..ParentState::default()
            };
            *ParentNodes::new(&alone).root().as_bytes()
        });
        children.collect()
    }

    fn walk(&self, root: [u8; 32]) -> TrieOf {
        let mut of = TrieOf {
            root,
            ..TrieOf::default()
        };
        let mut waiting = vec![root];
        while let Some(hash) = waiting.pop() {
            of.references += 1;
            let Some(node) = self.by_hash.get(&hash) else {
                continue;
            };
            if of.hashes.insert(hash) {
                let references = NodeReferences::of(node).unwrap_or_default();
                waiting.extend(
                    references
                        .children
                        .iter()
                        .map(|(_, child)| *child.as_bytes()),
                );
            }
        }
        of
    }

    /// Returns whether two tries have a node in common.
    pub(super) fn tries_share(&self) -> bool {
        let distinct: BTreeSet<_> = self.hashes().collect();
        self.hashes().count() > distinct.len()
    }

    /// Returns whether one trie has a node at two places.
    pub(super) fn a_trie_repeats(&self) -> bool {
        self.tries.iter().any(|of| of.references > of.hashes.len())
    }

    /// Returns whether the root node of a child is an inner node of a trie.
    pub(super) fn a_root_is_inner(&self) -> bool {
        let mut roots = self.tries.iter().skip(1).map(|of| of.root);
        roots.any(|root| {
            let mut others = self.tries.iter();
            others.any(|of| of.root != root && of.hashes.contains(&root))
        })
    }
}
