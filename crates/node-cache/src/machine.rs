//! How much memory a cache may take on this machine.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Returns bytes for a cache: `percent` of the machine's memory, or of the container's limit if there is one
/// (on Linux that of the control group at the root), and never more than `most`. The limit of a service that shares
/// the host's control groups is not seen: pass it as `most`.
///
/// Returns `most` on a system that does not report its memory.
///
/// ```
/// use povmeter_node_cache::{bytes_of_machine, NodeCache};
///
/// let cache = NodeCache::new(bytes_of_machine(5, 64 << 20));
/// assert!(cache.capacity_bytes() <= 64 << 20);
/// ```
pub fn bytes_of_machine(percent: u8, most: usize) -> usize {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory);
    let limit = system.cgroup_limits().map(|limits| limits.total_memory);
    share(system.total_memory(), limit, percent, most)
}

fn share(total: u64, limit: Option<u64>, percent: u8, most: usize) -> usize {
    let memory = limit
        .filter(|&limit| limit > 0)
        .map_or(total, |limit| limit.min(total));
    if memory == 0 {
        return most;
    }
    let share = u128::from(memory) * u128::from(percent) / 100;
    usize::try_from(share).map_or(most, |share| share.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_what_there_is() {
        assert_eq!(share(1_000, None, 5, 10_000), 50);
        assert_eq!(share(1_000, Some(400), 5, 10_000), 20);
        assert_eq!(share(1_000, Some(4_000), 5, 10_000), 50);
        assert_eq!(share(1_000, Some(0), 5, 10_000), 50);
        assert_eq!(share(1_000, None, 100, 300), 300);
        assert_eq!(share(0, None, 5, 300), 300);
        assert_eq!(share(u64::MAX, None, 255, 300), 300);
        assert!(bytes_of_machine(50, usize::MAX) > 0);
    }
}
