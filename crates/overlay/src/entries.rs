//! The keys of all stores, and what the overlay holds for each.

use crate::{
    dirty::Fate,
    heap::Heap,
    index::{index, NOWHERE},
    key_table::{KeyTable, Near},
    keys::{KeyAt, Keys},
    slot::Slot,
    Change,
};
use alloc::vec::Vec;

/// A key of a store, and what the overlay holds for it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: KeyAt,
    /// Index of the store.
    pub(crate) store: u32,
    /// How many entries its store had when it was added.
    pub(crate) number: u32,
    pub(crate) slot: Slot,
    /// Where the journal keeps the last record of this entry. Means nothing unless that record
    /// names this entry.
    pub(crate) undo_at: u32,
    /// Where the change log names this entry last. Means nothing unless the log does so.
    pub(crate) logged_at: u32,
    /// Whether the order of its store has it, or has it to be put in order.
    pub(crate) listed: bool,
    /// The entry that is to be put in order after this one. Of use to the order alone.
    pub(crate) next: u32,
}

/// Entries by id. None ever goes, so that ids stay valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    list: Vec<Entry>,
    keys: Keys,
    table: KeyTable,
    /// By store, how many entries it has.
    numbers: Vec<u32>,
}

impl Entries {
    /// The id of `key` in the store of index `store`.
    #[inline(always)]
    pub(crate) fn find(&self, store: u32, key: &[u8]) -> Option<u32> {
        match self.near(store, key) {
            Near::Nothing => None,
            Near::Likely(id) => Some(id),
            Near::Unclear => self.find_on(store, key),
        }
    }

    /// As [`KeyTable::near`], with the keys compared.
    #[inline(always)]
    pub(crate) fn near(&self, store: u32, key: &[u8]) -> Near {
        match self.table.near(store, key) {
            Near::Likely(id) => match self.list.get(id as usize) {
                Some(entry) if entry.store == store && self.keys.is(entry.key, key) => {
                    Near::Likely(id)
                }
                _ => Near::Unclear,
            },
            other => other,
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn find_on(&self, store: u32, key: &[u8]) -> Option<u32> {
        self.table.find(store, key, |id| {
            let entry = self.at(id);
            (entry.store == store && self.key(id) == key).then_some(id)
        })
    }

    /// The same; the entry is added if there is none.
    #[inline(always)]
    pub(crate) fn find_or_insert(&mut self, store: u32, key: &[u8]) -> u32 {
        match self.find(store, key) {
            Some(id) => id,
            None => self.insert(store, key),
        }
    }

    /// The number of the next entry of a store.
    fn next_number(&mut self, store: u32) -> u32 {
        let store = store as usize;
        if self.numbers.len() <= store {
            self.numbers.resize(store + 1, 0);
        }
        let number = self.numbers[store];
        self.numbers[store] += 1;
        number
    }

    #[inline(never)]
    fn insert(&mut self, store: u32, key: &[u8]) -> u32 {
        let number = self.next_number(store);
        let Self {
            list, keys, table, ..
        } = self;
        table.insert(store, key, |id| {
            let entry = &list[id as usize];
            (entry.store, keys.get(entry.key))
        });
        let id = index(list.len());
        list.push(Entry {
            key: keys.push(key),
            store,
            number,
            slot: Slot::UNTOUCHED,
            undo_at: NOWHERE,
            logged_at: NOWHERE,
            listed: false,
            next: NOWHERE,
        });
        id
    }

    #[inline(always)]
    pub(crate) fn at(&self, id: u32) -> &Entry {
        &self.list[id as usize]
    }

    #[inline(always)]
    pub(crate) fn at_mut(&mut self, id: u32) -> &mut Entry {
        &mut self.list[id as usize]
    }

    #[inline]
    pub(crate) fn key(&self, id: u32) -> &[u8] {
        self.keys.get(self.at(id).key)
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Entry>() + self.keys.memory() + self.table.memory()
    }

    /// All ids, in the order in which the entries were added.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        0..index(self.list.len())
    }

    /// The bytes of all keys.
    #[inline]
    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The key and what became of it, if something did.
    pub(crate) fn change<'a>(&'a self, id: u32, heap: &'a Heap) -> Option<Change<'a>> {
        let slot = self.at(id).slot;
        let value = slot.value().map(|value| value.as_slice(heap));
        (slot.fate() != Fate::Untouched).then(|| (self.key(id), value))
    }

    /// Forgets all entries; keeps memory for up to `most` of them.
    pub(crate) fn reset(&mut self, most: usize, most_key_bytes: usize) {
        let Self {
            list,
            keys,
            table,
            numbers,
        } = self;
        numbers.clear();
        numbers.shrink_to(most);
        list.clear();
        list.shrink_to(most);
        keys.reset(most_key_bytes);
        table.reset(most);
    }
}

#[cfg(test)]
impl Entries {
    pub(crate) fn tag(&self, key: &[u8]) -> u64 {
        self.table.tag(key)
    }

    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            list,
            keys,
            table,
            numbers,
        } = self;
        assert!(list.is_empty());
        keys.assert_as_new();
        table.assert_as_new();
        assert!(numbers.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_less_than_a_cache_line() {
        assert!(size_of::<Entry>() <= 56, "{}", size_of::<Entry>());
    }
}
