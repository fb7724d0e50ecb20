//! A cache of encoded trie nodes, shared by blocks, forks and threads, and a warmer that fills it ahead.
//!
//! A [`NodeCache`] lies between any [`NodeSource`](povmeter_delta_root::NodeSource) and the blocks on it. A
//! node is found by its path in the state and identified by its hash. So when an update is committed, each
//! new node replaces the node before it, and nodes that no state needs any more do not occupy memory.
//!
//! ```
//! use povmeter::{Block, Root, StateVersion::V1, TrieId::Top};
//! use povmeter_node_cache::{CachedSource, NodeCache};
//! use povmeter_store::{MemoryStore, NodeStore};
//! use std::sync::Arc;
//!
//! let cache = Arc::new(NodeCache::new(64 << 20));
//! let mut state = CachedSource::new(MemoryStore::new(), Arc::clone(&cache));
//! for number in 0..3_u8 {
//!     let root = state.get_ref().root();
//!     let mut block = Block::new(&state, root);
//!     block.set(Top, b"number", &[number; 40])?;
//!     let sealed = block.seal(V1)?;
//!     // The store first: nothing enters the cache that is not committed.
//!     state.get_mut().commit(sealed.update())?;
//!     cache.apply(sealed.update());
//! }
//! assert_eq!(cache.counters().entries, 2, "the root node, and the value");
//! assert_eq!(cache.counters().misses, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`NodeCache`] | the cache; share it in an `Arc` |
//! | [`CachedSource`] | a source with a cache in front of it |
//! | [`CacheCounters`] | what the cache holds and did, for a node's metrics |
//! | [`bytes_of_machine`] | a share of the machine's memory |
//! | [`Warmer`], [`WarmerOptions`] | threads that load the paths of keys into the cache |
//! | [`WarmerCounters`] | what the warmer did |
//!
//! # Guarantees
//! - **No stale and no foreign node**: every look-up compares all 32 bytes of the hash. Two nodes at one
//!   path, on two forks or a value and its leaf, may both be in the cache. A node that enters late, after an
//!   update has removed it, occupies memory until it is evicted; it answers only to its own hash.
//! - **What counts does not depend on the cache**: a block counts the nodes that it asks for, wherever they
//!   were. Sizes, proofs and roots are the same with a cache that is cold, warm, tiny, shared, or absent.
//! - **Only committed nodes**: nodes enter when they are read from the source, or by [`NodeCache::apply`]. A
//!   block that is dropped leaves nothing but what it has read.
//! - **Bounded memory**: a cache that has a node never uses more memory than it was made with, its own tables
//!   included. Only while a thread makes one of the tables anew, it has up to 24 KB more. It copies nodes, so it keeps no
//!   other buffer alive.
//! - Nodes are not hashed: put a source that may be damaged behind `povmeter_store::Verified`, below the
//!   cache.
//!
//! # Costs
//! - A look-up: the hash of the path, a lock that is held for the time of a copy, and a table look-up.
//! - Memory: 12 bytes for each node beside its hash and its encoding, and 6 % of it for tables.
//! - There is one lock for each 800 KB. Every block asks once for the root node.
//!
//! # Policy
//! S3-FIFO, in logs of bytes: see [the page on the cache](https://github.com/povmeter/povmeter/blob/main/docs/cache.md)
//! for the policies that it was compared with.
//!
//! # Features
//! - `machine` (default): [`bytes_of_machine`], by the crate sysinfo.

mod cache;
mod counters;
mod ghosts;
#[cfg(feature = "machine")]
mod machine;
mod path;
mod ring;
mod shard;
mod source;
mod warmer;

pub use cache::NodeCache;
pub use counters::CacheCounters;
#[cfg(feature = "machine")]
pub use machine::bytes_of_machine;
pub use source::CachedSource;
pub use warmer::{Warmer, WarmerCounters, WarmerOptions};
