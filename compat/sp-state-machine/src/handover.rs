//! Changes handed over to the original, with the transactions that are open.
//!
//! The original writes only to the innermost transaction. So the changes are written to a new overlay while its
//! transactions are opened:
//!
//! ```text
//! a copy of what is handed over:  roll back the innermost transaction, again and again; list all changes each time
//! the new overlay:                from the last list to the first: write what the list before does not have, and
//!                                 open the next transaction
//! ```

use crate::{
    machine::Machine,
    overlayed_changes::in_lockstep,
    view::{TrieView, View},
    StorageKey,
};
use hash_db::Hasher;
use sp_core::offchain::OffchainOverlayedChange;
use std::collections::BTreeMap;

/// An overlay of the original with the state's changes in `machine`, and with the offchain changes and the operations
/// on the transaction index in `rest`. Both must have the same transactions open, and the overlay has these, too.
///
/// Takes time for all changes once for each open transaction.
pub(crate) fn hand_over<H: Hasher>(
    machine: &Machine,
    rest: &original::OverlayedChanges<H>,
) -> original::OverlayedChanges<H> {
    let (mut machine, mut copy) = (machine.copy(), rest.clone());
    let mut lists = vec![Changes::of(&machine, &copy)];
    // How many of the lists the runtime's transactions are in.
    let mut entered_above = None;
    loop {
        if copy.rollback_transaction().is_ok() {
            in_lockstep(machine.rollback_transaction());
            lists.push(Changes::of(&machine, &copy));
        } else if copy.exit_runtime().is_ok() {
            in_lockstep(machine.exit_runtime());
            entered_above = Some(lists.len());
        } else {
            break;
        }
    }

    let mut whole = original::OverlayedChanges::default();
    let mut below = Changes::default();
    while let Some(changes) = lists.pop() {
        changes.write_above(&below, &mut whole);
        if entered_above == Some(lists.len() + 1) {
            let entered = whole.enter_runtime();
            debug_assert!(entered.is_ok(), "the new overlay has not entered a runtime");
        }
        if !lists.is_empty() {
            whole.start_transaction();
        }
        below = changes;
    }
    for operation in rest.transaction_index_ops() {
        whole.add_transaction_index(operation.clone());
    }
    whole
}

/// All changes of a block, those of the open transactions included.
#[derive(Default)]
struct Changes {
    state: View,
    /// By prefix and key.
    offchain: BTreeMap<(StorageKey, StorageKey), OffchainOverlayedChange>,
}

impl Changes {
    fn of<H: Hasher>(machine: &Machine, rest: &original::OverlayedChanges<H>) -> Self {
        Self {
            state: machine.overlay().map(View::of).unwrap_or_default(),
            offchain: rest.offchain().clone().into_iter().collect(),
        }
    }

    /// Writes to `to` what differs from the changes `below` it.
    fn write_above<H: Hasher>(&self, below: &Self, to: &mut original::OverlayedChanges<H>) {
        for (key, value) in differing(&self.state.top, &below.state.top) {
            to.set_storage(key.clone(), value.clone().to_option());
        }
        let none = TrieView::new();
        for (name, (changes, info)) in &self.state.children {
            let below = below.state.children.get(name);
            let below = below.map_or(&none, |(changes, _)| changes);
            for (key, value) in differing(changes, below) {
                to.set_child_storage(info, key.clone(), value.clone().to_option());
            }
        }
        // The prefix is the same for all, because the overlay gives it.
        for ((_, key), change) in differing(&self.offchain, &below.offchain) {
            let value = match change {
                OffchainOverlayedChange::Remove => None,
                OffchainOverlayedChange::SetValue(value) => Some(value.as_slice()),
            };
            to.set_offchain_storage(key, value);
        }
    }
}

/// The entries of `changes` that `below` does not have, or has with another value.
fn differing<'c, K: Ord, V: PartialEq>(
    changes: &'c BTreeMap<K, V>,
    below: &'c BTreeMap<K, V>,
) -> impl Iterator<Item = (&'c K, &'c V)> {
    let changes = changes.iter();
    changes.filter(move |(key, value)| below.get(*key) != Some(*value))
}
