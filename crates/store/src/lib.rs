//! Places to keep the nodes of committed states, and the root that goes with them.
//!
//! A [`NodeStore`] holds one committed state at a time: its root and every node below it, each with
//! the number of places that refer to it. A block reads nodes from the store through
//! [`NodeSource`](povmeter_delta_root::NodeSource); committing the
//! [`RootUpdate`](povmeter_delta_root::RootUpdate) that comes out of it moves the store on to the
//! next state.
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
//! | [`MemoryStore`] | the store of tests and short runs, on memory-db |
//! | [`ParityDbStore`] | the store on disk, on parity-db |
//! | [`Verified`] | any store or source, with every node hashed as it is read |
//! | [`StoreError`] | why a store did not move on; it is then still at the state before |
//! | [`OpenError`] | why a folder was not opened; nothing was written to it |
//!
//! # Guarantees
//! - A commit is applied as a whole or not at all, and only onto the root it was made for.
//! - A node is kept as long as one place refers to it: nodes are keyed by hash alone, so equal nodes
//!   at different places, of the top trie and of child tries, are one entry with a count.
//! - The null node is part of every store, whatever was committed: a trie without entries is a
//!   state like any other.
//! - Stores hand out what was put into them and hash nothing. [`Verified`] does.
//!
//! # Costs
//! Reading from [`MemoryStore`] is one hash table look-up and a clone of a reference-counted buffer;
//! from [`ParityDbStore`] a look-up in its queue of pending commits, then one or two page accesses
//! and a copy. [`Verified`] adds one Blake2b-256 of the node.
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
