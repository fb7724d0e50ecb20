//! The bell: threads without work wait here until another thread rings.
//!
//! ```text
//! wait: look for work a while; none:
//!       sleepers += 1; look for work once more; none: sleep until the number of rings changes; sleepers -= 1
//! ring: make the work visible; sleepers > 0: rings += 1, wake all
//! ```
//! Either the ringing thread sees the sleeper, or the sleeper sees the work when it looks once more, because both
//! write before they read, with a fence in between. A ring without sleepers costs that fence and a load.
//!
//! A thread looks for a while before it sleeps, because waking a thread takes about as long as a transaction, above
//! all on virtual machines: on one of 2026-11-25 the sleeper ran after 38 us, and waking it took the other thread 14
//! us. There, 544 signed transfers that wait for their turns took two threads 28 ms without looking for a while, and
//! 22 ms with it. In wasm, where each transfer holds the block for 70 us, they took 63 to 66 ms with 20 us or less of
//! looking, 42 with 50, and 40 with 100.

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
    /// Waits for a ring, unless `has_work` returns `true`. May return without a ring.
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

    /// Wakes all waiting threads. The caller makes the work visible first.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            *lock(&self.rings) += 1;
            self.rang.notify_all();
        }
    }
}

/// Looks for work for a while: first without a break, then whenever other threads yield the processor.
fn look(has_work: &impl Fn() -> bool) -> bool {
    // Tools that try orders of threads skip this: it would only add orders.
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

/// How often a thread looks with pauses in between. All pauses together take some microseconds.
const BUSY_ROUNDS: u32 = 64;
const PAUSES: u32 = 8;
/// How long a thread looks while it yields the processor in between: longer than waking a thread takes, and longer
/// than most transactions hold the block. It is a time because the duration of a look depends on the machine: a
/// hundred looks took 16 us on one where waking a thread takes 50.
const PATIENCE: Duration = Duration::from_micros(100);
/// The fewest looks with yields. If threads share a core, a look takes as long as the other threads have work, and a
/// thread that sleeps too soon has to be woken again.
const YIELDS: u32 = 100;
