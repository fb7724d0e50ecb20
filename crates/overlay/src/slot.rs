//! What the overlay holds for a key, in two words.
//!
//! ```text
//! word 0:   the place of a value (4 bytes), its length (4)
//! word 1:   the kind of content (1 byte), the size class of the value's block (1), the value's start in it (1)
//! ```
//!
//! A slot is read and written in whole words, because it is often read right after it was written: a
//! processor that reads a word which was written in parts has to wait until the parts are in its cache.

use crate::{
    heap::Heap,
    value::{ListMark, Value},
    Lookup,
};
use povmeter_primitives::Fate;

/// What the overlay holds for a key. Whoever replaces a [`Value`] frees it or moves it elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot(u64, u64);

const UNTOUCHED: u8 = 0;
const DELETED: u8 = 1;
const VALUE: u8 = 2;
/// The length of a list; in the journal alone.
const LIST: u8 = 3;

impl Slot {
    /// Nothing, because every change of the key was rolled back.
    pub(crate) const UNTOUCHED: Self = Self(0, UNTOUCHED as u64);
    pub(crate) const DELETED: Self = Self(0, DELETED as u64);

    #[inline(always)]
    pub(crate) fn of(value: Value) -> Self {
        let [place, form] = value.to_words();
        Self(place, form << 8 | u64::from(VALUE))
    }

    #[inline(always)]
    fn kind(self) -> u8 {
        let [kind, ..] = self.1.to_le_bytes();
        kind
    }

    #[inline(always)]
    pub(crate) fn value(self) -> Option<Value> {
        (self.kind() == VALUE).then(|| Value::from_words([self.0, self.1 >> 8]))
    }

    /// The length of a list that an entry still holds; in the journal alone.
    #[inline(always)]
    pub(crate) fn of_list(mark: ListMark) -> Self {
        Self(mark.to_word(), u64::from(LIST))
    }

    #[inline(always)]
    pub(crate) fn list(self) -> Option<ListMark> {
        (self.kind() == LIST).then(|| ListMark::from_word(self.0))
    }

    #[inline(always)]
    pub(crate) fn fate(self) -> Fate {
        match self.kind() {
            UNTOUCHED => Fate::Untouched,
            DELETED => Fate::Deleted,
            _ => Fate::Written,
        }
    }

    #[inline(always)]
    pub(crate) fn lookup(self, heap: &Heap) -> Lookup<'_> {
        match self.value() {
            Some(value) => Lookup::Value(value.as_slice(heap)),
            None if self.kind() == DELETED => Lookup::Deleted,
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
