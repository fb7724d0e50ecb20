//! A sorted list of ids, in chunks.
//!
//! ```text
//! ids:      CHUNK places for each chunk; chunks lie there in the order in which they were made
//! chunks:   in sorted order: which chunk, and how many of its places are in use; none is empty
//!
//! search:   binary search over the first ids of all chunks, then in one chunk
//! insert:   moves the rest of a chunk by one place; a full chunk is split in two first
//! remove:   moves the rest back; an empty chunk goes, and its places are used again
//! ```
//!
//! A `BTreeMap` would own a copy of each key and could not keep its memory for the next block.

use alloc::vec::Vec;

/// Places of a chunk.
const CHUNK: usize = 128;

/// See the top of the file. Only the caller knows what ids are sorted by.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyOrder {
    chunks: Vec<Chunk>,
    ids: Vec<u32>,
    /// Starts of chunks without ids.
    free: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    start: usize,
    len: usize,
}

/// A place in the list: of an id, or behind the last id of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    chunk: usize,
    at: usize,
}

impl KeyOrder {
    /// The place of the first id that is not less than what is sought: for which `is_less` is false.
    #[inline]
    pub(crate) fn place(&self, is_less: impl Fn(u32) -> bool) -> Place {
        let starts_less = |chunk: &Chunk| is_less(self.ids[chunk.start]);
        let chunk = self.chunks.partition_point(starts_less).saturating_sub(1);
        let at = self.ids_of(chunk).partition_point(|id| is_less(*id));
        Place { chunk, at }
    }

    /// The ids from `place` on, sorted.
    pub(crate) fn from(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        let first = self.ids_of(place.chunk).get(place.at..);
        let chunks = place.chunk + 1..self.chunks.len();
        let rest = chunks.flat_map(|chunk| self.ids_of(chunk));
        first.unwrap_or_default().iter().chain(rest).copied()
    }

    /// The id before `place`.
    pub(crate) fn before(&self, Place { chunk, at }: Place) -> Option<u32> {
        match at.checked_sub(1) {
            Some(at) => self.ids_of(chunk).get(at).copied(),
            None => self.ids_of(chunk.checked_sub(1)?).last().copied(),
        }
    }

    /// Puts `id` before the one that is at `place`.
    pub(crate) fn insert(&mut self, place: Place, id: u32) {
        let Place { mut chunk, mut at } = place;
        if chunk == self.chunks.len() {
            let start = self.new_chunk();
            self.chunks.push(Chunk { start, len: 0 });
        } else if self.chunks[chunk].len == CHUNK {
            self.split(chunk);
            if at > CHUNK / 2 {
                (chunk, at) = (chunk + 1, at - CHUNK / 2);
            }
        }
        let Chunk { start, len } = &mut self.chunks[chunk];
        let places = &mut self.ids[*start..*start + CHUNK];
        places.copy_within(at..*len, at + 1);
        places[at] = id;
        *len += 1;
    }

    /// Removes the id at `place`.
    pub(crate) fn remove(&mut self, place: Place) {
        let Place { mut chunk, mut at } = place;
        if at == self.ids_of(chunk).len() {
            (chunk, at) = (chunk + 1, 0);
        }
        let Some(Chunk { start, len }) = self.chunks.get_mut(chunk) else {
            return;
        };
        self.ids[*start..*start + *len].copy_within(at + 1.., at);
        *len -= 1;
        if *len == 0 {
            self.free.push(*start);
            self.chunks.remove(chunk);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        let Self { chunks, ids, free } = self;
        chunks.capacity() * size_of::<Chunk>()
            + ids.capacity() * size_of::<u32>()
            + free.capacity() * size_of::<usize>()
    }

    /// Removes all ids; keeps memory for up to about `most` of them.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self { chunks, ids, free } = self;
        chunks.clear();
        chunks.shrink_to(most / CHUNK);
        ids.clear();
        ids.shrink_to(most);
        free.clear();
        free.shrink_to(most / CHUNK);
    }

    /// The ids of a chunk; none for one that does not exist.
    #[inline]
    fn ids_of(&self, chunk: usize) -> &[u32] {
        let Some(Chunk { start, len }) = self.chunks.get(chunk) else {
            return &[];
        };
        &self.ids[*start..][..*len]
    }

    /// Moves the upper half of a full chunk into a new one behind it.
    fn split(&mut self, chunk: usize) {
        let new = self.new_chunk();
        let Chunk { start, len } = &mut self.chunks[chunk];
        self.ids
            .copy_within(*start + CHUNK / 2..*start + CHUNK, new);
        *len = CHUNK / 2;
        let upper = Chunk {
            start: new,
            len: CHUNK - CHUNK / 2,
        };
        self.chunks.insert(chunk + 1, upper);
    }

    /// Where the places of a new chunk start.
    fn new_chunk(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let start = self.ids.len();
            self.ids.resize(start + CHUNK, 0);
            start
        })
    }
}

#[cfg(test)]
impl KeyOrder {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { chunks, ids, free } = self;
        assert!(chunks.is_empty() && ids.is_empty() && free.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// Against a set: in waves, so that chunks fill and empty, and from both ends.
    #[test]
    fn ids_are_those_of_a_set() {
        let (mut order, mut model) = (KeyOrder::default(), BTreeSet::new());
        let mut state = 1_u32;
        for step in 0..40_000_u32 {
            state = state.wrapping_mul(0x9e37_79b1).wrapping_add(7);
            let id = match step / 1_000 % 4 {
                0 => step,
                1 => u32::MAX - step,
                _ => state >> 20,
            };
            let place = order.place(|other| other < id);
            let fills = step / 5_000 % 2 == 0;
            if model.contains(&id) {
                assert_eq!(order.from(place).next(), Some(id));
                if !fills {
                    order.remove(place);
                    model.remove(&id);
                }
            } else if fills {
                order.insert(place, id);
                model.insert(id);
            } else if let Some(least) = model.pop_first() {
                order.remove(order.place(|other| other < least));
            }
            if step % 97 == 0 {
                let from = order.place(|other| other < id);
                assert!(order.from(from).eq(model.range(id..).copied()), "{step}");
                assert!(order.from(order.place(|_| false)).eq(model.iter().copied()));
            }
        }
        assert!(order.chunks.iter().all(|chunk| chunk.len > 0));
    }

    #[test]
    fn places_of_removed_ids_are_used_again() {
        let mut order = KeyOrder::default();
        let insert = |order: &mut KeyOrder, id| order.insert(order.place(|other| other < id), id);
        (0..10_000).for_each(|id| insert(&mut order, id));
        let held = order.ids.len();
        for _ in 0..3 {
            for id in 0..10_000 {
                order.remove(order.place(|other| other < id));
            }
            assert!(order.chunks.is_empty());
            (0..10_000).for_each(|id| insert(&mut order, id));
            assert_eq!(order.ids.len(), held);
        }
    }
}
