//! The system's allocator, with counts of what each thread allocates. For tests and measurements: counts are exact, and
//! the same on each run.
//!
//! ```
//! use povmeter_dev_allocations::{calls_of, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let mut list = Vec::with_capacity(1);
//! assert_eq!(calls_of(|| list.push(7_u8)), 0);
//! assert_eq!(calls_of(|| list.push(8)), 1);
//! ```
//!
//! | name | what it is |
//! |---|---|
//! | [`Counting`] | the allocator |
//! | [`allocated`], [`live_bytes`], [`Allocated`] | what this thread has allocated so far |
//! | [`calls_of`], [`peak_of`] | what this thread allocates in a piece of work |
//! | [`of_all_threads`], [`AllThreads`] | what all threads allocate in a piece of work |
//!
//! Without the allocator, all counts stay 0. It adds a few additions in memory of the thread to each call, and two in
//! memory that all threads share while [`of_all_threads`] runs.
#![allow(unsafe_code)] // A global allocator needs it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// What a thread has allocated since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Number of allocations and reallocations.
    pub calls: u64,
    /// Bytes allocated; for a reallocation, the bytes added.
    pub bytes: u64,
    /// Bytes allocated and not freed. Negative if the thread freed memory of other threads.
    pub live_bytes: i64,
}

/// What all threads have allocated in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllThreads {
    /// Number of allocations and reallocations.
    pub calls: u64,
    /// Bytes allocated; for a reallocation, the bytes added.
    pub bytes: u64,
}

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
    // Below zero if the thread freed memory of others.
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Whether the sums of all threads are kept, too.
static TOGETHER: AtomicBool = AtomicBool::new(false);
static ALL_CALLS: AtomicU64 = AtomicU64::new(0);
static ALL_BYTES: AtomicU64 = AtomicU64::new(0);

/// What this thread has allocated so far.
pub fn allocated() -> Allocated {
    Allocated {
        calls: CALLS.get(),
        bytes: BYTES.get(),
        live_bytes: live_bytes(),
    }
}

/// The bytes that this thread has allocated and not freed. Negative if it freed memory of other threads.
pub fn live_bytes() -> i64 {
    LIVE.get()
}

/// How often this thread allocates or reallocates during `work`.
pub fn calls_of(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// The result of `work`, and the most bytes that this thread had in use during it, beside those before it.
///
/// A call within `work` starts the search for the most again, so the outer result is then too low.
pub fn peak_of<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get().abs_diff(before))
}

/// What all threads of the program allocate during `work`. Where two threads call this at a time, both counts are
/// too low or too high.
pub fn of_all_threads(work: &mut dyn FnMut()) -> AllThreads {
    let now = || AllThreads {
        calls: ALL_CALLS.load(Ordering::SeqCst),
        bytes: ALL_BYTES.load(Ordering::SeqCst),
    };
    let before = now();
    TOGETHER.store(true, Ordering::SeqCst);
    work();
    TOGETHER.store(false, Ordering::SeqCst);
    let after = now();
    AllThreads {
        calls: after.calls - before.calls,
        bytes: after.bytes - before.bytes,
    }
}

/// The system's allocator with counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

/// Notes that `size` bytes are in use in place of `old`.
fn note(old: usize, size: usize) {
    let more = size.saturating_sub(old) as u64;
    CALLS.set(CALLS.get().wrapping_add(1));
    BYTES.set(BYTES.get().wrapping_add(more));
    let live = LIVE.get().wrapping_sub_unsigned(old as u64);
    let live = live.wrapping_add_unsigned(size as u64);
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
    if TOGETHER.load(Ordering::Relaxed) {
        ALL_CALLS.fetch_add(1, Ordering::Relaxed);
        ALL_BYTES.fetch_add(more, Ordering::Relaxed);
    }
}

// SAFETY: every method passes its arguments to `System` unchanged and returns the result of `System`, so
// the caller's contract is the contract of `System`. Counting does not allocate and can't
// unwind, because the thread-locals are initialized at compile time and have no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: see above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: see above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(layout.size(), size);
        // SAFETY: see above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().wrapping_sub_unsigned(layout.size() as u64));
        // SAFETY: see above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{hint::black_box, thread};

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn counts_what_this_thread_allocates() {
        let before = allocated().calls;
        let mut bytes = black_box(Vec::with_capacity(10));
        bytes.extend_from_slice(&[0_u8; 10]);
        assert_eq!(allocated().calls - before, 1);
        assert_eq!(calls_of(|| bytes.push(1)), 1, "growing");
        assert_eq!(calls_of(|| drop(black_box(bytes))), 0, "freeing");
    }

    #[test]
    fn counts_bytes_that_come_and_go() {
        let before = allocated();
        let (bytes, peak) = peak_of(|| {
            let mut bytes = black_box(Vec::<u8>::with_capacity(100));
            bytes.reserve_exact(150);
            bytes.shrink_to(120);
            bytes
        });
        let now = allocated();
        assert_eq!(peak, 150);
        assert_eq!(now.bytes - before.bytes, 150);
        assert_eq!(now.live_bytes - before.live_bytes, 120);
        drop(black_box(bytes));
        assert_eq!(live_bytes(), before.live_bytes);
    }

    #[test]
    fn a_thread_that_frees_the_memory_of_another_has_less_than_nothing() {
        let bytes = black_box(vec![0_u8; 1_000]);
        let freed = thread::spawn(move || {
            let before = live_bytes();
            let ((), peak) = peak_of(|| drop(bytes));
            (live_bytes() - before, peak)
        });
        assert_eq!(freed.join().unwrap(), (-1_000, 0));
    }

    /// Other tests allocate at the same time, so the counts may be higher.
    #[test]
    fn counts_what_other_threads_allocate() {
        let counted = of_all_threads(&mut || {
            let allocate = || drop(black_box(vec![0_u8; 100_000]));
            thread::scope(|scope| _ = (scope.spawn(allocate), scope.spawn(allocate)));
        });
        assert!(counted.bytes >= 200_000 && counted.calls >= 2);
    }
}
