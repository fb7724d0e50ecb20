//! What a boundary does: the overlay's dirty keys into the estimate.

use crate::block::{store, trie};
use alloc::vec::Vec;
use povmeter_delta_root::{
    child_root_key, Fate, LoadError, NodeSource, Observer, ShadowState, TrieHandle, TrieId,
};
use povmeter_overlay::{Fate as DirtyFate, Overlay};
use povmeter_pov_estimate::Estimator;

fn fate(dirty: DirtyFate) -> Fate {
    match dirty {
        DirtyFate::Written => Fate::Written,
        DirtyFate::Deleted => Fate::Deleted,
        DirtyFate::Untouched => Fate::Untouched,
    }
}

/// Counts what the root needs for the keys changed since the overlay's last snapshot, and has the
/// overlay take one.
pub(crate) fn count_dirty<S: NodeSource>(
    overlay: &mut Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    look_at_dirty(overlay, state, estimator, observer)?;
    overlay.snapshot();
    Ok(())
}

/// As [`count_dirty`], without the snapshot: the same keys are looked at again the next time.
pub(crate) fn look_at_dirty<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    let mut dirty_children: Vec<(Vec<u8>, TrieHandle)> = Vec::new();
    for dirty in overlay.dirty() {
        let handle = match trie(dirty.store) {
            TrieId::Top => TrieHandle::TOP,
            child @ TrieId::Child(key) => {
                // A key that is no longer changed needs nothing, not even the way to its trie,
                // which is open since the key was handed in before.
                let handle = match dirty.fate {
                    DirtyFate::Untouched => state.open(child, &mut ())?,
                    _ => state.open(child, observer)?,
                };
                if dirty_children
                    .last()
                    .is_none_or(|(_, last)| *last != handle)
                {
                    dirty_children.push((key.to_vec(), handle));
                }
                handle
            }
        };
        estimator.mark_key(state, handle, dirty.key, fate(dirty.fate), observer)?;
    }
    count_child_roots(overlay, state, estimator, &dirty_children, observer)?;
    estimator.settle(state, observer)
}

/// The roots of changed children are keys of the top trie: written, or deleted with the last entry.
fn count_child_roots<S: NodeSource>(
    overlay: &Overlay,
    state: &mut ShadowState<S>,
    estimator: &mut Estimator,
    dirty_children: &[(Vec<u8>, TrieHandle)],
    observer: &mut impl Observer,
) -> Result<(), LoadError> {
    for (key, handle) in dirty_children {
        let child = TrieId::Child(key);
        let fate = if !overlay.is_touched(store(child)) {
            Fate::Untouched
        } else if state.is_bare(*handle) && !overlay.has_values(store(child)) {
            Fate::Deleted
        } else {
            Fate::Written
        };
        estimator.mark_key(state, TrieHandle::TOP, &child_root_key(key), fate, observer)?;
    }
    Ok(())
}
