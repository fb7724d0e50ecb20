//! The executions ahead of their turn, until their transactions are committed.

use crate::{
    executor::Trap,
    record::Record,
    store::{index as index_of, WriteSet},
    sync::{lock, Mutex, MutexGuard},
};
use std::sync::Arc;

/// An execution ahead of its turn.
#[derive(Debug)]
pub(crate) struct Attempt<T> {
    /// The index of its transaction.
    pub(crate) index: u32,
    pub(crate) record: Record,
    pub(crate) writes: Arc<WriteSet>,
    pub(crate) result: Result<T, Trap>,
}

/// The last attempt of each transaction that was executed ahead.
///
/// Transactions share places, as only so many are executed ahead of the last committed one. With a place for each, a
/// block of 10,000 would clear 3 MB at its start, also if it is executed in order.
#[derive(Debug)]
pub(crate) struct Attempts<T>(Box<[Mutex<Option<Attempt<T>>>]>);

impl<T> Attempts<T> {
    /// For `transactions`, at most `window` of which are executed ahead at a time.
    pub(crate) fn new(transactions: u32, window: u32) -> Self {
        let places = transactions.min(window).max(1);
        Self((0..places).map(|_| Mutex::new(None)).collect())
    }

    fn place(&self, index: u32) -> &Mutex<Option<Attempt<T>>> {
        &self.0[index_of(index) % self.0.len()]
    }

    /// Keeps `attempt`, and returns one that nobody needs any more, if there is one: of the same transaction, or of
    /// one that was executed in order after it.
    pub(crate) fn keep(&self, attempt: Attempt<T>) -> Option<Attempt<T>> {
        lock(self.place(attempt.index)).replace(attempt)
    }

    /// Takes the last attempt of `index`.
    pub(crate) fn take(&self, index: u32) -> Option<Attempt<T>> {
        lock(self.place(index)).take_if(|attempt| attempt.index == index)
    }

    /// What `look` says of the last attempt of `index`; `None` if there is none.
    pub(crate) fn look<R>(&self, index: u32, look: impl FnOnce(&Attempt<T>) -> R) -> Option<R> {
        Self::look_at(&lock(self.place(index)), index, look)
    }

    /// As [`Self::look`], and `None` if another thread has the attempt.
    pub(crate) fn try_look<R>(&self, index: u32, look: impl FnOnce(&Attempt<T>) -> R) -> Option<R> {
        Self::look_at(&self.place(index).try_lock().ok()?, index, look)
    }

    fn look_at<R>(
        place: &MutexGuard<'_, Option<Attempt<T>>>,
        index: u32,
        look: impl FnOnce(&Attempt<T>) -> R,
    ) -> Option<R> {
        let attempt = place.as_ref().filter(|attempt| attempt.index == index);
        attempt.map(look)
    }
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_share_a_place_are_told_apart() {
        let attempts = Attempts::new(10, 3);
        let attempt = |index| Attempt {
            index,
            record: Record::default(),
            writes: Arc::default(),
            result: Ok(index),
        };
        assert!(attempts.keep(attempt(1)).is_none());
        assert!(attempts.keep(attempt(2)).is_none());
        assert!(attempts.take(4).is_none());
        assert_eq!(attempts.look(4, |attempt| attempt.index), None);
        assert_eq!(attempts.try_look(1, |attempt| attempt.index), Some(1));
        // The first was executed in order in the end.
        let before = attempts.keep(attempt(4));
        assert_eq!(before.map(|before| before.index), Some(1));
        assert!(attempts.take(1).is_none());
        assert_eq!(attempts.take(4).map(|taken| taken.index), Some(4));
        assert!(attempts.take(4).is_none());
        assert_eq!(attempts.look(2, |attempt| attempt.index), Some(2));
        // None is executed ahead.
        assert!(Attempts::<()>::new(10, 0).take(3).is_none());
        assert!(Attempts::<()>::new(0, 3).take(3).is_none());
    }
}
