//! Key to id.
//!
//! Linear probing over slots of eight bytes. A slot has all of the hash, so that keys are hardly
//! ever compared in vain, and the table grows without asking for a hash again. Nothing is ever taken
//! out of it.

use alloc::vec::Vec;

/// A hash table from hashes of keys to the ids under which somebody else keeps the keys.
///
/// Nothing reads the table in its own order, so the seeds of the hash show in no result.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    /// As many as a power of two, less than three quarters of them taken; none at first.
    slots: Vec<Slot>,
    taken: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    hash: u32,
    id: u32,
}

/// No id: an arena is full before.
const FREE: Slot = Slot {
    hash: 0,
    id: crate::index::NOWHERE,
};

/// Slots to begin with.
const FEWEST: usize = 16;

impl KeyTable {
    /// The id with this hash of which `is_it` holds.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        // Of no slots, none is looked at.
        let last = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & last;
        loop {
            let slot = self.slots.get(at)?;
            if slot.id == FREE.id {
                return None;
            }
            if slot.hash == hash && is_it(slot.id) {
                return Some(slot.id);
            }
            at = (at + 1) & last;
        }
    }

    /// Adds an id that is not there yet.
    pub(crate) fn insert(&mut self, hash: u32, id: u32) {
        if self.taken >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        self.taken += 1;
        place(&mut self.slots, Slot { hash, id });
    }

    fn grow(&mut self) {
        let more = (self.slots.len() * 2).max(FEWEST);
        let slots = core::mem::replace(&mut self.slots, alloc::vec![FREE; more]);
        for slot in slots.into_iter().filter(|slot| *slot != FREE) {
            place(&mut self.slots, slot);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Forgets all ids. Keeps memory for up to `most` ids.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self { slots, taken } = self;
        *taken = 0;
        if slots.len() / 2 > most {
            *slots = Vec::new();
        } else {
            slots.fill(FREE);
        }
    }
}

/// Puts `slot` into the first free place from its own on; there is one.
fn place(slots: &mut [Slot], slot: Slot) {
    let last = slots.len() - 1;
    let mut at = slot.hash as usize & last;
    while slots[at] != FREE {
        at = (at + 1) & last;
    }
    slots[at] = slot;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_whatever_their_hashes() {
        for spread in [0, 1, 3, 0x9e37_79b1] {
            let hash = |id: u32| id.wrapping_mul(spread);
            let mut table = KeyTable::default();
            assert_eq!(table.find(0, |_| true), None);
            for id in 0..2_000 {
                assert_eq!(table.find(hash(id), |other| other == id), None);
                table.insert(hash(id), id);
                assert!(table.slots.len() >= FEWEST && table.taken < table.slots.len());
            }
            for id in 0..2_000 {
                assert_eq!(table.find(hash(id), |other| other == id), Some(id));
            }
            assert_eq!(table.find(5, |_| false), None);
        }
    }
}
