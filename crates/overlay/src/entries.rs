//! The keys of all stores, and what the overlay holds for each.

use crate::{
    heap::Heap,
    index::{index, NOWHERE},
    key_table::{KeyTable, Near},
    keys::{KeyAt, Keys},
    order::{Order, Place},
    slot::Slot,
    Change,
};
use alloc::vec::Vec;
use core::cmp::Ordering;
use povmeter_primitives::Fate;

/// A key of a store, and what the overlay holds for it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: KeyAt,
    /// Index of the store.
    pub(crate) store: u32,
    /// How many entries its store had when this one was added.
    pub(crate) number: u32,
    pub(crate) slot: Slot,
    /// The place of the last journal record of this entry. Stale if the record at that place is of
    /// another entry.
    pub(crate) undo_at: u32,
    /// The place of this entry in the log of dirty keys. Stale if the log has another entry there.
    pub(crate) logged_at: u32,
}

/// Entries by id. None is removed, so an id is valid until the overlay is reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    list: Vec<Entry>,
    keys: Keys,
    table: KeyTable,
    /// Those that hold a value or a deletion, by store and key.
    order: Order,
    /// By store, how many entries it has.
    numbers: Vec<u32>,
}

impl Entries {
    /// The id of `key` in the store of index `store`.
    #[inline(always)]
    pub(crate) fn find(&self, store: u32, key: &[u8]) -> Option<u32> {
        match self.table.near(store, key) {
            Near::Nothing => None,
            Near::Likely(id) if self.is(id, store, key) => Some(id),
            Near::Likely(_) | Near::Unclear => {
                self.table.find(store, key, |id| self.is(id, store, key))
            }
        }
    }

    /// Whether `id` is that of `key` in the store of index `store`. No entry has [`NOWHERE`].
    #[inline(always)]
    fn is(&self, id: u32, store: u32, key: &[u8]) -> bool {
        let entry = self.list.get(id as usize);
        entry.is_some_and(|entry| entry.store == store && self.keys.is(entry.key, key))
    }

    /// The id of `key` in the store of index `store`, which is added if it is missing.
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
        let id = index(list.len());
        list.push(Entry {
            key: keys.push(key),
            store,
            number,
            slot: Slot::UNTOUCHED,
            undo_at: NOWHERE,
            logged_at: NOWHERE,
        });
        table.insert(id, |id| {
            let entry = &list[id as usize];
            (entry.store, keys.get(entry.key))
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
        self.list.capacity() * size_of::<Entry>()
            + self.keys.memory()
            + self.table.memory()
            + self.order.memory()
    }

    /// Keeps the order up to date: `id` held `before`.
    #[inline]
    pub(crate) fn note(&mut self, id: u32, before: Fate) {
        let is_touched = self.at(id).slot.fate() != Fate::Untouched;
        if is_touched == (before != Fate::Untouched) {
            return;
        }
        let entry = self.at(id);
        let place = self.place(entry.store, self.keys.get(entry.key), false);
        if is_touched {
            self.order.insert(place, id);
        } else {
            self.order.remove(place);
        }
    }

    /// The ids of the entries of `store` that hold something, sorted by key: those from `key` on, or
    /// those behind it.
    pub(crate) fn ids_from<'a>(
        &'a self,
        store: u32,
        key: &[u8],
        behind: bool,
    ) -> impl Iterator<Item = u32> + 'a {
        let ids = self.order.from(self.place(store, key, behind));
        ids.take_while(move |id| self.at(*id).store == store)
    }

    #[inline]
    fn place(&self, store: u32, key: &[u8], behind: bool) -> Place {
        self.order.place(|id| {
            let entry = self.at(id);
            match (entry.store, self.keys.get(entry.key)).cmp(&(store, key)) {
                Ordering::Less => true,
                Ordering::Equal => behind,
                Ordering::Greater => false,
            }
        })
    }

    /// The key of `id` and its value or deletion; `None` if the entry holds neither.
    pub(crate) fn change<'a>(&'a self, id: u32, heap: &'a Heap) -> Option<Change<'a>> {
        let slot = self.at(id).slot;
        let value = slot.value().map(|value| value.as_slice(heap));
        (slot.fate() != Fate::Untouched).then(|| (self.key(id), value))
    }

    /// Removes all entries; keeps memory for up to `most` of them.
    pub(crate) fn reset(&mut self, most: usize, most_key_bytes: usize) {
        let Self {
            list,
            keys,
            table,
            order,
            numbers,
        } = self;
        numbers.clear();
        numbers.shrink_to(most);
        list.clear();
        list.shrink_to(most);
        keys.reset(most_key_bytes);
        table.reset(most);
        order.reset(2 * most);
    }
}

#[cfg(test)]
impl Entries {
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.table.hash(key)
    }

    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            list,
            keys,
            table,
            order,
            numbers,
        } = self;
        assert!(list.is_empty());
        keys.assert_as_new();
        table.assert_as_new();
        order.assert_as_new();
        assert!(numbers.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_40_bytes() {
        assert!(size_of::<Entry>() <= 40, "{}", size_of::<Entry>());
    }
}
