//! Which keys a reader of the overlay has not seen since they changed.
//!
//! The reader keeps, for every key it was told of, what it saw last, and on a rollback forgets what
//! it learned in the transaction that is rolled back. The log is made so that it is told enough, at
//! a cost that follows what changes:
//!
//! ```text
//! log:  [ seen ....... | not seen yet ]        dirty keys = the part not seen yet, each key once
//! change of an entry:  append it, unless it is in the part not seen yet
//! snapshot:            seen = kept = length
//! start:               remember (length, seen, how many snapshots)
//! commit:              nothing
//! roll back,
//!   no snapshot since: cut to the remembered length
//!   a snapshot since:  cut to `kept`, what no snapshot told of goes; go back to the remembered `seen`; drop the
//!                      second mention of a key; kept = length
//! ```
//!
//! `kept` is the part of the log that snapshots told of, so that a second rollback, of an enclosing
//! frame, keeps it too. Dropping the *second* mention leaves the log up to the start of any open
//! frame as it was: there, the part not seen had no key twice when the frame started.

use crate::{
    entries::{Entries, Entry},
    index::index,
    store::StoreId,
};
use alloc::vec::Vec;

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It has a value in the overlay.
    Written,
    /// It is deleted by the overlay.
    Deleted,
    /// The overlay holds nothing for it any more: all its changes were rolled back.
    Untouched,
}

/// A key that changed since the last snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirty<'a> {
    /// The store of the key.
    pub store: StoreId<'a>,
    /// The key.
    pub key: &'a [u8],
    /// A number for the key among those of its store, for tables of the reader's: dense from zero,
    /// and the key's own as long as the overlay lives.
    pub index: u32,
    /// What became of it by now.
    pub fate: Fate,
}

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    ids: Vec<u32>,
    seen: u32,
    kept: u32,
    snapshots: u64,
}

/// Where the log stood when a frame started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogMark {
    len: u32,
    seen: u32,
    snapshots: u64,
}

impl ChangeLog {
    /// Notes that `entry` changed.
    #[inline]
    pub(crate) fn note(&mut self, id: u32, entry: &mut Entry) {
        if !self.names(id, entry) {
            entry.logged_at = self.len();
            self.ids.push(id);
        }
    }

    /// The entries not seen yet, each once, by first change.
    pub(crate) fn unseen(&self) -> &[u32] {
        &self.ids[self.seen as usize..]
    }

    #[inline]
    pub(crate) fn mark(&self) -> LogMark {
        LogMark {
            len: self.len(),
            seen: self.seen,
            snapshots: self.snapshots,
        }
    }

    /// Declares everything seen.
    pub(crate) fn snapshot(&mut self) {
        self.seen = self.len();
        self.kept = self.seen;
        self.snapshots += 1;
    }

    #[inline]
    pub(crate) fn roll_back(&mut self, mark: LogMark, entries: &mut Entries) {
        if self.snapshots == mark.snapshots {
            self.ids.truncate(mark.len as usize);
        } else {
            self.go_back(mark, entries);
        }
    }

    fn go_back(&mut self, mark: LogMark, entries: &mut Entries) {
        self.ids.truncate(self.kept as usize);
        self.seen = mark.seen;
        let mut end = self.seen;
        for at in self.seen..self.len() {
            let id = self.ids[at as usize];
            let entry = entries.at_mut(id);
            // Only what is in its final place counts as a mention: before `end`.
            if entry.logged_at < end && self.names(id, entry) {
                continue;
            }
            entry.logged_at = end;
            self.ids[end as usize] = id;
            end += 1;
        }
        self.ids.truncate(end as usize);
        self.kept = end;
    }

    /// Drops what was seen; only while no frame is open, which might go back to it.
    ///
    /// Leaves it for later while it is the smaller part, so that moving the rest is paid for by
    /// what goes.
    #[inline]
    pub(crate) fn drop_seen(&mut self, entries: &mut Entries) {
        if self.seen > 0 && self.seen >= self.len() - self.seen {
            self.drop(entries);
        }
    }

    fn drop(&mut self, entries: &mut Entries) {
        self.ids.drain(..self.seen as usize);
        for (at, id) in (0..).zip(&self.ids) {
            entries.at_mut(*id).logged_at = at;
        }
        self.seen = 0;
        self.kept = 0;
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.ids.capacity() * size_of::<u32>()
    }

    /// Forgets everything; keeps memory for up to `most` keys.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            ids,
            seen,
            kept,
            snapshots,
        } = self;
        ids.clear();
        ids.shrink_to(most);
        (*seen, *kept, *snapshots) = (0, 0, 0);
    }

    #[inline]
    fn len(&self) -> u32 {
        index(self.ids.len())
    }

    /// Whether the part not seen yet names `entry`, at the place that the entry remembers.
    #[inline]
    fn names(&self, id: u32, entry: &Entry) -> bool {
        entry.logged_at >= self.seen && self.ids.get(entry.logged_at as usize) == Some(&id)
    }
}

#[cfg(test)]
impl ChangeLog {
    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            ids,
            seen,
            kept,
            snapshots,
        } = self;
        assert!(ids.is_empty());
        assert_eq!((*seen, *kept, *snapshots), (0, 0, 0));
    }
}
