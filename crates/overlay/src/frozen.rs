//! What a block changed, for good.

use crate::{overlay::Overlay, store::StoreId, Change, ChangeSet, TransactionError};
use alloc::vec::Vec;

/// What a block changed in the end: for each store its changes, sorted by key.
///
/// Made by [`Overlay::freeze`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    top: ChangeSet,
    children: Vec<(Vec<u8>, ChangeSet)>,
}

impl Overlay {
    /// The changes, now that the block is over.
    ///
    /// Costs the sorting of the keys; keys and values are moved, not copied.
    ///
    /// # Errors
    /// [`TransactionError::StillOpen`] if a transaction is open. The overlay is gone then: what an
    /// unbalanced block changed is not known.
    pub fn freeze(self) -> Result<Frozen, TransactionError> {
        if self.depth() > 0 {
            return Err(TransactionError::StillOpen { open: self.depth() });
        }
        let mut stores = self.stores.into_iter();
        let top = stores
            .next()
            .map_or_else(Vec::new, |store| store.into_changes().1);
        let mut children: Vec<_> = stores
            .filter(|store| store.is_touched())
            .map(|store| store.into_changes())
            .collect();
        children.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Frozen { top, children })
    }
}

impl Frozen {
    /// The changes of `store`, sorted by key; none for a store that was not changed.
    pub fn changes(&self, store: StoreId<'_>) -> impl ExactSizeIterator<Item = Change<'_>> + '_ {
        let changes = match store {
            StoreId::Top => &self.top[..],
            StoreId::Child(key) => {
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
    /// The way to hand them to a database without a copy.
    pub fn into_parts(self) -> (ChangeSet, Vec<(Vec<u8>, ChangeSet)>) {
        (self.top, self.children)
    }
}
