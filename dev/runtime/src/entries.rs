//! The entries of a trie.

use std::collections::BTreeMap;

/// Entries of a trie: values by key.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;
