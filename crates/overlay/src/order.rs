//! The keys of a store in order, as far as somebody needs it.
//!
//! ```text
//! waiting:   entries touched since the order was needed last, as a chain through the entries
//! chunks:    ids by key, in pieces of at most MOST; none is empty; each with the heads of its keys
//! firsts:    the heads of the first keys of all chunks
//! needed:    the first SCANS times, look at all that wait instead
//!            then sort what waits into the chunks
//! stepped over an entry that holds nothing any more:  take it out; it waits again once it is touched
//! ```
//!
//! So a block that never asks for the order pays a link per key, one that asks once or twice a look
//! at each key, and each key is put in order at most once for each time that it is touched.

use crate::{
    dirty::Fate,
    entries::{Entries, Entry},
    heads::Heads,
    index::NOWHERE,
    keys::{KeyAt, Keys},
};
use alloc::vec::Vec;

/// Ids in a chunk. Enough that there are few chunks, so few that one is quickly moved.
const MOST: usize = 128;
/// How often all keys are looked at before they are put in order, which costs more than ten looks.
const SCANS: u8 = 4;
/// So few keys are put in order at once.
const FEW: usize = 32;

/// See the top of the file.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    chunks: Vec<Chunk>,
    firsts: Heads,
    /// First of the chain.
    waiting: u32,
    waiting_len: usize,
    scans: u8,
    /// What was found last: a walk goes on there.
    last: Place,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    listed: Vec<Listed>,
    heads: Heads,
}

/// An entry in order, with the place of its key: a search looks at few entries.
#[derive(Clone, Copy, Debug)]
struct Listed {
    key: KeyAt,
    id: u32,
}

/// A place in the order. Behind the last key it is one where nothing is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    chunk: usize,
    at: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            firsts: Heads::default(),
            waiting: NOWHERE,
            waiting_len: 0,
            scans: 0,
            last: Place::default(),
        }
    }
}

impl Order {
    /// Takes note of an entry that was touched and is not listed.
    #[inline]
    pub(crate) fn list(&mut self, id: u32, entry: &mut Entry) {
        entry.listed = true;
        entry.next = self.waiting;
        self.waiting = id;
        self.waiting_len += 1;
    }

    /// Whether the order may be asked for: if not, look at [`Self::unordered`] this time.
    ///
    /// Depends on the calls alone.
    pub(crate) fn make(&mut self, entries: &mut Entries) -> bool {
        let first = self.chunks.is_empty();
        if first && self.waiting_len > FEW && self.scans < SCANS {
            self.scans += 1;
            return false;
        }
        if first {
            self.sort_waiting(entries);
        } else {
            while let Some(id) = self.next_waiting(entries) {
                self.insert(id, entries);
            }
        }
        true
    }

    /// What waits, in no order; ids of entries that hold nothing are among them.
    pub(crate) fn unordered<'a>(&self, entries: &'a Entries) -> impl Iterator<Item = u32> + 'a {
        let mut next = self.waiting;
        core::iter::from_fn(move || {
            let id = next;
            (id != NOWHERE).then(|| {
                next = entries.at(id).next;
                id
            })
        })
    }

    /// Whether nothing waits: the order is all there is.
    pub(crate) fn is_made(&self) -> bool {
        self.waiting == NOWHERE
    }

    /// All that is in order, in order; ids of entries that hold nothing are among them.
    pub(crate) fn ordered(&self) -> impl Iterator<Item = u32> + '_ {
        let listed = self.chunks.iter().flat_map(|chunk| &chunk.listed);
        listed.map(|listed| listed.id)
    }

    /// The same from `place` on.
    pub(crate) fn from(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        let chunks = self.chunks.get(place.chunk..).unwrap_or_default();
        let listed = chunks.iter().flat_map(|chunk| &chunk.listed);
        listed.skip(place.at).map(|listed| listed.id)
    }

    /// The place of the first key after `key`, or of `key` itself if `inclusive`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], inclusive: bool, entries: &Entries) -> Place {
        if !inclusive && self.id(self.last).is_some_and(|id| entries.key(id) == key) {
            return self.after(self.last);
        }
        let keys = entries.keys();
        let behind = self
            .firsts
            .place(key, inclusive, |chunk| self.chunks[chunk].key(0, keys));
        let Some(chunk) = behind.checked_sub(1) else {
            return Place::default();
        };
        let part = &self.chunks[chunk];
        let at = part.heads.place(key, inclusive, |at| part.key(at, keys));
        self.normal(Place { chunk, at })
    }

    /// The first entry from `place` on that holds something, and its place. Those stepped over are
    /// taken out.
    #[inline]
    pub(crate) fn touched_from(
        &mut self,
        place: Place,
        entries: &mut Entries,
    ) -> Option<(u32, Place)> {
        let mut place = place;
        loop {
            let id = self.id(place)?;
            let entry = entries.at_mut(id);
            if entry.slot.fate() != Fate::Untouched {
                self.last = place;
                return Some((id, place));
            }
            entry.listed = false;
            self.take_out(place, entries.keys());
            place = self.normal(place);
        }
    }

    fn take_out(&mut self, Place { chunk, at }: Place, keys: &Keys) {
        let part = &mut self.chunks[chunk];
        part.listed.remove(at);
        part.heads.remove(at);
        let is_empty = part.listed.is_empty();
        if is_empty {
            self.chunks.remove(chunk);
        }
        if at == 0 {
            self.firsts.remove(chunk);
            if !is_empty {
                self.note_first(chunk, keys);
            }
        }
    }

    /// Takes note of the first key of a chunk that was not there, or had another one.
    fn note_first(&mut self, chunk: usize, keys: &Keys) {
        let chunks = &self.chunks;
        self.firsts
            .insert(chunk, |chunk| chunks[chunk].key(0, keys));
    }

    /// The place after `place`.
    #[inline]
    pub(crate) fn after(&self, place: Place) -> Place {
        self.normal(Place {
            at: place.at + 1,
            ..place
        })
    }

    /// Forgets everything; keeps memory for up to `most` keys.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            chunks,
            firsts,
            waiting,
            waiting_len,
            scans,
            last,
        } = self;
        firsts.reset(most / MOST);
        chunks.clear();
        chunks.shrink_to(most / MOST);
        (*waiting, *waiting_len, *scans) = (NOWHERE, 0, 0);
        *last = Place::default();
    }

    #[inline]
    fn id(&self, place: Place) -> Option<u32> {
        Some(self.chunks.get(place.chunk)?.listed.get(place.at)?.id)
    }

    /// The same place; if it is the end of a chunk, the start of the next one.
    #[inline]
    fn normal(&self, place: Place) -> Place {
        match self.chunks.get(place.chunk) {
            Some(part) if place.at >= part.listed.len() => Place {
                chunk: place.chunk + 1,
                at: 0,
            },
            _ => place,
        }
    }

    /// The next entry that waits and holds something, which waits no longer.
    fn next_waiting(&mut self, entries: &mut Entries) -> Option<u32> {
        while self.waiting != NOWHERE {
            let id = self.waiting;
            let entry = entries.at_mut(id);
            self.waiting = entry.next;
            self.waiting_len -= 1;
            if entry.slot.fate() != Fate::Untouched {
                return Some(id);
            }
            entry.listed = false;
        }
        None
    }

    fn sort_waiting(&mut self, entries: &mut Entries) {
        let mut all = Vec::with_capacity(self.waiting_len);
        while let Some(id) = self.next_waiting(entries) {
            all.push(listed(id, entries));
        }
        let keys = entries.keys();
        all.sort_unstable_by(|a, b| keys.get(a.key).cmp(keys.get(b.key)));
        // With some room for keys to come.
        let chunks = all.chunks(MOST * 3 / 4);
        self.chunks
            .extend(chunks.map(|part| Chunk::new(part, keys)));
        let chunks = &self.chunks;
        self.firsts = Heads::new(chunks.len(), chunks.len(), |at| chunks[at].key(0, keys));
    }

    fn insert(&mut self, id: u32, entries: &Entries) {
        let (listed, keys) = (listed(id, entries), entries.keys());
        let key = keys.get(listed.key);
        let behind = self
            .firsts
            .place(key, true, |chunk| self.chunks[chunk].key(0, keys));
        let chunk = behind.saturating_sub(1);
        let Some(part) = self.chunks.get_mut(chunk) else {
            self.chunks.push(Chunk::new(&[listed], keys));
            return self.note_first(chunk, keys);
        };
        let at = part.insert(listed, keys);
        if at == 0 {
            self.firsts.remove(chunk);
            self.note_first(chunk, keys);
        }
        let part = &mut self.chunks[chunk];
        if part.listed.len() == MOST {
            let upper = Chunk::new(&part.listed[MOST / 2..], keys);
            *part = Chunk::new(&part.listed[..MOST / 2], keys);
            self.chunks.insert(chunk + 1, upper);
            self.note_first(chunk + 1, keys);
        }
    }
}

impl Chunk {
    fn new(part: &[Listed], keys: &Keys) -> Self {
        let mut listed = Vec::with_capacity(MOST);
        listed.extend_from_slice(part);
        let heads = Heads::new(part.len(), MOST, |at| keys.get(part[at].key));
        Self { listed, heads }
    }

    #[inline(always)]
    fn key<'a>(&self, at: usize, keys: &'a Keys) -> &'a [u8] {
        keys.get(self.listed[at].key)
    }

    /// Returns where it was put.
    fn insert(&mut self, listed: Listed, keys: &Keys) -> usize {
        let key = keys.get(listed.key);
        let at = self.heads.place(key, true, |at| self.key(at, keys));
        self.listed.insert(at, listed);
        let listed = &self.listed;
        self.heads.insert(at, |at| keys.get(listed[at].key));
        at
    }
}

fn listed(id: u32, entries: &Entries) -> Listed {
    Listed {
        key: entries.at(id).key,
        id,
    }
}

#[cfg(test)]
impl Order {
    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            chunks,
            firsts,
            waiting,
            waiting_len,
            scans,
            last,
        } = self;
        assert!(chunks.is_empty());
        firsts.assert_as_new();
        assert_eq!((*waiting, *waiting_len, *scans), (NOWHERE, 0, 0));
        assert_eq!((last.chunk, last.at), (0, 0));
    }
}
