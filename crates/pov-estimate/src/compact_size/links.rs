//! The references among the nodes of a proof.

use alloc::vec::Vec;
use hashbrown::HashMap;
use povmeter_delta_root::{NodeHash, NodeId, NodeReferences};
use povmeter_primitives::FastState;

/// The nodes that refer to one hash, once for each reference.
#[derive(Debug, Default)]
pub(super) struct Referrers {
    list: Vec<NodeId>,
    /// The number of nodes at the start of `list` that were compared with each other.
    compared: usize,
}

impl Referrers {
    /// The nodes, in the order in which they were added.
    pub(super) fn list(&self) -> &[NodeId] {
        &self.list
    }

    /// The nodes added since all nodes were compared.
    pub(super) fn new_ones(&self) -> &[NodeId] {
        self.list.get(self.compared..).unwrap_or_default()
    }

    fn remove(&mut self, node: NodeId) {
        if let Some(at) = self.list.iter().rposition(|referrer| *referrer == node) {
            self.list.remove(at);
            self.compared -= usize::from(at < self.compared);
        }
    }
}

/// Nodes by the hash that they refer to.
#[derive(Debug, Default)]
pub(super) struct ReferrersByHash(HashMap<NodeHash, Referrers, FastState>);

impl ReferrersByHash {
    /// The nodes that refer to `hash`.
    pub(super) fn list(&self, hash: &NodeHash) -> &[NodeId] {
        self.0.get(hash).map_or(&[], Referrers::list)
    }

    pub(super) fn get(&self, hash: &NodeHash) -> Option<&Referrers> {
        self.0.get(hash)
    }

    /// Notes that all nodes that refer to `hash` were compared; returns their number.
    pub(super) fn set_compared(&mut self, hash: &NodeHash) -> usize {
        self.0.get_mut(hash).map_or(0, |referrers| {
            referrers.compared = referrers.list.len();
            referrers.compared
        })
    }

    fn add(&mut self, hash: NodeHash, node: NodeId) {
        self.0.entry(hash).or_default().list.push(node);
    }

    fn remove(&mut self, hash: &NodeHash, node: NodeId) {
        if let Some(referrers) = self.0.get_mut(hash) {
            referrers.remove(node);
            if referrers.list.is_empty() {
                self.0.remove(hash);
            }
        }
    }
}

/// The trie nodes that the walk meets, with what they refer to.
#[derive(Debug, Default)]
pub(super) struct Links {
    nodes: HashMap<NodeId, NodeReferences, FastState>,
    /// Nodes by the hash of a child.
    pub(super) parents: ReferrersByHash,
    /// Nodes by the hash of their value, if the value is a node of its own.
    pub(super) users: ReferrersByHash,
    /// Nodes by their inline value, if it is as long as a hash: it may be a child trie's root.
    pub(super) holders: ReferrersByHash,
}

/// The inline value in `data`, if it is as long as a root.
fn held_root(references: &NodeReferences, data: &[u8]) -> Option<NodeHash> {
    let value = data.get(references.inline_value.clone()?)?;
    <[u8; 32]>::try_from(value).ok().map(NodeHash::from)
}

impl Links {
    /// What `node` refers to, if the walk meets it.
    pub(super) fn get(&self, node: NodeId) -> Option<&NodeReferences> {
        self.nodes.get(&node)
    }

    /// Number of nodes that the walk meets.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Adds `node`, whose bytes are `data`; returns the hashes whose nodes need an update.
    pub(super) fn add(
        &mut self,
        node: NodeId,
        data: &[u8],
        references: NodeReferences,
    ) -> Referred {
        let referred = Referred::of(&references, data);
        for child in &referred.children {
            self.parents.add(*child, node);
        }
        if let Some(value) = referred.value {
            self.users.add(value, node);
        }
        if let Some(root) = referred.root {
            self.holders.add(root, node);
        }
        self.nodes.insert(node, references);
        referred
    }

    /// Removes `node`, whose bytes are `data`; returns the hashes whose nodes need an update.
    pub(super) fn remove(&mut self, node: NodeId, data: &[u8]) -> Referred {
        let Some(references) = self.nodes.remove(&node) else {
            return Referred::default();
        };
        let referred = Referred::of(&references, data);
        for child in &referred.children {
            self.parents.remove(child, node);
        }
        if let Some(value) = &referred.value {
            self.users.remove(value, node);
        }
        if let Some(root) = &referred.root {
            self.holders.remove(root, node);
        }
        referred
    }
}

/// The hashes that a node refers to.
#[derive(Debug, Default)]
pub(super) struct Referred {
    pub(super) children: Vec<NodeHash>,
    pub(super) value: Option<NodeHash>,
    pub(super) root: Option<NodeHash>,
}

impl Referred {
    fn of(references: &NodeReferences, data: &[u8]) -> Self {
        Self {
            children: references.children.iter().map(|(_, hash)| *hash).collect(),
            value: references.value,
            root: held_root(references, data),
        }
    }
}
