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
//! | [`Base`], [`Branch`], [`Writes`] | changes tried out on top of an overlay, and those worth keeping |
//! | [`TransactionError`] | a transaction closed by somebody who may not, or left open |
//! | [`Frozen`] | the changes when the block is over |
//! | [`Change`], [`OwnedChange`] | a key and its new value, or `None` for a deletion |
//! | [`ChangeSet`] | the changes of a store, sorted by key |
//!
//! # Guarantees
//! - No call panics, short of memory: a value of 4 GiB, or an overlay of 16 GiB and more, is out of memory
//!   as a `Vec` is. [`Overlay::memory`] tells how far it is. Misuse of transactions is an error and
//!   changes nothing.
//! - Everything that comes in an order comes in one that follows from the calls alone: by key, or
//!   by first change. Hashes are keyed, with seeds drawn anew for each overlay and each reset, and the
//!   seeds show nowhere.
//! - The writes of a branch go to the overlay that it is a branch of, all or none.
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
//! - A read is one look-up at any depth of transactions, mostly without a hash.
//! - A write costs the same plus a copy of the value. It allocates only as arenas and tables grow:
//!   after a [reset](Overlay::reset) nothing for a block like the last one, and nothing for writing
//!   the same keys again and again.
//! - An append costs a copy of the element, not of the list.
//! - Starting a transaction costs the same always; closing it costs what was changed in it.
//! - Keys are sorted once somebody asks for the order a few times, and then only those added since.
//!   Clearing a prefix costs what it clears.
//! - A child store costs nothing before its first write, and a branch allocates nothing before its.
//! - The overlay keeps the key of everything it was ever told of, rolled back or not.
//!
//! # Features
//! - `std` (default): seeds the hash tables from more sources. Without it the crate is `no_std` and
//!   needs `alloc`.

#![no_std]

extern crate alloc;

mod branch;
mod bytes;
mod dirty;
mod entries;
mod frozen;
mod heads;
mod heap;
mod index;
mod journal;
mod key_hash;
mod key_table;
mod keys;
mod list;
mod order;
mod overlay;
mod slot;
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
