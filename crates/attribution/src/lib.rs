//! Whose the bytes of a block's proof are: by extrinsic, by storage item, by cause.
//!
//! A [`Block`](povmeter::Block) with the accounting [`Attributed`](povmeter::Attributed) says of each
//! recorded node who needed it. This crate adds that up, under the names that a runtime gives to its
//! storage items.
//!
//! | type | what it is |
//! |---|---|
//! | [`BlockAttribution`], [`BlockPart`] | what came of one block: each recorded node, and what the parts are |
//! | [`Names`], [`StorageName`] | what prefixes of keys are called |
//! | [`ByteTally`], [`Bytes`], [`Item`] | bytes added up in each way, of one block or several |
//!
//! The rules are on the page `docs/attribution.md` of the repository.

mod block;
mod names;
mod tally;

pub use block::{BlockAttribution, BlockPart};
pub use names::{Names, NamesError, StorageName};
pub use tally::{ByteTally, Bytes, Item};
