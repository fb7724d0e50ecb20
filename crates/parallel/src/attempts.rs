//! Keeps executions ahead of their turn until their transactions are committed.

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
/// Transactions share places, because at most a window of them is executed ahead of the last committed one. With one
/// place for each transaction, a block of 10,000 would clear 3 MB at its start, even if it is executed in order.
#[derive(Debug)]
pub(crate) struct Attempts<T>(Box<[Mutex<Place<T>>]>);

#[derive(Debug)]
struct Place<T> {
    attempt: Option<Attempt<T>>,
    /// An empty record of an earlier attempt, whose memory the thread that keeps the next attempt reuses. The record
    /// moves between threads together with the place, which moves anyway.
    spent: Option<Box<Record>>,
}

impl<T> Attempts<T> {
    /// Makes places for `transactions`, at most `window` of which are executed ahead at a time.
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

    /// Keeps `attempt`, and returns a record whose memory can be reused, if there is one: a record that was given
    /// back, or that of an earlier attempt in the same place.
    pub(crate) fn keep(&self, attempt: Attempt<T>) -> Option<Box<Record>> {
        let mut place = lock(self.place(attempt.index));
        match place.attempt.replace(attempt) {
            Some(before) => Some(before.record),
            None => place.spent.take(),
        }
    }

    /// Takes back the record of `index` after [`Self::take`], to reuse its memory.
    pub(crate) fn give_back(&self, index: u32, mut record: Box<Record>) {
        // Its large values are shared, and must not stay in memory because of it.
        record.clear();
        lock(self.place(index)).spent = Some(record);
    }

    /// Takes the last attempt of `index`.
    pub(crate) fn take(&self, index: u32) -> Option<Attempt<T>> {
        let mut place = lock(self.place(index));
        place.attempt.take_if(|attempt| attempt.index == index)
    }

    /// Returns what `look` returns for the last attempt of `index`; `None` if there is none.
    pub(crate) fn look<R>(&self, index: u32, look: impl FnOnce(&Attempt<T>) -> R) -> Option<R> {
        Self::look_at(&lock(self.place(index)), index, look)
    }

    /// As [`Self::look`], but also `None` if another thread holds the attempt.
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
        // Transaction 1 was executed in order in the end, so its attempt is still in the place.
        let before = attempts.keep(attempt(4));
        assert!(before.is_some());
        assert!(attempts.take(1).is_none());
        assert_eq!(attempts.take(4).map(|taken| taken.index), Some(4));
        assert!(attempts.take(4).is_none());
        assert_eq!(attempts.look(2, |attempt| attempt.index), Some(2));
        // A record that was given back goes to the next attempt in the place.
        attempts.give_back(4, Box::default());
        assert!(attempts.keep(attempt(7)).is_some());
        assert!(attempts.take(7).is_some());
        assert!(attempts.keep(attempt(10)).is_none());
        // Without a window no transaction is executed ahead.
        assert!(Attempts::<()>::new(10, 0).take(3).is_none());
        assert!(Attempts::<()>::new(0, 3).take(3).is_none());
    }
}
