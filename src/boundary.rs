//! A boundary: hands the overlay's dirty keys to the estimator.

use alloc::vec::Vec;
use povmeter_delta_root::{LoadError, NodeSource, PathCache, ShadowState, TrieHandle};
use povmeter_overlay::{Lookup, Overlay};
use povmeter_pov_estimate::{ChangedKey, Estimator};
use povmeter_primitives::{Fate, TrieId, CHILD_ROOT_PREFIX};

/// What a boundary is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For a size, which counts all nodes that the rule names.
    Size,
    /// For the root, which may not need all of them. Does without those that the source lacks.
    Root,
    /// To mark all changes in the shadow tries, and to be taken back.
    Marks,
}

/// Counts what the root needs for the overlay's dirty keys. The next call handles the same keys again,
/// unless the overlay takes a snapshot in between.
///
/// # Errors
/// [`LoadError`] if a node can't be loaded. Estimator and state are then as before, except for loaded
/// nodes; the caller has to take back what the observer counted.
pub(crate) fn count_dirty<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    observer: &mut impl PathCache,
    purpose: Purpose,
) -> Result<(), LoadError> {
    let counted = mark_dirty(overlay, state, estimator, observer, purpose);
    if counted.is_err() {
        estimator.take_back(state);
    }
    counted
}

fn mark_dirty<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    observer: &mut impl PathCache,
    purpose: Purpose,
) -> Result<(), LoadError> {
    let mut boundary = estimator.boundary(state, overlay.dirty().len());
    let mut dirty_children: Vec<TrieHandle> = Vec::new();
    let mut opened = (TrieId::Top, TrieHandle::TOP);
    for dirty in overlay.dirty() {
        // What happens to the root of a child is decided below.
        if let Some(child) = child_of_root(dirty.trie, dirty.key) {
            if let Some(child) = state.opened(TrieId::Child(child)) {
                dirty_children.push(child);
            }
            continue;
        }
        let trie = match dirty.trie {
            _ if dirty.trie == opened.0 => opened.1,
            // A key whose changes were rolled back needs nothing, not even the path to its trie. If the trie is not
            // open, no earlier boundary marked the key.
            child if dirty.fate == Fate::Untouched => match state.opened(child) {
                Some(trie) => trie,
                None => continue,
            },
            child => {
                opened = (dirty.trie, state.open(child, observer)?);
                opened.1
            }
        };
        if trie != TrieHandle::TOP && dirty_children.last() != Some(&trie) {
            dirty_children.push(trie);
        }
        let changed = ChangedKey {
            trie,
            index: dirty.index,
            key: dirty.key,
            fate: dirty.fate,
        };
        boundary.mark_key(state, changed, observer)?;
    }
    // The root of a changed child is written into the top trie, or deleted with the child's last entry.
    for child in dirty_children {
        let id = state.trie_id(child);
        let (touched, has_values) = (overlay.is_touched(id), overlay.has_values(id));
        let fate = if !touched {
            Fate::Untouched
        } else if overlay.get(TrieId::Top, state.root_key_of(child)) == Lookup::Deleted
            || (!has_values && boundary.is_bare(state, child, observer)?)
        {
            // Also if the block has deleted the root and the child has entries again: `sp-state-machine` deletes the
            // root then before it sets the new one.
            Fate::Deleted
        } else {
            Fate::Written
        };
        boundary.mark_root_of(state, child, fate, observer)?;
    }
    match purpose {
        Purpose::Size => boundary.settle(state, observer),
        Purpose::Root => boundary.settle_for_root(state, observer),
        Purpose::Marks => boundary.leave_unsettled(state, observer),
    }
}

/// Marks the dirty keys of the child trie `child` in its shadow trie, and counts nothing. The boundary has to be
/// [taken back](Estimator::take_back) before the next one.
///
/// # Errors
/// As [`count_dirty`].
pub(crate) fn mark_child<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    child: &[u8],
) -> Result<(), LoadError> {
    let mut mark = || {
        let mut boundary = estimator.boundary(state, overlay.dirty().len());
        let mut opened = state.opened(TrieId::Child(child));
        let of_child = overlay
            .dirty()
            .filter(|dirty| dirty.trie == TrieId::Child(child));
        for dirty in of_child {
            let trie = match opened {
                Some(trie) => trie,
                None if dirty.fate == Fate::Untouched => continue,
                None => *opened.insert(state.open(dirty.trie, &mut ())?),
            };
            let changed = ChangedKey {
                trie,
                index: dirty.index,
                key: dirty.key,
                fate: dirty.fate,
            };
            boundary.mark_key(state, changed, &mut ())?;
        }
        boundary.leave_unsettled(state, &mut ())
    };
    let marked = mark();
    if marked.is_err() {
        estimator.take_back(state);
    }
    marked
}

/// The child trie whose root lies at `key`.
fn child_of_root<'k>(trie: TrieId<'_>, key: &'k [u8]) -> Option<&'k [u8]> {
    match trie {
        TrieId::Top => key.strip_prefix(CHILD_ROOT_PREFIX),
        TrieId::Child(_) => None,
    }
}
