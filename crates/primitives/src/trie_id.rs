//! Which trie of the state a key is in.

use alloc::vec::Vec;

/// The prefix of the keys under which the top trie holds the roots of child tries. The storage key of
/// the child trie follows it.
pub const CHILD_ROOT_PREFIX: &[u8] = b":child_storage:default:";

/// Names a trie of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrieId<'a> {
    /// The trie whose root is the state root.
    Top,
    /// The child trie with this storage key, without [`CHILD_ROOT_PREFIX`].
    Child(&'a [u8]),
}

/// The key of the top trie under which the root of the child trie `storage_key` lies.
pub fn child_root_key(storage_key: &[u8]) -> Vec<u8> {
    [CHILD_ROOT_PREFIX, storage_key].concat()
}
