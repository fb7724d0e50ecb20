//! Node stores: they keep the trie nodes and the roots of committed states.
//!
//! A [`NodeStore`] holds one committed state at a time: its root and every node below it, each with
//! a reference count. A block reads nodes from the store through
//! [`NodeSource`](povmeter_delta_root::NodeSource). Committing the block's
//! [`RootUpdate`](povmeter_delta_root::RootUpdate) moves the store to the next state. A
//! [`StateHistory`] keeps several states: forks, and the blocks that are not final yet.
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
//! | `RocksDbStore` | a store on disk; uses RocksDB |
//! | [`StateHistory`], [`KeptStates`], [`KeptState`], [`StateId`] | several states, which each store above keeps |
//! | `RedisCluster` | nodes that many machines share, in a Redis or Valkey Cluster; no [`NodeStore`], because it removes nothing |
//! | [`Verified`] | a wrapper around a store or source that checks the hash of every node it reads |
//! | [`ParallelReads`] | a wrapper that reads the nodes of a batch on several threads |
//! | [`verify`], [`VerifyReport`], [`Problem`], [`NodeFault`] | a check whether a store is whole |
//! | [`stat`], [`StoreStat`] | numbers about a store |
//! | [`prune_to_last`], [`prune_to_root`] | pruning by number or root |
//! | [`StoredNodes`], [`CountedNode`], [`StateDiff`] | all nodes of a store, and the journal of a state |
//! | [`StoreError`] | why a commit failed; the store is unchanged |
//! | [`OpenError`], [`FolderContent`], [`engine_of`] | why a folder was not opened; what it holds |
//! | [`BackupError`], [`StatError`], [`PruneError`] | why maintenance failed |
//!
//! # Guarantees
//! - A commit, a prune and a discard are applied as a whole or not at all, also if the process is killed
//!   meanwhile. A commit must start from the root of its parent state.
//! - A store holds exactly the nodes of the kept states, each with a count.
//! - A store on disk opens only its own folder, and says what else a folder holds.
//! - A node is kept as long as it has a reference. Nodes are keyed by hash alone, so equal nodes at
//!   different positions, of the top trie and of child tries, are one entry with a count.
//! - Every store holds the null node, because the state without entries is a valid state.
//! - Stores do not hash what they return. [`Verified`] does, and so does `RedisCluster`.
//!
//! # Costs
//! A read from [`MemoryStore`] is one hash table look-up and a clone of a reference-counted buffer.
//! A read from [`ParityDbStore`] is a look-up in its queue of pending commits, then one or two page
//! accesses and a copy. A read from `RocksDbStore` is a look-up in its newest writes, then in a table or two
//! after a Bloom filter, and a copy; a batch is one call of the database. A read from `RedisCluster` is a
//! round trip and a hash; the reads of a batch go out at once. [`Verified`] adds one Blake2b-256 of the node.
//! Keeping a state writes 40 bytes for each change besides the nodes, and hashes them for a checksum.
//!
//! # Features
//! - `parity-db` (default): [`ParityDbStore`].
//! - `rocksdb`: `RocksDbStore`. Compiles RocksDB, which takes minutes, a C++ compiler and libclang.
//! - `parallel` (default): [`ParallelReads`]; uses rayon.
//! - `redis`: `RedisCluster`.

#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
mod backup;
#[cfg(feature = "redis")]
mod cluster;
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
mod disk;
// Only stores on disk read the records that `engine` and `journal` write.
#[cfg_attr(not(any(feature = "parity-db", feature = "rocksdb")), allow(dead_code))]
mod engine;
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
mod file_list;
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
mod folder;
mod history;
#[cfg_attr(not(any(feature = "parity-db", feature = "rocksdb")), allow(dead_code))]
mod journal;
mod maintenance;
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
mod making;
mod memory;
mod net;
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
mod open_error;
#[cfg(any(feature = "parity-db", feature = "parallel"))]
mod panic;
#[cfg(feature = "parallel")]
mod parallel;
#[cfg(feature = "parity-db")]
mod parity;
#[cfg(feature = "parity-db")]
mod parity_database;
#[cfg(feature = "parity-db")]
mod parity_files;
#[cfg(feature = "parity-db")]
mod parity_tables;
mod progress;
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
mod read_states;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "rocksdb")]
mod rocks_files;
#[cfg(feature = "rocksdb")]
mod rocks_logs;
mod store;
mod stored;
mod verified;
mod verify;
mod walk;

#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
pub use backup::BackupError;
#[cfg(feature = "redis")]
pub use cluster::{ClusterError, ClusterOptions, RedisCluster};
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
pub use folder::engine_of;
pub use history::{KeptState, KeptStates, StateHistory, StateId};
pub use journal::StateDiff;
pub use maintenance::{prune_to_last, prune_to_root, stat, PruneError, StatError, StoreStat};
pub use memory::MemoryStore;
#[cfg(any(feature = "parity-db", feature = "rocksdb"))]
pub use open_error::{FillError, FolderContent, OpenError};
#[cfg(feature = "parallel")]
pub use parallel::{ParallelReads, ReadPanic, ThreadsError};
#[cfg(feature = "parity-db")]
pub use parity::ParityDbStore;
pub use progress::Progress;
#[cfg(feature = "rocksdb")]
pub use rocks::RocksDbStore;
pub use store::{NodeStore, StoreError};
pub use stored::{CountedNode, StoredNodes};
pub use verified::{HashMismatch, Verified};
pub use verify::{verify, Problem, VerifyReport};
pub use walk::NodeFault;
