//! Key to id.
//!
//! ```text
//! slots:   a tag of a key, and its id; at most half of them are taken, and none is ever freed
//! near:    the NEAR slots from the one that a glance at the key tells
//! far:     all slots, round and round, from the one that the hash of the key tells
//!
//! find:    near: a free slot?  there is no such key
//!                a slot with the tag of the glance?  compare the keys
//!          all taken by others: the same far, with the hash for a tag
//! insert:  take the first free slot that `find` comes by
//! ```
//!
//! A glance takes in 16 bytes, which tell the keys of a runtime apart, so that hardly a key is ever
//! hashed. Keys made to look alike fill the few places near; all others of them are where their hash
//! says, and cost a hash more.

use crate::{index::NOWHERE, key_hash::KeyHash};
use alloc::vec::Vec;

/// A hash table from keys to the ids under which somebody else keeps them: ids from zero on, in the
/// order of [`KeyTable::insert`].
///
/// Nothing reads the table in its own order, so the seeds of the hash show in no result.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    /// A power of two of them; none at first.
    buckets: Vec<Bucket>,
    taken: u32,
    /// Drawn together with the first slots.
    seeds: KeyHash,
}

/// Slots that lie together, taken from the first on.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Bucket([Slot; NEAR]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    tag: u32,
    id: u32,
}

/// What is known after a look at the slots near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    /// There is no such key.
    Nothing,
    /// If there is, then it most likely has this id, which may be none at all; if it has not, ask
    /// [`KeyTable::find`].
    Likely(u32),
    /// Ask [`KeyTable::find`].
    Unclear,
}

/// No id: an arena is full before.
const FREE: Slot = Slot {
    tag: 0,
    id: NOWHERE,
};

/// Slots to look at before all of a key is hashed: half a cache line.
const NEAR: usize = 4;
/// Buckets to begin with.
const FEWEST: usize = 4;

impl KeyTable {
    /// What the slots near tell of `key` in `store`.
    #[inline(always)]
    pub(crate) fn near(&self, store: u32, key: &[u8]) -> Near {
        let tag = self.glance(store, key);
        let Some(bucket) = self.buckets.get(self.place_of(tag)) else {
            return Near::Nothing;
        };
        // Not up to the first free slot only: a processor guesses better how far this goes.
        for slot in &bucket.0 {
            if slot.tag == tag {
                return Near::Likely(slot.id);
            }
        }
        if bucket.0[NEAR - 1].id == FREE.id {
            return Near::Nothing;
        }
        Near::Unclear
    }

    /// What `is_it` makes of the id of `key` in `store`: the one of which it makes something.
    #[cold]
    #[inline(never)]
    pub(crate) fn find<T>(
        &self,
        store: u32,
        key: &[u8],
        is_it: impl Fn(u32) -> Option<T>,
    ) -> Option<T> {
        let (tag, hash) = (self.glance(store, key), self.hash(store, key));
        let near = self.buckets.get(self.place_of(tag))?.0.iter();
        let (before, from) = self.buckets.split_at(self.place_of(hash));
        let far = from.iter().chain(before).flat_map(|bucket| &bucket.0);
        let near = near.map(|slot| (slot, tag));
        let slots = near.chain(far.map(|slot| (slot, hash)));
        let taken = slots.take_while(|(slot, _)| slot.id != FREE.id);
        let mut likely = taken.filter(|(slot, tag)| slot.tag == *tag);
        likely.find_map(|(slot, _)| is_it(slot.id))
    }

    /// Gives the next id to a key that has none yet. `known` tells stores and keys of the ids before.
    pub(crate) fn insert<'a>(
        &mut self,
        store: u32,
        key: &[u8],
        known: impl Fn(u32) -> (u32, &'a [u8]),
    ) {
        if self.taken as usize >= self.buckets.len() * NEAR / 2 {
            self.grow(known);
        }
        self.place(store, key, self.taken);
        self.taken += 1;
    }

    #[cold]
    fn grow<'a>(&mut self, known: impl Fn(u32) -> (u32, &'a [u8])) {
        if self.buckets.is_empty() {
            self.seeds = KeyHash::drawn();
        }
        let more = (self.buckets.len() * 2).max(FEWEST);
        self.buckets = alloc::vec![Bucket([FREE; NEAR]); more];
        for id in 0..self.taken {
            let (store, key) = known(id);
            self.place(store, key, id);
        }
    }

    /// Puts `id` where `find` comes by; there is a free slot.
    fn place(&mut self, store: u32, key: &[u8], id: u32) {
        let is_free = |slot: &&mut Slot| slot.id == FREE.id;
        let tag = self.glance(store, key);
        let at = self.place_of(tag);
        if let Some(slot) = self.buckets[at].0.iter_mut().find(is_free) {
            *slot = Slot { tag, id };
            return;
        }
        let tag = self.hash(store, key);
        let at = self.place_of(tag);
        let (before, from) = self.buckets.split_at_mut(at);
        let mut slots = from
            .iter_mut()
            .chain(before)
            .flat_map(|bucket| &mut bucket.0);
        if let Some(slot) = slots.find(is_free) {
            *slot = Slot { tag, id };
        }
    }

    #[inline(always)]
    fn glance(&self, store: u32, key: &[u8]) -> u32 {
        self.seeds.glance(key) ^ spread(store)
    }

    fn hash(&self, store: u32, key: &[u8]) -> u32 {
        self.seeds.hash(key) ^ spread(store)
    }

    /// The bucket that `tag` tells; of none, one that is not there.
    #[inline(always)]
    fn place_of(&self, tag: u32) -> usize {
        tag as usize & self.buckets.len().wrapping_sub(1)
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Forgets all ids, and draws other seeds. Keeps memory for up to `most` ids.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            buckets,
            taken,
            seeds,
        } = self;
        *taken = 0;
        *seeds = KeyHash::drawn();
        if buckets.len() > most {
            *buckets = Vec::new();
        } else {
            buckets.fill(Bucket([FREE; NEAR]));
        }
    }
}

/// Keeps the keys of stores apart; those of the top store are as they are.
#[inline(always)]
fn spread(store: u32) -> u32 {
    store.wrapping_mul(0x9e37_79b1)
}

#[cfg(test)]
impl KeyTable {
    /// What the seeds make of a key.
    pub(crate) fn tag(&self, key: &[u8]) -> u64 {
        u64::from(self.glance(0, key)) << 32 | u64::from(self.hash(0, key))
    }

    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            buckets,
            taken,
            seeds: _,
        } = self;
        assert_eq!(*taken, 0);
        let mut slots = buckets.iter().flat_map(|bucket| bucket.0);
        assert!(slots.all(|slot| slot == FREE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Keys that differ in the four bytes from `at` on.
    fn keys(count: u32, len: usize, at: usize) -> Vec<Vec<u8>> {
        let key = |i: u32| {
            let mut key = alloc::vec![7; len];
            key[at..at + 4].copy_from_slice(&i.to_le_bytes());
            key
        };
        (0..count).map(key).collect()
    }

    fn filled(keys: &[Vec<u8>]) -> KeyTable {
        let mut table = KeyTable::default();
        let find = |table: &KeyTable, store, key: &[u8]| {
            let is_it = |id: u32| (id % 3 == store && keys[id as usize] == key).then_some(id);
            table.find(store, key, is_it)
        };
        for (id, key) in (0..).zip(keys) {
            assert_eq!(find(&table, id % 3, key), None);
            table.insert(id % 3, key, |id| (id % 3, &keys[id as usize]));
            if id == 0 {
                // Seeds under which it shows each time the same.
                table.seeds = KeyHash::known(1);
                table.buckets.fill(Bucket([FREE; NEAR]));
                table.place(0, key, 0);
            }
            assert!(NEAR * table.buckets.len() >= 2 * table.taken as usize);
        }
        for (id, key) in (0..).zip(keys) {
            for store in 0..4 {
                let its = id % 3 == store;
                assert_eq!(find(&table, store, key), its.then_some(id));
            }
        }
        table
    }

    /// How many keys lie where the hash says.
    fn far(table: &KeyTable, keys: &[Vec<u8>]) -> usize {
        let is_far = |(id, key): &(u32, &Vec<u8>)| {
            let near = &table.buckets[table.place_of(table.glance(id % 3, key))];
            near.0.iter().all(|slot| slot.id != *id)
        };
        (0..).zip(keys).filter(is_far).count()
    }

    #[test]
    fn keys_are_found_near() {
        for (len, at) in [
            (4, 0),
            (7, 3),
            (8, 4),
            (16, 5),
            (36, 32),
            (44, 34),
            (80, 33),
            (80, 74),
        ] {
            let keys = keys(2_000, len, at);
            let far = far(&filled(&keys), &keys);
            assert!(far < 100, "{len}, {at}: {far}");
        }
    }

    #[test]
    fn keys_that_look_alike_are_found_far() {
        let keys = keys(2_000, 80, 50);
        let far = far(&filled(&keys), &keys);
        assert!(far > 1_900, "{far}");
    }
}
