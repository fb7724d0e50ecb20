//! One store of the overlay: the top one or a child.

use crate::{
    dirty::Fate, key_table::KeyTable, ordered_keys::OrderedKeys, value::Value, Change, ChangeSet,
    Lookup,
};
use alloc::{boxed::Box, vec::Vec};

/// Which store a key lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreId<'a> {
    /// The top store.
    Top,
    /// The child store of this child storage key, without the prefix under which the top store
    /// keeps child roots.
    Child(&'a [u8]),
}

/// An entry of the overlay, for as long as the overlay lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryId {
    pub(crate) store: usize,
    pub(crate) entry: usize,
}

/// What the overlay holds for a key.
#[derive(Clone, Debug, Default)]
pub(crate) enum Slot {
    /// Nothing: every change of the key was rolled back.
    #[default]
    Untouched,
    Deleted,
    Value(Value),
}

impl Slot {
    pub(crate) fn fate(&self) -> Fate {
        match self {
            Self::Untouched => Fate::Untouched,
            Self::Deleted => Fate::Deleted,
            Self::Value(_) => Fate::Written,
        }
    }
}

/// Where an entry has no record in the journal, or none in the change log.
pub(crate) const NOWHERE: usize = usize::MAX;

/// A key and what the overlay holds for it. One cache line.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Box<[u8]>,
    pub(crate) slot: Slot,
    /// Where the journal keeps the last record of this entry. Means nothing unless that record
    /// names this entry.
    pub(crate) undo_at: usize,
    /// Where the change log names this entry last. Means nothing unless the log does so.
    pub(crate) logged_at: usize,
}

impl Entry {
    fn change(&self) -> Option<Change<'_>> {
        match &self.slot {
            Slot::Untouched => None,
            Slot::Deleted => Some((&self.key, None)),
            Slot::Value(value) => Some((&self.key, Some(value.as_slice()))),
        }
    }
}

/// The entries of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    /// The child storage key; empty for the top store.
    pub(crate) key: Box<[u8]>,
    entries: Vec<Entry>,
    table: KeyTable,
    ordered: OrderedKeys,
    /// How many entries hold a value or a deletion.
    touched: usize,
    /// How many entries hold a value.
    valued: usize,
}

impl Store {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self {
            key: key.into(),
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        self.table.find(key, |id| &self.entries[id].key)
    }

    /// The id of the entry of `key`, which is added if there is none.
    pub(crate) fn find_or_insert(&mut self, key: &[u8]) -> usize {
        let entries = &self.entries;
        let id = self
            .table
            .find_or_insert(key, entries.len(), |id| &entries[id].key);
        if id == self.entries.len() {
            self.entries.push(Entry {
                key: key.into(),
                slot: Slot::Untouched,
                undo_at: NOWHERE,
                logged_at: NOWHERE,
            });
        }
        id
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Lookup<'_> {
        match self.find(key).map(|id| &self.entries[id].slot) {
            None | Some(Slot::Untouched) => Lookup::Untouched,
            Some(Slot::Deleted) => Lookup::Deleted,
            Some(Slot::Value(value)) => Lookup::Value(value.as_slice()),
        }
    }

    pub(crate) fn entry(&self, id: usize) -> &Entry {
        &self.entries[id]
    }

    /// For changes that keep the fate of the entry.
    pub(crate) fn entry_mut(&mut self, id: usize) -> &mut Entry {
        &mut self.entries[id]
    }

    /// What `change` returns, with the counts of this store kept right.
    #[inline]
    pub(crate) fn change_entry<R>(&mut self, id: usize, change: impl FnOnce(&mut Entry) -> R) -> R {
        let entry = &mut self.entries[id];
        let before = entry.slot.fate();
        let result = change(entry);
        let after = entry.slot.fate();
        let count = |held: usize, fate_counts: fn(Fate) -> bool| {
            held + usize::from(fate_counts(after)) - usize::from(fate_counts(before))
        };
        self.touched = count(self.touched, |fate| fate != Fate::Untouched);
        self.valued = count(self.valued, |fate| fate == Fate::Written);
        result
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched > 0
    }

    pub(crate) fn has_values(&self) -> bool {
        self.valued > 0
    }

    /// The entries with a value whose keys start with `prefix`, in key order.
    pub(crate) fn valued_with_prefix(&mut self, prefix: &[u8]) -> Vec<usize> {
        self.ordered.catch_up(&self.entries);
        let valued = |&id: &usize| self.entries[id].slot.fate() == Fate::Written;
        self.ordered.with_prefix(prefix).filter(valued).collect()
    }

    /// The first change after `key`, in key order.
    pub(crate) fn next_after(&mut self, key: &[u8]) -> Option<Change<'_>> {
        self.ordered.catch_up(&self.entries);
        self.ordered
            .after(key)
            .find_map(|id| self.entries[id].change())
    }

    /// The changes, sorted by key.
    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
        let mut changes = Vec::with_capacity(self.touched);
        changes.extend(self.entries.iter().filter_map(Entry::change));
        changes.sort_unstable_by_key(|&(key, _)| key);
        changes
    }

    /// The child storage key and the changes, sorted by key, out of their buffers.
    pub(crate) fn into_changes(self) -> (Vec<u8>, ChangeSet) {
        let mut changes = Vec::with_capacity(self.touched);
        changes.extend(
            self.entries
                .into_iter()
                .filter_map(|entry| match entry.slot {
                    Slot::Untouched => None,
                    Slot::Deleted => Some((entry.key.into_vec(), None)),
                    Slot::Value(value) => Some((entry.key.into_vec(), Some(value.into_vec()))),
                }),
        );
        changes.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        (self.key.into_vec(), changes)
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }
}
