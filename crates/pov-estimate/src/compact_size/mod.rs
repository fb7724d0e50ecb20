//! The length of the compact proof, kept up to date as nodes are counted.
//!
//! A compact proof lists the nodes in the order of a walk through the tries. Each distinct node and
//! each distinct value comes once, where the walk meets it first, and the item that refers to it there
//! omits its hash. The root node of a child trie is an exception: it comes for each key under which it
//! lies, even if it was met before, because each trie is packed on its own:
//! ```text
//! item of a node  = its bytes - 32 for each child first met here
//!                   - 30 or more if its value is first met here
//! item of a value = its bytes
//! item of a root  = its bytes, if it was met before, because all nodes below it were met, too
//! length          = prefix of the number of items + for each item its bytes and their prefix
//! ```
//! (A child's hash of 32 bytes becomes an empty one. A value's hash becomes an empty value, with an
//! escape byte before the node, whose header may be shorter.)
//!
//! Where a node is met first matters only if several nodes refer to it. An update after nodes were
//! counted or taken back:
//! ```text
//! 1. link the nodes that the walk meets now, unlink the others; the walk meets the state's root node,
//!    nodes that a linked node refers to, and nodes that are roots of child tries
//! 2. for each hash that gained or lost a reference, find the referrer that the walk meets first: the
//!    only referrer, or the referrer with the least place in the walk
//! 3. if step 2 moved a node that was met before, all nodes below it moved: repeat step 2 for those of
//!    them with several referrers
//! ```

mod first;
mod links;
mod places;

use crate::{recorder::Recorder, size::scale_bytes, ProofError};
use alloc::vec::Vec;
use first::{First, FirstFinder};
use hashbrown::{HashMap, HashSet};
use links::{Links, Referred};
use places::{Base, ChildKeys, ChildRoots, NodePlaces, Places};
use povmeter_delta_root::{compact_bytes, NodeId, NodeReferences, NodeTable, ShadowState};
use povmeter_primitives::FastState;

/// Bytes that a child's hash adds to an item.
const CHILD_HASH: usize = 32;

/// How the walk meets a counted node or value.
#[derive(Debug, Default)]
struct Counted {
    /// For a trie node: how the walk meets it first, if at all.
    first: Option<First>,
    children_met: usize,
    value_met: bool,
    /// For a value: the node at which the walk meets it first, if any.
    user: Option<NodeId>,
}

/// The length of the compact proof of what a [`Recorder`] counts, kept up to date.
///
/// Costs nothing before the first call. A call costs some look-ups for each node counted or taken back
/// since the last call, and a walk up to the root for each referrer of a node that has several referrers. If the walk
/// through the tries meets a node elsewhere than before, it also costs these for all nodes below it.
#[derive(Debug, Default)]
pub struct CompactSize {
    counted: HashMap<NodeId, Counted, FastState>,
    links: Links,
    child_roots: ChildRoots,
    /// Counted nodes whose hash is the value of some node.
    held: HashSet<NodeId, FastState>,
    /// Counted nodes and values with several referrers.
    shared: HashSet<NodeId, FastState>,
    items: u64,
    bytes: u64,
}

/// The work of one call.
#[derive(Default)]
struct Work {
    /// Nodes that may have to be linked or unlinked.
    pending: Vec<NodeId>,
    /// Nodes and values whose referrers changed.
    touched: Vec<NodeId>,
    /// Counted nodes whose keys as child roots may have changed.
    roots: Vec<NodeId>,
    /// Linked nodes that gained places.
    placed: Vec<NodeId>,
    /// Whether linked nodes lost places.
    places_lost: bool,
    /// Linked nodes whose first place may have changed.
    moved: Vec<NodeId>,
}

impl CompactSize {
    /// Length in bytes of the encoded compact proof of the nodes that `recorder` counts: the result of
    /// [`CompactProof::encoded_bytes`](crate::CompactProof::encoded_bytes).
    ///
    /// # Errors
    /// [`ProofError::Node`] if a counted node is not a trie node; in a consistent state all are.
    ///
    /// # Panics
    /// If `recorder` has counted nodes of another state, which has more of them.
    pub fn of<S>(
        &mut self,
        recorder: &mut Recorder,
        state: &ShadowState<S>,
    ) -> Result<u64, ProofError> {
        let updated = self.update(recorder, state);
        if updated.is_err() {
            *self = Self::default();
            recorder.forget_changed_nodes();
        }
        updated?;
        Ok(compact_bytes(self.items).saturating_add(self.bytes))
    }

    fn update<S>(
        &mut self,
        recorder: &mut Recorder,
        state: &ShadowState<S>,
    ) -> Result<(), ProofError> {
        let table = state.table();
        let top = table.find(&state.root().node_hash());
        let mut work = Work::default();
        for node in recorder.take_changed_nodes() {
            if recorder.has(node) {
                self.counted.entry(node).or_default();
                if self.links.holders.has(table.hash(node)) {
                    self.held.insert(node);
                    work.roots.push(node);
                }
            } else {
                self.forget(node, table);
            }
            work.pending.push(node);
            work.touched.push(node);
        }
        self.link_pending(&mut work, top, table)?;
        self.find_child_roots(&mut work, top, table);
        self.link_pending(&mut work, top, table)?;
        let mut touched = core::mem::take(&mut work.touched);
        // Each once, because each asks for all of its referrers, and each of these may have added it.
        touched.sort_unstable();
        touched.dedup();
        self.meet_all(touched, &mut work, top, table);
        let moved = core::mem::take(&mut work.moved);
        let shared = self.shared_below(&moved, table);
        if !shared.is_empty() {
            // Also referrers that were compared before.
            work.moved = moved;
            self.meet_all(shared, &mut work, top, table);
        }
        Ok(())
    }

    /// The nodes and values with several referrers below `nodes`.
    fn shared_below(&self, nodes: &[NodeId], table: &NodeTable) -> Vec<NodeId> {
        let mut below = HashSet::<NodeId, FastState>::default();
        let mut open = nodes.to_vec();
        while let Some(references) = open.pop().map(|node| self.links.get(node)) {
            let Some(references) = references else {
                continue;
            };
            let children = references.children.iter().map(|(_, hash)| hash);
            let referred = children.chain(&references.value);
            let found = referred.filter_map(|hash| table.find(hash));
            open.extend(found.filter(|node| below.insert(*node)));
        }
        let shared = below.into_iter();
        let mut shared: Vec<_> = shared.filter(|node| self.shared.contains(node)).collect();
        shared.sort_unstable();
        shared
    }

    /// The number of items of `node`, and their bytes.
    fn weight(&self, node: NodeId, table: &NodeTable) -> (u64, u64) {
        let Some(counted) = self.counted.get(&node) else {
            return (0, 0);
        };
        let length = table.bytes(node).len();
        let mut whole = u64::from(counted.user.is_some());
        let (mut items, mut bytes) = (0, 0);
        if let (Some(first), Some(references)) = (&counted.first, self.links.get(node)) {
            let value = usize::from(counted.value_met) * references.detached_saving;
            let saved = counted.children_met * CHILD_HASH + value;
            items = 1;
            bytes = scale_bytes(length.saturating_sub(saved));
            let keys = self.child_roots.get(&node).map_or(0, |keys| keys.count);
            let met_as_root = u64::from(matches!(first, First::Child(_)));
            whole = whole.saturating_add(keys.saturating_sub(met_as_root));
        }
        // No state has so many places that their number overflows.
        (
            whole.wrapping_add(items),
            whole.wrapping_mul(scale_bytes(length)).wrapping_add(bytes),
        )
    }

    /// Applies `change`, which changes the items of `node` alone.
    fn change(&mut self, node: NodeId, table: &NodeTable, change: impl FnOnce(&mut Self)) {
        let (items, bytes) = self.weight(node, table);
        self.items = self.items.wrapping_sub(items);
        self.bytes = self.bytes.wrapping_sub(bytes);
        change(self);
        let (items, bytes) = self.weight(node, table);
        self.items = self.items.wrapping_add(items);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    fn change_counted(
        &mut self,
        node: NodeId,
        table: &NodeTable,
        change: impl FnOnce(&mut Counted),
    ) {
        self.change(node, table, |this| {
            this.counted.get_mut(&node).map(change);
        });
    }

    /// Removes `node` from the counted nodes.
    fn forget(&mut self, node: NodeId, table: &NodeTable) {
        if self.counted.contains_key(&node) {
            self.set_first(node, None, table);
            self.set_user(node, None, table);
            self.counted.remove(&node);
            self.child_roots.remove(&node);
            self.held.remove(&node);
            self.shared.remove(&node);
        }
    }

    fn is_met(&self, node: NodeId, top: Option<NodeId>, table: &NodeTable) -> bool {
        self.counted.contains_key(&node)
            && (top == Some(node)
                || self.child_roots.contains_key(&node)
                || self.links.parents.has(table.hash(node)))
    }

    fn link_pending(
        &mut self,
        work: &mut Work,
        top: Option<NodeId>,
        table: &NodeTable,
    ) -> Result<(), ProofError> {
        while let Some(node) = work.pending.pop() {
            let data = table.bytes(node);
            let referred = match (self.is_met(node, top, table), self.links.get(node)) {
                (true, None) => {
                    let references = NodeReferences::of(data).map_err(ProofError::Node)?;
                    self.links.add(node, data, references)
                }
                (false, Some(_)) => {
                    // The walk no longer meets it, nor anything through it.
                    self.set_first(node, None, table);
                    self.change_counted(node, table, |counted| {
                        (counted.children_met, counted.value_met) = (0, false);
                    });
                    self.links.remove(node, data)
                }
                _ => continue,
            };
            self.note(node, &referred, work, table);
        }
        self.links.sweep();
        Ok(())
    }

    /// Adds to `work` what follows from linking or unlinking `node`.
    fn note(&mut self, node: NodeId, referred: &Referred, work: &mut Work, table: &NodeTable) {
        let linked = self.links.get(node).is_some();
        for child in referred.children.iter().filter_map(|hash| table.find(hash)) {
            let Some(counted) = self.counted.get(&child) else {
                continue;
            };
            match (self.links.get(child), linked) {
                (Some(_), true) => work.placed.push(child),
                (Some(_), false) => work.places_lost = true,
                (None, _) => {}
            }
            if !linked && counted.first == Some(First::Parent(node)) {
                self.change_counted(child, table, |counted| counted.first = None);
                work.moved.push(child);
            }
            work.pending.push(child);
            work.touched.push(child);
        }
        if let Some(value) = referred.value.and_then(|hash| table.find(&hash)) {
            let user = self.counted.get(&value).and_then(|counted| counted.user);
            if !linked && user == Some(node) {
                self.change_counted(value, table, |counted| counted.user = None);
            }
            work.touched.push(value);
        }
        if let Some(root) = referred.root.and_then(|hash| table.find(&hash)) {
            if self.counted.contains_key(&root) {
                self.held.insert(root);
                work.roots.push(root);
            }
        }
    }

    /// Finds the keys of the child roots whose keys may have changed.
    fn find_child_roots(&mut self, work: &mut Work, top: Option<NodeId>, table: &NodeTable) {
        let mut roots = core::mem::take(&mut work.roots);
        let base = top.and_then(|top| Places::child_keys(&self.links, table, top));
        let mut places = base.map(|base| Places::new(&self.links, table, base));
        let mut has_keys_below = |node: &NodeId| {
            let places = places.as_mut();
            places.is_some_and(|places| places.starts(*node).count > 0)
        };
        // Nodes elsewhere change no keys.
        if work.places_lost || work.placed.iter().any(&mut has_keys_below) {
            roots = self.held.iter().copied().collect();
        }
        // Each once, because each asks for all nodes that hold it, and each of these may have added it.
        roots.sort_unstable();
        roots.dedup();
        let keys_of = |root: &NodeId| {
            let holders = self.links.holders.list(table.hash(*root)).iter();
            let mut all = NodePlaces::default();
            if let Some(places) = &mut places {
                holders.for_each(|holder| all.add(places.ends(*holder)));
            }
            (*root, ChildKeys::from(all))
        };
        let keys: Vec<_> = roots.iter().map(keys_of).collect();
        for (root, keys) in keys {
            self.change(root, table, |this| {
                if keys.count == 0 {
                    this.child_roots.remove(&root);
                } else if this.counted.contains_key(&root) {
                    this.child_roots.insert(root, keys);
                }
            });
            work.pending.push(root);
            work.touched.push(root);
        }
    }

    /// Finds where the walk meets `nodes` first.
    fn meet_all(
        &mut self,
        nodes: Vec<NodeId>,
        work: &mut Work,
        top: Option<NodeId>,
        table: &NodeTable,
    ) {
        let base = Base::Tries {
            top,
            children: &self.child_roots,
        };
        let mut finder = FirstFinder {
            size: self,
            places: Places::new(&self.links, table, base),
            table,
            all: !work.moved.is_empty(),
        };
        let found = nodes
            .into_iter()
            .filter(|node| finder.size.counted.contains_key(node));
        let found: Vec<_> = found
            .map(|node| (node, finder.first(node, top), finder.user(node)))
            .collect();
        for (node, first, user) in found {
            let hash = table.hash(node);
            let as_root = usize::from(self.child_roots.contains_key(&node));
            let parents = as_root + self.links.parents.set_compared(hash);
            let users = self.links.users.set_compared(hash);
            if parents > 1 || users > 1 {
                self.shared.insert(node);
            } else {
                self.shared.remove(&node);
            }
            if self.set_first(node, first, table) {
                work.moved.push(node);
            }
            self.set_user(node, user, table);
        }
    }

    /// Sets how the walk meets `node` first; returns whether it met the node elsewhere before.
    fn set_first(&mut self, node: NodeId, first: Option<First>, table: &NodeTable) -> bool {
        let Some(old) = self.counted.get(&node).map(|counted| counted.first.clone()) else {
            return false;
        };
        if old == first {
            return false;
        }
        if let Some(First::Parent(parent)) = old {
            self.change_counted(parent, table, |counted| {
                counted.children_met = counted.children_met.saturating_sub(1);
            });
        }
        if let Some(First::Parent(parent)) = first {
            self.change_counted(parent, table, |counted| counted.children_met += 1);
        }
        self.change_counted(node, table, |counted| counted.first = first);
        old.is_some()
    }

    fn set_user(&mut self, value: NodeId, user: Option<NodeId>, table: &NodeTable) {
        let Some(old) = self.counted.get(&value).map(|counted| counted.user) else {
            return;
        };
        if old != user {
            for (user, met) in [(old, false), (user, true)] {
                if let Some(user) = user {
                    self.change_counted(user, table, |counted| counted.value_met = met);
                }
            }
            self.change_counted(value, table, |counted| counted.user = user);
        }
    }
}
