//! Bytes that are taken one behind the other.

use alloc::vec::Vec;

/// Memory of which more and more is taken, until all is given back at once.
///
/// What lies in bytes that were just taken means nothing: it may be of whoever had them before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes {
    /// Longer than what is taken, so that most takers find bytes that are there.
    bytes: Vec<u8>,
    taken: usize,
}

/// Bytes to begin with: what a branch with a few writes needs.
const FEWEST: usize = 256;
/// Up to here memory grows fourfold: copying what is there takes longer than memory is dear.
const FEW: usize = 64 << 10;
/// Bytes that are cleared at once: a page, so that none is touched for nothing.
const PAGE: usize = 4096;

impl Bytes {
    /// How many are taken.
    #[inline(always)]
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Takes all up to `end`.
    #[inline(always)]
    pub(crate) fn take_to(&mut self, end: usize) {
        if end > self.bytes.len() {
            self.make(end);
        }
        self.taken = end;
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, end: usize) {
        let held = self.bytes.capacity();
        if end > held {
            let more = if held < FEW {
                held * 2
            } else {
                held + held / 2
            };
            let more = more.max(FEWEST).max(end);
            self.bytes.reserve_exact(more - self.bytes.len());
        }
        let held = self.bytes.capacity();
        self.bytes.resize(end.next_multiple_of(PAGE).min(held), 0);
    }

    /// All that are taken, and some.
    #[inline(always)]
    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives all back; keeps up to `most` bytes of memory.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self { bytes, taken } = self;
        *taken = 0;
        bytes.truncate(most);
        bytes.shrink_to(most);
    }
}

#[cfg(test)]
impl Bytes {
    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { bytes: _, taken } = self;
        assert_eq!(*taken, 0);
    }
}
