//! Places in arenas.

/// A place that nothing lies at.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// `at` as a place in an arena, in the units that the arena counts in.
///
/// Places take four bytes, so that what points to each other lies close together. The first arena to
/// get full is that of the keys, at 32 GiB.
///
/// # Panics
/// When an arena is full, as a `Vec` does.
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
