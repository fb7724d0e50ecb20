//! The counting rule once more, written from docs/proof-size.md alone: slow, and without a line of
//! povmeter. Every number is computed anew from the state, the changes and the sets of the page.

mod block;
mod rule;
mod trie;

pub(crate) use block::check;
