//! Finds the id of a key.
//!
//! ```text
//! slots:    a tag (32 bits of a hash) and an id each; at most half are in use; none is ever freed
//! near:     the bucket of NEAR slots that the hash of a sample of the key selects; filled from its start
//! far:      all slots, in a circle from the bucket that the hash of the whole key selects
//!
//! find:     near: a slot with the tag of the sample?  compare the keys
//!                 a free slot?  the table does not have the key
//!           otherwise the same in far, with the hash of the whole key as the tag
//! insert:   uses the first free slot that `find` would reach
//! ```
//!
//! The sample is made of the bytes in which the keys of a runtime differ, so that most keys are never hashed as a
//! whole. Keys that share a sample, by chance or by intent, fill one bucket; the rest of them lie where
//! the hash of the whole key says, and cost one more hash.
//!
//! The hash is foldhash's quality variant, because few bits select a bucket: with some seeds of the fast
//! variant, a tenth of the keys of a map that count up do not fit into their buckets.
//!
//! Why not `hashbrown::HashTable`: with it, and the same hash over whole keys, a block of 544 transfers
//! takes 1.3 % more instructions (callgrind, November 2026).

use crate::index::NOWHERE;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};
use povmeter_primitives::QualityState;

/// A hash table of the ids under which the caller keeps keys. Ids count from zero, in the order of
/// [`KeyTable::insert`].
///
/// Users choose keys, so the hash is seeded, and each block draws a new seed. Nothing reads the table
/// in its own order, so no result depends on the seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    /// Their number is a power of two, or zero before the first key.
    buckets: Vec<Bucket>,
    /// How many slots are in use.
    taken: u32,
    hasher: QualityState,
}

/// Slots in use come before free ones.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Bucket([TableSlot; NEAR]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TableSlot {
    tag: u32,
    id: u32,
}

/// What the bucket of a key's sample says about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    /// The table does not have the key.
    Nothing,
    /// If the table has the key, this is most likely its id, which may be [`NOWHERE`].
    Likely(u32),
    /// The key may lie elsewhere.
    Unclear,
}

const FREE: TableSlot = TableSlot {
    tag: 0,
    id: NOWHERE,
};

/// Slots of a bucket: half a cache line.
const NEAR: usize = 4;
/// Buckets that the first key allocates.
const FEWEST: usize = 4;
/// The bytes that name a storage item: two hashes of 128 bits. Many keys of a block share them.
const NAME_BYTES: usize = 32;

impl KeyTable {
    /// What the bucket of the key's sample says. The caller compares the key of a likely id, so that the
    /// comparison is inlined once.
    #[inline(always)]
    pub(crate) fn near(&self, store: u32, key: &[u8]) -> Near {
        let tag = self.sample_tag(store, key);
        let Some(Bucket(slots)) = self.buckets.get(self.bucket_of(tag)) else {
            return Near::Nothing;
        };
        // Looks at all slots, also behind a free one, because a fixed number of steps is faster.
        for slot in slots {
            if slot.tag == tag {
                return Near::Likely(slot.id);
            }
        }
        if slots[NEAR - 1].id == FREE.id {
            return Near::Nothing;
        }
        Near::Unclear
    }

    /// The id of `key` in `store`. `is_it` tells whether an id is that of the key. For the few keys whose
    /// id [`Self::near`] does not find.
    #[cold]
    #[inline(never)]
    pub(crate) fn find(&self, store: u32, key: &[u8], is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.path(store, key)
            .take_while(|(_, slot)| slot.id != FREE.id)
            .find_map(|(tag, slot)| (slot.tag == tag && is_it(slot.id)).then_some(slot.id))
    }

    /// The slots in which a key may lie, in order, each with the tag that the key has there.
    fn path(&self, store: u32, key: &[u8]) -> impl Iterator<Item = (u32, TableSlot)> + '_ {
        let (near, far) = (self.sample_tag(store, key), self.key_tag(store, key));
        let bucket = self.buckets.get(self.bucket_of(near));
        let (before, from) = self
            .buckets
            .split_at_checked(self.bucket_of(far))
            .unwrap_or_default();
        let circle = from.iter().chain(before);
        let slots = |tag: u32| move |Bucket(slots): &Bucket| slots.map(|slot| (tag, slot));
        bucket
            .into_iter()
            .flat_map(slots(near))
            .chain(circle.flat_map(slots(far)))
    }

    /// Adds a key that the table does not have, as the next id. `key_of` returns store and key of an id.
    pub(crate) fn insert<'a>(&mut self, id: u32, key_of: impl Fn(u32) -> (u32, &'a [u8])) {
        debug_assert_eq!(id, self.taken);
        if self.taken as usize >= self.buckets.len() * NEAR / 2 {
            let more = (self.buckets.len() * 2).max(FEWEST);
            self.buckets = alloc::vec![Bucket([FREE; NEAR]); more];
            for id in 0..self.taken {
                self.put(id, key_of(id));
            }
        }
        self.put(id, key_of(id));
        self.taken += 1;
    }

    /// Puts `id` into the first free slot of the path of its key. At least half of all slots are free.
    fn put(&mut self, id: u32, (store, key): (u32, &[u8])) {
        let is_free = |slot: &&mut TableSlot| slot.id == FREE.id;
        let tag = self.sample_tag(store, key);
        let bucket = self.bucket_of(tag);
        if let Some(slot) = self.buckets[bucket].0.iter_mut().find(is_free) {
            *slot = TableSlot { tag, id };
            return;
        }
        let tag = self.key_tag(store, key);
        let bucket = self.bucket_of(tag);
        let (before, from) = self.buckets.split_at_mut(bucket);
        let mut circle = from
            .iter_mut()
            .chain(before)
            .flat_map(|bucket| &mut bucket.0);
        if let Some(slot) = circle.find(is_free) {
            *slot = TableSlot { tag, id };
        }
    }

    /// The tag of a key in its near bucket.
    #[inline(always)]
    fn sample_tag(&self, store: u32, key: &[u8]) -> u32 {
        tag(store, self.hasher.hash_one(sample(key)))
    }

    /// The tag of a key in any other bucket.
    fn key_tag(&self, store: u32, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_usize(key.len());
        hasher.write(key);
        tag(store, hasher.finish())
    }

    /// The bucket that a tag selects; without buckets, one that does not exist.
    #[inline(always)]
    fn bucket_of(&self, tag: u32) -> usize {
        tag as usize & self.buckets.len().wrapping_sub(1)
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Removes all ids and draws a new seed. Keeps memory for up to `most` ids.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            buckets,
            taken,
            hasher,
        } = self;
        *taken = 0;
        *hasher = QualityState::default();
        if buckets.len() > most {
            *buckets = Vec::new();
        } else {
            buckets.fill(Bucket([FREE; NEAR]));
        }
    }
}

/// 32 bits of a hash, mixed with the index of the store, which leaves those of the top store unchanged.
#[inline(always)]
fn tag(store: u32, hash: u64) -> u32 {
    const SPREAD: u32 = 0x9e37_79b1;
    // The low half, which a seeded hash fills as well as the high one.
    let [a, b, c, d, ..] = hash.to_le_bytes();
    u32::from_le_bytes([a, b, c, d]) ^ store.wrapping_mul(SPREAD)
}

/// The 16 bytes in which the keys of a runtime differ: the last 8 of a key, and the 8 after the name of the storage
/// item, where a map has the hash of its first key. Parts of the name are mixed into the latter, because several maps
/// have keys for one account, and several pallets give an item the same name. A key of up to 16 bytes is used whole.
#[inline(always)]
fn sample(key: &[u8]) -> u128 {
    let [a, b] = match key.len().checked_sub(16) {
        Some(start) => {
            let first = match key.first_chunk::<{ NAME_BYTES + 8 }>() {
                Some(key) if start >= NAME_BYTES => word(key, 8) ^ word(key, 24) ^ word(key, 32),
                _ if start >= 16 => word(key, 0) ^ word(key, 8) ^ word(key, start),
                _ => word(key, start),
            };
            [first, word(key, key.len() - 8)]
        }
        None => short(key),
    };
    u128::from(a) << 64 | u128::from(b)
}

/// The bytes of a key of up to 16 bytes as two words, some bytes twice.
#[inline(always)]
pub(crate) fn short(key: &[u8]) -> [u64; 2] {
    let half = |at: usize| {
        let bytes = key[at..].first_chunk().copied();
        u64::from(u32::from_le_bytes(bytes.unwrap_or_default()))
    };
    match key.len() {
        0 => [0, 0],
        len @ 1..4 => [
            u64::from(key[0]),
            u64::from(key[len / 2]) << 8 | u64::from(key[len - 1]),
        ],
        len @ 4..8 => [half(0), half(len - 4)],
        len => [word(key, 0), word(key, len - 8)],
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..].first_chunk().copied();
    u64::from_le_bytes(word.unwrap_or_default())
}

#[cfg(test)]
impl KeyTable {
    /// The hash of a key under the current seed.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        u64::from(self.sample_tag(0, key)) << 32 | u64::from(self.key_tag(0, key))
    }

    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            buckets,
            taken,
            hasher: _,
        } = self;
        assert_eq!(*taken, 0);
        let mut slots = buckets.iter().flat_map(|bucket| bucket.0);
        assert!(slots.all(|slot| slot == FREE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use rand::{rngs::SmallRng, Rng, SeedableRng};

    /// A table, and the keys of its ids.
    #[derive(Default)]
    struct Tested {
        table: KeyTable,
        keys: Vec<(u32, Vec<u8>)>,
    }

    impl Tested {
        fn find(&self, store: u32, key: &[u8]) -> Option<u32> {
            let is_it = |id: u32| {
                let (its_store, its_key) = &self.keys[id as usize];
                *its_store == store && its_key == key
            };
            let found = self.table.find(store, key, is_it);
            match self.table.near(store, key) {
                Near::Nothing => assert_eq!(found, None),
                Near::Likely(id) if id != NOWHERE && is_it(id) => assert_eq!(found, Some(id)),
                Near::Likely(_) | Near::Unclear => {}
            }
            found
        }

        fn insert(&mut self, store: u32, key: &[u8]) -> u32 {
            let Self { table, keys } = self;
            let id = index_of(keys.len());
            keys.push((store, key.to_vec()));
            table.insert(id, |id| {
                let (store, key) = &keys[id as usize];
                (*store, key)
            });
            id
        }

        /// How many keys don't lie in the bucket of their sample.
        fn far(&self) -> usize {
            let is_far = |(id, (store, key)): &(u32, &(u32, Vec<u8>))| {
                let bucket = self.table.bucket_of(self.table.sample_tag(*store, key));
                let slots = self.table.buckets[bucket].0;
                slots.iter().all(|slot| slot.id != *id)
            };
            (0..).zip(&self.keys).filter(is_far).count()
        }

        /// The most slots that a search for one of the keys looks at.
        fn longest_path(&self) -> usize {
            let steps = |(id, (store, key)): (u32, &(u32, Vec<u8>))| {
                let mut path = self.table.path(*store, key);
                path.position(|(_, slot)| slot.id == id).unwrap()
            };
            (0..).zip(&self.keys).map(steps).max().unwrap()
        }
    }

    fn index_of(at: usize) -> u32 {
        u32::try_from(at).unwrap()
    }

    /// Keys that differ in the four bytes from `at` on.
    fn keys(count: u32, len: usize, at: usize) -> Vec<Vec<u8>> {
        let key = |i: u32| {
            let mut key = alloc::vec![7; len];
            key[at..at + 4].copy_from_slice(&i.to_le_bytes());
            key
        };
        (0..count).map(key).collect()
    }

    /// Compared with a map: keys of all lengths in several stores, many of which share a sample.
    #[test]
    fn ids_are_those_of_a_map() {
        let (mut tested, mut model) = (Tested::default(), BTreeMap::new());
        let mut dice = SmallRng::seed_from_u64(1);
        for round in 0..3 {
            for _ in 0..6_000 {
                let (len, store) = (dice.random_range(0..60), dice.random_range(0..3));
                let mut key = alloc::vec![7; len];
                for _ in 0..2 {
                    if let Some(byte) = key.get_mut(dice.random_range(0..60_usize)) {
                        *byte = dice.random();
                    }
                }
                let known = model.get(&(store, key.clone())).copied();
                assert_eq!(tested.find(store, &key), known);
                if known.is_none() {
                    model.insert((store, key.clone()), tested.insert(store, &key));
                }
            }
            for ((store, key), id) in &model {
                assert_eq!(tested.find(*store, key), Some(*id));
            }
            let (far, keys) = (tested.far(), tested.keys.len());
            assert!(far > 10 && keys > 3_000, "{round}: {far} of {keys}");
            tested.table.reset(1 << 20);
            tested.table.assert_as_new();
            tested.keys.clear();
            model.clear();
        }
    }

    /// The keys of a map of a runtime differ behind the name of the item, or in their last bytes.
    #[test]
    fn keys_of_a_runtime_lie_near() {
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
            let mut tested = Tested::default();
            for key in keys(2_000, len, at) {
                tested.insert(0, &key);
            }
            let far = tested.far();
            // By chance 69 of 2,000 keys find their bucket full, at two keys for each.
            assert!(far < 200, "{len}, {at}: {far}");
        }
    }

    /// Keys like those of several maps of a runtime that have accounts as keys.
    #[test]
    fn keys_of_several_maps_lie_near() {
        let mut tested = Tested::default();
        for key in keys(1_000, 80, 33) {
            // Names as hashes: of a pallet, then of an item. Two pallets have items of one name.
            for (pallet, item) in [(1, 5), (1, 6), (2, 5), (3, 9)] {
                let mut key = key.clone();
                let hash = |name: u64| name.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
                key[..8].copy_from_slice(&hash(pallet));
                key[8..16].copy_from_slice(&hash(pallet + 100));
                key[16..24].copy_from_slice(&hash(item + 200));
                key[24..32].copy_from_slice(&hash(item + 300));
                tested.insert(0, &key);
            }
        }
        let other = |(id, (store, key)): &(u32, &(u32, Vec<u8>))| {
            tested.table.near(*store, key) != Near::Likely(*id)
        };
        let other = (0..).zip(&tested.keys).filter(other).count();
        assert!(other < 400, "{other}");
    }

    /// Keys with one sample, as an attacker may choose them: nearly all are far, but few steps away.
    #[test]
    fn keys_of_one_sample_cost_a_hash_and_a_few_steps() {
        let mut tested = Tested::default();
        for key in keys(4_000, 80, 50) {
            tested.insert(0, &key);
        }
        let (far, steps) = (tested.far(), tested.longest_path());
        assert!(far > 3_900, "{far}");
        // Half of the slots are in use, in runs of bounded length.
        assert!(steps < 200, "{steps}");
    }

    /// Stores have equal keys, as twin contracts do.
    #[test]
    fn equal_keys_of_many_stores_spread() {
        let mut tested = Tested::default();
        for store in 0..4_000 {
            tested.insert(store, b"a key of 34 bytes in every contract");
        }
        let (far, steps) = (tested.far(), tested.longest_path());
        assert!(far < 400, "{far}");
        assert!(steps < 200, "{steps}");
    }
}
