//! Where threads without work wait.
//!
//! ```text
//! wait: sleepers += 1; look for work once more; none: sleep until the number of rings changes; sleepers -= 1
//! ring: make the work visible; sleepers > 0: rings += 1, wake all
//! ```
//! Either the ringer sees the sleeper, or the sleeper, which looks once more, sees the work: both write
//! before they read, with a fence in between. A ring that nobody waits for costs that fence and a load.

use crate::sync::{
    atomic::{fence, AtomicUsize, Ordering},
    lock, Condvar, Mutex,
};
use std::sync::PoisonError;

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
    pub(crate) fn wait_unless(&self, has_work: impl FnOnce() -> bool) {
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
