//! The root update: what a block's net changes make of the parent state.
//!
//! Children first, each new child root then goes into the top trie, or leaves it with the child's
//! last entry.

use crate::{
    batch::{self, NotLoaded, Writes},
    child_root_key,
    table::KeyPath,
    Fate, LoadError, NodeHash, NodeSource, Observer, Root, RootNeeds, RootUpdate, Search,
    ShadowState, StateVersion, TrieHandle, TrieId,
};
use alloc::vec::Vec;

/// Changes of one trie, ordered by key, each key once; `None` deletes.
pub type KeyChanges<'a> = Vec<(&'a [u8], Option<&'a [u8]>)>;

/// Net changes of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Of the top trie. Roots of child tries are not among them.
    pub top: KeyChanges<'a>,
    /// Of child tries by storage key, ordered by it. A child without changes has its root in the
    /// top trie looked at but not changed.
    pub children: Vec<(&'a [u8], KeyChanges<'a>)>,
}

/// What kept a root from being computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// A node of the parent state can't be had.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A node was not loaded before the computation: the changes are not those that were marked.
    #[error("expected node {hash} to be loaded for the root of {trie}, found it missing")]
    NotLoaded {
        /// Hash of the node, zero for one that lies inside its parent.
        hash: NodeHash,
        /// The trie: the child's storage key, empty for the top trie.
        trie: KeyPath,
    },
    /// Changes that are not ordered by key, or change a key twice: in the top trie, roots of child
    /// tries handed in as changes are.
    #[error("expected changes ordered by key, each key once, found {key} after one not below it")]
    Unordered {
        /// The key, after the child's storage key in a child trie.
        key: KeyPath,
    },
}

/// The update that `changes` make to the state, in layout `version`, with every node that it needs
/// loaded and observed first.
///
/// # Errors
/// [`RootError`]; there is no root then, and nothing has changed but what is loaded.
pub fn state_update<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
    observer: &mut impl Observer,
) -> Result<RootUpdate, RootError> {
    let mut needs = RootNeeds::default();
    for (storage_key, entries) in &changes.children {
        let handle = state.open(TrieId::Child(storage_key), observer)?;
        mark_all(state, handle, entries, &mut needs, observer)?;
        let kept = !state.is_bare(handle) || entries.iter().any(|(_, value)| value.is_some());
        let fate = if kept { Fate::Written } else { Fate::Deleted };
        if let Some(at) = state.find_root_of(handle, observer)? {
            needs.mark(state, TrieHandle::TOP, at, fate);
        }
    }
    mark_all(state, TrieHandle::TOP, &changes.top, &mut needs, observer)?;
    needs.settle(state, observer)?;
    state_update_of_loaded(state, changes, version)
}

fn mark_all<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    entries: &KeyChanges<'_>,
    needs: &mut RootNeeds,
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    let mut search = Search::default();
    for (key, value) in entries {
        let fate = if value.is_some() {
            Fate::Written
        } else {
            Fate::Deleted
        };
        search.push(state, handle, key, fate)?;
        if search.is_full() {
            mark_found(state, handle, &mut search, needs, observer)?;
        }
    }
    mark_found(state, handle, &mut search, needs, observer)
}

fn mark_found<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    search: &mut Search<'_, Fate>,
    needs: &mut RootNeeds,
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    while let Some((fate, entry)) = search.next_found(state, observer)? {
        if let Some(at) = entry {
            needs.mark(state, handle, at, fate);
        }
    }
    Ok(())
}

/// As [`state_update`], for changes whose needs were marked and settled before.
///
/// # Errors
/// [`RootError`]; there is no root then.
pub fn state_update_of_loaded<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
) -> Result<RootUpdate, RootError> {
    let mut writes = Writes::default();
    let mut children = Vec::with_capacity(changes.children.len());
    for (storage_key, entries) in &changes.children {
        let handle = state.open(TrieId::Child(storage_key), &mut ())?;
        let root = trie_update(state, handle, entries, version, &mut writes)?;
        children.push((storage_key.to_vec(), root));
    }
    let root_keys: Vec<_> = children
        .iter()
        .map(|(key, _)| child_root_key(key))
        .collect();
    let child_roots = children.iter().zip(&root_keys).map(|((_, root), key)| {
        let root = (*root != Root::EMPTY).then_some(root.as_bytes().as_slice());
        (key.as_slice(), root)
    });
    let mut entries: KeyChanges<'_> = changes.top.iter().copied().chain(child_roots).collect();
    entries.sort_by_key(|(key, _)| *key);
    let parent = state.root();
    let root = trie_update(state, TrieHandle::TOP, &entries, version, &mut writes)?;
    Ok(RootUpdate {
        parent,
        root,
        children,
        nodes: writes.into_changes(),
    })
}

fn trie_update<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    entries: &KeyChanges<'_>,
    version: StateVersion,
    writes: &mut Writes,
) -> Result<Root, RootError> {
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        let key = [state.trie(handle).keyspace(), pair[1].0].concat();
        let key = KeyPath::new((&key, None));
        return Err(RootError::Unordered { key });
    }
    // Deletions of keys that the parent does not have change nothing.
    let mut present = Vec::with_capacity(entries.len());
    for &(key, value) in entries {
        if value.is_some() || state.find(handle, key, &mut ())?.is_some() {
            present.push((key, value));
        }
    }
    if present.is_empty() {
        return Ok(state.trie(handle).root());
    }
    state.load_root(handle)?;
    let trie = state.trie(handle);
    let root = batch::trie_root(
        trie,
        state.table(),
        &present,
        version,
        state.effort(),
        writes,
    );
    root.map_err(|NotLoaded(hash)| {
        let trie = KeyPath::new((trie.keyspace(), None));
        RootError::NotLoaded { hash, trie }
    })
}
