//! What a boundary does: the overlay's dirty keys into the estimate.

use alloc::vec::Vec;
use povmeter_delta_root::{LoadError, NodeSource, PathCache, ShadowState, TrieHandle};
use povmeter_overlay::Overlay;
use povmeter_pov_estimate::{ChangedKey, Estimator};
use povmeter_primitives::{Fate, TrieId};

/// Counts what the root needs for the keys changed since the overlay's last snapshot. The same keys are
/// looked at again the next time, unless the overlay takes a snapshot.
///
/// # Errors
/// [`LoadError`] if a node can't be had. Estimator and state are then as they were, but for what is
/// loaded; what the observer was told is for the caller to take back.
pub(crate) fn look_at_dirty<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    observer: &mut impl PathCache,
) -> Result<(), LoadError> {
    let looked = mark_dirty(overlay, state, estimator, observer);
    if looked.is_err() {
        estimator.take_back(state);
    }
    looked
}

fn mark_dirty<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    observer: &mut impl PathCache,
) -> Result<(), LoadError> {
    let mut boundary = estimator.boundary(overlay.dirty().len());
    let mut dirty_children: Vec<TrieHandle> = Vec::new();
    let mut opened = (TrieId::Top, TrieHandle::TOP);
    for dirty in overlay.dirty() {
        let trie = match dirty.trie {
            _ if dirty.trie == opened.0 => opened.1,
            // A key that is no longer changed needs nothing, not even the way to its trie, which
            // is open since the key was handed in before.
            child if dirty.fate == Fate::Untouched => state.open(child, &mut ())?,
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
    // The roots of changed children are keys of the top trie: written, or deleted with the last
    // entry.
    for child in dirty_children {
        let id = state.trie_id(child);
        let (touched, has_values) = (overlay.is_touched(id), overlay.has_values(id));
        let fate = if !touched {
            Fate::Untouched
        } else if !has_values && boundary.is_bare(state, child, observer)? {
            Fate::Deleted
        } else {
            Fate::Written
        };
        boundary.mark_root_of(state, child, fate, observer)?;
    }
    boundary.settle(state, observer)
}
