//! Indices and offsets of 31 bits.

/// An index, or an offset, below [`Index::END`].
///
/// A greater number is refused where an index is made, and is never taken for another index. A field
/// of 32 bits that holds an index has one bit left for a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Index(u32);

impl Index {
    pub(crate) const ZERO: Self = Self(0);
    /// The first number that is no index.
    pub(crate) const END: u32 = 1 << 31;

    /// The index `number`, or `None` if it is too large.
    #[inline]
    pub(crate) fn new(number: usize) -> Option<Self> {
        let bits = u32::try_from(number).ok()?;
        Self::from_bits(bits)
    }

    /// The index `bits`, or `None` if they are too large.
    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Option<Self> {
        if bits < Self::END {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// The index in `bits`, without the mark.
    #[inline]
    pub(crate) const fn unmarked(bits: u32) -> Self {
        Self(bits & (Self::END - 1))
    }

    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// An index, or none, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionalIndex(u32);

impl OptionalIndex {
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline]
    pub(crate) const fn some(index: Index) -> Self {
        Self(index.bits())
    }

    #[inline]
    pub(crate) const fn get(self) -> Option<Index> {
        Index::from_bits(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_itself_or_no_index() {
        for number in [0, 1, 0x7fff_ffff] {
            let index = Index::new(number).unwrap_or(Index::ZERO);
            assert_eq!(index.get(), number);
            assert_eq!(OptionalIndex::some(index).get(), Some(index));
            assert_eq!(Index::unmarked(index.bits() | Index::END), index);
        }
        for number in [0x8000_0000, 0xffff_ffff, usize::MAX] {
            assert_eq!(Index::new(number), None);
        }
        assert_eq!(OptionalIndex::NONE.get(), None);
    }
}
