//! The types that the crates of povmeter share.
//!
//! The overlay knows nothing of tries, and the tries know nothing of the overlay. The types that both
//! use are here, so that nothing has to be converted between them.
//!
//! ```
//! use povmeter_primitives::{child_root_key, Root};
//!
//! assert_eq!(child_root_key(b"contract"), b":child_storage:default:contract");
//! assert_eq!(Root::EMPTY.to_string(), "0x03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314");
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`TrieId`] | which trie of the state a key is in: the top trie, or a child trie |
//! | [`Fate`] | what the changes of a block do to a key |
//! | [`Root`], [`NodeHash`], [`HashError`] | the hash that commits to a trie, the hash that names a node, and why a text is none |
//! | [`StateVersion`] | how values are laid out in tries |
//! | [`common_bytes`] | the length of the common prefix of two keys |
//! | [`FastState`], [`QualityState`], [`seed_hash_tables`] | keys of hash tables, and a seed for them |
//! | [`ShortHash`] | a hash short enough to lie in a hash table |
//!
//! The crate is `no_std` and needs `alloc`. The feature `std` (off by default) draws the keys of hash
//! tables from more sources.

#![no_std]

extern crate alloc;

mod common_bytes;
mod fate;
mod hash;
mod short_hash;
mod table_state;
mod trie_id;
mod version;

pub use common_bytes::common_bytes;
pub use fate::Fate;
pub use hash::{HashError, NodeHash, Root, HASH_LENGTH};
pub use short_hash::ShortHash;
pub use table_state::{seed_hash_tables, FastState, QualityState};
pub use trie_id::{child_root_key, TrieId, CHILD_ROOT_PREFIX};
pub use version::StateVersion;
