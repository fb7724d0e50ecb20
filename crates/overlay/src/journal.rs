//! What to put back on a rollback.
//!
//! ```text
//! an open transaction owns the part of the journal from its start on
//!
//! first change of an entry in a transaction:   push a record of what the entry held before
//!     if it appends to a list:                 push a record of the list's length alone
//! replacing a list that the same transaction
//! appended to:                                 shorten the list and move it into the record
//! roll back:                                   pop the transaction's records; each restores its entry
//! commit into a parent transaction:            keep the records of entries for which the parent has none
//! commit of the outermost transaction:         remove all records
//! ```
//!
//! So a transaction has at most one record of an entry, a read never looks here, and closing a
//! transaction costs what was changed in it.

use crate::{
    entries::{Entries, Entry},
    heap::Heap,
    index::{index, NOWHERE},
    slot::Slot,
    store::Stores,
    value::ListMark,
};
use alloc::vec::Vec;

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    records: Vec<JournalRecord>,
}

#[derive(Clone, Copy, Debug)]
struct JournalRecord {
    /// What the entry held before the transaction changed it. If the transaction only appended to a
    /// list, the entry still holds the list, and this is its length before.
    before: Slot,
    id: u32,
    /// The place of the record of the same entry in an outer transaction, or [`NOWHERE`].
    outer: u32,
}

impl Journal {
    /// Where the part of a transaction that starts now will begin: the number of records.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        index(self.records.len())
    }

    /// The entries of which the transaction whose part starts at `start` has a record, each with whether it only
    /// appended to a list.
    pub(crate) fn changed_from(&self, start: u32) -> impl Iterator<Item = (u32, bool)> + '_ {
        let records = self.records[start as usize..].iter();
        records.map(|record| (record.id, record.before.list().is_some()))
    }

    /// Records what `entry` holds before the transaction whose part starts at `start` replaces it.
    ///
    /// The caller may overwrite what the entry holds afterwards.
    #[inline]
    pub(crate) fn before_replacing(
        &mut self,
        start: u32,
        id: u32,
        entry: &mut Entry,
        heap: &mut Heap,
    ) {
        match self.record_of(id, entry) {
            Some(record) if entry.undo_at >= start => {
                if let Some(mark) = record.before.list() {
                    record.before = take_back(entry.slot, mark, heap);
                    entry.slot = Slot::UNTOUCHED;
                }
            }
            _ => {
                self.push(id, entry, entry.slot);
                entry.slot = Slot::UNTOUCHED;
            }
        }
    }

    /// Records the length of the list in `entry`, which is `mark`, before the transaction whose part
    /// starts at `start` appends to it.
    #[inline]
    pub(crate) fn before_appending(
        &mut self,
        start: u32,
        id: u32,
        entry: &mut Entry,
        mark: ListMark,
    ) {
        if entry.undo_at < start || self.record_of(id, entry).is_none() {
            self.push(id, entry, Slot::of_list(mark));
        }
    }

    /// Gives the records of the transaction whose part starts at `start` to its parent, whose part
    /// starts at `parent`.
    #[inline]
    pub(crate) fn commit(
        &mut self,
        start: u32,
        parent: u32,
        entries: &mut Entries,
        heap: &mut Heap,
    ) {
        // If the parent has no records yet, these become its records as they are.
        if parent < start && (start as usize) < self.records.len() {
            self.join(start, parent, entries, heap);
        }
    }

    fn join(&mut self, start: u32, parent: u32, entries: &mut Entries, heap: &mut Heap) {
        let mut kept = start;
        for at in start..self.len() {
            let record = self.records[at as usize];
            let entry = entries.at_mut(record.id);
            if (parent..start).contains(&record.outer) {
                let older = &mut self.records[record.outer as usize].before;
                *older = join_records(*older, record.before, heap);
                entry.undo_at = record.outer;
            } else {
                self.records[kept as usize] = record;
                entry.undo_at = kept;
                kept += 1;
            }
        }
        self.records.truncate(kept as usize);
    }

    /// Removes all records after the outermost transaction was committed.
    ///
    /// Entries keep the places of removed records; [`Self::record_of`] checks for that.
    pub(crate) fn forget(&mut self, heap: &mut Heap) {
        for record in &self.records {
            record.before.free(heap);
        }
        self.records.clear();
    }

    /// Restores the entries that the transaction whose part starts at `start` changed; `false` if it
    /// changed none.
    #[inline]
    pub(crate) fn roll_back(
        &mut self,
        start: u32,
        entries: &mut Entries,
        stores: &mut Stores,
        heap: &mut Heap,
    ) -> bool {
        if self.records.len() == start as usize {
            return false;
        }
        for record in self.records[start as usize..].iter().rev() {
            let entry = entries.at_mut(record.id);
            let fate = entry.slot.fate();
            entry.undo_at = record.outer;
            entry.slot = match record.before.list() {
                Some(mark) => take_back(entry.slot, mark, heap),
                None => {
                    entry.slot.free(heap);
                    record.before
                }
            };
            stores.note(entries, record.id, fate);
        }
        self.records.truncate(start as usize);
        true
    }

    /// The entries that [`Self::roll_back`] to `start` restores.
    pub(crate) fn restored(&self, start: u32) -> impl Iterator<Item = u32> + '_ {
        self.records[start as usize..]
            .iter()
            .map(|record| record.id)
    }

    /// Whether an open transaction has changed `entry`.
    pub(crate) fn has_record_of(&self, id: u32, entry: &Entry) -> bool {
        let record = self.records.get(entry.undo_at as usize);
        record.is_some_and(|record| record.id == id)
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.records.capacity() * size_of::<JournalRecord>()
    }

    /// Removes all records without freeing their values, because the heap is reset with the journal.
    /// Keeps memory for up to `most` records.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self { records } = self;
        records.clear();
        records.shrink_to(most);
    }

    #[inline]
    fn push(&mut self, id: u32, entry: &mut Entry, before: Slot) {
        let outer = self.record_of(id, entry).map_or(NOWHERE, |_| entry.undo_at);
        entry.undo_at = self.len();
        self.records.push(JournalRecord { before, id, outer });
    }

    /// The last record of `entry`, at the place that the entry remembers.
    #[inline]
    fn record_of(&mut self, id: u32, entry: &Entry) -> Option<&mut JournalRecord> {
        let record = self.records.get_mut(entry.undo_at as usize)?;
        (record.id == id).then_some(record)
    }
}

/// The list in `slot`, shortened to the length that `mark` gives.
fn take_back(slot: Slot, mark: ListMark, heap: &mut Heap) -> Slot {
    match slot.value() {
        Some(list) => Slot::of(list.take_back(mark, heap)),
        None => slot,
    }
}

/// Joins two records of the same entry into one.
fn join_records(older: Slot, younger: Slot, heap: &mut Heap) -> Slot {
    if younger.list().is_some() {
        // The younger record is of appends alone, so the older one restores the list as well.
        return older;
    }
    match older.list() {
        Some(mark) => take_back(younger, mark, heap),
        None => {
            younger.free(heap);
            older
        }
    }
}

#[cfg(test)]
impl Journal {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { records } = self;
        assert!(records.is_empty());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{Overlay, TrieId::Top};

    /// Inner transactions are closed and the outer one writes again, many times. A second record would
    /// cost memory for a value at every write.
    #[test]
    fn a_transaction_has_one_record_of_an_entry() {
        type Close = fn(&mut Overlay);
        let closes: [Close; 2] = [
            |overlay| overlay.commit_transaction().unwrap(),
            |overlay| overlay.rollback_transaction().unwrap(),
        ];
        for close in closes {
            let mut overlay = Overlay::new();
            overlay.start_transaction();
            for round in 0..10 {
                overlay.set(Top, b"outer first", b"value");
                overlay.start_transaction();
                overlay.set(Top, b"outer first", b"value");
                overlay.set(Top, b"inner first", b"value");
                overlay.remove(Top, b"inner first");
                close(&mut overlay);
                overlay.set(Top, b"inner first", b"value");
                assert_eq!(overlay.journal.len(), 2, "round {round}");
            }
        }
    }
}
