//! The keys of a store in order.

use crate::store::Entry;
use alloc::{boxed::Box, collections::BTreeMap};
use core::ops::Bound;

/// The entry ids of a store by key, as far as somebody needed the order.
///
/// Entries never leave a store and keep their ids, so the index is only ever behind by the entries
/// added last. Writes leave it alone; whoever needs the order lets it catch up first. Entries that
/// hold nothing are in it too.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderedKeys {
    ids: BTreeMap<Box<[u8]>, usize>,
}

impl OrderedKeys {
    /// Takes in what was added to `entries` since the last time.
    pub(crate) fn catch_up(&mut self, entries: &[Entry]) {
        let known = self.ids.len();
        let added = || {
            entries
                .iter()
                .enumerate()
                .skip(known)
                .map(|(id, entry)| (entry.key.clone(), id))
        };
        if known == 0 {
            // Collecting sorts once, instead of searching the place of every key.
            self.ids = added().collect();
        } else {
            self.ids.extend(added());
        }
    }

    /// The ids of the keys after `key`, in key order.
    pub(crate) fn after(&self, key: &[u8]) -> impl Iterator<Item = usize> + '_ {
        self.ids
            .range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded))
            .map(|(_, &id)| id)
    }

    /// The ids of the keys that start with `prefix`, in key order.
    pub(crate) fn with_prefix<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        self.ids
            .range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, &id)| id)
    }
}
