//! Places in arenas.

/// The place of nothing.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// `at` as a place in an arena, in the units that the arena counts in.
///
/// A place is four bytes, so that entries stay small. Each place is at least one byte of the overlay's
/// memory, so no overlay of less than 4 GiB fills an arena, and none does on a machine with addresses of
/// 32 bits. Arenas are full at
///
/// | arena | place | full at |
/// |---|--:|--:|
/// | a single value, or key | 1 byte | 4 GiB |
/// | dirty keys | 8 bytes | 32 GiB |
/// | keys | 8 bytes | 32 GiB |
/// | values | 16 bytes | 64 GiB |
/// | entries, journal records | 24 bytes and more | 96 GiB |
///
/// # Panics
/// When an arena is full, as a `Vec` panics when it is out of memory: writes return no error, and an
/// overlay that left a write out would give wrong answers.
#[inline]
pub(crate) fn index(at: usize) -> u32 {
    match u32::try_from(at) {
        Ok(at) if at != NOWHERE => at,
        _ => full(at),
    }
}

#[cold]
fn full(at: usize) -> u32 {
    panic!("expected an overlay of less than 2^32 places, found {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_but_nowhere() {
        for at in [0, 1, u32::MAX - 1] {
            assert_eq!(index(at as usize), at);
        }
    }

    #[test]
    #[should_panic = "expected an overlay of less than 2^32 places, found 4294967295"]
    fn nowhere_is_no_place() {
        index(NOWHERE as usize);
    }
}
