//! Counts allocations in the program's own allocator.

#![allow(unsafe_code)]

use povmeter_dev_measure::Allocated;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Whether allocations are counted.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Whether allocations of all threads are summed, too. The sums cost tens of nanoseconds per call.
static TOGETHER: AtomicBool = AtomicBool::new(false);
static ALL_COUNT: AtomicU64 = AtomicU64::new(0);
static ALL_BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
}

/// Starts counting.
pub(crate) fn begin_counting() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// How often this thread has allocated or reallocated since [`begin_counting`].
pub(crate) fn count() -> u64 {
    COUNT.get()
}

/// Returns the calls of [`count`], the bytes that they allocated, and the bytes in use.
pub(crate) fn allocated() -> Allocated {
    let bytes = BYTES.get();
    Allocated {
        calls: count(),
        bytes,
        live_bytes: bytes.wrapping_sub(FREED.get()).cast_signed(),
    }
}

/// Calls `work`, and returns how often and how many bytes all threads of the program allocated meanwhile.
/// [`begin_counting`] must come before.
pub(crate) fn of_all_threads(work: &mut dyn FnMut()) -> povmeter_dev_parallel::Allocated {
    let now = || {
        (
            ALL_COUNT.load(Ordering::SeqCst),
            ALL_BYTES.load(Ordering::SeqCst),
        )
    };
    let before = now();
    TOGETHER.store(true, Ordering::SeqCst);
    work();
    TOGETHER.store(false, Ordering::SeqCst);
    let after = now();
    povmeter_dev_parallel::Allocated {
        allocations: after.0 - before.0,
        bytes: after.1 - before.1,
    }
}

/// The system's allocator with counts per thread. After [`begin_counting`] the counts cost a nanosecond or
/// less per call.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

impl Counting {
    fn note(&self, bytes: usize) {
        if !COUNTING.load(Ordering::Relaxed) {
            return;
        }
        COUNT.set(COUNT.get().wrapping_add(1));
        BYTES.set(BYTES.get().wrapping_add(bytes as u64));
        if TOGETHER.load(Ordering::Relaxed) {
            ALL_COUNT.fetch_add(1, Ordering::Relaxed);
            ALL_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn note_freed(&self, bytes: usize) {
        if COUNTING.load(Ordering::Relaxed) {
            FREED.set(FREED.get().wrapping_add(bytes as u64));
        }
    }
}

// SAFETY: every method passes its arguments to `System` unchanged and returns the result of `System`, so
// the caller's contract is the contract of `System`. Counting does not allocate and can't
// unwind, because the thread-locals are initialized at compile time and have no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: see above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: see above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.note(size.saturating_sub(layout.size()));
        self.note_freed(layout.size().saturating_sub(size));
        // SAFETY: see above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.note_freed(layout.size());
        // SAFETY: see above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_this_thread_allocates() {
        begin_counting();
        let before = count();
        let mut bytes = std::hint::black_box(Vec::with_capacity(10));
        bytes.extend_from_slice(&[0u8; 10]);
        assert_eq!(count() - before, 1);
        bytes.push(1);
        assert_eq!(count() - before, 2, "growing");
        drop(std::hint::black_box(bytes));
        assert_eq!(count() - before, 2, "freeing");
    }

    #[test]
    fn counts_bytes_that_come_and_go() {
        begin_counting();
        let before = allocated();
        let mut bytes = std::hint::black_box(Vec::<u8>::with_capacity(100));
        bytes.reserve_exact(150);
        bytes.shrink_to(120);
        let now = allocated();
        assert_eq!(now.bytes - before.bytes, 150);
        assert_eq!(now.live_bytes - before.live_bytes, 120);
        drop(std::hint::black_box(bytes));
        assert_eq!(allocated().live_bytes, before.live_bytes);
    }
    /// Other tests allocate at the same time, so the counts may be higher.
    #[test]
    fn counts_what_other_threads_allocate() {
        begin_counting();
        let counted = of_all_threads(&mut || {
            let allocate = || drop(std::hint::black_box(vec![0_u8; 100_000]));
            std::thread::scope(|scope| _ = (scope.spawn(allocate), scope.spawn(allocate)));
        });
        assert!(counted.bytes >= 200_000 && counted.allocations >= 2);
    }
}
