//! Whose the bytes of a block's proof are: by extrinsic, by storage item, by cause.
//!
//! | type | what it is |
//! |---|---|
//! | [`AttributedBlock`] | a host that tells the parts of a block apart |
//! | [`BlockAttribution`] | what came of it: each recorded node, and what the parts are |
//! | [`Names`], [`StorageName`] | what prefixes of keys are called |
//! | [`ByteTally`], [`Bytes`] | bytes added up in each way, of one block or several |
//!
//! The rules are on the page `docs/attribution.md`.

mod host;
mod names;
mod tally;

pub use host::{AttributedBlock, BlockAttribution};
pub use names::{runtime_names, Names, NamesError, StorageName};
pub use tally::{ByteTally, Bytes, Item};
