//! The stores of the overlay: the top one and the children.

use crate::{
    entries::Entries,
    index::index,
    key_table::{KeyTable, Near},
    keys::{KeyAt, Keys},
};
use alloc::vec::Vec;
use povmeter_primitives::{Fate, TrieId};

/// How many entries of a store hold something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Store {
    /// How many entries hold a value or a deletion.
    touched: usize,
    /// How many entries hold a value.
    valued: usize,
}

impl Store {
    /// Counts an entry of this store that held `before` and now holds `after`.
    #[inline]
    fn note(&mut self, before: Fate, after: Fate) {
        let count = |held: usize, fate_counts: fn(Fate) -> bool| {
            held + usize::from(fate_counts(after)) - usize::from(fate_counts(before))
        };
        self.touched = count(self.touched, |fate| fate != Fate::Untouched);
        self.valued = count(self.valued, |fate| fate == Fate::Written);
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched > 0
    }

    pub(crate) fn touched(&self) -> usize {
        self.touched
    }

    pub(crate) fn has_values(&self) -> bool {
        self.valued > 0
    }
}

/// Index of the top store.
pub(crate) const TOP: u32 = 0;

/// The top store, and child stores in the order of their first write. A child store whose changes are all
/// rolled back keeps its index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stores {
    top: Store,
    /// Each with the place of its child storage key.
    children: Vec<(KeyAt, Store)>,
    keys: Keys,
    /// Child storage key to index in `children`.
    table: KeyTable,
}

impl Stores {
    /// The index of the store, if it was ever written to.
    #[inline]
    pub(crate) fn find(&self, store: TrieId<'_>) -> Option<u32> {
        match store {
            TrieId::Top => Some(TOP),
            TrieId::Child(key) => self.find_child(key),
        }
    }

    fn find_child(&self, key: &[u8]) -> Option<u32> {
        let is_it = |child: u32| {
            let known = self.children.get(child as usize);
            known.is_some_and(|(known, _)| self.keys.is(*known, key))
        };
        let child = match self.table.near(TOP, key) {
            Near::Nothing => return None,
            Near::Likely(child) if is_it(child) => child,
            Near::Likely(_) | Near::Unclear => self.table.find(TOP, key, is_it)?,
        };
        Some(child + 1)
    }

    /// The index of the store, which is added if it is missing.
    #[inline]
    pub(crate) fn find_or_add(&mut self, store: TrieId<'_>) -> u32 {
        match store {
            TrieId::Top => TOP,
            TrieId::Child(key) => self.find_child(key).unwrap_or_else(|| self.add(key)),
        }
    }

    fn add(&mut self, key: &[u8]) -> u32 {
        let Self {
            children,
            keys,
            table,
            ..
        } = self;
        let child = index(children.len());
        children.push((keys.push(key), Store::default()));
        table.insert(child, |child| (TOP, keys.get(children[child as usize].0)));
        child + 1
    }

    #[inline]
    pub(crate) fn at(&self, store: u32) -> &Store {
        match store.checked_sub(1) {
            None => &self.top,
            Some(child) => &self.children[child as usize].1,
        }
    }

    /// Brings counts and order up to date after the entry of `id`, which held `before`, was changed.
    #[inline]
    pub(crate) fn note(&mut self, entries: &mut Entries, id: u32, before: Fate) {
        let entry = entries.at(id);
        let (store, after) = (entry.store, entry.slot.fate());
        if before != after {
            self.at_mut(store).note(before, after);
            entries.note(id, before);
        }
    }

    #[inline]
    fn at_mut(&mut self, store: u32) -> &mut Store {
        match store.checked_sub(1) {
            None => &mut self.top,
            Some(child) => &mut self.children[child as usize].1,
        }
    }

    pub(crate) fn id(&self, store: u32) -> TrieId<'_> {
        match store.checked_sub(1) {
            None => TrieId::Top,
            Some(child) => TrieId::Child(self.keys.get(self.children[child as usize].0)),
        }
    }

    /// Child storage keys and stores, in the order of their first write.
    pub(crate) fn children(&self) -> impl Iterator<Item = (&[u8], &Store)> {
        let children = self.children.iter();
        children.map(|(key, store)| (self.keys.get(*key), store))
    }

    pub(crate) fn top(&self) -> &Store {
        &self.top
    }

    /// Removes all stores; keeps memory for up to `most` of them.
    pub(crate) fn reset(&mut self, most: usize, most_key_bytes: usize) {
        let Self {
            top,
            children,
            keys,
            table,
        } = self;
        *top = Store::default();
        children.clear();
        children.shrink_to(most);
        keys.reset(most_key_bytes);
        table.reset(most);
    }
}

#[cfg(test)]
impl Stores {
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.table.hash(key)
    }

    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            top: Store { touched, valued },
            children,
            keys,
            table,
        } = self;
        assert_eq!((*touched, *valued), (0, 0));
        assert!(children.is_empty());
        keys.assert_as_new();
        table.assert_as_new();
    }
}
