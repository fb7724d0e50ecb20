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
    spare::Spare,
    store::{Entry, EntryId, Slot, Store, NOWHERE},
    value::ListMark,
};
use alloc::vec::Vec;
use core::mem;

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    records: Vec<Record>,
}

#[derive(Clone, Debug)]
struct Record {
    id: EntryId,
    before: Before,
    /// Where the record of the same entry in a lower frame is, or [`NOWHERE`].
    lower: usize,
}

/// What an entry held before a frame changed it.
#[derive(Clone, Debug)]
enum Before {
    Held(Slot),
    /// The list that is in the entry still, when it was this long.
    List(ListMark),
}

impl Journal {
    /// Where a frame that starts now starts.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Must be called before what `entry` holds is replaced in the frame that starts at `frame`.
    ///
    /// What the entry holds afterwards may be overwritten.
    #[inline]
    pub(crate) fn before_replacing(&mut self, frame: usize, id: EntryId, entry: &mut Entry) {
        let Some(at) = self.record_of(id, entry).filter(|&at| at >= frame) else {
            let held = mem::take(&mut entry.slot);
            self.push(id, entry, Before::Held(held));
            return;
        };
        let before = &mut self.records[at].before;
        if matches!(before, Before::List(_)) {
            hand_list_over(before, mem::take(&mut entry.slot));
        }
    }

    /// Must be called before the list in `entry`, of which `mark` was just taken, is appended to in
    /// the frame that starts at `frame`.
    #[inline]
    pub(crate) fn before_appending(
        &mut self,
        frame: usize,
        id: EntryId,
        entry: &mut Entry,
        mark: ListMark,
    ) {
        if self.record_of(id, entry).is_none_or(|at| at < frame) {
            self.push(id, entry, Before::List(mark));
        }
    }

    /// Hands the frame that starts at `frame` over to the one below it, which starts at `parent`.
    pub(crate) fn commit(
        &mut self,
        frame: usize,
        parent: usize,
        stores: &mut [Store],
        spare: &mut Spare,
    ) {
        if parent == frame {
            return; // The parent frame has no records: these are its records as they stand.
        }
        let (below, own) = self.records.split_at_mut(frame);
        let mut kept = 0;
        for at in 0..own.len() {
            let Record { id, lower, .. } = own[at];
            let entry = stores[id.store].entry_mut(id.entry);
            if (parent..frame).contains(&lower) {
                let before = mem::replace(&mut own[at].before, Before::Held(Slot::Untouched));
                merge(&mut below[lower].before, before, spare);
                entry.undo_at = lower;
            } else {
                own.swap(kept, at);
                entry.undo_at = frame + kept;
                kept += 1;
            }
        }
        self.records.truncate(frame + kept);
    }

    /// Forgets everything: the outermost frame was committed.
    ///
    /// Entries keep pointing here; [`Self::record_of`] sees through that.
    pub(crate) fn forget(&mut self, spare: &mut Spare) {
        for record in self.records.drain(..) {
            if let Before::Held(slot) = record.before {
                give(spare, slot);
            }
        }
    }

    /// Puts back what the entries changed in the frame that starts at `frame` held; `false` if
    /// there were none.
    pub(crate) fn roll_back(
        &mut self,
        frame: usize,
        stores: &mut [Store],
        spare: &mut Spare,
    ) -> bool {
        let changed = self.records.len() > frame;
        for Record { id, before, lower } in self.records.drain(frame..).rev() {
            stores[id.store].change_entry(id.entry, |entry| {
                entry.undo_at = lower;
                match before {
                    Before::Held(slot) => give(spare, mem::replace(&mut entry.slot, slot)),
                    Before::List(mark) => {
                        if let Slot::Value(list) = &mut entry.slot {
                            list.take_back(mark);
                        }
                    }
                }
            });
        }
        changed
    }

    fn push(&mut self, id: EntryId, entry: &mut Entry, before: Before) {
        let lower = self.record_of(id, entry).unwrap_or(NOWHERE);
        entry.undo_at = self.records.len();
        self.records.push(Record { id, before, lower });
    }

    /// Where the last record of `entry` is.
    fn record_of(&self, id: EntryId, entry: &Entry) -> Option<usize> {
        let record = self.records.get(entry.undo_at)?;
        (record.id == id).then_some(entry.undo_at)
    }
}

/// Turns `before`, a mark of the list in `slot`, into that list.
fn hand_list_over(before: &mut Before, mut slot: Slot) {
    if let (Before::List(mark), Slot::Value(list)) = (&*before, &mut slot) {
        list.take_back(*mark);
    }
    *before = Before::Held(slot);
}

/// Makes `parent`, the older of two records of an entry, do the work of both.
fn merge(parent: &mut Before, own: Before, spare: &mut Spare) {
    let Before::Held(slot) = own else {
        return; // Only appends since: what the parent record says of the list holds.
    };
    match parent {
        Before::List(_) => hand_list_over(parent, slot),
        Before::Held(_) => give(spare, slot),
    }
}

fn give(spare: &mut Spare, slot: Slot) {
    if let Slot::Value(value) = slot {
        spare.give(value);
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
