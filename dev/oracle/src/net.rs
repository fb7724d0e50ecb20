//! The net changes of the peer's overlay, and the changes among them that the peer's trie may get
//! wrong.

use super::case::ParentState;
use povmeter_delta_root::CHILD_ROOT_PREFIX;
use povmeter_dev_runtime::runtime::Hashing;
use sp_core::storage::ChildInfo;
use sp_state_machine::OverlayedChanges;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

/// Changed keys of a trie with their new values.
type TrieChanges = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes of a trie in the form that the peer's backend expects.
type Delta<'a> = Vec<(&'a [u8], Option<&'a [u8]>)>;

/// The changes of a block so far.
#[derive(Clone, Debug, Default)]
pub(super) struct NetChanges {
    top: TrieChanges,
    children: Vec<(ChildInfo, TrieChanges)>,
    left_out: Vec<(Option<ChildInfo>, Vec<u8>)>,
}

impl NetChanges {
    pub(super) fn new(overlay: &mut OverlayedChanges<Hashing>) -> Self {
        let top = overlay.changes_mut();
        let top = top.map(|(key, value)| (key.clone(), value.value().cloned()));
        let top = top.collect();
        let children = overlay.children_mut().map(|(changes, child)| {
            let changes = changes.map(|(key, value)| (key.clone(), value.value().cloned()));
            (child.clone(), changes.collect())
        });
        let children = children.collect();
        Self {
            top,
            children,
            left_out: Vec::new(),
        }
    }

    /// Returns the changed keys of the top trie, with their new values.
    pub(super) fn all_of_top(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let top = self.top.iter();
        top.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Leaves out the deletions of absent keys that are prefixes of longer keys, because the peer's trie
    /// loses a value or panics at some of these deletions. Returns whether any were left out.
    pub(super) fn leave_out_absent(&mut self, parent: &ParentState) -> bool {
        let root_keys = parent.children.keys().map(|storage_key| {
            ChildInfo::new_default(storage_key)
                .prefixed_storage_key()
                .into_inner()
        });
        let mut keys: BTreeSet<Vec<u8>> = parent.top.keys().cloned().collect();
        keys.extend(parent.rewritten.keys().cloned());
        keys.extend(root_keys);
        // The roots of changed children are written, too.
        let changed = self.children.iter();
        let changed = changed.map(|(child, _)| child.prefixed_storage_key().into_inner());
        let longer: BTreeSet<Vec<u8>> = keys.iter().cloned().chain(changed).collect();
        // A root that the runtime asked for and that is deleted in the end is deleted twice, so it may be absent.
        keys.retain(|key| !key.starts_with(CHILD_ROOT_PREFIX));
        for key in split_off_absent(&mut self.top, &keys, longer) {
            self.left_out.push((None, key));
        }
        for (child, changes) in &mut self.children {
            let entries = parent.children.get(child.storage_key());
            let keys: BTreeSet<Vec<u8>> = entries
                .into_iter()
                .flat_map(|e| e.keys().cloned())
                .collect();
            for key in split_off_absent(changes, &keys, keys.clone()) {
                self.left_out.push((Some(child.clone()), key));
            }
        }
        !self.left_out.is_empty()
    }

    /// Returns the deletions that were left out, by trie and key.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (Option<&ChildInfo>, &[u8])> {
        let left_out = self.left_out.iter();
        left_out.map(|(child, key)| (child.as_ref(), key.as_slice()))
    }

    /// Returns the changes in povmeter's form.
    pub(super) fn ours(&self) -> povmeter_delta_root::Changes<'_> {
        let mut children: Vec<_> = self
            .children
            .iter()
            .map(|(child, changes)| (child.storage_key(), borrowed(changes).collect()))
            .collect();
        children.sort_by_key(|(storage_key, _)| *storage_key);
        let top = self.top().collect();
        povmeter_delta_root::Changes { top, children }
    }

    /// Returns the changes of the top trie, without the deletions left out.
    pub(super) fn top(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        borrowed(&self.top)
    }

    /// Returns the changes of the child tries, without the deletions left out.
    pub(super) fn children(&self) -> impl Iterator<Item = (&ChildInfo, Delta<'_>)> {
        let children = self.children.iter();
        children.map(|(child, changes)| (child, borrowed(changes).collect()))
    }
}

fn borrowed(changes: &TrieChanges) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let changes = changes.iter();
    changes.map(|(key, value)| (key.as_slice(), value.as_deref()))
}

/// Removes from `changes` the deletions of keys that are not among `keys` and are prefixes of a key of
/// `longer` or of a written key. Returns the removed keys.
fn split_off_absent(
    changes: &mut TrieChanges,
    keys: &BTreeSet<Vec<u8>>,
    mut longer: BTreeSet<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let written = changes.iter().filter(|(_, value)| value.is_some());
    longer.extend(written.map(|(key, _)| key.clone()));
    let begins_a_key = |key: &Vec<u8>| {
        let after = (Bound::Excluded(key.clone()), Bound::Unbounded);
        longer
            .range(after)
            .next()
            .is_some_and(|next| next.starts_with(key))
    };
    let absent: Vec<_> = changes
        .iter()
        .filter(|(key, value)| value.is_none() && !keys.contains(*key) && begins_a_key(key))
        .map(|(key, _)| key.clone())
        .collect();
    for key in &absent {
        changes.remove(key);
    }
    absent
}
