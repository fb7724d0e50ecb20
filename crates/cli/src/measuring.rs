//! What a command that measures sets up before it starts. Other commands do not pay for it.

use crate::{allocations, error::CliError};
use povmeter_dev_oracle::on_one_thread;

/// Counts allocations from now on, and computes roots on one thread, because times are those of a
/// thread.
///
/// # Errors
/// [`CliError::Threads`] if the pool of one thread cannot be made.
pub(crate) fn begin() -> Result<(), CliError> {
    allocations::begin_counting();
    Ok(on_one_thread()?)
}
