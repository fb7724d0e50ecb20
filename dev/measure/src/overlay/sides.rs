//! A common interface of the two overlays.

use povmeter_dev_runtime::runtime::Hashing;
use povmeter_overlay::{Lookup, Overlay, TrieId::Top};
use sp_state_machine::OverlayedChanges;

/// An overlay as the host functions call it, with keys and values in the runtime's memory.
pub(super) trait Side: Default {
    /// Looks up a key. Returns a number that depends on the result, so that the compiler keeps the
    /// look-up.
    fn get(&mut self, key: &[u8]) -> usize;
    fn set(&mut self, key: &[u8], value: &[u8]);
    fn remove(&mut self, key: &[u8]);
    /// Appends to a list that is not in the parent state.
    fn append(&mut self, key: &[u8], element: &[u8]);
    fn start(&mut self);
    fn commit(&mut self);
    fn roll_back(&mut self);
    fn enter_runtime(&mut self);
    fn exit_runtime(&mut self);
    /// The next key after `key` in the overlay, and whether it has a value.
    fn next_after(&mut self, key: &[u8]) -> Option<(&[u8], bool)>;
    /// Empties the overlay for the next block.
    fn renew(&mut self);
    /// Deletes the keys with this prefix; returns their number.
    fn clear_prefix(&mut self, prefix: &[u8]) -> u32;
}

/// The overlay of sp-state-machine.
pub(super) type Peer = OverlayedChanges<Hashing>;

/// Why no transaction call fails here.
const IN_TURN: &str = "transactions are opened and closed in turn";

/// The calls that have the same names and errors on both sides.
macro_rules! transactions {
    () => {
        fn start(&mut self) {
            self.start_transaction();
        }

        fn commit(&mut self) {
            self.commit_transaction().expect(IN_TURN);
        }

        fn roll_back(&mut self) {
            self.rollback_transaction().expect(IN_TURN);
        }

        // `Self::` finds the overlay's own call before that of the trait.
        fn enter_runtime(&mut self) {
            Self::enter_runtime(self).expect(IN_TURN);
        }

        fn exit_runtime(&mut self) {
            Self::exit_runtime(self).expect(IN_TURN);
        }
    };
}

impl Side for Peer {
    fn get(&mut self, key: &[u8]) -> usize {
        match self.storage(key) {
            None => 1,
            Some(None) => 2,
            Some(Some(value)) => value.len(),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.set_storage(key.to_vec(), Some(value.to_vec()));
    }

    fn remove(&mut self, key: &[u8]) {
        self.set_storage(key.to_vec(), None);
    }

    fn append(&mut self, key: &[u8], element: &[u8]) {
        self.append_storage(key.to_vec(), element.to_vec(), Vec::new);
    }

    transactions!();

    fn next_after(&mut self, key: &[u8]) -> Option<(&[u8], bool)> {
        let (key, value) = self.iter_after(key).next()?;
        Some((key, value.value().is_some()))
    }

    /// Makes a new overlay, because this one keeps no memory.
    fn renew(&mut self) {
        *self = Self::default();
    }

    fn clear_prefix(&mut self, prefix: &[u8]) -> u32 {
        OverlayedChanges::clear_prefix(self, prefix)
    }
}

impl Side for Overlay {
    fn get(&mut self, key: &[u8]) -> usize {
        match Overlay::get(self, Top, key) {
            Lookup::Untouched => 1,
            Lookup::Deleted => 2,
            Lookup::Value(value) => value.len(),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        Overlay::set(self, Top, key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        Overlay::remove(self, Top, key);
    }

    fn append(&mut self, key: &[u8], element: &[u8]) {
        let nothing = || Ok::<Option<&[u8]>, std::convert::Infallible>(None);
        let Ok(()) = Overlay::append(self, Top, key, element, nothing);
    }

    transactions!();

    fn next_after(&mut self, key: &[u8]) -> Option<(&[u8], bool)> {
        let (key, value) = Overlay::next_after(self, Top, key)?;
        Some((key, value.is_some()))
    }

    fn renew(&mut self) {
        self.reset();
    }

    fn clear_prefix(&mut self, prefix: &[u8]) -> u32 {
        Overlay::clear_prefix(self, Top, prefix)
    }
}
