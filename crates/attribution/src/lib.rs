//! Attribution of the bytes of a block's proof: by extrinsic, by storage item, by cause.
//!
//! A [`Block`](povmeter::Block) with the accounting [`Attributed`](povmeter::Attributed) knows which
//! part of the block needed each recorded node. This crate adds up the bytes, under the names that a
//! runtime gives to its storage items.
//!
//! | type | what it is |
//! |---|---|
//! | [`BlockAttribution`], [`BlockPart`] | the recorded nodes and the parts of one block |
//! | [`Names`], [`StorageName`] | names of key prefixes |
//! | [`ByteTally`], [`Bytes`], [`Depth`], [`Item`] | byte sums by part, item, cause and depth, of one block or several |
//!
//! The rules are on the page `docs/attribution.md` of the repository.

mod block;
mod names;
mod tally;

pub use block::{BlockAttribution, BlockPart};
pub use names::{Names, NamesError, StorageName};
pub use tally::{ByteTally, Bytes, Depth, Item};
