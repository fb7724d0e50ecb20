//! The references among the nodes of a proof.
//!
//! Many nodes can refer to one hash, and a rollback can remove many of them in any order. So a removal only counts, and
//! [`Links::sweep`] drops what was removed:
//! ```text
//! link:    node gets a new number; node and number are added to the lists of the hashes that it refers to
//! unlink:  node loses its number; these lists have one more entry that was removed
//! sweep:   each such list, from its end until all removed entries are found: keep an entry if its number is that of
//!          its node now
//! ```

use alloc::vec::Vec;
use hashbrown::HashMap;
use povmeter_delta_root::{NodeHash, NodeId, NodeReferences};
use povmeter_primitives::FastState;

/// The nodes that refer to one hash, once for each reference.
#[derive(Debug, Default)]
pub(super) struct Referrers {
    list: Vec<NodeId>,
    /// The numbers with which the nodes of `list` were linked.
    numbers: Vec<u64>,
    /// The number of nodes at the start of `list` that were compared with each other.
    compared: usize,
    /// The number of nodes in `list` that were removed.
    removed: usize,
}

impl Referrers {
    /// The nodes, in the order in which they were added. After a [sweep](Links::sweep), without those removed.
    pub(super) fn list(&self) -> &[NodeId] {
        &self.list
    }

    /// The nodes added since all nodes were compared.
    pub(super) fn new_ones(&self) -> &[NodeId] {
        self.list.get(self.compared..).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.list.len().saturating_sub(self.removed)
    }

    fn add(&mut self, node: NodeId, number: u64) {
        self.list.push(node);
        self.numbers.push(number);
    }

    /// Drops the nodes that were removed: those that `is_linked` denies.
    fn sweep(&mut self, is_linked: impl Fn(NodeId, u64) -> bool) {
        let mut first = self.list.len();
        let mut left = self.removed;
        while let (1.., Some(at)) = (left, first.checked_sub(1)) {
            first = at;
            left -= usize::from(!is_linked(self.list[at], self.numbers[at]));
        }
        let mut kept = first;
        let compared = self.compared;
        for at in first..self.list.len() {
            let (node, number) = (self.list[at], self.numbers[at]);
            if is_linked(node, number) {
                (self.list[kept], self.numbers[kept]) = (node, number);
                kept += 1;
            } else {
                self.compared -= usize::from(at < compared);
            }
        }
        self.list.truncate(kept);
        self.numbers.truncate(kept);
        self.removed = 0;
    }
}

/// Nodes by the hash that they refer to.
#[derive(Debug, Default)]
pub(super) struct ReferrersByHash {
    by_hash: HashMap<NodeHash, Referrers, FastState>,
    /// Hashes to which removed nodes refer.
    unswept: Vec<NodeHash>,
}

impl ReferrersByHash {
    /// The nodes that refer to `hash`. After a [sweep](Links::sweep), without those removed.
    pub(super) fn list(&self, hash: &NodeHash) -> &[NodeId] {
        self.by_hash.get(hash).map_or(&[], Referrers::list)
    }

    pub(super) fn get(&self, hash: &NodeHash) -> Option<&Referrers> {
        self.by_hash.get(hash)
    }

    /// Whether a node refers to `hash`. Needs no sweep.
    pub(super) fn has(&self, hash: &NodeHash) -> bool {
        let referrers = self.by_hash.get(hash);
        referrers.is_some_and(|referrers| referrers.len() > 0)
    }

    /// Notes that all nodes that refer to `hash` were compared; returns their number.
    pub(super) fn set_compared(&mut self, hash: &NodeHash) -> usize {
        self.by_hash.get_mut(hash).map_or(0, |referrers| {
            referrers.compared = referrers.list.len();
            referrers.compared
        })
    }

    fn add(&mut self, hash: NodeHash, node: NodeId, number: u64) {
        self.by_hash.entry(hash).or_default().add(node, number);
    }

    fn remove(&mut self, hash: NodeHash) {
        if let Some(referrers) = self.by_hash.get_mut(&hash) {
            if referrers.removed == 0 {
                self.unswept.push(hash);
            }
            referrers.removed += 1;
        }
    }

    fn sweep(&mut self, is_linked: impl Fn(NodeId, u64) -> bool) {
        for hash in self.unswept.drain(..) {
            if let Some(referrers) = self.by_hash.get_mut(&hash) {
                referrers.sweep(&is_linked);
                if referrers.list.is_empty() {
                    self.by_hash.remove(&hash);
                }
            }
        }
    }
}

/// What a linked node refers to.
#[derive(Debug)]
struct Linked {
    references: NodeReferences,
    number: u64,
}

/// The trie nodes that the walk meets, with what they refer to.
#[derive(Debug, Default)]
pub(super) struct Links {
    nodes: HashMap<NodeId, Linked, FastState>,
    /// The number of the node that was linked last.
    last: u64,
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
        self.nodes.get(&node).map(|linked| &linked.references)
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
        // 2^64 nodes are never linked.
        self.last = self.last.wrapping_add(1);
        let number = self.last;
        let referred = Referred::of(&references, data);
        for child in &referred.children {
            self.parents.add(*child, node, number);
        }
        if let Some(value) = referred.value {
            self.users.add(value, node, number);
        }
        if let Some(root) = referred.root {
            self.holders.add(root, node, number);
        }
        self.nodes.insert(node, Linked { references, number });
        referred
    }

    /// Removes `node`, whose bytes are `data`; returns the hashes whose nodes need an update.
    pub(super) fn remove(&mut self, node: NodeId, data: &[u8]) -> Referred {
        let Some(Linked { references, .. }) = self.nodes.remove(&node) else {
            return Referred::default();
        };
        let referred = Referred::of(&references, data);
        for child in &referred.children {
            self.parents.remove(*child);
        }
        if let Some(value) = referred.value {
            self.users.remove(value);
        }
        if let Some(root) = referred.root {
            self.holders.remove(root);
        }
        referred
    }

    /// Drops removed nodes from the lists. A list costs a step for each entry from its end to the first removed one.
    pub(super) fn sweep(&mut self) {
        let nodes = &self.nodes;
        let is_linked = |node: NodeId, number: u64| {
            let linked = nodes.get(&node);
            linked.is_some_and(|linked| linked.number == number)
        };
        for referrers in [&mut self.parents, &mut self.users, &mut self.holders] {
            referrers.sweep(is_linked);
        }
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
