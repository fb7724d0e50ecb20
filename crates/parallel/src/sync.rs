//! The primitives that threads share, in one place, so that a tool that tries orders of threads can replace
//! them: loom for the bell and the scheduler, shuttle for all.

#[cfg(all(test, povmeter_loom))]
pub(crate) use loom::sync::{atomic, Condvar, Mutex, MutexGuard, RwLock};
#[cfg(all(test, povmeter_shuttle))]
pub(crate) use shuttle::{
    sync::{atomic, Condvar, Mutex, MutexGuard, RwLock},
    thread,
};
// loom has no threads that borrow, and tries no whole blocks.
#[cfg(not(all(test, any(povmeter_loom, povmeter_shuttle))))]
pub(crate) use std::sync::{atomic, Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(all(test, povmeter_shuttle)))]
pub(crate) use std::thread;

use std::{ops::Deref, sync::PoisonError};

/// Something in cache lines of its own. Beside what other threads write, it would come from another core each time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Locks, also after a panic under the lock. No change under a lock of this crate can be left half done:
/// code of executors runs under none.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], shared.
pub(crate) fn read<T>(lock: &RwLock<T>) -> impl std::ops::Deref<Target = T> + '_ {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], exclusive.
pub(crate) fn write<T>(lock: &RwLock<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
