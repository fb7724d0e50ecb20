//! Where threads without work wait.
//!
//! ```text
//! wait: look for work a while; none:
//!       sleepers += 1; look for work once more; none: sleep until the number of rings changes; sleepers -= 1
//! ring: make the work visible; sleepers > 0: rings += 1, wake all
//! ```
//! Either the ringer sees the sleeper, or the sleeper, which looks once more, sees the work: both write
//! before they read, with a fence in between. A ring that nobody waits for costs that fence and a load.
//!
//! A thread looks a while because to wake one that sleeps takes about as long as a transaction, on virtual
//! machines above all: 38 us until the sleeper runs, and 14 us of the one who wakes it, on one of 2026-11-25. There, 544
//! signed transfers that wait for their turns took two threads 28 ms without it, and 22 ms with it; in wasm, where each
//! holds the block for 70 us, 63 to 66 ms with 20 us or less, 42 with 50, and 40 with 100.

use crate::sync::{
    atomic::{fence, AtomicUsize, Ordering},
    lock, Condvar, Mutex,
};
use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

#[derive(Debug)]
pub(crate) struct Bell {
    sleepers: AtomicUsize,
    rings: Mutex<u64>,
    rang: Condvar,
}

impl Default for Bell {
    fn default() -> Self {
        Self {
            sleepers: AtomicUsize::new(0),
            rings: Mutex::new(0),
            rang: Condvar::new(),
        }
    }
}

impl Bell {
    /// Waits for a ring, unless `has_work` then returns `true`. May return without a ring.
    pub(crate) fn wait_unless(&self, has_work: impl Fn() -> bool) {
        if look(&has_work) {
            return;
        }
        let rings = *lock(&self.rings);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !has_work() {
            let mut now = lock(&self.rings);
            while *now == rings {
                now = self.rang.wait(now).unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes all who wait. Make the work visible before.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            *lock(&self.rings) += 1;
            self.rang.notify_all();
        }
    }
}

/// Looks for work a while: at first all the time, then as often as other threads leave the processor to it.
fn look(has_work: &impl Fn() -> bool) -> bool {
    // Not under a tool that tries orders, because nothing is different for it but more of them.
    if cfg!(all(test, any(povmeter_loom, povmeter_shuttle))) {
        return false;
    }
    for _ in 0..BUSY_ROUNDS {
        if has_work() {
            return true;
        }
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
    let started = Instant::now();
    let mut yields = 0;
    while yields < YIELDS || started.elapsed() < PATIENCE {
        if has_work() {
            return true;
        }
        std::thread::yield_now();
        yields += 1;
    }
    false
}

/// Looks with pauses in between. All of them take some microseconds.
const BUSY_ROUNDS: u32 = 64;
const PAUSES: u32 = 8;
/// For so long a thread looks, and leaves the processor to others in between: for longer than it takes to wake a thread,
/// and than most transactions hold the block. How long a look takes depends on the machine; a hundred of them were over
/// after 16 us on one where it takes 50 to wake a thread.
const PATIENCE: Duration = Duration::from_micros(100);
/// The least looks. Where threads share a core, each takes as long as others have work, and one that sleeps too soon has
/// to be woken again.
const YIELDS: u32 = 100;
