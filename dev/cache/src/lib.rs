//! Measures node caches: povmeter's [`NodeCache`](povmeter_node_cache::NodeCache) beside well-kept libraries, a
//! ring by hash as in fastcache, and the shared trie cache of sp-trie.
//!
//! ```text
//! for each access and write share:
//!     execute blocks on povmeter; record which nodes each asks for, and which its update inserts and removes
//!     for each memory and policy:
//!         replay the record: look up, fill after a miss, apply the update at the end of a block
//!         with the limit at which the policy really uses that memory, found by an earlier replay
//!         the hits are those of the second half
//! ```
//!
//! A policy by *hash* stores each node under its hash, and keeps nodes that an update removes until it evicts
//! them. A policy by *path* stores each node under a number for its path, with the hash beside it: a look-up
//! with another hash is a miss, and a new node replaces the one before it.
//!
//! Besides, [`measure_slow_source`] executes a block over a store that needs long for each node.

mod access;
mod measure;
mod policies;
mod replay;
mod report;
mod slow;
mod state;
mod trace;

pub use access::Access;
pub use measure::{measure_caches, CacheError, CacheOptions};
pub use report::{CacheReport, CacheRow, Keying};
pub use slow::{measure_slow_source, SlowError, SlowOptions, SlowRow};
