//! Checks that the memory of this machine is enough for a command.

use crate::error::CliError;
use sysinfo::{CGroupLimits, MemoryRefreshKind, RefreshKind, System};

/// Checks that about `needed` bytes of memory are free, for `what`.
///
/// # Errors
/// [`CliError::NoRoom`] if they are not. A system that does not tell its memory gives no error.
pub(crate) fn expect_room(what: &str, needed: u64) -> Result<(), CliError> {
    match free() {
        Some(free) if needed > free => Err(CliError::NoRoom {
            what: what.to_owned(),
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

/// Returns the bytes of memory that this process can still get: the smaller of what the machine has left
/// and what a limit (a control group on Linux) leaves. `None` where the system does not tell.
fn free() -> Option<u64> {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory);
    let limit = system
        .cgroup_limits()
        .filter(|limits| limits.total_memory > 0);
    least(
        system.available_memory(),
        limit.map(|limits| left_by(&limits)),
    )
}

/// Returns the bytes that a control group leaves. Pages that cache files do not count as used, although the
/// group counts them (so `free_memory` lacks them), because the system drops them before it refuses memory. Files
/// in memory (tmpfs) do not count either: `sysinfo` has no number of theirs.
fn left_by(limits: &CGroupLimits) -> u64 {
    limits.total_memory.saturating_sub(limits.rss)
}

fn least(available: u64, of_limit: Option<u64>) -> Option<u64> {
    let available = Some(available).filter(|bytes| *bytes > 0);
    available.map(|bytes| of_limit.map_or(bytes, |limit| limit.min(bytes)))
}

/// Writes a number of bytes in MiB or GiB.
pub(crate) fn in_words(bytes: u64) -> String {
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib >= 1.0 {
        format!("{gib:.1} GiB")
    } else {
        format!("{} MiB", bytes.div_ceil(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(expect_room("a byte", 1).is_ok());
        let error = expect_room("everything", u64::MAX).unwrap_err().to_string();
        assert!(
            error.starts_with("expected memory for everything: about 17179869184.0 GiB, found "),
            "{error}"
        );
    }

    #[test]
    fn the_smaller_limit_counts() {
        assert_eq!(least(5, None), Some(5));
        assert_eq!(least(5, Some(3)), Some(3));
        assert_eq!(least(5, Some(9)), Some(5));
        assert_eq!(least(0, Some(9)), None);
    }

    #[test]
    fn cached_files_leave_their_memory() {
        // Of the limit, 2 bytes are the processes' own memory, and 5 cache files.
        let limits = CGroupLimits {
            total_memory: 8,
            free_memory: 1,
            free_swap: 0,
            rss: 2,
        };
        assert_eq!(left_by(&limits), 6);
        assert_eq!(left_by(&CGroupLimits { rss: 9, ..limits }), 0);
    }

    #[test]
    fn bytes_in_words() {
        assert_eq!(in_words(1), "1 MiB");
        assert_eq!(in_words(512 << 20), "512 MiB");
        assert_eq!(in_words(3 << 29), "1.5 GiB");
    }
}
