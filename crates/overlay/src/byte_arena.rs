//! An arena of bytes.

use alloc::vec::Vec;

/// Memory that is taken piece by piece and given back all at once.
///
/// The content of bytes that were just taken is undefined: it may be left from an earlier block.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteArena {
    /// Longer than `taken`, so that most calls need not lengthen it.
    bytes: Vec<u8>,
    taken: usize,
}

/// The first capacity, enough for a few writes.
const FEWEST: usize = 256;
/// Up to this capacity the arena doubles; from here on it grows by half.
const FEW: usize = 64 << 10;
/// New memory is cleared page by page, so that no page is touched before it is needed.
const PAGE: usize = 4096;

impl ByteArena {
    /// How many bytes are taken.
    #[inline(always)]
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Takes all bytes up to `end`.
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
            // In wasm memory comes in powers of two, so growing by less than double wastes it.
            let more = if held < FEW || cfg!(target_family = "wasm") {
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

    /// The bytes that are taken, and some more.
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

    /// Gives all bytes back; keeps up to `most` bytes of memory.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self { bytes, taken } = self;
        *taken = 0;
        bytes.truncate(most);
        bytes.shrink_to(most);
    }
}

#[cfg(test)]
impl ByteArena {
    /// Panics unless equal to a new one but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self { bytes: _, taken } = self;
        assert_eq!(*taken, 0);
    }
}
