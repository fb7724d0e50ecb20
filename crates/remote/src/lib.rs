//! The states of running chains, loaded through a node's JSON-RPC interface when a block reads them, and
//! files that hold everything that one block reads.
//!
//! A [`RemoteState`] is a [`NodeSource`](povmeter_delta_root::NodeSource): any block can run on it, and
//! loads from the chain's node only what it reads. Every trie node is checked against its hash and every
//! header against the hash of its block, so a wrong one becomes an error and never a value.
//!
//! ```no_run
//! use povmeter_delta_root::{ShadowState, TrieId};
//! use povmeter_remote::{BlockId, NodeUrl, RemoteNode, RpcOptions};
//!
//! let url: NodeUrl = "ws://127.0.0.1:9944".parse()?;
//! let node = RemoteNode::new(url, RpcOptions::default());
//! let block = node.block(&BlockId::Number(1_000))?;
//! let state = node.parent_state(&block)?;
//! state.prefetch(&[(None, b":heappages".to_vec())])?;
//! // The same source for a `Block`, or for sp-state-machine.
//! let mut shadow = ShadowState::new(&state, state.root());
//! # let _ = (&mut shadow, TrieId::Top);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`RemoteNode`], [`RpcOptions`] | a running node; time-out, attempts, requests in flight |
//! | [`NodeUrl`], [`BlockId`], [`BlockIdError`] | where it listens; a block by number or hash, the best, the finalized one |
//! | [`RemoteBlock`], [`HeaderParts`] | a block with its encoded header, and what a header says |
//! | [`RemoteState`], [`RemoteKey`] | the state after a block, as a source of nodes; a key of it |
//! | [`DiskCache`] | nodes and blocks on disk, which are not requested again |
//! | [`Recording`], [`RecordedNodes`] | a block and the nodes that it reads, as one compressed file |
//! | [`NotingSource`] | notes the nodes that a source hands out, for a recording |
//! | [`RemoteError`], [`RecordingError`], [`CacheError`], [`UrlError`], [`HeaderError`], [`NotRecorded`] | what was expected, and what was found |
//!
//! # Guarantees
//! - A node or header whose hash is not the requested one is an error.
//! - After a failed request the state stays failed, so a block cannot go on without a node.
//! - A block on a remote state has the root, proof and sizes of one on a complete state.
//! - A damaged recording is an error. A damaged cache entry is requested again.
//!
//! # Costs
//! One request for each key that the block touches and that was not announced before, because one answer
//! holds the whole path of a key. [`RemoteState::prefetch`] requests many keys at a time.
//!
//! # Features
//! - `tls`: `wss://` addresses, checked with Mozilla's certificates.

mod answer;
mod block_id;
mod cache;
mod client;
mod connection;
mod error;
mod header;
mod node;
mod noting;
mod places;
mod recording;
mod state;
mod url;

pub use block_id::{BlockId, BlockIdError};
pub use cache::{CacheError, DiskCache};
pub use client::RpcOptions;
pub use error::RemoteError;
pub use header::{HeaderError, HeaderParts};
pub use node::{RemoteBlock, RemoteNode};
pub use noting::NotingSource;
pub use recording::{NotRecorded, RecordedNodes, Recording, RecordingError};
pub use state::{RemoteKey, RemoteState};
pub use url::{NodeUrl, UrlError};
