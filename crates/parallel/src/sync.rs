//! The primitives that threads share, in one place, so that tools that try orders of threads can replace them: loom
//! for the bell, the store and the scheduler, shuttle for everything.

#[cfg(all(test, povmeter_loom))]
pub(crate) use loom::sync::{atomic, Condvar, Mutex, MutexGuard, RwLock};
#[cfg(all(test, povmeter_shuttle))]
pub(crate) use shuttle::{
    sync::{atomic, Condvar, Mutex, MutexGuard, RwLock},
    thread,
};
// loom has no scoped threads, and tries no whole blocks.
#[cfg(not(all(test, any(povmeter_loom, povmeter_shuttle))))]
pub(crate) use std::sync::{atomic, Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(all(test, povmeter_shuttle)))]
pub(crate) use std::thread;

use std::{ops::Deref, sync::PoisonError};

/// Starts a thread that does `work`, with `stack` bytes of stack, or as many as threads have by default. Returns
/// `false` if the system refuses one.
#[cfg(not(all(test, povmeter_shuttle)))]
pub(crate) fn spawn<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    stack: Option<usize>,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    let mut builder = thread::Builder::new();
    if let Some(bytes) = stack {
        builder = builder.stack_size(bytes);
    }
    builder.spawn_scoped(scope, work).is_ok()
}

/// As in the standard library.
#[cfg(all(test, povmeter_shuttle))]
pub(crate) fn spawn<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    _: Option<usize>,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    scope.spawn(work);
    true
}

/// A value in cache lines of its own. Beside data that other threads write, each read would have to fetch it from
/// another core.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Locks, even after a panic under the lock. No change under a lock of this crate stays half done: panics of
/// executors are caught, and a panic in any other code of the caller ends the block.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], for shared access.
pub(crate) fn read<T>(lock: &RwLock<T>) -> impl std::ops::Deref<Target = T> + '_ {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], for exclusive access.
pub(crate) fn write<T>(lock: &RwLock<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
