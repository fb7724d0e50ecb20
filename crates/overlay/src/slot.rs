//! What the overlay holds for a key, in two words.
//!
//! ```text
//! word 0:   the place of a value (4 bytes), its length (4)
//! word 1:   what is held (1 byte), then the size of the value's block (1), where in it the value starts (1)
//! ```
//!
//! Words are read as they were written. A processor that reads at once what was written in parts has to
//! wait until the parts have reached its cache, and slots are read right after they were written.

use crate::{
    dirty::Fate,
    heap::Heap,
    value::{ListMark, Value},
    Lookup,
};

/// What the overlay holds for a key. A [`Value`] that is replaced must be freed or kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot(u64, u64);

const UNTOUCHED: u8 = 0;
const DELETED: u8 = 1;
const VALUE: u8 = 2;
/// Of the journal alone.
const LIST: u8 = 3;

impl Slot {
    /// Nothing: every change of the key was rolled back.
    pub(crate) const UNTOUCHED: Self = Self(0, UNTOUCHED as u64);
    pub(crate) const DELETED: Self = Self(0, DELETED as u64);

    #[inline(always)]
    pub(crate) fn of(value: Value) -> Self {
        let [place, form] = value.to_words();
        Self(place, form << 8 | u64::from(VALUE))
    }

    #[inline(always)]
    fn held(self) -> u8 {
        let [held, ..] = self.1.to_le_bytes();
        held
    }

    #[inline(always)]
    pub(crate) fn value(self) -> Option<Value> {
        (self.held() == VALUE).then(|| Value::from_words([self.0, self.1 >> 8]))
    }

    /// In the journal, for an entry that held a list which it still has: how long that was.
    #[inline(always)]
    pub(crate) fn of_list(mark: ListMark) -> Self {
        Self(mark.to_word(), u64::from(LIST))
    }

    #[inline(always)]
    pub(crate) fn list(self) -> Option<ListMark> {
        (self.held() == LIST).then(|| ListMark::from_word(self.0))
    }

    #[inline(always)]
    pub(crate) fn fate(self) -> Fate {
        match self.held() {
            UNTOUCHED => Fate::Untouched,
            DELETED => Fate::Deleted,
            _ => Fate::Written,
        }
    }

    #[inline(always)]
    pub(crate) fn lookup(self, heap: &Heap) -> Lookup<'_> {
        match self.value() {
            Some(value) => Lookup::Value(value.as_slice(heap)),
            None if self.held() == DELETED => Lookup::Deleted,
            None => Lookup::Untouched,
        }
    }

    #[inline(always)]
    pub(crate) fn free(self, heap: &mut Heap) {
        if let Some(value) = self.value() {
            value.free(heap);
        }
    }
}
