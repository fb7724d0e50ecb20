//! The keys of a store in order, as far as somebody needs it.
//!
//! ```text
//! waiting:   entries touched since the order was needed last, as a chain through the entries
//! chunks:    ids by key, in pieces of at most MOST; none is empty
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
    index::NOWHERE,
    keys::KeyAt,
};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Ids in a chunk. Enough that there are few chunks, so few that one is quickly moved.
const MOST: usize = 128;
/// How often all keys are looked at before they are put in order, which costs more than ten looks.
const SCANS: u8 = 4;
/// So few keys are put in order at once.
const FEW: usize = 32;

/// See the top of the file.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    chunks: Vec<Vec<Listed>>,
    /// First of the chain.
    waiting: u32,
    waiting_len: usize,
    scans: u8,
    /// What was found last: a walk goes on there.
    last: Place,
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
        self.chunks.iter().flatten().map(|listed| listed.id)
    }

    /// The same from `place` on.
    pub(crate) fn from(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        let chunks = self.chunks.get(place.chunk..).unwrap_or_default();
        let ids = chunks.iter().flatten().map(|listed| listed.id);
        ids.skip(place.at)
    }

    /// The place of the first key after `key`, or of `key` itself if `inclusive`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], inclusive: bool, entries: &Entries) -> Place {
        if !inclusive && self.id(self.last).is_some_and(|id| entries.key(id) == key) {
            return self.after(self.last);
        }
        let before = |listed: &Listed| match entries.keys().get(listed.key).cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => !inclusive,
            Ordering::Greater => false,
        };
        self.search(before)
    }

    /// The place of the first key of which `before` does not hold.
    #[inline(always)]
    fn search(&self, before: impl Fn(&Listed) -> bool) -> Place {
        let behind = search(&self.chunks, |chunk| before(&chunk[0]));
        let chunk = behind.saturating_sub(1);
        let at = match self.chunks.get(chunk) {
            Some(listed) if behind > 0 => search(listed, before),
            _ => 0,
        };
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
            let ids = &mut self.chunks[place.chunk];
            ids.remove(place.at);
            if ids.is_empty() {
                self.chunks.remove(place.chunk);
            }
            place = self.normal(place);
        }
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
            waiting,
            waiting_len,
            scans,
            last,
        } = self;
        chunks.clear();
        chunks.shrink_to(most / MOST);
        (*waiting, *waiting_len, *scans) = (NOWHERE, 0, 0);
        *last = Place::default();
    }

    #[inline]
    fn id(&self, place: Place) -> Option<u32> {
        Some(self.chunks.get(place.chunk)?.get(place.at)?.id)
    }

    /// The same place; if it is the end of a chunk, the start of the next one.
    #[inline]
    fn normal(&self, place: Place) -> Place {
        match self.chunks.get(place.chunk) {
            Some(ids) if place.at >= ids.len() => Place {
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
        let chunks = all.chunks(MOST * 3 / 4).map(|part| {
            let mut chunk = Vec::with_capacity(MOST);
            chunk.extend_from_slice(part);
            chunk
        });
        self.chunks.extend(chunks);
    }

    fn insert(&mut self, id: u32, entries: &Entries) {
        let listed = listed(id, entries);
        let key = entries.key(id);
        let before = |other: &Listed| entries.keys().get(other.key) < key;
        let chunk = search(&self.chunks, |chunk| before(&chunk[0])).saturating_sub(1);
        let Some(part) = self.chunks.get_mut(chunk) else {
            self.chunks.push(Vec::from([listed]));
            return;
        };
        let at = search(part, before);
        part.insert(at, listed);
        if part.len() == MOST {
            let mut upper = Vec::with_capacity(MOST);
            upper.extend(part.drain(MOST / 2..));
            self.chunks.insert(chunk + 1, upper);
        }
    }
}

fn listed(id: u32, entries: &Entries) -> Listed {
    Listed {
        key: entries.at(id).key,
        id,
    }
}

/// How many `items`, which are in order, are `before`.
///
/// With a branch at each step, unlike `partition_point`: the processor guesses it and goes on to load
/// the next key, which is what takes the time.
#[inline(always)]
fn search<T>(items: &[T], before: impl Fn(&T) -> bool) -> usize {
    let (mut start, mut end) = (0, items.len());
    while start < end {
        let middle = start + (end - start) / 2;
        if before(&items[middle]) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}
