//! Substrate state tries: the node format, the part of a parent state that a block has loaded, which
//! of its nodes a root computation needs, and the root update itself.
//!
//! A [`ShadowState`] serves reads from a [`NodeSource`] and keeps what it loads. [`state_update`]
//! turns net changes into a [`RootUpdate`]: the new root, and the nodes that a store gains and loses.
//! An [`Observer`] is told of every node that a call needs, so that a proof can hold it.
//!
//! ```
//! use povmeter_delta_root::{state_update, Changes, Root, ShadowState, StateVersion};
//! # use povmeter_delta_root::{NodeHash, NodePrefix, NodeSource, SourceError};
//! # struct Nothing;
//! # impl NodeSource for Nothing {
//! #     fn node(&self, _: &NodeHash, _: NodePrefix<'_>) -> Result<Option<bytes::Bytes>, SourceError> {
//! #         Ok(None)
//! #     }
//! # }
//!
//! // The state without entries needs nothing of its source.
//! let mut state = ShadowState::new(Nothing, Root::EMPTY);
//! let changes = Changes {
//!     top: vec![(b"alice", Some(b"10")), (b"bob", None)],
//!     children: vec![(b"pool", vec![(b"carol", Some(b"3"))])],
//! };
//! let update = state_update(&mut state, &changes, StateVersion::V1, &mut ())?;
//! assert_eq!(update.parent, Root::EMPTY);
//! // The top trie's root node, alice inside it; the leaf with the child's root; the child's one node.
//! assert_eq!(update.inserted().count(), 3);
//! assert_eq!(update.children[0].0, b"pool");
//! # Ok::<(), povmeter_delta_root::RootError>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`NodeSource`], [`SourceError`] | where encoded nodes come from: one method for a node, one for many |
//! | [`NodeBatch`], [`NodeRequest`], [`OpenRequests`] | requests for several nodes, and the answers to them |
//! | [`ShadowState`] | the parent state as far as it is loaded: the top trie and the child tries |
//! | [`ShadowScratch`] | the memory of a [`ShadowState`], emptied, for the next one |
//! | [`CarriedState`] | what a [`ShadowState`] has loaded, for the next block |
//! | [`TrieId`], [`TrieHandle`] | a trie by name, and a trie opened |
//! | [`ShadowNode`], [`ValuePlace`] | a node in a shadow trie, and where a value lies |
//! | [`KeptValue`] | a value that its reader keeps |
//! | [`NodeTable`], [`NodeId`] | the bytes loaded, each distinct hash once |
//! | [`Observer`], [`PathCache`] | is told of each node that a call needs, loaded before or not; remembers paths |
//! | [`Search`] | finds many keys in walks that load their nodes together |
//! | [`RootNeeds`], [`Fate`] | finds what a root computation will need, for keys marked one by one |
//! | [`Changes`] | net changes of a state, sorted |
//! | [`RootUpdate`], [`NodeChanges`], [`NodeChange`] | the new root, and the changes to a node store |
//! | [`Root`], [`NodeHash`], [`Blake2b256`] | a trie's root, a node's hash, and the hash function |
//! | [`Hashing`], [`HashMode`], [`HashFunction`], [`UnsupportedMode`] | how nodes are hashed; an unsupported mode |
//! | [`StateVersion`] | how values are laid out |
//! | [`StateCodec`], [`LayoutV0`], [`LayoutV1`] | the node format for trie-db |
//! | [`NodeReferences`] | the hashes that an encoded node refers to |
//! | [`CompactNode`] | a node of a compact proof, without the hashes that follow from other items |
//! | [`LoadError`], [`DecodeError`], [`RootError`] | why a node, its encoding or a root is refused |
//!
//! # Guarantees
//! - What an observer is told depends on the state and the calls alone, never on what was loaded
//!   before them.
//! - [`RootNeeds`] covers what `sp-state-machine` 0.54 reads when it applies the same net changes, in
//!   whatever order the keys were marked.
//! - A root is computed from loaded and marked nodes alone. If a node is missing there is no root.
//! - Decoding never panics, and the size of its input bounds the memory that it reserves. Nodes that no
//!   encoder writes (a branch without children, padding that is not zero, a length in a longer form
//!   than needed) are refused.
//! - Nodes are not hashed as they are read. Wrap a source that may be damaged in an adapter that
//!   hashes them, such as `povmeter_store::Verified`.
//!
//! # Costs
//! - A node is loaded and decoded once. Afterwards a walk costs one step per node on the path, and
//!   copies nothing.
//! - Marking a key costs its walk. Deleting an entry costs one step more for each node above it that
//!   has nothing else left.
//! - The root is one pass over the changed paths: each node on them is encoded and hashed once, and
//!   nodes of the same depth are hashed together.
//! - A loaded node stays until the state is dropped, or longer: see [`CarriedState`].
//!
//! # Features
//! - `std` (default): finds out at run time what the processor can do, and hashes eight nodes at once
//!   where it has AVX-512 and the crate was compiled by Rust 1.89 or later, four where it has AVX2.
//!   Without `std` the crate is `no_std` and needs `alloc`; the hashes are the same.
//! - `parallel`: large root updates go to several threads, subtrie by subtrie, in the rayon pool that
//!   the caller is in. The update is the same on any number of them.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod batch;
mod codec;
mod compact_node;
mod decode;
mod hash;
mod index;
mod kept_value;
mod key_order;
mod needs;
mod nibbles;
mod node_batch;
mod node_changes;
mod root;
mod scale;
mod search;
mod shadow;
mod source;
mod state;
mod table;
mod update;

#[cfg(feature = "parallel")]
pub use batch::SPLIT_FROM;
pub use codec::{LayoutV0, LayoutV1, StateCodec};
pub use compact_node::CompactNode;
pub use decode::{DecodeError, NodeReferences};
pub use hash::{Blake2b256, HashFunction, HashMode, Hashing, UnsupportedMode};
pub use kept_value::KeptValue;
pub use needs::RootNeeds;
pub use node_batch::{NodeBatch, NodeRequest, OpenRequests};
pub use node_changes::{NodeChange, NodeChanges};
/// The types that this crate shares with the overlay.
pub use povmeter_primitives::{
    child_root_key, Fate, HashError, NodeHash, Root, StateVersion, TrieId, CHILD_ROOT_PREFIX,
    HASH_LENGTH,
};
pub use root::{
    child_root, child_root_in_key_order, child_root_of_loaded, state_update,
    state_update_in_key_order, state_update_of_loaded, Changes, KeyChanges, RootError,
};
pub use scale::{compact_bytes, push_compact, read_compact};
pub use search::Search;
pub use shadow::{Observer, PathCache, ShadowNode, ValuePlace};
pub use source::{NodePrefix, NodeSource, SourceError};
pub use state::{CarriedState, ShadowScratch, ShadowState, TrieHandle};
pub use table::{KeyPath, LoadError, NodeId, NodeTable};
pub use update::RootUpdate;
