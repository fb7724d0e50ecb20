//! A value of the parent state that outlives the state's memory.

use arrayvec::ArrayVec;
use bytes::Bytes;
use core::ops::Deref;

/// A value of the parent state, for a caller that keeps it.
///
/// A short one lies inside, so it takes no allocation, and no counter that threads would share. Any other one shares
/// memory with a node.
#[derive(Clone, Debug)]
pub struct KeptValue(Kept);

#[derive(Clone, Debug)]
enum Kept {
    Short(ArrayVec<u8, SHORT>),
    Shared(Bytes),
}

/// Longer values are nodes of their own, except in states of version 0.
const SHORT: usize = 32;

impl KeptValue {
    /// A copy of `value`, if it is short.
    pub(crate) fn short(value: &[u8]) -> Option<Self> {
        let short = ArrayVec::try_from(value).ok()?;
        Some(Self(Kept::Short(short)))
    }

    /// A copy of `value`.
    pub(crate) fn copy_of(value: &[u8]) -> Self {
        Self::short(value).unwrap_or_else(|| Bytes::copy_from_slice(value).into())
    }

    /// The memory that it shares with others, unless it is short.
    pub fn shared(&self) -> Option<&Bytes> {
        match &self.0 {
            Kept::Short(_) => None,
            Kept::Shared(bytes) => Some(bytes),
        }
    }
}

impl From<Bytes> for KeptValue {
    fn from(bytes: Bytes) -> Self {
        Self(Kept::Shared(bytes))
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

impl AsRef<[u8]> for KeptValue {
    fn as_ref(&self) -> &[u8] {
        self
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
            // Where the bytes are makes no difference.
            assert_eq!(copy, KeptValue::from(Bytes::from(value)));
        }
        assert_ne!(KeptValue::copy_of(&[1]), KeptValue::copy_of(&[2]));
    }

    #[test]
    fn what_is_shared_is_not_copied() {
        let bytes = Bytes::from(vec![7; 40]);
        let kept = KeptValue::from(bytes.clone());
        assert_eq!(
            kept.shared().map(|shared| shared.as_ptr()),
            Some(bytes.as_ptr())
        );
        assert_eq!(kept.as_ref().as_ptr(), bytes.as_ptr());
    }
}
