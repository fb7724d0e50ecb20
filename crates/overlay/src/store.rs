//! The stores of the overlay: the top one and the children.

use crate::{
    dirty::Fate,
    entries::{Entries, Entry},
    heap::Heap,
    index::index,
    key_table::KeyTable,
    keys::{KeyAt, Keys},
    order::Order,
    Change,
};
use alloc::vec::Vec;

/// Which store a key lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreId<'a> {
    /// The top store.
    Top,
    /// The child store of this child storage key, without the prefix under which the top store
    /// keeps child roots.
    Child(&'a [u8]),
}

/// What is known of a store besides its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    pub(crate) order: Order,
    /// How many entries hold a value or a deletion.
    touched: usize,
    /// How many entries hold a value.
    valued: usize,
}

impl Store {
    /// Takes note that an entry of this store, which is `entry` by now, held `before`.
    #[inline]
    pub(crate) fn note(&mut self, id: u32, entry: &mut Entry, before: Fate) {
        let after = entry.slot.fate();
        if before == after {
            return;
        }
        let count = |held: usize, fate_counts: fn(Fate) -> bool| {
            held + usize::from(fate_counts(after)) - usize::from(fate_counts(before))
        };
        self.touched = count(self.touched, |fate| fate != Fate::Untouched);
        self.valued = count(self.valued, |fate| fate == Fate::Written);
        if !entry.listed {
            self.order.list(id, entry);
        }
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched > 0
    }

    pub(crate) fn has_values(&self) -> bool {
        self.valued > 0
    }

    /// The changes, sorted by key.
    pub(crate) fn changes<'a>(&self, entries: &'a Entries, heap: &'a Heap) -> Vec<Change<'a>> {
        let mut changes = Vec::with_capacity(self.touched);
        let ids = self.order.ordered().chain(self.order.unordered(entries));
        changes.extend(ids.filter_map(|id| entries.change(id, heap)));
        if !self.order.is_made() {
            changes.sort_unstable_by_key(|&(key, _)| key);
        }
        changes
    }

    fn reset(&mut self, most: usize) {
        let Self {
            order,
            touched,
            valued,
        } = self;
        order.reset(most);
        (*touched, *valued) = (0, 0);
    }
}

/// Index of the top store.
pub(crate) const TOP: u32 = 0;

/// The top store, and child stores in the order of their first write. They stay when all of their
/// changes are rolled back, so that indices stay valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stores {
    top: Store,
    /// With the place of the child storage key.
    children: Vec<(KeyAt, Store)>,
    keys: Keys,
    /// Child storage key to index in `children`.
    table: KeyTable,
}

impl Stores {
    /// The index of the store, if it was ever written to.
    #[inline]
    pub(crate) fn find(&self, store: StoreId<'_>) -> Option<u32> {
        match store {
            StoreId::Top => Some(TOP),
            StoreId::Child(key) => self.find_child(key),
        }
    }

    fn find_child(&self, key: &[u8]) -> Option<u32> {
        let child = self.table.find(TOP, key, |child| {
            let (known, _) = &self.children[child as usize];
            (self.keys.get(*known) == key).then_some(child)
        })?;
        Some(child + 1)
    }

    /// The index of the store, which is made if it is not there.
    #[inline]
    pub(crate) fn find_or_make(&mut self, store: StoreId<'_>) -> u32 {
        match store {
            StoreId::Top => TOP,
            StoreId::Child(key) => self.find_child(key).unwrap_or_else(|| self.make(key)),
        }
    }

    fn make(&mut self, key: &[u8]) -> u32 {
        let Self {
            children,
            keys,
            table,
            ..
        } = self;
        table.insert(TOP, key, |child| {
            (TOP, keys.get(children[child as usize].0))
        });
        let child = index(children.len());
        children.push((keys.push(key), Store::default()));
        child + 1
    }

    #[inline]
    pub(crate) fn at(&self, store: u32) -> &Store {
        match store.checked_sub(1) {
            None => &self.top,
            Some(child) => &self.children[child as usize].1,
        }
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, store: u32) -> &mut Store {
        match store.checked_sub(1) {
            None => &mut self.top,
            Some(child) => &mut self.children[child as usize].1,
        }
    }

    pub(crate) fn id(&self, store: u32) -> StoreId<'_> {
        match store.checked_sub(1) {
            None => StoreId::Top,
            Some(child) => StoreId::Child(self.keys.get(self.children[child as usize].0)),
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

    /// Forgets everything; keeps memory for up to `most` keys of the top store.
    pub(crate) fn reset(&mut self, most: usize, most_key_bytes: usize) {
        let Self {
            top,
            children,
            keys,
            table,
        } = self;
        top.reset(most);
        children.clear();
        children.shrink_to(most);
        keys.reset(most_key_bytes);
        table.reset(most);
    }
}

#[cfg(test)]
impl Stores {
    pub(crate) fn tag(&self, key: &[u8]) -> u64 {
        self.table.tag(key)
    }

    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            top:
                Store {
                    order,
                    touched,
                    valued,
                },
            children,
            keys,
            table,
        } = self;
        order.assert_as_new();
        assert_eq!((*touched, *valued), (0, 0));
        assert!(children.is_empty());
        keys.assert_as_new();
        table.assert_as_new();
    }
}
