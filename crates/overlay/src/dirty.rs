//! The log of dirty keys: those that changed since the last snapshot.
//!
//! A reader of the overlay stores what it saw last of every dirty key. When a transaction is rolled
//! back, the reader drops what it learned in that transaction, so the keys that it learned about have
//! to become dirty again. The log does that at a cost in proportion to the changes:
//!
//! ```text
//! log:  [ seen ....... | dirty ]               no key is in the dirty part twice
//! change of an entry:  append it, unless it is in the dirty part
//! snapshot:            seen = reported = length
//! start:               remember the length, `seen` and the number of snapshots
//! commit:              nothing
//! roll back,
//!   no snapshot since: cut to the remembered length
//!   a snapshot since:  cut to `reported`; restore the remembered `seen`; drop the second mention of each
//!                      key in the dirty part; reported = length
//!   the same, but the reader keeps what it learned:
//!                      append the keys that the rollback restores, unless they are in the dirty part
//! ```
//!
//! `reported` is the length of the part that snapshots reported. It lets a second rollback, of an outer
//! transaction, keep that part too. Dropping the *second* mention of a key leaves the log up to the start
//! of any open transaction as it was, because the dirty part had no key twice when the transaction
//! started.

use crate::{
    entries::{Entries, Entry},
    index::index,
};
use alloc::vec::Vec;
use povmeter_primitives::{Fate, TrieId};

/// A key that changed since the last snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirty<'a> {
    /// The trie of the key.
    pub trie: TrieId<'a>,
    /// The key.
    pub key: &'a [u8],
    /// The number of the key among those of its store, as an index for tables of the reader: dense from
    /// zero, and the same until the overlay is reset.
    pub index: u32,
    /// What the overlay holds for it now.
    pub fate: Fate,
}

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyLog {
    ids: Vec<u32>,
    seen: u32,
    reported: u32,
    snapshots: u64,
}

/// Where the log stood when a transaction started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirtyLogMark {
    len: u32,
    seen: u32,
    snapshots: u64,
}

impl DirtyLog {
    /// Notes that `entry` changed.
    #[inline]
    pub(crate) fn note(&mut self, id: u32, entry: &mut Entry) {
        if !self.is_dirty(id, entry) {
            entry.logged_at = self.len();
            self.ids.push(id);
        }
    }

    /// The entries of the dirty keys, each once, by first change.
    pub(crate) fn dirty(&self) -> &[u32] {
        &self.ids[self.seen as usize..]
    }

    #[inline]
    pub(crate) fn mark(&self) -> DirtyLogMark {
        DirtyLogMark {
            len: self.len(),
            seen: self.seen,
            snapshots: self.snapshots,
        }
    }

    /// Marks all keys as seen.
    pub(crate) fn snapshot(&mut self) {
        self.seen = self.len();
        self.reported = self.seen;
        self.snapshots += 1;
    }

    /// Sets the log to that of an overlay without snapshots in which the entries `ids` are dirty. The caller
    /// renews the marks of open transactions.
    pub(crate) fn relist(&mut self, ids: impl Iterator<Item = u32>, entries: &mut Entries) {
        self.ids.clear();
        self.ids.extend(ids);
        for (at, id) in (0..).zip(&self.ids) {
            entries.at_mut(*id).logged_at = at;
        }
        (self.seen, self.reported) = (0, 0);
    }

    #[inline]
    pub(crate) fn roll_back(&mut self, mark: DirtyLogMark, entries: &mut Entries) {
        if self.snapshots == mark.snapshots {
            self.ids.truncate(mark.len as usize);
        } else {
            self.go_back(mark, entries);
        }
    }

    /// As [`Self::roll_back`], for a reader that keeps what it learned. `restored` are the entries that the rollback
    /// restores.
    pub(crate) fn roll_back_for_keeper(
        &mut self,
        mark: DirtyLogMark,
        restored: impl Iterator<Item = u32>,
        entries: &mut Entries,
    ) {
        if self.snapshots == mark.snapshots {
            self.ids.truncate(mark.len as usize);
        } else {
            for id in restored {
                self.note(id, entries.at_mut(id));
            }
        }
    }

    fn go_back(&mut self, mark: DirtyLogMark, entries: &mut Entries) {
        self.ids.truncate(self.reported as usize);
        self.seen = mark.seen;
        let mut end = self.seen;
        for at in self.seen..self.len() {
            let id = self.ids[at as usize];
            let entry = entries.at_mut(id);
            // Only a mention before `end` is in its final place.
            if entry.logged_at < end && self.is_dirty(id, entry) {
                continue;
            }
            entry.logged_at = end;
            self.ids[end as usize] = id;
            end += 1;
        }
        self.ids.truncate(end as usize);
        self.reported = end;
    }

    /// Drops the part that was seen. Must not be called while a transaction is open, because rolling it
    /// back may make that part dirty again.
    ///
    /// Does nothing while the seen part is smaller than the dirty part, so that moving the dirty part
    /// costs no more than was appended to the log since the last move.
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
        self.reported = 0;
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.ids.capacity() * size_of::<u32>()
    }

    /// Removes all keys; keeps memory for up to `most` of them.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            ids,
            seen,
            reported,
            snapshots,
        } = self;
        ids.clear();
        ids.shrink_to(most);
        (*seen, *reported, *snapshots) = (0, 0, 0);
    }

    #[inline]
    fn len(&self) -> u32 {
        index(self.ids.len())
    }

    /// Whether `entry` is in the dirty part, at the place that the entry remembers.
    #[inline]
    fn is_dirty(&self, id: u32, entry: &Entry) -> bool {
        entry.logged_at >= self.seen && self.ids.get(entry.logged_at as usize) == Some(&id)
    }
}

#[cfg(test)]
impl DirtyLog {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            ids,
            seen,
            reported,
            snapshots,
        } = self;
        assert!(ids.is_empty());
        assert_eq!((*seen, *reported, *snapshots), (0, 0, 0));
    }
}
