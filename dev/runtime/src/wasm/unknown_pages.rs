//! Systems that do not tell which pages were written.

use std::{convert::Infallible, io, ops::Range};

/// Stands in for the type of the same name on Linux. It has no value.
#[derive(Debug)]
pub(super) struct WrittenPages(Infallible);

impl WrittenPages {
    /// # Errors
    /// Always.
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn fault_each(_: &mut [u8]) -> bool {
        false
    }

    pub(super) fn faults() -> Option<i64> {
        None
    }

    pub(super) fn of(&self, _: &[u8], _: impl FnMut(Range<usize>)) -> io::Result<()> {
        match self.0 {}
    }
}
