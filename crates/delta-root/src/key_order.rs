//! What a root computation reads that applies the changes in the order of their keys.
//!
//! sp-state-machine computes a root so, each trie from the parent state. A branch that keeps a lone child is merged at
//! the moment at which the last of its other entries goes. If a new entry came below the branch before that, there is
//! nothing to merge, and the child is not read. In the same way, a trie is empty for a moment only if no new entry came
//! before the last old one went, and its null node is read by the next change, if there is one.
//!
//! Only changes below the branch matter, and none of them is below the child, or the child was read on the way. So
//! no two branches share a change, and all of them together cost a walk for each changed key at most.

use crate::{
    child_root_key, nibbles,
    root::{keeps_any, KeyChanges},
    Changes, LoadError, NodeSource, ShadowState, TrieHandle, TrieId,
};
use alloc::{borrow::Cow, vec::Vec};
use core::{cmp::Ordering, ops::Range};

/// A change: its key, and whether it sets a value.
type Step<'c> = (Cow<'c, [u8]>, bool);

/// The changes of a state in the order of their keys, trie by trie.
pub(crate) struct KeyOrder<'c> {
    changes: &'c Changes<'c>,
    /// The trie that was asked for last, and its changes; those of the top trie with the roots of child tries.
    last: Option<(TrieHandle, Vec<Step<'c>>)>,
}

impl<'c> KeyOrder<'c> {
    pub(crate) fn of(changes: &'c Changes<'c>) -> Self {
        Self {
            changes,
            last: None,
        }
    }

    /// Whether the computation reads the lone child that lies at `path` of trie `handle`, one nibble a byte, and that it
    /// has not read on the path to a changed key. All changes are marked in `state`.
    ///
    /// # Errors
    /// [`LoadError`] if a node on the path to a changed key can't be loaded.
    pub(crate) fn reads_lone_child<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        handle: TrieHandle,
        path: &[u8],
    ) -> Result<bool, LoadError> {
        let steps = self.steps(state, handle);
        if !below(steps, path).is_empty() {
            // The child is on the path to a changed key.
            return Ok(false);
        }
        let branch = path.split_last().map_or(path, |(_, branch)| branch);
        Ok(last_loss(state, handle, steps, below(steps, branch))?.is_some())
    }

    /// Whether the computation reads the null node of trie `handle`, which has lost all its entries.
    ///
    /// # Errors
    /// As [`Self::reads_lone_child`].
    pub(crate) fn reads_null_node<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        handle: TrieHandle,
    ) -> Result<bool, LoadError> {
        let steps = self.steps(state, handle);
        let emptied = last_loss(state, handle, steps, 0..steps.len())?;
        Ok(emptied.is_some_and(|last| last + 1 < steps.len()))
    }

    /// The changes of trie `handle`. Tries should be asked for one after the other, because those of one trie are kept.
    fn steps<S: NodeSource>(&mut self, state: &ShadowState<S>, handle: TrieHandle) -> &[Step<'c>] {
        let last = self.last.take().filter(|(last, _)| *last == handle);
        let make = || (handle, steps_in(self.changes, state, handle));
        &self.last.insert(last.unwrap_or_else(make)).1
    }
}

/// The changes of trie `handle`, in the order of their keys.
fn steps_in<'c, S: NodeSource>(
    Changes { top, children }: &'c Changes<'c>,
    state: &ShadowState<S>,
    handle: TrieHandle,
) -> Vec<Step<'c>> {
    let of = |changes: &'c KeyChanges<'c>| {
        let steps = changes.iter();
        steps.map(|(key, value)| (Cow::Borrowed(*key), value.is_some()))
    };
    if let TrieId::Child(storage_key) = state.trie_id(handle) {
        let child = children.binary_search_by_key(&storage_key, |(key, _)| *key);
        return child.map_or_else(|_| Vec::new(), |child| of(&children[child].1).collect());
    }
    let roots = children.iter().filter_map(|(storage_key, changes)| {
        let child = state.opened(TrieId::Child(storage_key))?;
        let kept = keeps_any(state, child, changes);
        Some((Cow::Owned(child_root_key(storage_key)), kept))
    });
    let roots: Vec<Step<'c>> = roots.collect();
    // A change of a child's root comes right before the new root, and matters only if it deletes the root.
    let matters = |(key, sets): &Step<'c>| {
        let is_root = || roots.binary_search_by(|(root, _)| root.cmp(key)).is_ok();
        !(*sets && is_root())
    };
    let mut steps: Vec<_> = of(top).filter(matters).collect();
    steps.extend(roots);
    steps.sort_by(|(one, _), (other, _)| one.cmp(other));
    steps
}

/// The steps whose keys begin with `path`, one nibble a byte.
fn below(steps: &[Step<'_>], path: &[u8]) -> Range<usize> {
    let side = |(key, _): &Step<'_>| {
        let key = (0..nibbles::count(key)).map(|index| nibbles::at(key, index));
        key.take(path.len()).cmp(path.iter().copied())
    };
    let start = steps.partition_point(|step| side(step) == Ordering::Less);
    let end = steps.partition_point(|step| side(step) != Ordering::Greater);
    start..end.max(start)
}

/// Returns the last of the changes `among` that deletes an entry of the parent state, unless one before it sets a value:
/// after it, nothing is left where these changes are.
fn last_loss<S: NodeSource>(
    state: &mut ShadowState<S>,
    handle: TrieHandle,
    steps: &[Step<'_>],
    among: Range<usize>,
) -> Result<Option<usize>, LoadError> {
    let mut last = None;
    for at in among.rev() {
        let (key, sets) = &steps[at];
        // The step before deletes the same key only if that is the root of a child.
        let is_gone = || at > 0 && matches!(&steps[at - 1], (before, false) if before == key);
        match (sets, last) {
            (true, Some(_)) => return Ok(None),
            (false, None) if !is_gone() && state.find(handle, key, &mut ())?.is_some() => {
                last = Some(at);
            }
            // Deletions do not matter once the last one is found, and values not before.
            _ => {}
        }
    }
    Ok(last)
}
