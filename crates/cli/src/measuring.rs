//! Set-up of commands that measure. Other commands do without it, because it costs time.

use crate::{allocations, error::CliError};
use povmeter_dev_oracle::on_one_thread;

/// Starts to count allocations, and restricts root computations to one thread, because times are those of
/// one thread.
///
/// # Errors
/// [`CliError::Threads`] if the pool of one thread cannot be made.
pub(crate) fn begin() -> Result<(), CliError> {
    allocations::begin_counting();
    Ok(on_one_thread()?)
}
