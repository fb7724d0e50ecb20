//! Node stores: they keep the trie nodes and the root of a committed state.
//!
//! A [`NodeStore`] holds one committed state at a time: its root and every node below it, each with
//! a reference count. A block reads nodes from the store through
//! [`NodeSource`](povmeter_delta_root::NodeSource). Committing the block's
//! [`RootUpdate`](povmeter_delta_root::RootUpdate) moves the store to the next state.
//!
//! ```
//! use povmeter_delta_root::{Blake2b256, NodeChange, NodeSource, Root, RootUpdate};
//! use povmeter_store::{MemoryStore, NodeStore};
//!
//! let encoded = b"\x41\x02\x10value".to_vec();
//! let hash = Blake2b256::hash(&encoded);
//! let node = NodeChange {
//!     path: &[],
//!     odd_nibble: None,
//!     hash,
//!     references: 1,
//!     encoded: &encoded,
//! };
//! let nodes = [node].into_iter().collect();
//! let root = Root::from(<[u8; 32]>::from(hash));
//!
//! let mut store = MemoryStore::new();
//! store.commit(&RootUpdate { parent: Root::EMPTY, root, children: vec![], nodes })?;
//! assert_eq!(store.root(), root);
//! assert_eq!(store.node(&hash, (&[], None))?.unwrap(), &b"\x41\x02\x10value"[..]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`MemoryStore`] | a store in memory, for tests and short runs; uses memory-db |
//! | [`ParityDbStore`] | a store on disk; uses parity-db |
//! | [`Verified`] | a wrapper around a store or source that checks the hash of every node it reads |
//! | [`StoreError`] | why a commit failed; the store is unchanged |
//! | [`OpenError`] | why a folder was not opened; nothing was written to it |
//!
//! # Guarantees
//! - A commit is applied as a whole or not at all, and only if it starts from the store's root.
//! - A node is kept as long as it has a reference. Nodes are keyed by hash alone, so equal nodes at
//!   different positions, of the top trie and of child tries, are one entry with a count.
//! - Every store holds the null node, because the state without entries is a valid state.
//! - Stores do not hash what they return. [`Verified`] does.
//!
//! # Costs
//! A read from [`MemoryStore`] is one hash table look-up and a clone of a reference-counted buffer.
//! A read from [`ParityDbStore`] is a look-up in its queue of pending commits, then one or two page
//! accesses and a copy. [`Verified`] adds one Blake2b-256 of the node.
//!
//! # Features
//! - `parity-db` (default): [`ParityDbStore`].

mod memory;
mod net;
#[cfg(feature = "parity-db")]
mod parity;
#[cfg(feature = "parity-db")]
mod parity_folder;
mod store;
mod verified;

pub use memory::MemoryStore;
#[cfg(feature = "parity-db")]
pub use parity::ParityDbStore;
#[cfg(feature = "parity-db")]
pub use parity_folder::{FolderContent, OpenError};
pub use store::{NodeStore, StoreError};
pub use verified::{HashMismatch, Verified};
