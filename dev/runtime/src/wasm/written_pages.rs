//! Finds the pages of a mapping that were written, by the kernel's page tables.

#![allow(unsafe_code)]

use std::{fs::File, io, ops::Range, os::fd::AsRawFd};

/// Finds the written pages of this process's private mappings.
///
/// A written page is the process's own copy. A page that was not written is the file's, the kernel's page of
/// zeros, or absent. Linux 6.7 and later tell them apart in one call (`PAGEMAP_SCAN`, see
/// Documentation/admin-guide/mm/pagemap.rst of its sources), which skips pages that were never touched.
#[derive(Debug)]
pub(super) struct WrittenPages(File);

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`, which contains the size.
const PAGEMAP_SCAN: u32 = 0xC060_6610;
const SCAN_SIZE: u64 = 0x60;
const _: () = assert!(size_of::<Scan>() == 0x60 && size_of::<Region>() == 0x18);

const REGIONS: usize = 256;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZEROS: u64 = 1 << 5;

impl WrittenPages {
    /// Opens the page tables of this process.
    ///
    /// # Errors
    /// If the system does not show a process its page tables.
    pub(super) fn new() -> io::Result<Self> {
        File::open("/proc/self/pagemap").map(Self)
    }

    /// Makes the first write to each page of `memory` cause a page fault of its own; `memory` consists of
    /// whole pages of a private mapping. Returns `false` if the kernel may combine them to large pages.
    pub(super) fn fault_each(memory: &mut [u8]) -> bool {
        // SAFETY: the range is that of a borrow, and the advice changes no byte of it.
        let advised = unsafe {
            libc::madvise(
                memory.as_mut_ptr().cast(),
                memory.len(),
                libc::MADV_NOHUGEPAGE,
            )
        };
        advised == 0
    }

    /// Returns the page faults of this thread so far. While the number stays the same, the thread writes no
    /// page for the first time.
    pub(super) fn faults() -> Option<i64> {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the kernel writes one `rusage` and reads no memory of the process.
        let found = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: the successful call has filled `usage`.
        let usage = (found == 0).then(|| unsafe { usage.assume_init() })?;
        Some(usage.ru_minflt.wrapping_add(usage.ru_majflt))
    }

    /// Calls `each` with every range of bytes of `memory`, in order, whose pages were written since they were
    /// mapped. `memory` consists of whole pages of a private mapping; its content is not read.
    ///
    /// # Errors
    /// If the kernel is older than Linux 6.7, or refuses.
    pub(super) fn of(&self, memory: &[u8], mut each: impl FnMut(Range<usize>)) -> io::Result<()> {
        let base = memory.as_ptr().addr() as u64;
        let end = base + memory.len() as u64;
        let mut start = base;
        while start < end {
            let mut regions = [Region::default(); REGIONS];
            let mut scan = Scan {
                size: SCAN_SIZE,
                flags: 0,
                start,
                end,
                walk_end: 0,
                regions: regions.as_mut_ptr().expose_provenance() as u64,
                regions_len: REGIONS as u64,
                max_pages: 0,
                category_inverted: IS_FILE | IS_ZEROS,
                category_mask: IS_FILE | IS_ZEROS,
                category_anyof_mask: IS_PRESENT | IS_SWAPPED,
                return_mask: IS_PRESENT | IS_SWAPPED,
            };
            // SAFETY: the descriptor is open. The kernel reads and writes one `Scan`, of the size that it is told, and
            // at most `regions_len` regions at `regions`; both outlive the call. It changes nothing else.
            let found = unsafe {
                libc::ioctl(
                    self.0.as_raw_fd(),
                    PAGEMAP_SCAN as _,
                    std::ptr::from_mut(&mut scan),
                )
            };
            let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
            for region in regions.iter().take(found) {
                let offset = |at: u64| at.checked_sub(base).and_then(|at| usize::try_from(at).ok());
                let (first, last) = (offset(region.start), offset(region.end));
                let range = first.zip(last).filter(|(_, last)| *last <= memory.len());
                let (first, last) = range.ok_or_else(|| io::Error::other("pages elsewhere"))?;
                each(first..last);
            }
            if scan.walk_end <= start {
                return Err(io::Error::other("the scan of pages does not go on"));
            }
            start = scan.walk_end;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;
    const LEN: usize = 2_000 * PAGE;

    /// A new mapping. An allocator would hand out pages that were written before.
    fn mapping() -> &'static mut [u8] {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the mapping is new, filled with zeros, known to nothing else, and stays to the end of the
        // process.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), LEN, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            // A large page would be written as a whole.
            libc::madvise(start, LEN, libc::MADV_NOHUGEPAGE);
            std::slice::from_raw_parts_mut(start.cast(), LEN)
        }
    }

    /// Writes more regions than one call returns.
    #[test]
    fn finds_each_written_page() {
        let Ok(pages) = WrittenPages::new() else {
            return println!("this system tells no page tables");
        };
        let memory = mapping();
        let mut found: Vec<Range<usize>> = Vec::new();
        if pages.of(memory, |range| found.push(range)).is_err() {
            return println!("this kernel is older than Linux 6.7");
        }
        assert!(found.is_empty(), "{} ranges", found.len());
        assert_eq!(memory[5 * PAGE], 0);
        let written = (10..1_990).step_by(2);
        for page in written.clone() {
            memory[page * PAGE + 77] = 1;
        }
        pages.of(memory, |range| found.push(range)).unwrap();
        let expected: Vec<_> = written.map(|page| page * PAGE..(page + 1) * PAGE).collect();
        assert!(found == expected, "{} ranges", found.len());
    }
}
