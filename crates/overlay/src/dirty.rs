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
//!   a snapshot since:  cut to `reported`; restore the remembered `seen`; in the dirty part, drop
//!                      the second mention of each key
//!                      known keys that are not dirty now, and that no open transaction has changed
//!                      reported = length
//!   the same, but the reader keeps what it learned:
//!                      append the keys that the rollback restores, unless they are in the dirty part
//! ```
//!
//! `reported` is the length of the part that snapshots reported. It lets a second rollback, of an outer
//! transaction, keep that part too.
//!
//! A key is *known* if it became dirty by such a rollback alone: when the transaction started, the reader knew the key
//! as it is again now. It is dirty because the reader was told of another state of the key, and may have left marks of
//! it. If it is told of the key once more, in a transaction that is rolled back too, then nothing is left to tell. Without
//! this, each of many transactions that are rolled back in a row would leave dirty what all before it have changed. A key
//! is no longer known once a change stays that is made outside of transactions or committed by the outermost one: the
//! change may be one of the key. Until then, a key that an open transaction has changed may be marked as known, and is not
//! dropped.
//!
//! What a rollback drops or moves lies behind its remembered `seen`. Transactions that stay open remember a `seen` that is
//! not greater. Their remembered lengths move with the keys, because they tell which keys were dirty when they started.

use crate::{
    entries::{Entries, Entry},
    index::{index, NOWHERE},
    journal::Journal,
    transaction::OpenTransaction,
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
    mentions: Vec<Mention>,
    seen: u32,
    reported: u32,
    /// Whether a mention may be known.
    has_known: bool,
    snapshots: u64,
}

/// A key in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The id of its entry.
    pub(crate) id: u32,
    /// Whether the key is known, unless an open transaction has changed it.
    known: bool,
}

impl Mention {
    const fn new(id: u32) -> Self {
        Self { id, known: false }
    }
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
            self.mentions.push(Mention::new(id));
        }
    }

    /// The dirty keys, each once, by first change.
    pub(crate) fn dirty(&self) -> &[Mention] {
        &self.mentions[self.seen as usize..]
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
        self.mentions.clear();
        self.mentions.extend(ids.map(Mention::new));
        (self.seen, self.reported, self.has_known) = (0, 0, false);
        self.place(entries);
    }

    /// Notes that what has changed, or changes next, will not be rolled back. No transaction is open then, so what was
    /// seen never becomes dirty again.
    #[inline]
    pub(crate) fn changes_for_good(&mut self) {
        if self.has_known {
            self.forget_known();
        }
    }

    #[cold]
    fn forget_known(&mut self) {
        self.has_known = false;
        for mention in &mut self.mentions[self.seen as usize..] {
            mention.known = false;
        }
    }

    /// Takes the log back to `mark`, before `journal` restores the entries. `open` are the transactions that stay open.
    #[inline]
    pub(crate) fn roll_back(
        &mut self,
        mark: DirtyLogMark,
        journal: &Journal,
        entries: &mut Entries,
        open: &mut [OpenTransaction],
    ) {
        if self.snapshots == mark.snapshots {
            self.mentions.truncate(mark.len as usize);
        } else {
            self.go_back(mark, journal, entries, open);
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
            self.mentions.truncate(mark.len as usize);
        } else {
            for id in restored {
                let entry = entries.at_mut(id);
                self.note(id, entry);
                // The reader keeps what it was told inside of the transaction, so it does not know the key any more.
                self.mentions[entry.logged_at as usize].known = false;
            }
        }
    }

    fn go_back(
        &mut self,
        mark: DirtyLogMark,
        journal: &Journal,
        entries: &mut Entries,
        open: &mut [OpenTransaction],
    ) {
        let before = self.mentions.len();
        // From outer to inner ones; lengths do not decrease.
        let first = open.partition_point(|open| open.log_mark.len <= mark.seen);
        let mut open = open[first..].iter_mut().peekable();
        let mut end = mark.seen;
        for at in mark.seen..self.reported {
            while let Some(open) = open.next_if(|open| open.log_mark.len <= at) {
                open.log_mark.len = end;
            }
            let mention = self.mentions[at as usize];
            let Mention { id, known } = mention;
            let entry = entries.at_mut(id);
            // The second mention of a key that was dropped, or is in its final place.
            if entry.logged_at == NOWHERE || self.is_placed(id, entry, mark.seen..end) {
                continue;
            }
            if known && !self.is_dirty(id, entry) && !journal.has_record_of(id, entry) {
                entry.logged_at = NOWHERE;
                self.mentions.push(mention);
                continue;
            }
            entry.logged_at = end;
            // What was not dirty when the transaction started is known now.
            let known = known || at >= mark.len;
            self.has_known |= known;
            self.mentions[end as usize] = Mention { id, known };
            end += 1;
        }
        open.for_each(|open| open.log_mark.len = end);
        for dropped in self.mentions.drain(before..) {
            // If it stayed nowhere, the rollback of an outer transaction would drop an earlier mention of the key. No
            // other place is that of the key: this one has none yet, and then another one.
            entries.at_mut(dropped.id).logged_at = end;
        }
        self.mentions.truncate(end as usize);
        self.seen = mark.seen;
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
        self.mentions.drain(..self.seen as usize);
        (self.seen, self.reported) = (0, 0);
        self.place(entries);
    }

    /// Tells each entry its place.
    fn place(&self, entries: &mut Entries) {
        for (at, mention) in (0..).zip(&self.mentions) {
            entries.at_mut(mention.id).logged_at = at;
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.mentions.capacity() * size_of::<Mention>()
    }

    /// Removes all keys; keeps memory for up to `most` of them.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            mentions,
            seen,
            reported,
            has_known,
            snapshots,
        } = self;
        mentions.clear();
        mentions.shrink_to(most);
        *has_known = false;
        (*seen, *reported, *snapshots) = (0, 0, 0);
    }

    #[inline]
    fn len(&self) -> u32 {
        index(self.mentions.len())
    }

    /// Whether `entry` is in the dirty part, at the place that the entry remembers.
    #[inline]
    fn is_dirty(&self, id: u32, entry: &Entry) -> bool {
        entry.logged_at >= self.seen && self.is_mentioned(id, entry)
    }

    /// Whether `entry` is at the place that it remembers, and the place is in `range`.
    fn is_placed(&self, id: u32, entry: &Entry, range: Range<u32>) -> bool {
        range.contains(&entry.logged_at) && self.is_mentioned(id, entry)
    }

    /// Whether `entry` is at the place that it remembers.
    #[inline]
    fn is_mentioned(&self, id: u32, entry: &Entry) -> bool {
        let mention = self.mentions.get(entry.logged_at as usize);
        mention.is_some_and(|mention| mention.id == id)
    }
}

#[cfg(test)]
impl DirtyLog {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            mentions,
            seen,
            reported,
            has_known,
            snapshots,
        } = self;
        assert!(mentions.is_empty() && !has_known);
        assert_eq!((*seen, *reported, *snapshots), (0, 0, 0));
    }
}
