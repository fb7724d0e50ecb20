//! The parent state of a block, made from its entries.

use crate::{entries::Entries, plan::Plan};
use povmeter::{Root, RootError};
use povmeter_delta_root::{state_update, Changes, KeyChanges, ShadowState};
use povmeter_store::{NodeStore, StoreError};
use povmeter_substrate::state_version;
use sp_core::storage::StateVersion;
use std::collections::BTreeMap;

/// Why a state was not committed to a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The root of the state could not be computed.
    #[error("the root of the state could not be computed: {0}")]
    Compute(#[from] RootError),
    /// The root of the state is not the expected one.
    #[error("expected a state with root {expected}, found {found}")]
    Root {
        /// The expected root.
        expected: Root,
        /// Root of the state.
        found: Root,
    },
    /// The store refused the state.
    #[error("the store did not take the state: {0}")]
    Store(#[from] StoreError),
}

/// Most entries that are committed at once: the update of more needs more memory than the state.
const TOGETHER: usize = 1 << 20;

/// Commits the state with the entries `top` and the child tries `children` to the empty `store`, and
/// returns its root. A state of more than a million entries is committed in parts.
///
/// # Errors
/// [`StateError`] if the root is not `expected` (if given), or the store is not empty or fails. The store may then hold
/// all parts but the last.
pub fn commit_state(
    store: &mut (impl NodeStore + ?Sized),
    top: &Entries,
    children: &BTreeMap<Vec<u8>, Entries>,
    version: StateVersion,
    expected: Option<Root>,
) -> Result<Root, StateError> {
    commit_parts(store, (top, children), version, expected, TOGETHER)
}

/// As [`commit_state`], in parts of `together` entries. The last part also holds the child tries.
fn commit_parts(
    store: &mut (impl NodeStore + ?Sized),
    (top, children): (&Entries, &BTreeMap<Vec<u8>, Entries>),
    version: StateVersion,
    expected: Option<Root>,
    together: usize,
) -> Result<Root, StateError> {
    let top = all_set(top);
    let mut parts = top.chunks(together).peekable();
    let mut root = Root::EMPTY;
    loop {
        let part = parts.next().unwrap_or_default();
        let is_last = parts.peek().is_none();
        let children = children.iter().filter(|_| is_last);
        let changes = Changes {
            top: part.to_vec(),
            children: children
                .map(|(key, entries)| (key.as_slice(), all_set(entries)))
                .collect(),
        };
        let mut state = ShadowState::new(&*store, root);
        let update = state_update(&mut state, &changes, state_version(version), &mut ())?;
        let found = update.root;
        if let Some(expected) = expected.filter(|expected| is_last && *expected != found) {
            return Err(StateError::Root { expected, found });
        }
        store.commit(&update)?;
        if is_last {
            return Ok(found);
        }
        root = found;
    }
}

/// Returns the changes that insert `entries`.
fn all_set(entries: &Entries) -> KeyChanges<'_> {
    let set = entries
        .iter()
        .map(|(key, value)| (key.as_slice(), Some(value.as_slice())));
    set.collect()
}

/// Commits the parent state of `plan` to the empty `store`, and returns its root.
///
/// # Errors
/// Those of [`commit_state`]; the expected root is that of the plan.
pub fn commit_parent(
    store: &mut (impl NodeStore + ?Sized),
    plan: &Plan,
) -> Result<Root, StateError> {
    let storage = plan.genesis();
    let children = storage
        .children_default
        .iter()
        .map(|(key, child)| (key.clone(), child.data.clone()));
    let version = plan.options().state_version;
    commit_state(
        store,
        &storage.top,
        &children.collect(),
        version,
        Some(parent_root(plan)),
    )
}

/// Returns the root of the parent state of `plan`.
pub(crate) fn parent_root(plan: &Plan) -> Root {
    Root::from(plan.parent().state_root.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter_store::MemoryStore;

    #[test]
    fn a_state_in_parts_is_the_whole_state() {
        let entries = |count: u8| -> Entries {
            let entries = (0..count).map(|number| (vec![number / 7, number], vec![number; 40]));
            entries.collect()
        };
        let children = BTreeMap::from([(b"child".to_vec(), entries(9))]);
        for count in [0, 1, 10, 11, 100] {
            let top = entries(count);
            let commit = |together| {
                let mut store = MemoryStore::new();
                let state = (&top, &children);
                let root = commit_parts(&mut store, state, StateVersion::V1, None, together);
                (root.unwrap(), store.root(), store.node_count())
            };
            let whole = commit(TOGETHER);
            assert_eq!(whole.0, whole.1);
            assert_eq!(commit(10), whole);
            assert_eq!(commit(1), whole);
        }
    }
}
