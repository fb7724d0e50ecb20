//! The counting rule, implemented from docs/proof-size.md alone, without any code of povmeter. It is
//! slow: every number is computed again from the state, the changes and the sets of the page.

mod block;
mod rule;
mod trie;

pub(crate) use block::check;
