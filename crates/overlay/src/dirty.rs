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
//!                      key in the dirty part, and known keys; reported = length
//!   the same, but the reader keeps what it learned:
//!                      append the keys that the rollback restores, unless they are in the dirty part
//! ```
//!
//! `reported` is the length of the part that snapshots reported. It lets a second rollback, of an outer
//! transaction, keep that part too.
//!
//! A key is *known* if it became dirty by such a rollback alone: when the transaction started, the reader knew the key
//! as it is again now. It is dirty because it was told of another state of the key, and may have left marks of it.
//! If the reader is told once more, and the transaction in which it is told is rolled back, then there is
//! nothing to tell it a third time. Without this, each of many transactions that are rolled back in a row would leave
//! all keys dirty that those before it have touched. `known` ends with the first change that is not rolled back.
//!
//! What a rollback drops or moves lies behind its remembered `seen`. Transactions that stay open remember a `seen` that
//! is not greater, and their remembered lengths are not used any more, because there was a snapshot since they started.

use crate::{
    entries::{Entries, Entry},
    index::{index, NOWHERE},
    journal::Journal,
};
use alloc::vec::Vec;
use core::ops::Range;
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
    /// The places of the known keys. All keys in it are known, but not all known keys are in it.
    known: Range<u32>,
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
        self.known = 0..0;
    }

    /// Notes that what has changed, or changes next, will not be rolled back.
    #[inline]
    pub(crate) fn changes_for_good(&mut self) {
        self.known = 0..0;
    }

    /// Takes the log back to `mark`, before `journal` restores the entries.
    #[inline]
    pub(crate) fn roll_back(
        &mut self,
        mark: DirtyLogMark,
        journal: &Journal,
        entries: &mut Entries,
    ) {
        if self.snapshots == mark.snapshots {
            self.ids.truncate(mark.len as usize);
        } else {
            self.go_back(mark, journal, entries);
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
                let entry = entries.at_mut(id);
                self.note(id, entry);
                // The reader keeps what it was told inside of the transaction.
                if self.known.contains(&entry.logged_at) {
                    self.known.start = entry.logged_at + 1;
                }
            }
        }
    }

    fn go_back(&mut self, mark: DirtyLogMark, journal: &Journal, entries: &mut Entries) {
        let mut end = mark.seen;
        let mut known_from = end;
        let before = self.ids.len();
        for at in mark.seen..self.reported {
            let id = self.ids[at as usize];
            let entry = entries.at_mut(id);
            let is_known = self.known.contains(&at);
            // The second mention of a key that was dropped, or is in its final place.
            if entry.logged_at == NOWHERE || self.is_placed(id, entry, mark.seen..end) {
                continue;
            }
            if is_known && !self.is_dirty(id, entry) && !journal.has_record_of(id, entry) {
                entry.logged_at = NOWHERE;
                self.ids.push(id);
                continue;
            }
            entry.logged_at = end;
            self.ids[end as usize] = id;
            end += 1;
            if !is_known && at < mark.len {
                known_from = end;
            }
        }
        for dropped in self.ids.drain(before..) {
            // The place of no key yet, and then of another one.
            entries.at_mut(dropped).logged_at = end;
        }
        self.ids.truncate(end as usize);
        self.seen = mark.seen;
        self.reported = end;
        self.known = known_from..end;
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
        let moved = |at: u32| at.saturating_sub(self.seen);
        self.known = moved(self.known.start)..moved(self.known.end);
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
            known,
            snapshots,
        } = self;
        ids.clear();
        ids.shrink_to(most);
        *known = 0..0;
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

    /// Whether `entry` is at the place that it remembers, and the place is in `range`.
    fn is_placed(&self, id: u32, entry: &Entry, range: Range<u32>) -> bool {
        range.contains(&entry.logged_at) && self.ids.get(entry.logged_at as usize) == Some(&id)
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
            known,
            snapshots,
        } = self;
        assert!(ids.is_empty() && known.is_empty());
        assert_eq!((*seen, *reported, *snapshots), (0, 0, 0));
    }
}
