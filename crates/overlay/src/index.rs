//! Places in arenas.

/// A place that nothing lies at.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// `at` as a place in an arena, in the units that the arena counts in.
///
/// Places take four bytes, so that what points to each other lies close together. Each place is at least
/// a byte that the overlay holds, so an overlay of less than 4 GiB never gets here, nor does any on a
/// machine with addresses of 32 bits. Arenas get full at
///
/// | arena | place | full at |
/// |---|--:|--:|
/// | a single value, or key | 1 byte | 4 GiB |
/// | changes not seen by a snapshot | 4 bytes | 16 GiB |
/// | keys | 8 bytes | 32 GiB |
/// | values | 16 bytes | 64 GiB |
/// | entries, undo records | 24 bytes and more | 96 GiB |
///
/// # Panics
/// When an arena is full: as a `Vec` does that is out of memory, and for the same reason. Writes have no
/// error to return, and an overlay that left one out would lie.
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
