//! A value of the parent state that a caller keeps.

use arrayvec::ArrayVec;
use bytes::Bytes;
use core::ops::Deref;

/// A value of the parent state, for a caller that keeps it.
///
/// A value of up to 32 bytes lies inside, so it needs no allocation, and no counter that threads would share.
/// A longer value lies in shared memory: that of the loaded node if the node is kept.
///
/// Dereferences to the bytes of the value. Two values are equal if their bytes are.
#[derive(Clone, Debug)]
pub struct KeptValue(Kept);

#[derive(Clone, Debug)]
enum Kept {
    Short(ArrayVec<u8, SHORT>),
    Shared(Bytes),
}

/// The most bytes inside. Longer values are nodes of their own, except in states of version 0.
const SHORT: usize = 32;

impl KeptValue {
    /// A copy of `value`, if it is short.
    pub(crate) fn short(value: &[u8]) -> Option<Self> {
        let short = ArrayVec::try_from(value).ok()?;
        Some(Self(Kept::Short(short)))
    }

    /// A copy of `value`.
    pub(crate) fn copy_of(value: &[u8]) -> Self {
        Self::short(value).unwrap_or_else(|| Self::sharing(Bytes::copy_from_slice(value)))
    }

    /// A value of any length that shares the memory of `value`.
    pub(crate) fn sharing(value: Bytes) -> Self {
        Self(Kept::Shared(value))
    }

    /// The shared memory of the value; `None` if the value lies inside.
    pub fn shared(&self) -> Option<&Bytes> {
        match &self.0 {
            Kept::Short(_) => None,
            Kept::Shared(bytes) => Some(bytes),
        }
    }
}

impl Deref for KeptValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::Short(short) => short,
            Kept::Shared(bytes) => bytes,
        }
    }
}

impl PartialEq for KeptValue {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for KeptValue {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn only_short_values_are_inside() {
        for (length, is_short) in [(0, true), (1, true), (32, true), (33, false), (300, false)] {
            let value = vec![7; length];
            let copy = KeptValue::copy_of(&value);
            assert_eq!(copy.shared().is_none(), is_short, "{length}");
            assert_eq!(KeptValue::short(&value).is_some(), is_short, "{length}");
            assert_eq!(*copy, *value);
            // Equality does not depend on where the bytes are.
            assert_eq!(copy, KeptValue::sharing(Bytes::from(value)));
        }
        assert_ne!(KeptValue::copy_of(&[1]), KeptValue::copy_of(&[2]));
    }

    #[test]
    fn what_is_shared_is_not_copied() {
        let bytes = Bytes::from(vec![7; 40]);
        let kept = KeptValue::sharing(bytes.clone());
        assert_eq!(
            kept.shared().map(|shared| shared.as_ptr()),
            Some(bytes.as_ptr())
        );
        assert_eq!(kept.as_ptr(), bytes.as_ptr());
    }
}
