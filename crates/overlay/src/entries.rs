//! The keys of all stores, and what the overlay holds for each.

use crate::{
    heap::Heap,
    index::{index, NOWHERE},
    key_table::{KeyTable, Near},
    keys::{KeyAt, Keys},
    order::{KeyOrder, StoreKey},
    slot::Slot,
    Change,
};
use alloc::vec::Vec;
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
    /// The ids of entries that hold a value or a deletion, by store and key.
    order: KeyOrder,
    /// By id, the next id in the order, or [`NOWHERE`]. Stale for an id that is not in the order.
    next: Vec<u32>,
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

    /// Whether `id` is that of `key` in the store of index `store`. [`NOWHERE`] is the id of no entry.
    #[inline(always)]
    fn is(&self, id: u32, store: u32, key: &[u8]) -> bool {
        let entry = self.list.get(id as usize);
        entry.is_some_and(|entry| entry.store == store && self.keys.is(entry.key, key))
    }

    /// The id of `key` in the store of index `store`. Adds the key if it is missing.
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
            list,
            keys,
            table,
            next,
            ..
        } = self;
        let id = index(list.len());
        next.push(NOWHERE);
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

    /// How many entries there are. Their ids are all smaller numbers.
    pub(crate) fn len(&self) -> u32 {
        index(self.list.len())
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
            + self.next.capacity() * size_of::<u32>()
    }

    /// Updates the order after entry `id`, which held `before`, was changed.
    #[inline]
    pub(crate) fn note(&mut self, id: u32, before: Fate) {
        let is_touched = self.at(id).slot.fate() != Fate::Untouched;
        if is_touched == (before != Fate::Untouched) {
            return;
        }
        let place = self
            .order
            .place(self.store_key(id), false, |id| self.store_key(id));
        let previous = self.order.before(place);
        if is_touched {
            let first = || self.order.from(place).next().unwrap_or(NOWHERE);
            self.next[id as usize] = previous.map_or_else(first, |id| self.next[id as usize]);
            let Self {
                list, keys, order, ..
            } = self;
            order.insert(place, id, |id| store_key(list, keys, id));
        } else {
            self.order.remove(place);
        }
        if let Some(previous) = previous {
            let next = self.next[id as usize];
            self.next[previous as usize] = if is_touched { id } else { next };
        }
    }

    /// The ids of the entries of `store` that hold something, sorted by key: those from `key` on or, if
    /// `behind`, those after it.
    pub(crate) fn ids_from<'a>(
        &'a self,
        store: u32,
        key: &[u8],
        behind: bool,
    ) -> impl Iterator<Item = u32> + 'a {
        let sought = StoreKey { store, key };
        let place = self.order.place(sought, behind, |id| self.store_key(id));
        let ids = self.order.from(place);
        ids.take_while(move |id| self.at(*id).store == store)
    }

    /// The id of the first entry of `store` after `key` that holds something.
    ///
    /// Costs a look-up if the entry of `key` holds something, as when the caller has just changed `key`.
    #[inline]
    pub(crate) fn id_behind(&self, store: u32, key: &[u8]) -> Option<u32> {
        let known = self.find(store, key);
        match known.filter(|id| self.at(*id).slot.fate() != Fate::Untouched) {
            Some(id) => {
                let next = self.next[id as usize];
                let entry = self.list.get(next as usize)?;
                (entry.store == store).then_some(next)
            }
            None => self.ids_from(store, key, true).next(),
        }
    }

    /// The store and the key that `id` is sorted by.
    #[inline(always)]
    fn store_key(&self, id: u32) -> StoreKey<'_> {
        store_key(&self.list, &self.keys, id)
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
            next,
            numbers,
        } = self;
        numbers.clear();
        numbers.shrink_to(most);
        next.clear();
        next.shrink_to(most);
        list.clear();
        list.shrink_to(most);
        keys.reset(most_key_bytes);
        table.reset(most);
        order.reset(2 * most);
    }
}

/// The store and the key that entry `id` of `list` is sorted by.
#[inline(always)]
fn store_key<'k>(list: &[Entry], keys: &'k Keys, id: u32) -> StoreKey<'k> {
    let entry = &list[id as usize];
    StoreKey {
        store: entry.store,
        key: keys.get(entry.key),
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
            next,
            numbers,
        } = self;
        assert!(next.is_empty());
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
