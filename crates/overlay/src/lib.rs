//! What a block changed so far.
//!
//! An [`Overlay`] holds the keys that a block wrote and deleted on top of a parent state that it does not
//! know, in a top store and in child stores, with nested transactions and appends to lists. It also
//! reports the dirty keys: those that changed since the last snapshot. The semantics are those of the
//! state in `sp-state-machine`'s overlay.
//!
//! ```
//! use povmeter_overlay::{Lookup, Overlay, TrieId::Top};
//!
//! let mut overlay = Overlay::new();
//! overlay.set(Top, b"alice", b"10");
//! overlay.start_transaction();
//! overlay.set(Top, b"alice", b"7");
//! overlay.set(Top, b"bob", b"3");
//! assert_eq!(overlay.get(Top, b"alice"), Lookup::Value(b"7"));
//! overlay.rollback_transaction()?;
//! assert_eq!(overlay.get(Top, b"bob"), Lookup::Untouched);
//! assert_eq!(overlay.dirty().count(), 1);
//! assert_eq!(overlay.to_owned_changes()?.into_parts().0, [(b"alice".to_vec(), Some(b"10".to_vec()))]);
//! # Ok::<(), povmeter_overlay::TransactionError>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`Overlay`] | the changes while the block runs |
//! | [`TrieId`] | the top store, or a child store by its child storage key |
//! | [`Lookup`] | what the overlay knows about a key |
//! | [`Dirty`], [`Fate`] | a key that changed since the last snapshot, and what the overlay holds for it |
//! | [`KeyPlace`], [`ChangedInTransaction`] | where the overlay has a key, and what a transaction did to it |
//! | [`Reader`] | what the reader of dirty keys does when a transaction is rolled back |
//! | [`TransactionError`] | a transaction that may not be closed, or was left open |
//! | [`OwnedChanges`] | the changes when the block is over |
//! | [`Change`], [`OwnedChange`] | a key and its new value, or `None` for a deletion |
//! | [`ChangeSet`] | the changes of a store, sorted by key |
//!
//! # Guarantees
//! - No call panics unless memory runs out. A value of 4 GiB counts as out of memory, and so does an overlay
//!   that fills an arena, at 32 GiB or more. [`Overlay::memory`] returns how much is held. Misuse of
//!   transactions is an error and changes nothing.
//! - Every order follows from the calls alone: by key, or by first change. Hash tables draw a new seed for
//!   each overlay and each reset, and no result depends on it.
//! - Reads take `&self`, except [`Overlay::share`], which turns a large value into a shared one. `Overlay` is
//!   `Send` and `Sync`.
//! - The runtime cannot close a transaction that the host opened, and what it leaves open is rolled
//!   back.
//!
//! It differs from `sp-state-machine` 0.54 on purpose in two points: [child stores that were only
//! cleared](Overlay::children) are not listed, and deleting a deleted key again is no change.
//!
//! # Costs
//! - A read is one look-up at any depth of transactions.
//! - A write costs the same plus a copy of the value, and a search if the key is new. It allocates only as
//!   arenas and tables grow: after a [reset](Overlay::reset) nothing for a block like the last one, and
//!   nothing for writing the same keys again and again.
//! - An append costs a copy of the element, not of the list.
//! - Starting a transaction has a fixed cost; closing it costs what was changed in it.
//! - The next key costs one look-up if the overlay has a value or a deletion of the key before it, else one
//!   search. Clearing a prefix costs one search and the keys with the prefix, deleted ones included.
//! - A child store costs nothing before its first write.
//! - The overlay keeps every key that it was given until it is reset, rolled back or not.
//!
//! # Features
//! - `std` (default): draws the seeds of hash tables from more sources. Without it the crate is `no_std` and
//!   needs `alloc`.

#![no_std]

extern crate alloc;

mod byte_arena;
mod dirty;
mod entries;
mod heap;
mod index;
mod journal;
mod key_table;
mod keys;
mod large;
mod list;
mod order;
mod overlay;
mod owned_changes;
mod place;
mod slot;
mod store;
mod transaction;
mod value;

pub use dirty::Dirty;
pub use heap::LARGE_BYTES;
pub use overlay::{Lookup, Overlay};
pub use owned_changes::OwnedChanges;
pub use place::{ChangedInTransaction, KeyPlace};
/// The types that the tries use, too.
pub use povmeter_primitives::{Fate, TrieId};
pub use transaction::{Reader, TransactionError};

use alloc::vec::Vec;

/// A key and its new value, or `None` if it was deleted.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// A [`Change`] that owns its bytes.
pub type OwnedChange = (Vec<u8>, Option<Vec<u8>>);

/// The changes of a store, sorted by key.
pub type ChangeSet = Vec<OwnedChange>;
