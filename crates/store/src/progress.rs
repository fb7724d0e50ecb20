//! Reports on the progress of long work.

/// Called now and then during long work with the steps done so far, such as nodes. The total number
/// of steps is not known in general.
pub type Progress<'a> = &'a mut dyn FnMut(u64);

/// Steps between two calls of a [`Progress`].
pub(crate) const PROGRESS_STEPS: u64 = 1024;
