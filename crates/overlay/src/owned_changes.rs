//! The changes of a finished block.

use crate::{overlay::Overlay, Change, ChangeSet, TransactionError};
use alloc::vec::Vec;
use povmeter_primitives::TrieId;

/// What a block changed: the changes of each store, sorted by key.
///
/// Made by [`Overlay::to_owned_changes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedChanges {
    top: ChangeSet,
    children: Vec<(Vec<u8>, ChangeSet)>,
}

impl Overlay {
    /// Returns a copy of the changes so far.
    ///
    /// Costs a copy of keys and values.
    ///
    /// # Errors
    /// [`TransactionError::StillOpen`] if a transaction is open.
    pub fn to_owned_changes(&self) -> Result<OwnedChanges, TransactionError> {
        if self.depth() > 0 {
            return Err(TransactionError::StillOpen { open: self.depth() });
        }
        let owned = |changes: Vec<Change<'_>>| -> ChangeSet {
            let changes = changes.into_iter();
            changes
                .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                .collect()
        };
        let children = self.children();
        let children = children.map(|key| (key.to_vec(), owned(self.changes(TrieId::Child(key)))));
        Ok(OwnedChanges {
            top: owned(self.changes(TrieId::Top)),
            children: children.collect(),
        })
    }
}

impl OwnedChanges {
    /// The changes of `store`, sorted by key; none for a store that was not changed.
    pub fn changes(&self, store: TrieId<'_>) -> impl ExactSizeIterator<Item = Change<'_>> + '_ {
        let changes = match store {
            TrieId::Top => &self.top[..],
            TrieId::Child(key) => {
                let at = self
                    .children
                    .binary_search_by(|(child, _)| child.as_slice().cmp(key));
                at.map_or(&[][..], |at| &self.children[at].1)
            }
        };
        changes
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// The child storage keys of the changed child stores, sorted.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        self.children.iter().map(|(key, _)| key.as_slice())
    }

    /// The changes of the top store and those of the child stores by child storage key, everything
    /// sorted by key.
    ///
    /// Copies nothing, so a database can take them over.
    pub fn into_parts(self) -> (ChangeSet, Vec<(Vec<u8>, ChangeSet)>) {
        (self.top, self.children)
    }
}
