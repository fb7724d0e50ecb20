//! The root update: the parent state after a block's net changes.
//!
//! Child tries come first. Each new child root is then written to the top trie, or deleted from it if
//! the child has no entry left.

use crate::{
    batch::{self, BatchInput, NotLoaded, RootMemory, MOST_CHANGES},
    child_root_key,
    key_order::KeyOrder,
    table::KeyPath,
    Fate, LoadError, NodeHash, NodeSource, Observer, PathCache, Root, RootNeeds, RootUpdate,
    Search, ShadowState, StateVersion, TrieHandle, TrieId, CHILD_ROOT_PREFIX,
};
use alloc::{borrow::Cow, vec::Vec};
use core::ops::Range;

type KeyChange<'a> = (&'a [u8], Option<&'a [u8]>);

/// Changes of one trie, ordered by key, each key once; `None` deletes.
pub type KeyChanges<'a> = Vec<(&'a [u8], Option<&'a [u8]>)>;

/// Net changes of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// The changes of the top trie. The root of a child in `children` follows from that child's changes, so a change of
    /// its key sets nothing. But if it deletes the root, the nodes that this needs are observed, because
    /// `sp-state-machine` deletes the root before it sets the new one.
    pub top: KeyChanges<'a>,
    /// The changes of child tries, ordered by storage key. The root of a child without changes is read in
    /// the top trie but not changed.
    pub children: Vec<(&'a [u8], KeyChanges<'a>)>,
}

impl<'a> Changes<'a> {
    /// The changes of child trie `child`.
    fn of(&self, child: &[u8]) -> &[KeyChange<'a>] {
        let mut children = self.children.iter();
        children
            .find(|(key, _)| *key == child)
            .map_or(&[], |(_, changes)| changes)
    }

    /// Where the changes of roots of child tries are in `top`.
    fn roots_in_top(&self) -> Range<usize> {
        let start = self
            .top
            .partition_point(|(key, _)| *key < CHILD_ROOT_PREFIX);
        let roots = &self.top[start..];
        start..start + roots.partition_point(|(key, _)| key.starts_with(CHILD_ROOT_PREFIX))
    }

    /// Fails if child tries are not ordered, each once, because they are found by a binary search.
    fn children_are_ordered(&self) -> Result<(), RootError> {
        let wrong = self.children.windows(2).find(|pair| pair[0].0 >= pair[1].0);
        wrong.map_or(Ok(()), |pair| {
            let key = KeyPath::new((&child_root_key(pair[1].0), None));
            Err(RootError::Unordered { key })
        })
    }

    /// Whether `top` deletes the root of child trie `child`.
    fn deletes_root_of(&self, child: &[u8]) -> bool {
        let roots = &self.top[self.roots_in_top()];
        let found = roots.binary_search_by(|(key, _)| {
            // Unordered changes may have other keys here.
            key.strip_prefix(CHILD_ROOT_PREFIX).cmp(&Some(child))
        });
        found.is_ok_and(|at| roots[at].1.is_none())
    }

    /// The changes of the top trie, without those of the roots of [`Self::children`].
    fn top_without_roots(&self) -> Cow<'_, [KeyChange<'a>]> {
        // Unordered changes are refused later, with all their keys.
        if self.roots_in_top().is_empty() || !self.top.is_sorted_by(|one, other| one.0 < other.0) {
            return Cow::Borrowed(&self.top);
        }
        let is_given = |key: &[u8]| {
            let children = self.children.as_slice();
            let child = key.strip_prefix(CHILD_ROOT_PREFIX);
            child.is_some_and(|child| {
                children
                    .binary_search_by_key(&child, |(key, _)| key)
                    .is_ok()
            })
        };
        let top = self.top.iter().copied();
        Cow::Owned(top.filter(|(key, _)| !is_given(key)).collect())
    }
}

/// Why a root can't be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// A node of the parent state can't be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A node was not loaded before the computation, because the changes are not the marked ones.
    #[error("expected node {hash} to be loaded for the root of {}, found it missing", root_key.to_trie_name())]
    NotLoaded {
        /// Hash of the node, zero for a node inside its parent.
        hash: NodeHash,
        /// The key of the top trie under which the root of the child trie lies, empty for the top trie.
        root_key: KeyPath,
    },
    /// Changes that are not ordered by key, or change a key or a child trie twice.
    #[error("expected changes ordered by key, each key once, found {key} after one not below it")]
    Unordered {
        /// The key, after the child's storage key in a child trie; of a child trie, the key of its root.
        key: KeyPath,
    },
    /// More changes than a computation has numbers for.
    #[error("expected at most {MOST_CHANGES} changes of one trie, found {found}, or more nodes changed by them than 2^32")]
    TooManyChanges {
        /// Changes of the trie, or of the state.
        found: usize,
    },
}

/// Computes the update that `changes` make to the state, in layout `version`. First loads and observes every
/// node that it needs.
///
/// # Errors
/// [`RootError`]. Then there is no root. In any case the state has changed only by what it has loaded, so other changes
/// can be tried on it.
pub fn state_update<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
    observer: &mut impl PathCache,
) -> Result<RootUpdate, RootError> {
    with_all_loaded(state, changes, observer, |state| {
        state_update_of_loaded(state, changes, version)
    })
}

/// As [`state_update`], but observes exactly the nodes that `sp-state-machine` reads: those that a computation needs
/// that applies the changes of each trie in the order of their keys.
///
/// # Errors
/// As [`state_update`].
pub fn state_update_in_key_order<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
    observer: &mut impl PathCache,
) -> Result<RootUpdate, RootError> {
    changes.children_are_ordered()?;
    let mut marked = Marked::of(state);
    let Marked { state, needs } = &mut marked;
    let order = KeyOrder::of(changes);
    let settled = mark_changes(state, changes, needs, observer)
        .and_then(|()| needs.settle_in_key_order(state, order, observer));
    marked.end(settled, |state| {
        state_update_of_loaded(state, changes, version)
    })
}

/// The root of child trie `child` after its changes among `changes`; [`Root::EMPTY`] if it has no entries. Loads and
/// observes what [`state_update`] does, but computes only this root, and returns no nodes. For a child without changes,
/// it does not observe the way to the root.
///
/// # Errors
/// As [`state_update`].
pub fn child_root<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    child: &[u8],
    version: StateVersion,
    observer: &mut impl PathCache,
) -> Result<Root, RootError> {
    with_all_loaded(state, changes, observer, |state| {
        child_root_of_loaded(state, changes, child, version)
    })
}

/// As [`child_root`], but observes exactly the nodes that `sp-state-machine` reads for this one root.
///
/// # Errors
/// As [`state_update`].
pub fn child_root_in_key_order<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    child: &[u8],
    version: StateVersion,
    observer: &mut impl PathCache,
) -> Result<Root, RootError> {
    changes.children_are_ordered()?;
    let mut marked = Marked::of(state);
    let Marked { state, needs } = &mut marked;
    let order = KeyOrder::of(changes);
    let settled = mark_child(state, (child, changes.of(child)), needs, observer)
        .and_then(|_| needs.settle_in_key_order(state, order, observer));
    marked.end(settled, |state| {
        child_root_of_loaded(state, changes, child, version)
    })
}

/// Computes something of `state` once all that `changes` need in any order is loaded.
fn with_all_loaded<S: NodeSource, T>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    observer: &mut impl PathCache,
    compute: impl FnOnce(&mut ShadowState<S>) -> Result<T, RootError>,
) -> Result<T, RootError> {
    changes.children_are_ordered()?;
    let mut marked = Marked::of(state);
    let Marked { state, needs } = &mut marked;
    let settled = mark_changes(state, changes, needs, observer)
        .and_then(|()| needs.settle_for_root(state, observer));
    marked.end(settled, compute)
}

/// A state with the marks of changes, which are taken back when this is dropped: also if the source panics.
struct Marked<'s, S: NodeSource> {
    state: &'s mut ShadowState<S>,
    needs: RootNeeds,
}

impl<'s, S: NodeSource> Marked<'s, S> {
    fn of(state: &'s mut ShadowState<S>) -> Self {
        let needs = RootNeeds::default();
        Self { state, needs }
    }

    /// Computes what the `settled` changes make of the state.
    fn end<T>(
        self,
        settled: Result<(), LoadError>,
        compute: impl FnOnce(&mut ShadowState<S>) -> Result<T, RootError>,
    ) -> Result<T, RootError> {
        let computed = match settled {
            Ok(()) => compute(self.state),
            Err(error) => Err(error.into()),
        };
        computed.map_err(|error| self.needs.explained(error))
    }
}

impl<S: NodeSource> Drop for Marked<'_, S> {
    fn drop(&mut self) {
        self.needs.take_back(self.state);
    }
}

/// Marks `changes`.
fn mark_changes<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    needs: &mut RootNeeds,
    observer: &mut impl PathCache,
) -> Result<(), LoadError> {
    for (storage_key, entries) in &changes.children {
        let handle = mark_child(state, (storage_key, entries), needs, observer)?;
        let kept = keeps_any(state, handle, entries) && !changes.deletes_root_of(storage_key);
        let fate = if kept { Fate::Written } else { Fate::Deleted };
        if let Some(at) = state.find_root_of(handle, observer)? {
            needs.mark(state, TrieHandle::TOP, at, fate);
        }
    }
    let top = changes.top_without_roots();
    mark_all(state, TrieHandle::TOP, &top, needs, observer)
}

/// Marks the changes of a child trie, but not that of its root.
fn mark_child<S: NodeSource>(
    state: &mut ShadowState<S>,
    (storage_key, entries): (&[u8], &[KeyChange<'_>]),
    needs: &mut RootNeeds,
    observer: &mut impl PathCache,
) -> Result<TrieHandle, LoadError> {
    let handle = state.open(TrieId::Child(storage_key), observer)?;
    mark_all(state, handle, entries, needs, observer)?;
    Ok(handle)
}

/// Whether trie `child` has an entry after `changes`, all of which are marked.
pub(crate) fn keeps_any<S: NodeSource>(
    state: &ShadowState<S>,
    child: TrieHandle,
    changes: &[KeyChange<'_>],
) -> bool {
    !state.is_bare(child) || changes.iter().any(|(_, value)| value.is_some())
}

fn mark_all<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    entries: &[KeyChange<'_>],
    needs: &mut RootNeeds,
    observer: &mut impl PathCache,
) -> Result<(), LoadError> {
    let mut search = Search::default();
    for (key, value) in entries {
        let fate = if value.is_some() {
            Fate::Written
        } else {
            Fate::Deleted
        };
        if let Some(entry) = observer.known(handle, key) {
            if let Some(at) = entry {
                needs.mark(state, handle, at, fate);
            }
            continue;
        }
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

/// Computes what [`state_update`] does, for changes that were marked and settled in a [`RootNeeds`] before.
///
/// # Errors
/// [`RootError`]. Then there is no root.
pub fn state_update_of_loaded<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
) -> Result<RootUpdate, RootError> {
    let mut memory = state.take_root_memory();
    memory.begin();
    let update = update_in(&mut memory, state, changes, version);
    // Put back also after an error, because the next update begins with clearing it.
    state.put_root_memory(memory);
    update
}

/// Computes what [`child_root`] does, for changes that were marked and settled in a [`RootNeeds`] before.
///
/// # Errors
/// [`RootError`]. Then there is no root.
pub fn child_root_of_loaded<S: NodeSource>(
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    child: &[u8],
    version: StateVersion,
) -> Result<Root, RootError> {
    changes.children_are_ordered()?;
    let handle = state.open(TrieId::Child(child), &mut ())?;
    let mut memory = state.take_root_memory();
    memory.begin();
    let root = trie_update(state, handle, changes.of(child), version, &mut memory);
    state.put_root_memory(memory);
    root
}

fn update_in<S: NodeSource>(
    memory: &mut RootMemory,
    state: &mut ShadowState<S>,
    changes: &Changes<'_>,
    version: StateVersion,
) -> Result<RootUpdate, RootError> {
    changes.children_are_ordered()?;
    let mut children = Vec::with_capacity(changes.children.len());
    for (storage_key, entries) in &changes.children {
        let handle = state.open(TrieId::Child(storage_key), &mut ())?;
        let root = trie_update(state, handle, entries, version, memory)?;
        children.push((storage_key.to_vec(), root));
    }
    let parent = state.root();
    let mut top =
        |entries: &[KeyChange<'_>]| trie_update(state, TrieHandle::TOP, entries, version, memory);
    let root = if children.is_empty() {
        top(&changes.top)?
    } else {
        with_child_roots(&changes.top_without_roots(), &children, top)?
    };
    let nodes = memory.finish().ok_or_else(|| RootError::TooManyChanges {
        found: all_changes(changes),
    })?;
    Ok(RootUpdate {
        parent,
        root,
        children,
        nodes,
    })
}

fn all_changes(changes: &Changes<'_>) -> usize {
    let children = changes.children.iter().map(|(_, changes)| changes.len());
    changes.top.len() + children.sum::<usize>()
}

/// The new root of the top trie: `update` applied to its changes and the new roots of `children`.
fn with_child_roots(
    top: &[KeyChange<'_>],
    children: &[(Vec<u8>, Root)],
    update: impl FnOnce(&[KeyChange<'_>]) -> Result<Root, RootError>,
) -> Result<Root, RootError> {
    // Sorting below would hide it, until a block comes that changes no child trie.
    expect_ordered(&[], top)?;
    let root_keys: Vec<_> = children
        .iter()
        .map(|(key, _)| child_root_key(key))
        .collect();
    let child_roots = children.iter().zip(&root_keys).map(|((_, root), key)| {
        let root = (*root != Root::EMPTY).then_some(root.as_bytes().as_slice());
        (key.as_slice(), root)
    });
    let mut entries: KeyChanges<'_> = top.iter().copied().chain(child_roots).collect();
    entries.sort_by_key(|(key, _)| *key);
    update(&entries)
}

/// Fails if the keys of `entries`, which lie in `keyspace`, are not ordered, each once.
fn expect_ordered(keyspace: &[u8], entries: &[KeyChange<'_>]) -> Result<(), RootError> {
    let wrong = entries.windows(2).find(|pair| pair[0].0 >= pair[1].0);
    wrong.map_or(Ok(()), |pair| {
        let key = [keyspace, pair[1].0].concat();
        let key = KeyPath::new((&key, None));
        Err(RootError::Unordered { key })
    })
}

fn trie_update<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    entries: &[KeyChange<'_>],
    version: StateVersion,
    memory: &mut RootMemory,
) -> Result<Root, RootError> {
    expect_ordered(state.trie(handle).keyspace(), entries)?;
    let present = without_absent(state, handle, entries)?;
    if present.is_empty() {
        return Ok(state.trie(handle).root());
    }
    if present.len() > MOST_CHANGES {
        let found = present.len();
        return Err(RootError::TooManyChanges { found });
    }
    state.load_root(handle)?;
    let trie = state.trie(handle);
    let input = BatchInput {
        trie,
        table: state.table(),
        changes: &present,
        version,
        options: state.options(),
    };
    batch::trie_root(input, memory).map_err(|NotLoaded(hash)| {
        let root_key = KeyPath::new((state.root_key_of(handle), None));
        RootError::NotLoaded { hash, root_key }
    })
}

/// The changes without deletions of keys that the parent state does not have, because these change nothing.
fn without_absent<'e, 'a, S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    entries: &'e [KeyChange<'a>],
) -> Result<Cow<'e, [KeyChange<'a>]>, LoadError> {
    let mut present = Cow::Borrowed(entries);
    for (index, &(key, value)) in entries.iter().enumerate() {
        let is_there = value.is_some() || state.find(handle, key, &mut ())?.is_some();
        match &mut present {
            Cow::Borrowed(_) if is_there => {}
            Cow::Borrowed(all) => present = Cow::Owned(all[..index].to_vec()),
            Cow::Owned(present) if is_there => present.push((key, value)),
            Cow::Owned(_) => {}
        }
    }
    Ok(present)
}
