//! The keys of all stores, and what the overlay holds for each.

use crate::{
    dirty::Fate,
    heap::Heap,
    index::{index, NOWHERE},
    key_hash::KeyHash,
    key_table::KeyTable,
    keys::{KeyAt, Keys},
    value::Value,
    Change, Lookup,
};
use alloc::vec::Vec;

/// What the overlay holds for a key. A [`Value`] that is replaced must be freed or kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Slot {
    /// Nothing: every change of the key was rolled back.
    #[default]
    Untouched,
    Deleted,
    Value(Value),
}

impl Slot {
    #[inline]
    pub(crate) fn fate(&self) -> Fate {
        match self {
            Self::Untouched => Fate::Untouched,
            Self::Deleted => Fate::Deleted,
            Self::Value(_) => Fate::Written,
        }
    }

    pub(crate) fn free(self, heap: &mut Heap) {
        if let Self::Value(value) = self {
            value.free(heap);
        }
    }
}

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
    seeds: KeyHash,
    recent: Recent,
    /// By store, how many entries it has.
    numbers: Vec<u32>,
}

/// What the ends of keys tell: for keys that a runtime asks for again and again, and for most of those
/// that it has not written, which is nearly all that it does, this spares the hash.
///
/// Keys that end alike share places here, which costs no more than the look.
#[derive(Clone, Debug)]
struct Recent {
    /// Entries written lately.
    entries: [RecentEntry; 1 << Recent::BITS],
    /// A bit for each end, set if a key may end so.
    ends: [u64; 1 << (Recent::END_BITS - 6)],
}

#[derive(Clone, Copy, Debug)]
struct RecentEntry {
    end: u64,
    id: u32,
    store: u32,
}

impl Recent {
    const BITS: u32 = 6;
    /// As many ends as a kilobyte has bits: a block of some thousand keys sets few of them.
    const END_BITS: u32 = 13;

    /// What tells keys apart well enough, and the places for it.
    #[inline(always)]
    fn place(key: &[u8]) -> End {
        let end = key.last_chunk().copied().map_or(0, u64::from_le_bytes);
        let [.., low, high] = end.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let mixed = usize::from(u16::from_le_bytes([low, high]));
        End {
            end,
            entry: mixed >> (16 - Self::BITS),
            word: mixed >> (16 - Self::END_BITS + 6),
            bit: 1 << (mixed >> (16 - Self::END_BITS) & 63),
        }
    }

    /// Whether no key ends so.
    #[inline(always)]
    fn is_new(&self, end: &End) -> bool {
        self.ends[end.word] & end.bit == 0
    }
}

/// The end of a key; see [`Recent::place`].
struct End {
    end: u64,
    entry: usize,
    word: usize,
    bit: u64,
}

impl Default for Recent {
    fn default() -> Self {
        let none = RecentEntry {
            end: 0,
            id: NOWHERE,
            store: NOWHERE,
        };
        Self {
            entries: [none; 1 << Self::BITS],
            ends: [0; 1 << (Self::END_BITS - 6)],
        }
    }
}

impl Entries {
    /// The entry of `key` in the store of index `store`.
    #[inline]
    pub(crate) fn find(&self, store: u32, key: &[u8]) -> Option<u32> {
        let end = Recent::place(key);
        if self.recent.is_new(&end) {
            return None;
        }
        let recent = &self.recent.entries[end.entry];
        if recent.end == end.end && recent.store == store && self.has_key(recent.id, key) {
            return Some(recent.id);
        }
        self.find_hashed(self.hash(store, key), store, key)
    }

    /// The same; the entry is added if there is none.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, store: u32, key: &[u8]) -> u32 {
        let place = Recent::place(key);
        let recent = &self.recent.entries[place.entry];
        if recent.end == place.end && recent.store == store && self.has_key(recent.id, key) {
            return recent.id;
        }
        let id = self.find_or_insert_hashed(store, key);
        let End { end, entry, .. } = place;
        self.recent.entries[entry] = RecentEntry { end, id, store };
        self.recent.ends[place.word] |= place.bit;
        id
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

    /// Whether `key` is that of entry `id`.
    #[inline(always)]
    fn has_key(&self, id: u32, key: &[u8]) -> bool {
        self.keys.get(self.at(id).key) == key
    }

    fn find_hashed(&self, hash: u32, store: u32, key: &[u8]) -> Option<u32> {
        self.table.find(hash, |id| {
            self.at(id).store == store && self.has_key(id, key)
        })
    }

    fn find_or_insert_hashed(&mut self, store: u32, key: &[u8]) -> u32 {
        let hash = self.hash(store, key);
        self.find_hashed(hash, store, key)
            .unwrap_or_else(|| self.insert(hash, store, key))
    }

    fn insert(&mut self, hash: u32, store: u32, key: &[u8]) -> u32 {
        let number = self.next_number(store);
        let Self {
            list, keys, table, ..
        } = self;
        let id = index(list.len());
        list.push(Entry {
            key: keys.push(key),
            store,
            number,
            slot: Slot::Untouched,
            undo_at: NOWHERE,
            logged_at: NOWHERE,
            listed: false,
            next: NOWHERE,
        });
        table.insert(hash, id);
        id
    }

    /// The same key in another store is another key.
    fn hash(&self, store: u32, key: &[u8]) -> u32 {
        self.seeds.hash(key) ^ store.wrapping_mul(0x9e37_79b1)
    }

    #[inline]
    pub(crate) fn at(&self, id: u32) -> &Entry {
        &self.list[id as usize]
    }

    #[inline]
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
        match self.at(id).slot {
            Slot::Untouched => None,
            Slot::Deleted => Some((self.key(id), None)),
            Slot::Value(value) => Some((self.key(id), Some(value.as_slice(heap)))),
        }
    }

    /// Forgets all entries; keeps memory for up to `most` of them.
    pub(crate) fn reset(&mut self, most: usize, most_key_bytes: usize) {
        let Self {
            list,
            keys,
            table,
            seeds,
            recent,
            numbers,
        } = self;
        numbers.clear();
        numbers.shrink_to(most);
        *recent = Recent::default();
        *seeds = KeyHash::default();
        list.clear();
        list.shrink_to(most);
        keys.reset(most_key_bytes);
        table.reset(most);
    }
}

impl Slot {
    #[inline]
    pub(crate) fn lookup(self, heap: &Heap) -> Lookup<'_> {
        match self {
            Self::Untouched => Lookup::Untouched,
            Self::Deleted => Lookup::Deleted,
            Self::Value(value) => Lookup::Value(value.as_slice(heap)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_less_than_a_cache_line() {
        assert!(size_of::<Entry>() <= 52, "{}", size_of::<Entry>());
    }
}
