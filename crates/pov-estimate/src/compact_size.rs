//! The length of the compact proof, kept up to date as nodes are counted.
//!
//! A compact proof lists the nodes in the order of a walk through the tries. Each distinct node and
//! each distinct value comes once, where the walk meets it first, and takes its own hash out of the
//! item that refers to it there:
//! ```text
//! item of a node  = its bytes - 32 for each child first met here
//!                   - 30 or more if its value is first met here
//! item of a value = its bytes
//! length          = prefix of the number of items + for each item its bytes and their prefix
//! ```
//! (A child's hash of 32 bytes becomes an empty one. A value's hash becomes an empty value, with an
//! escape byte before the node, whose header may be shorter.) Many entries share a value, so for each
//! value the places that refer to it are kept in order. Equal subtrees at several places are as good
//! as absent in states with hashed keys: where one shows up, the length is taken from the packed proof
//! instead.

use crate::{recorder::Recorder, size::scale_bytes, ProofError, StorageProof};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use povmeter_delta_root::{
    compact_bytes, NodeHash, NodeId, NodeReferences, NodeTable, Root, ShadowNode, ShadowState,
    TrieHandle, TrieId, CHILD_ROOT_PREFIX,
};

/// Bytes that a child's hash takes more than its absence.
const CHILD_HASH: usize = 32;

/// A place in the order of the walk: the child trie's storage key, the top trie before all of them,
/// and the nibbles of the path.
type WalkPlace = (Option<Vec<u8>>, Vec<u8>);

/// A counted trie node.
#[derive(Debug, Default)]
struct Item {
    references: NodeReferences,
    /// The child root that is the node's value, in the top trie.
    child_root: Option<NodeHash>,
    /// Where the node's value is, if that is a node of its own.
    place: WalkPlace,
    children_met: usize,
    value_met: bool,
}

/// The child trie's root that a counted node of the top trie holds.
fn child_root(references: &NodeReferences, place: &WalkPlace, data: &[u8]) -> Option<NodeHash> {
    let prefix = CHILD_ROOT_PREFIX
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0x0f]);
    let (None, path) = place else { return None };
    if path.len() < 2 * CHILD_ROOT_PREFIX.len()
        || !prefix.eq(path.iter().copied().take(2 * CHILD_ROOT_PREFIX.len()))
    {
        return None;
    }
    let value = data.get(references.inline_value.clone()?)?;
    <[u8; 32]>::try_from(value).ok().map(NodeHash::from)
}

impl Item {
    fn bytes(&self, length: usize) -> u64 {
        let value = if self.value_met {
            self.references.detached_saving
        } else {
            0
        };
        scale_bytes(length.saturating_sub(self.children_met * CHILD_HASH + value))
    }
}

/// Keeps the length of the compact proof of what a [`Recorder`] counts.
///
/// Costs nothing until it is asked for the first time, then a few look-ups for each node that came or
/// went since it was asked last.
#[derive(Debug, Default)]
pub struct CompactSize {
    /// Nodes of each trie's arena looked at so far.
    seen: Vec<usize>,
    places: HashMap<NodeId, (TrieHandle, ShadowNode), RandomState>,
    /// Trie nodes at several places.
    doubled: HashSet<NodeId, RandomState>,
    items: HashMap<NodeId, Item, RandomState>,
    values: HashSet<NodeId, RandomState>,
    /// Counted nodes that refer to a child, by its hash.
    parents: HashMap<NodeHash, Vec<NodeId>, RandomState>,
    /// Counted nodes that refer to a value, by its hash, in the order of the walk.
    users: HashMap<NodeHash, BTreeMap<WalkPlace, NodeId>, RandomState>,
    /// How many counted nodes of the top trie hold a child trie's root, by that root.
    child_roots: HashMap<NodeHash, usize, RandomState>,
    /// Counted nodes whose place in the walk is not unique.
    ambiguous: BTreeSet<NodeId>,
    bytes: u64,
}

impl CompactSize {
    /// Length in bytes of the compact proof of what `recorder` counts, encoded: as
    /// [`CompactProof::encoded_bytes`](crate::CompactProof::encoded_bytes) of the same nodes.
    ///
    /// # Errors
    /// [`ProofError`] if the counted nodes are no proof of the state, which those of one state are.
    pub fn of<S>(
        &mut self,
        recorder: &mut Recorder,
        state: &ShadowState<S>,
    ) -> Result<u64, ProofError> {
        self.find_places(state);
        for node in recorder.take_news() {
            let held = self.items.contains_key(&node) || self.values.contains(&node);
            match (recorder.has(node), held) {
                (true, false) => self.add(node, state)?,
                (false, true) => self.remove(node, state.table()),
                _ => {}
            }
        }
        if !self.ambiguous.is_empty() {
            let nodes = recorder
                .nodes()
                .map(|node| state.table().bytes(node).clone());
            return Ok(StorageProof::new(nodes)
                .to_compact(state.root())?
                .encoded_bytes());
        }
        let items = self.items.len() + self.values.len();
        Ok(compact_bytes(items as u64) + self.bytes)
    }

    fn find_places<S>(&mut self, state: &ShadowState<S>) {
        for handle in state.handles() {
            if self.seen.len() <= handle.index() {
                self.seen.push(0);
            }
            let (added, count) = state.loaded_since(handle, self.seen[handle.index()]);
            for (at, node) in added {
                let known = self.places.insert(node, (handle, at)).is_some();
                if known {
                    self.doubled.insert(node);
                }
                // It may be counted, at another place or as a value.
                self.look_for_doubles(node, state.table());
            }
            self.seen[handle.index()] = count;
        }
    }

    fn add<S>(&mut self, node: NodeId, state: &ShadowState<S>) -> Result<(), ProofError> {
        let table = state.table();
        let hash = table.hash(node);
        // The null node is where a trie was emptied or did not exist: no place in any walk.
        if *hash == Root::EMPTY.node_hash() && state.root() != Root::EMPTY {
            return Ok(());
        }
        let Some(&(handle, at)) = self.places.get(&node) else {
            return self.add_value(node, table);
        };
        let data = table.bytes(node);
        let references = NodeReferences::of(data).map_err(ProofError::Node)?;
        let child = match state.trie_id(handle) {
            TrieId::Top => None,
            TrieId::Child(key) => Some(key.to_vec()),
        };
        let place = (child, state.path_of(handle, at));
        for child in &references.children {
            self.parents.entry(*child).or_default().push(node);
        }
        if let Some(value) = references.value {
            self.with_value_met(value, table, |this| {
                this.users
                    .entry(value)
                    .or_default()
                    .insert(place.clone(), node);
            });
        }
        let child_root = child_root(&references, &place, data);
        if let Some(root) = child_root {
            *self.child_roots.entry(root).or_default() += 1;
        }
        let mut item = Item {
            references,
            child_root,
            place,
            ..Item::default()
        };
        let met = |child: &&NodeHash| {
            table
                .find(child)
                .is_some_and(|id| self.items.contains_key(&id))
        };
        item.children_met = item.references.children.iter().filter(met).count();
        item.value_met = self.value_met_by(&item, node, table);
        self.bytes += item.bytes(data.len());
        let referred = item.references.children.iter().chain(&item.child_root);
        let referred: Vec<NodeId> = referred.filter_map(|hash| table.find(hash)).collect();
        self.items.insert(node, item);
        self.meet_child(node, table, true);
        for id in referred.into_iter().chain([node]) {
            self.look_for_doubles(id, table);
        }
        Ok(())
    }

    fn remove(&mut self, node: NodeId, table: &NodeTable) {
        self.ambiguous.remove(&node);
        if self.values.contains(&node) {
            let value = *table.hash(node);
            self.with_value_met(value, table, |this| {
                this.values.remove(&node);
            });
            self.bytes -= scale_bytes(table.bytes(node).len());
            return;
        }
        let Some(item) = self.items.get(&node) else {
            return;
        };
        self.bytes -= item.bytes(table.bytes(node).len());
        self.meet_child(node, table, false);
        let Some(item) = self.items.remove(&node) else {
            return;
        };
        for child in &item.references.children {
            if let Some(parents) = self.parents.get_mut(child) {
                parents.retain(|parent| *parent != node);
            }
        }
        if let Some(count) = item
            .child_root
            .and_then(|root| self.child_roots.get_mut(&root))
        {
            *count -= 1;
        }
        for hash in item.references.children.iter().chain(&item.child_root) {
            if let Some(id) = table.find(hash) {
                self.look_for_doubles(id, table);
            }
        }
        if let Some(value) = item.references.value {
            self.with_value_met(value, table, |this| {
                if let Some(users) = this.users.get_mut(&value) {
                    users.remove(&item.place);
                }
            });
        }
    }

    fn add_value(&mut self, node: NodeId, table: &NodeTable) -> Result<(), ProofError> {
        let value = *table.hash(node);
        self.with_value_met(value, table, |this| {
            this.values.insert(node);
        });
        self.bytes += scale_bytes(table.bytes(node).len());
        Ok(())
    }

    /// Notes whether the walk may come by `node` at several places.
    fn look_for_doubles(&mut self, node: NodeId, table: &NodeTable) {
        let hash = table.hash(node);
        let several = self.doubled.contains(&node)
            || self
                .parents
                .get(hash)
                .is_some_and(|parents| parents.len() > 1)
            || self.child_roots.get(hash).is_some_and(|count| *count > 1)
            || self.users.get(hash).is_some_and(|users| !users.is_empty());
        let ambiguous = if self.items.contains_key(&node) {
            several
        } else {
            // A value that is a trie node somewhere.
            self.values.contains(&node) && self.places.contains_key(&node)
        };
        if ambiguous {
            self.ambiguous.insert(node);
        } else {
            self.ambiguous.remove(&node);
        }
    }

    /// Takes the hash of `child` out of its parent's item, or puts it back.
    fn meet_child(&mut self, child: NodeId, table: &NodeTable, met: bool) {
        let hash = table.hash(child);
        let Some(parents) = self.parents.get(hash) else {
            return;
        };
        for parent in parents {
            let Some(item) = self.items.get_mut(parent) else {
                continue;
            };
            let length = table.bytes(*parent).len();
            self.bytes -= item.bytes(length);
            item.children_met = if met {
                item.children_met + 1
            } else {
                item.children_met.saturating_sub(1)
            };
            self.bytes += item.bytes(length);
        }
    }

    /// Makes `change` to what is known of `value`, with the item of its first user put right.
    fn with_value_met(
        &mut self,
        value: NodeHash,
        table: &NodeTable,
        change: impl FnOnce(&mut Self),
    ) {
        let before = self.first_user(&value, table);
        change(self);
        let after = self.first_user(&value, table);
        if before != after {
            self.set_value_met(before, table, false);
            self.set_value_met(after, table, true);
        }
    }

    /// The counted node that a counted value is met at.
    fn first_user(&self, value: &NodeHash, table: &NodeTable) -> Option<NodeId> {
        let counted = table
            .find(value)
            .is_some_and(|id| self.values.contains(&id));
        let users = self.users.get(value).filter(|_| counted)?;
        users.first_key_value().map(|(_, node)| *node)
    }

    fn value_met_by(&self, item: &Item, node: NodeId, table: &NodeTable) -> bool {
        let value = item.references.value.as_ref();
        value.is_some_and(|value| self.first_user(value, table) == Some(node))
    }

    fn set_value_met(&mut self, node: Option<NodeId>, table: &NodeTable, met: bool) {
        let Some(item) = node.and_then(|node| self.items.get_mut(&node)) else {
            return;
        };
        let length = node.map_or(0, |node| table.bytes(node).len());
        self.bytes -= item.bytes(length);
        item.value_met = met;
        self.bytes += item.bytes(length);
    }
}
