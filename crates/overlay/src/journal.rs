//! What to put back on a rollback.
//!
//! ```text
//! a frame is the part of the journal from its start on
//! first change of an entry in a frame:   push what the entry held before
//!     appending to a list:               push only how long the list was
//! replacing a list appended to in this
//! same frame:                            the list, taken back, moves into the record
//! roll back:                             pop the frame's records, each puts its entry back
//! commit into a parent frame:            keep the records of entries that the parent frame has no record of
//! commit of the outermost frame:         forget everything
//! ```
//!
//! So a frame holds at most one record of an entry, a read never looks here, and closing a frame
//! costs what was changed in it.

use crate::{
    dirty::Fate,
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
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    /// What the entry held before a frame changed it; or how long the list was that is in the entry
    /// still.
    before: Slot,
    id: u32,
    /// Where the record of the same entry in a lower frame is, or [`NOWHERE`].
    lower: u32,
}

impl Journal {
    /// Where a frame that starts now starts.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        index(self.records.len())
    }

    /// Must be called before what `entry` holds is replaced in the frame that starts at `frame`.
    ///
    /// What the entry holds afterwards may be overwritten.
    #[inline]
    pub(crate) fn before_replacing(
        &mut self,
        frame: u32,
        id: u32,
        entry: &mut Entry,
        heap: &mut Heap,
    ) {
        match self.record_of(id, entry) {
            Some(record) if entry.undo_at >= frame => {
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

    /// Must be called before the list in `entry`, of which `mark` was just taken, is appended to in
    /// the frame that starts at `frame`.
    #[inline]
    pub(crate) fn before_appending(
        &mut self,
        frame: u32,
        id: u32,
        entry: &mut Entry,
        mark: ListMark,
    ) {
        if entry.undo_at < frame || self.record_of(id, entry).is_none() {
            self.push(id, entry, Slot::of_list(mark));
        }
    }

    /// Hands the frame that starts at `frame` over to the one below it, which starts at `parent`.
    #[inline]
    pub(crate) fn commit(
        &mut self,
        frame: u32,
        parent: u32,
        entries: &mut Entries,
        heap: &mut Heap,
    ) {
        // Where the parent frame has no records, these are its records as they stand.
        if parent < frame && (frame as usize) < self.records.len() {
            self.join(frame, parent, entries, heap);
        }
    }

    fn join(&mut self, frame: u32, parent: u32, entries: &mut Entries, heap: &mut Heap) {
        let mut kept = frame;
        for at in frame..self.len() {
            let record = self.records[at as usize];
            let entry = entries.at_mut(record.id);
            if (parent..frame).contains(&record.lower) {
                let below = &mut self.records[record.lower as usize].before;
                *below = join_records(*below, record.before, heap);
                entry.undo_at = record.lower;
            } else {
                self.records[kept as usize] = record;
                entry.undo_at = kept;
                kept += 1;
            }
        }
        self.records.truncate(kept as usize);
    }

    /// Forgets everything: the outermost frame was committed.
    ///
    /// Entries keep pointing here; [`Self::record_of`] sees through that.
    pub(crate) fn forget(&mut self, heap: &mut Heap) {
        for record in &self.records {
            record.before.free(heap);
        }
        self.records.clear();
    }

    /// Puts back what the entries changed in the frame that starts at `frame` held; `false` if
    /// there were none.
    #[inline]
    pub(crate) fn roll_back(
        &mut self,
        frame: u32,
        entries: &mut Entries,
        stores: &mut Stores,
        heap: &mut Heap,
    ) -> bool {
        if self.records.len() == frame as usize {
            return false;
        }
        for record in self.records[frame as usize..].iter().rev() {
            let entry = entries.at_mut(record.id);
            let fate = entry.slot.fate();
            entry.undo_at = record.lower;
            entry.slot = match record.before.list() {
                Some(mark) => take_back(entry.slot, mark, heap),
                None => {
                    entry.slot.free(heap);
                    record.before
                }
            };
            note(stores, record.id, entry, fate);
        }
        self.records.truncate(frame as usize);
        true
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.records.capacity() * size_of::<Record>()
    }

    /// Forgets everything, blocks of the heap included; keeps memory for up to `most` records.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self { records } = self;
        records.clear();
        records.shrink_to(most);
    }

    #[inline]
    fn push(&mut self, id: u32, entry: &mut Entry, before: Slot) {
        let lower = self.record_of(id, entry).map_or(NOWHERE, |_| entry.undo_at);
        entry.undo_at = self.len();
        self.records.push(Record { before, id, lower });
    }

    /// The last record of `entry`, which is at the place that the entry remembers.
    #[inline]
    fn record_of(&mut self, id: u32, entry: &Entry) -> Option<&mut Record> {
        let record = self.records.get_mut(entry.undo_at as usize)?;
        (record.id == id).then_some(record)
    }
}

#[inline]
fn note(stores: &mut Stores, id: u32, entry: &mut Entry, before: Fate) {
    if entry.slot.fate() != before {
        stores.at_mut(entry.store).note(id, entry, before);
    }
}

/// The list in `slot` as it was when `mark` was taken.
fn take_back(slot: Slot, mark: ListMark, heap: &mut Heap) -> Slot {
    match slot.value() {
        Some(list) => Slot::of(list.take_back(mark, heap)),
        None => slot,
    }
}

/// The one record that does the work of two of an entry.
fn join_records(older: Slot, younger: Slot, heap: &mut Heap) -> Slot {
    if younger.list().is_some() {
        // Only appends since: what the older record says of the list holds.
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
    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { records } = self;
        assert!(records.is_empty());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{Overlay, StoreId::Top};

    /// However often inner frames are closed and the frame itself writes again. A second record
    /// would do no harm but keep one more value for every write.
    #[test]
    fn a_frame_has_one_record_of_an_entry() {
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
