//! What a block changed so far.
//!
//! An [`Overlay`] lies over a parent state that it knows nothing about: it holds the keys that were
//! written and deleted since, in a top store and in child stores, with nested transactions and
//! appends to lists. It also tells which keys changed since somebody looked last. The semantics are
//! those of `sp-state-machine`'s overlay, of the part that is state.
//!
//! ```
//! use povmeter_overlay::{Lookup, Overlay, StoreId::Top};
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
//! assert_eq!(overlay.freeze()?.into_parts().0, [(b"alice".to_vec(), Some(b"10".to_vec()))]);
//! # Ok::<(), povmeter_overlay::TransactionError>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`Overlay`] | the changes while the block runs |
//! | [`StoreId`] | the top store, or a child store by its child storage key |
//! | [`Lookup`] | what the overlay knows about a key |
//! | [`Dirty`], [`Fate`] | a key that changed since the last snapshot, and what became of it |
//! | [`TransactionError`] | a transaction closed by somebody who may not, or left open |
//! | [`Frozen`] | the changes when the block is over |
//! | [`Change`], [`OwnedChange`] | a key and its new value, or `None` for a deletion |
//! | [`ChangeSet`] | the changes of a store, sorted by key |
//!
//! # Guarantees
//! - No call panics. Misuse of transactions is an error and changes nothing, except that
//!   [`Overlay::freeze`] takes the overlay with it.
//! - Everything that comes in an order comes in one that follows from the calls alone: by key, or
//!   by first change. The hash tables are seeded, and the seed shows nowhere.
//! - Reads take `&self`, except [`Overlay::next_after`], which may have to sort keys. `Overlay` is
//!   `Send` and `Sync`.
//! - The runtime cannot close a transaction that the host opened, and what it leaves open is rolled
//!   back.
//!
//! Where it differs from `sp-state-machine` 0.54 on purpose: [children that were only
//! cleared](Overlay::children) are not listed, and deleting a key again that is deleted is no
//! change.
//!
//! # Costs
//! - A read is one hash and one probe, at any depth of transactions.
//! - A write costs the same plus a copy of the value. It allocates for a key that is new to the
//!   overlay, for a value larger than the buffer at hand, and as tables grow.
//! - An append costs a copy of the element, not of the list.
//! - Starting a transaction costs the same always; closing it costs what was changed in it.
//! - Keys are sorted once somebody needs the order, and then only those added since the last time.
//! - The overlay keeps the key of everything it was ever told of, rolled back or not.
//!
//! # Features
//! - `std` (default): seeds the hash tables from more sources. Without it the crate is `no_std` and
//!   needs `alloc`.

#![no_std]

extern crate alloc;

mod branch;
mod dirty;
mod entries;
mod frozen;
mod heap;
mod index;
mod journal;
mod key_hash;
mod key_table;
mod keys;
mod list;
mod order;
mod overlay;
mod store;
mod transaction;
mod value;

pub use branch::{Base, Branch, Writes};
pub use dirty::{Dirty, Fate};
pub use frozen::Frozen;
pub use overlay::{Lookup, Overlay};
pub use store::StoreId;
pub use transaction::TransactionError;

use alloc::vec::Vec;

/// A key and its new value, or `None` if it was deleted.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// A [`Change`] that owns its bytes.
pub type OwnedChange = (Vec<u8>, Option<Vec<u8>>);

/// The changes of a store, sorted by key.
pub type ChangeSet = Vec<OwnedChange>;
