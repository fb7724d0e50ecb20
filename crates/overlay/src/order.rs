//! The ids of keys, sorted by store and key, in chunks.
//!
//! ```text
//! ids, heads:   CHUNK places for each chunk; chunks lie there in the order in which they were made
//! chunks:       in sorted order: which chunk, and how many of its places are in use; none is empty
//! head:         the eight bytes of a key behind those that all keys of its chunk begin with; small chunks have none
//!
//! search:       binary search over the beginnings of chunks, then over the heads of one chunk
//! insert:       moves the rest of a chunk by one place; a full chunk is split in two first
//! remove:       moves the rest back; an empty chunk goes, and its places are used again
//! ```
//!
//! Heads exist because keys are scattered in memory, and those of one map of a runtime begin with the same 32 bytes.
//! Among 1,653 keys they reduce the time for a new key from 145 to 101 ns, and for a next key from 75 to 47; among
//! 30,000 keys, for a new key from 280 to 190, and for a block that changes 30,000 keys by 5 %. Computing the heads
//! costs a pass over the chunk, which an overlay of a few keys would need for each key.
//!
//! Chunks hold beginnings of keys for the same reason: they reduce the time to change a new key from 242 to 196 ns
//! among 30,000 keys, and from 730 to 550 among 300,000. The search in a chunk does not use them.
//!
//! A `BTreeMap` would own a copy of each key and could not keep its memory for the next block.

use alloc::vec::Vec;
use core::cmp::Ordering;
use povmeter_primitives::common_bytes;

/// Places of a chunk.
const CHUNK: usize = 128;
/// A chunk gets heads when it has this many keys.
const HEADS: usize = 16;
/// Heads move to a later offset when at least this many more leading bytes of all keys are equal: half of a head.
const FARTHER: usize = 4;

/// See the top of the file. Only the caller knows the keys of ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyOrder {
    chunks: Vec<Chunk>,
    ids: Vec<u32>,
    heads: Vec<u64>,
    /// Number of places that chunks have. `ids` and `heads` may have more, from before a reset.
    made: usize,
    /// Where the places of removed chunks start.
    free: Vec<usize>,
}

/// The store and the key that an id is sorted by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreKey<'k> {
    /// Index of the store.
    pub(crate) store: u32,
    pub(crate) key: &'k [u8],
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    start: usize,
    len: usize,
    /// Number of leading bytes after which the heads start. All keys share these, and maybe more. `None` if there are
    /// few keys, or keys of several stores: then the heads are not used.
    equal: Option<usize>,
    /// The beginning of a key that is greater than those of the chunk before, and not greater than those of this one:
    /// its first key when it was made. That of the first chunk has no effect.
    least: Beginning,
}

/// The beginning of a key. Those of all chunks lie together, so that a search among chunks waits for few keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Beginning {
    store: u32,
    /// Its first bytes, padded with zeros. If the words of two keys differ, they are sorted as the keys are.
    words: [u64; BEGINNING_WORDS],
}

/// Usually the hashes of a runtime's pallet, of its map and of a key in the map, and eight bytes of that key.
const BEGINNING_WORDS: usize = 7;

/// A place in the sorted list: that of an id, or the place after the last id of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    chunk: usize,
    at: usize,
    /// The head of the key that was searched for, or `None` if the key has no head in this chunk.
    head: Option<u64>,
}

impl KeyOrder {
    /// The place of the first id whose key is not less than `sought` or, if `behind`, is greater than `sought`.
    #[inline]
    pub(crate) fn place<'k>(
        &self,
        sought: StoreKey<'_>,
        behind: bool,
        key_of: impl Fn(u32) -> StoreKey<'k>,
    ) -> Place {
        let is_less = |id: &u32| key_of(*id).is_less(sought, behind);
        let chunk = match self.chunks.len() {
            0 | 1 => 0,
            _ => {
                let beginning = Beginning::of(sought);
                let starts_less = |chunk: &Chunk| match chunk.least.cmp(&beginning) {
                    Ordering::Equal => is_less(&self.ids[chunk.start]),
                    unequal => unequal.is_lt(),
                };
                self.chunks.partition_point(starts_less).saturating_sub(1)
            }
        };
        let ids = self.ids_of(chunk);
        let found = self.chunks.get(chunk);
        let head = found.and_then(|found| found.head(sought, key_of(self.ids[found.start])));
        let (from, to) = match (found, head) {
            (Some(found), Some(head)) => {
                let heads = &self.heads[found.start..][..found.len];
                let from = heads.partition_point(|other| *other < head);
                let alike = heads[from..].partition_point(|other| *other == head);
                (from, from + alike)
            }
            _ => (0, ids.len()),
        };
        let at = from + ids[from..to].partition_point(is_less);
        Place { chunk, at, head }
    }

    /// The ids from `place` on, sorted.
    pub(crate) fn from(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        let first = self.ids_of(place.chunk).get(place.at..);
        let chunks = place.chunk + 1..self.chunks.len();
        let rest = chunks.flat_map(|chunk| self.ids_of(chunk));
        first.unwrap_or_default().iter().chain(rest).copied()
    }

    /// The id before `place`.
    pub(crate) fn before(&self, Place { chunk, at, .. }: Place) -> Option<u32> {
        match at.checked_sub(1) {
            Some(at) => self.ids_of(chunk).get(at).copied(),
            None => self.ids_of(chunk.checked_sub(1)?).last().copied(),
        }
    }

    /// Inserts `id` at `place`, the place of its key, before the id that is there.
    pub(crate) fn insert<'k>(
        &mut self,
        place: Place,
        id: u32,
        key_of: impl Fn(u32) -> StoreKey<'k>,
    ) {
        let Place {
            mut chunk,
            mut at,
            mut head,
        } = place;
        if chunk == self.chunks.len() {
            let start = self.new_chunk();
            self.chunks.push(Chunk {
                start,
                len: 0,
                equal: None,
                least: Beginning::default(),
            });
        } else if self.chunks[chunk].len == CHUNK {
            self.split(chunk, &key_of);
            if at > CHUNK / 2 {
                (chunk, at) = (chunk + 1, at - CHUNK / 2);
            }
            let half = self.chunks[chunk];
            head = half.head(key_of(id), key_of(self.ids[half.start]));
        }
        let found = &mut self.chunks[chunk];
        let places = found.start..found.start + CHUNK;
        let (ids, heads) = (&mut self.ids[places.clone()], &mut self.heads[places]);
        ids.copy_within(at..found.len, at + 1);
        heads.copy_within(at..found.len, at + 1);
        ids[at] = id;
        heads[at] = head.unwrap_or_default();
        found.len += 1;
        let heads_are_due = match found.equal {
            Some(_) => head.is_none(),
            None => found.len == HEADS,
        };
        if heads_are_due {
            self.take_heads(chunk, &key_of);
        }
    }

    /// Removes the id at `place`.
    pub(crate) fn remove(&mut self, place: Place) {
        let Place {
            mut chunk, mut at, ..
        } = place;
        if at == self.ids_of(chunk).len() {
            (chunk, at) = (chunk + 1, 0);
        }
        let Some(Chunk { start, len, .. }) = self.chunks.get_mut(chunk) else {
            return;
        };
        let places = *start..*start + *len;
        self.ids[places.clone()].copy_within(at + 1.., at);
        self.heads[places].copy_within(at + 1.., at);
        *len -= 1;
        if *len == 0 {
            self.free.push(*start);
            self.chunks.remove(chunk);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        let Self {
            chunks,
            ids,
            heads,
            made: _,
            free,
        } = self;
        chunks.capacity() * size_of::<Chunk>()
            + ids.capacity() * size_of::<u32>()
            + heads.capacity() * size_of::<u64>()
            + free.capacity() * size_of::<usize>()
    }

    /// Removes all ids; keeps memory for up to about `most` of them.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            chunks,
            ids,
            heads,
            made,
            free,
        } = self;
        chunks.clear();
        chunks.shrink_to(most / CHUNK);
        // `ids` and `heads` keep their length, so that an overlay of a few keys need not fill a chunk each time.
        *made = 0;
        ids.truncate(most);
        ids.shrink_to(most);
        heads.truncate(most);
        heads.shrink_to(most);
        free.clear();
        free.shrink_to(most / CHUNK);
    }

    /// The ids of a chunk; none for one that does not exist.
    #[inline]
    fn ids_of(&self, chunk: usize) -> &[u32] {
        let Some(Chunk { start, len, .. }) = self.chunks.get(chunk) else {
            return &[];
        };
        &self.ids[*start..][..*len]
    }

    /// Moves the upper half of a full chunk into a new one behind it.
    fn split<'k>(&mut self, chunk: usize, key_of: &impl Fn(u32) -> StoreKey<'k>) {
        let new = self.new_chunk();
        let Chunk {
            start, len, equal, ..
        } = &mut self.chunks[chunk];
        let upper = *start + CHUNK / 2..*start + CHUNK;
        self.ids.copy_within(upper.clone(), new);
        self.heads.copy_within(upper, new);
        *len = CHUNK / 2;
        let upper = Chunk {
            start: new,
            len: CHUNK - CHUNK / 2,
            equal: *equal,
            least: Beginning::of(key_of(self.ids[new])),
        };
        self.chunks.insert(chunk + 1, upper);
        for half in [chunk, chunk + 1] {
            let (found, now) = (self.chunks[half].equal, self.equal_bytes(half, key_of));
            if now.unwrap_or_default() >= found.map_or(0, |found| found + FARTHER) {
                self.take_heads(half, key_of);
            }
        }
    }

    /// How many leading bytes all keys of a chunk share; `None` if the keys are of several stores.
    fn equal_bytes<'k>(
        &self,
        chunk: usize,
        key_of: &impl Fn(u32) -> StoreKey<'k>,
    ) -> Option<usize> {
        let ids = self.ids_of(chunk);
        let (first, last) = (key_of(*ids.first()?), key_of(*ids.last()?));
        (first.store == last.store).then(|| common_bytes(first.key, last.key))
    }

    /// Computes the heads of a chunk, which start after the leading bytes that all its keys share.
    fn take_heads<'k>(&mut self, chunk: usize, key_of: &impl Fn(u32) -> StoreKey<'k>) {
        let equal = self.equal_bytes(chunk, key_of);
        let found = &mut self.chunks[chunk];
        found.equal = equal;
        let Some(equal) = equal else {
            return;
        };
        let places = found.start..found.start + found.len;
        for (id, head) in self.ids[places.clone()].iter().zip(&mut self.heads[places]) {
            *head = head_of(key_of(*id).key, equal);
        }
    }

    /// Allocates the places of a new chunk, and returns where they start.
    fn new_chunk(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let start = self.made;
            self.made += CHUNK;
            if self.ids.len() < self.made {
                self.ids.resize(self.made, 0);
                self.heads.resize(self.made, 0);
            }
            start
        })
    }
}

impl Beginning {
    #[inline]
    fn of(StoreKey { store, key }: StoreKey<'_>) -> Self {
        let mut words = [0; BEGINNING_WORDS];
        let whole = key.as_chunks::<8>().0;
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u64::from_be_bytes(*bytes);
        }
        if let Some(word) = words.get_mut(whole.len()) {
            *word = head_of(key, whole.len() * 8);
        }
        Self { store, words }
    }
}

impl Chunk {
    /// The head of `sought`, for a search among the heads of the chunk. `None` if the chunk has no heads, or if
    /// `sought` is of another store than `first`, the chunk's first key, or does not begin with the same bytes.
    #[inline]
    fn head(&self, sought: StoreKey<'_>, first: StoreKey<'_>) -> Option<u64> {
        let equal = self.equal?;
        let begins = first.key.get(..equal)? == sought.key.get(..equal)?;
        (begins && first.store == sought.store).then(|| head_of(sought.key, equal))
    }
}

/// The eight bytes of `key` from `at` on as a number, padded with zeros, so keys with different heads are sorted as the
/// heads are.
#[inline]
fn head_of(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(head)
        }
    }
}

impl StoreKey<'_> {
    /// Whether it is less than `other`, or equal to it if `or_equal`.
    #[inline(always)]
    fn is_less(self, other: StoreKey<'_>, or_equal: bool) -> bool {
        if self.store != other.store {
            return self.store < other.store;
        }
        is_less(self.key, other.key, or_equal)
    }
}

/// Whether `a` is less than `b`, or equal to it if `or_equal`.
///
/// Inline, because a comparison of slices calls `memcmp`, which does not pay for keys so short.
#[inline(always)]
fn is_less(a: &[u8], b: &[u8], or_equal: bool) -> bool {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    for (a, b) in words {
        if a != b {
            return u64::from_be_bytes(*a) < u64::from_be_bytes(*b);
        }
    }
    let compared = a.len().min(b.len()) / 8 * 8;
    match a[compared..].cmp(&b[compared..]) {
        Ordering::Less => true,
        Ordering::Equal => or_equal,
        Ordering::Greater => false,
    }
}

#[cfg(test)]
impl KeyOrder {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            chunks,
            ids: _,
            heads: _,
            made,
            free,
        } = self;
        assert!(chunks.is_empty() && *made == 0 && free.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeSet, vec};

    /// Distinct keys of some stores, by id: numbers under prefixes that are alike, keys that are prefixes of others,
    /// keys that differ in their first byte, and keys that differ in no byte of a head.
    fn keys() -> Vec<(u32, Vec<u8>)> {
        let mut keys = BTreeSet::new();
        for store in [0, 1, 7] {
            for number in 0..1_500_u32 {
                let scattered = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
                keys.insert((store, [&[7; 32][..], &scattered].concat()));
                keys.insert((store, vec![9; (number % 300) as usize]));
                let behind = number as usize % 5;
                keys.insert((
                    store,
                    [&[5; 57][..], &vec![0; behind], &scattered[..behind]].concat(),
                ));
                keys.insert((store, [&[9; 20][..], &[0; 9], &scattered[..2]].concat()));
                keys.insert((store, vec![scattered[3]; 1 + (number % 2) as usize]));
            }
        }
        let mut keys: Vec<_> = keys.into_iter().collect();
        let mut state = 1_u32;
        for at in (1..keys.len()).rev() {
            state = state.wrapping_mul(0x9e37_79b1).wrapping_add(7);
            keys.swap(at, (state >> 8) as usize % (at + 1));
        }
        keys
    }

    fn key_of<'k>(keys: &'k [(u32, Vec<u8>)]) -> impl Fn(u32) -> StoreKey<'k> {
        |id| {
            let (store, key) = &keys[id as usize];
            StoreKey { store: *store, key }
        }
    }

    /// Compared with a set: in waves, so that chunks fill and empty, in any order and sorted, from both ends.
    #[test]
    fn ids_are_those_of_a_set() {
        let keys = keys();
        let key_of = &key_of(&keys);
        let mut sorted: Vec<u32> = (0..).take(keys.len()).collect();
        sorted.sort_by_key(|id| &keys[*id as usize]);
        let (mut order, mut model) = (KeyOrder::default(), BTreeSet::new());
        let of = |id: u32| (&keys[id as usize], id);
        let mut state = 1_u32;
        for step in 0..60_000_u32 {
            state = state.wrapping_mul(0x9e37_79b1).wrapping_add(7);
            let at = step as usize % keys.len();
            let id = match step / 1_000 % 4 {
                0 => sorted[at],
                1 => sorted[keys.len() - 1 - at],
                _ => sorted[(state >> 8) as usize % keys.len()],
            };
            let place = order.place(key_of(id), false, key_of);
            let fills = step / 10_000 % 3 < 2;
            if model.contains(&of(id)) {
                assert_eq!(order.from(place).next(), Some(id));
                let behind = order.place(key_of(id), true, key_of);
                assert_eq!(order.before(behind), Some(id));
                if !fills {
                    order.remove(place);
                    model.remove(&of(id));
                }
            } else if fills {
                order.insert(place, id, key_of);
                model.insert(of(id));
            } else if let Some((_, least)) = model.pop_first() {
                order.remove(order.place(key_of(least), false, key_of));
            }
            if step % 97 == 0 {
                let from = order.place(key_of(id), false, key_of);
                let expected = model.range(of(id)..).map(|(_, id)| *id);
                assert!(order.from(from).eq(expected), "{step}");
                let first = order.place(StoreKey { store: 0, key: &[] }, false, key_of);
                assert!(order.from(first).eq(model.iter().map(|(_, id)| *id)));
            }
        }
        assert!(order.chunks.iter().all(|chunk| chunk.len > 0));
    }

    #[test]
    fn places_of_removed_ids_are_used_again() {
        let keys = keys();
        let key_of = &key_of(&keys);
        let ids = || (0..).take(keys.len());
        let mut order = KeyOrder::default();
        let insert = |order: &mut KeyOrder, id| {
            order.insert(order.place(key_of(id), false, key_of), id, key_of)
        };
        ids().for_each(|id| insert(&mut order, id));
        let held = order.ids.len();
        for _ in 0..3 {
            for id in ids() {
                order.remove(order.place(key_of(id), false, key_of));
            }
            assert!(order.chunks.is_empty());
            ids().for_each(|id| insert(&mut order, id));
            assert_eq!(order.ids.len(), held);
        }
    }

    /// Keys that are prefixes of each other, and that differ around the end of a word.
    #[test]
    fn keys_are_compared_as_slices_are() {
        let mut keys = Vec::new();
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33] {
            keys.push(alloc::vec![1; length]);
            for at in 0..length {
                for byte in [0, 2, 0xff] {
                    let mut key = alloc::vec![1; length];
                    key[at] = byte;
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            for b in &keys {
                assert_eq!(is_less(a, b, false), a < b, "{a:?} {b:?}");
                assert_eq!(is_less(a, b, true), a <= b, "{a:?} {b:?}");
            }
        }
    }
}
