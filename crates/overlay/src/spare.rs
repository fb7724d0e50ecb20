//! Buffers kept for the next values.

use crate::value::Value;
use alloc::vec::Vec;

/// Buffers of values that are gone, for values to come: with them, overwriting a key in a
/// transaction allocates nothing once the block is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spare {
    buffers: Vec<Vec<u8>>,
}

impl Spare {
    /// More than the writes of one extrinsic.
    const MOST_BUFFERS: usize = 64;
    /// A larger buffer would be wasted on the small value that it is likely to hold next.
    const LARGEST_BUFFER: usize = 256;

    /// An empty value, in a kept buffer if there is one.
    pub(crate) fn take(&mut self) -> Value {
        Value::in_buffer(self.buffers.pop().unwrap_or_default())
    }

    /// Keeps the buffer of a value that is gone, if it is worth it.
    pub(crate) fn give(&mut self, value: Value) {
        let buffer = value.into_buffer();
        let of_use = (1..=Self::LARGEST_BUFFER).contains(&buffer.capacity());
        if of_use && self.buffers.len() < Self::MOST_BUFFERS {
            self.buffers.push(buffer);
        }
    }
}
