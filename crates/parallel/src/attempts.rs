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
    pub(crate) record: Box<Record>,
    pub(crate) writes: Arc<WriteSet>,
    pub(crate) result: Result<T, Trap>,
}

/// The last attempt of each transaction that was executed ahead.
///
/// Transactions share places, as only so many are executed ahead of the last committed one. With a place for each, a
/// block of 10,000 would clear 3 MB at its start, also if it is executed in order.
#[derive(Debug)]
pub(crate) struct Attempts<T>(Box<[Mutex<Place<T>>]>);

#[derive(Debug)]
struct Place<T> {
    attempt: Option<Attempt<T>>,
    /// Memory of a record that was here, for the thread that keeps the next attempt. So records go from thread to
    /// thread with the place, which does so anyway.
    spent: Option<Box<Record>>,
}

impl<T> Attempts<T> {
    /// For `transactions`, at most `window` of which are executed ahead at a time.
    pub(crate) fn new(transactions: u32, window: u32) -> Self {
        let places = transactions.min(window).max(1);
        let place = || Place {
            attempt: None,
            spent: None,
        };
        Self((0..places).map(|_| Mutex::new(place())).collect())
    }

    fn place(&self, index: u32) -> &Mutex<Place<T>> {
        &self.0[index_of(index) % self.0.len()]
    }

    /// Keeps `attempt`, and returns a record that nobody needs any more, if there is one: given back, or of an attempt of
    /// the same transaction, or of one that was executed in order after it.
    pub(crate) fn keep(&self, attempt: Attempt<T>) -> Option<Box<Record>> {
        let mut place = lock(self.place(attempt.index));
        match place.attempt.replace(attempt) {
            Some(before) => Some(before.record),
            None => place.spent.take(),
        }
    }

    /// Takes the memory of the record of `index`, which was taken.
    pub(crate) fn give_back(&self, index: u32, mut record: Box<Record>) {
        // Large values in it are others', too, and need not stay for it.
        record.clear();
        lock(self.place(index)).spent = Some(record);
    }

    /// Takes the last attempt of `index`.
    pub(crate) fn take(&self, index: u32) -> Option<Attempt<T>> {
        let mut place = lock(self.place(index));
        place.attempt.take_if(|attempt| attempt.index == index)
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
        place: &MutexGuard<'_, Place<T>>,
        index: u32,
        look: impl FnOnce(&Attempt<T>) -> R,
    ) -> Option<R> {
        let attempt = place.attempt.as_ref();
        let attempt = attempt.filter(|attempt| attempt.index == index);
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
            record: Box::default(),
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
        assert!(before.is_some());
        assert!(attempts.take(1).is_none());
        assert_eq!(attempts.take(4).map(|taken| taken.index), Some(4));
        assert!(attempts.take(4).is_none());
        assert_eq!(attempts.look(2, |attempt| attempt.index), Some(2));
        // What is given back is for the next one there.
        attempts.give_back(4, Box::default());
        assert!(attempts.keep(attempt(7)).is_some());
        assert!(attempts.take(7).is_some());
        assert!(attempts.keep(attempt(10)).is_none());
        // None is executed ahead.
        assert!(Attempts::<()>::new(10, 0).take(3).is_none());
        assert!(Attempts::<()>::new(0, 3).take(3).is_none());
    }
}
