//! A backend in memory.

use crate::{
    backend::Backend, trie_backend::InMemory, StorageCollection, StorageKey, StorageValue,
    TrieBackendBuilder,
};
use codec::Codec;
use hash_db::Hasher;
use sp_core::storage::{ChildInfo, StateVersion, Storage};
use sp_trie::{empty_trie_root, LayoutV1, PrefixedMemoryDB, RandomState};
use std::collections::{BTreeMap, HashMap};

/// A backend with all nodes in memory.
pub type InMemoryBackend<H> = InMemory<H>;

/// An empty state in memory.
pub fn new_in_mem<H: Hasher>() -> InMemory<H>
where
    H::Out: Codec + Ord,
{
    // The empty trie is the same in all versions.
    let root = empty_trie_root::<LayoutV1<H>>();
    let nodes = PrefixedMemoryDB::with_hasher(RandomState::default());
    TrieBackendBuilder::new(nodes, root).build()
}

impl<H: Hasher> InMemory<H>
where
    H::Out: Codec + Ord,
{
    /// A copy with changes. `None` stands for the top trie.
    #[must_use]
    pub fn update<T: IntoIterator<Item = (Option<ChildInfo>, StorageCollection)>>(
        &self,
        changes: T,
        state_version: StateVersion,
    ) -> Self {
        let mut updated = self.clone();
        updated.insert(changes, state_version);
        updated
    }

    /// Applies changes. `None` stands for the top trie.
    pub fn insert<T: IntoIterator<Item = (Option<ChildInfo>, StorageCollection)>>(
        &mut self,
        changes: T,
        state_version: StateVersion,
    ) {
        let (mut top, mut children) = (Vec::new(), Vec::new());
        for (child, changes) in changes {
            match child {
                None => top.extend(changes),
                Some(child) => children.push((child, changes)),
            }
        }
        fn borrowed(changes: &StorageCollection) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
            let changes = changes.iter();
            changes.map(|(key, value)| (key.as_slice(), value.as_deref()))
        }
        let children = children.iter();
        let (root, nodes) = self.full_storage_root(
            borrowed(&top),
            children.map(|(child, changes)| (child, borrowed(changes))),
            state_version,
        );
        self.apply_transaction(root, nodes);
    }

    /// A copy with more nodes, on the state of `root`.
    #[must_use]
    pub fn update_backend(&self, root: H::Out, changes: PrefixedMemoryDB<H>) -> Self {
        let mut nodes = self.backend_storage().clone();
        nodes.consolidate(changes);
        TrieBackendBuilder::new(nodes, root).build()
    }

    /// Adds nodes, and moves to the state of `root`.
    pub fn apply_transaction(&mut self, root: H::Out, transaction: PrefixedMemoryDB<H>) {
        self.backend_storage_mut().consolidate(transaction);
        // Make a new backend, because the cache of the old one belongs to the old state.
        let nodes = std::mem::take(self).into_storage();
        *self = TrieBackendBuilder::new(nodes, root).build();
    }

    /// Whether both are on the same state.
    // The original has a method of this name.
    #[allow(clippy::should_implement_trait)]
    pub fn eq(&self, other: &Self) -> bool {
        self.root() == other.root()
    }
}

impl<H: Hasher> Clone for InMemory<H>
where
    H::Out: Codec + Ord,
{
    fn clone(&self) -> Self {
        TrieBackendBuilder::new(self.backend_storage().clone(), *self.root()).build()
    }
}

impl<H: Hasher> Default for InMemory<H>
where
    H::Out: Codec + Ord,
{
    fn default() -> Self {
        new_in_mem()
    }
}

/// Values of the top trie (`None`) and of child tries.
type Inner = HashMap<Option<ChildInfo>, BTreeMap<StorageKey, StorageValue>>;

impl<H: Hasher> From<(Inner, StateVersion)> for InMemory<H>
where
    H::Out: Codec + Ord,
{
    fn from((inner, state_version): (Inner, StateVersion)) -> Self {
        let mut backend = new_in_mem();
        let values = inner.into_iter().map(|(child, values)| {
            let values = values.into_iter().map(|(key, value)| (key, Some(value)));
            (child, values.collect())
        });
        backend.insert(values, state_version);
        backend
    }
}

impl<H: Hasher> From<(Storage, StateVersion)> for InMemory<H>
where
    H::Out: Codec + Ord,
{
    fn from((storage, state_version): (Storage, StateVersion)) -> Self {
        let children = storage.children_default.into_values();
        let mut inner: Inner = children
            .map(|child| (Some(child.child_info), child.data))
            .collect();
        inner.insert(None, storage.top);
        (inner, state_version).into()
    }
}

impl<H: Hasher> From<(BTreeMap<StorageKey, StorageValue>, StateVersion)> for InMemory<H>
where
    H::Out: Codec + Ord,
{
    fn from((top, state_version): (BTreeMap<StorageKey, StorageValue>, StateVersion)) -> Self {
        (Inner::from([(None, top)]), state_version).into()
    }
}

impl<H: Hasher> From<(Vec<(Option<ChildInfo>, StorageCollection)>, StateVersion)> for InMemory<H>
where
    H::Out: Codec + Ord,
{
    fn from(
        (changes, state_version): (Vec<(Option<ChildInfo>, StorageCollection)>, StateVersion),
    ) -> Self {
        let mut inner = Inner::new();
        for (child, changes) in changes {
            let values = inner.entry(child).or_default();
            values.extend(
                changes
                    .into_iter()
                    .filter_map(|(key, value)| Some((key, value?))),
            );
        }
        (inner, state_version).into()
    }
}
