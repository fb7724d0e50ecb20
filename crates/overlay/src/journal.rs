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
    entries::{Entries, Entry, Slot},
    heap::Heap,
    index::{index, NOWHERE},
    store::Stores,
    value::ListMark,
};
use alloc::vec::Vec;
use core::mem;

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    id: u32,
    /// Where the record of the same entry in a lower frame is, or [`NOWHERE`].
    lower: u32,
    before: Before,
}

/// What an entry held before a frame changed it.
#[derive(Clone, Copy, Debug)]
enum Before {
    Held(Slot),
    /// The list that is in the entry still, when it was this long.
    List(ListMark),
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
                if let Before::List(mark) = record.before {
                    record.before = hand_list_over(mark, mem::take(&mut entry.slot), heap);
                }
            }
            _ => {
                let held = mem::take(&mut entry.slot);
                self.push(id, entry, Before::Held(held));
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
            self.push(id, entry, Before::List(mark));
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
        for record in self.records.drain(..) {
            if let Before::Held(slot) = record.before {
                slot.free(heap);
            }
        }
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
        for Record { id, lower, before } in self.records.drain(frame as usize..).rev() {
            let entry = entries.at_mut(id);
            let fate = entry.slot.fate();
            entry.undo_at = lower;
            match before {
                Before::Held(slot) => mem::replace(&mut entry.slot, slot).free(heap),
                Before::List(mark) => take_back(&mut entry.slot, mark, heap),
            }
            note(stores, id, entry, fate);
        }
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
    fn push(&mut self, id: u32, entry: &mut Entry, before: Before) {
        let lower = self.record_of(id, entry).map_or(NOWHERE, |_| entry.undo_at);
        entry.undo_at = self.len();
        self.records.push(Record { id, lower, before });
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

fn take_back(slot: &mut Slot, mark: ListMark, heap: &mut Heap) {
    if let Slot::Value(list) = slot {
        list.take_back(mark, heap);
    }
}

/// The record that the list in `slot` was there as `mark` says, when it no longer is.
fn hand_list_over(mark: ListMark, mut slot: Slot, heap: &mut Heap) -> Before {
    take_back(&mut slot, mark, heap);
    Before::Held(slot)
}

/// The one record that does the work of two of an entry.
fn join_records(older: Before, younger: Before, heap: &mut Heap) -> Before {
    match (older, younger) {
        // Only appends since: what the older record says of the list holds.
        (older, Before::List(_)) => older,
        (Before::List(mark), Before::Held(slot)) => hand_list_over(mark, slot, heap),
        (older, Before::Held(slot)) => {
            slot.free(heap);
            older
        }
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
