//! Which transaction is validated next.

use super::NOTHING;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The next transaction to validate, if it is below `execution`. Transactions that are being executed are passed
/// over: they find out at their end that something changed.
///
/// A thread takes it by compare-and-exchange with the word that it has loaded, which also counts how often the
/// validation went back. Otherwise a thread that has found the last transaction could end a validation that another
/// thread asks for meanwhile.
#[derive(Debug)]
pub(super) struct Validation(AtomicU64);

impl Validation {
    pub(super) fn none() -> Self {
        Self(AtomicU64::new(u64::from(NOTHING)))
    }

    /// Returns the next transaction, and the word for [`Self::advance`].
    pub(super) fn load(&self) -> (u32, u64) {
        let found = self.0.load(Ordering::SeqCst);
        let next = u32::try_from(found & u64::from(u32::MAX)).unwrap_or(NOTHING);
        (next, found)
    }

    /// Advances to `next`, if nothing has changed since `found` was loaded.
    pub(super) fn advance(&self, found: u64, next: u32) -> bool {
        self.replace(found, found, next)
    }

    /// Goes back to `first`, unless the validation is at or below it.
    pub(super) fn go_back(&self, first: u32) {
        loop {
            let (next, found) = self.load();
            let counted = found.wrapping_add(1 << u32::BITS);
            if self.replace(found, counted, next.min(first)) {
                return;
            }
        }
    }

    fn replace(&self, found: u64, count: u64, next: u32) -> bool {
        let new = count & !u64::from(u32::MAX) | u64::from(next);
        let order = Ordering::SeqCst;
        self.0.compare_exchange(found, new, order, order).is_ok()
    }
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
mod tests {
    use super::*;

    /// Not even if the validation is at the same transaction as when the thread looked.
    #[test]
    fn who_looked_before_a_validation_went_back_cannot_end_it() {
        let validation = Validation::none();
        validation.go_back(3);
        let (next, found) = validation.load();
        assert_eq!(next, 3);
        validation.go_back(5);
        assert_eq!(validation.load().0, 3);
        assert!(!validation.advance(found, NOTHING));
        let (_, found) = validation.load();
        assert!(validation.advance(found, NOTHING));
        assert!(!validation.advance(found, 4));
        assert_eq!(validation.load().0, NOTHING);
    }
}
