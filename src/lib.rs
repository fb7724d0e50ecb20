//! A state machine for Substrate-style chains that knows, after every transaction, how large the
//! block's storage proof would be if the block ended now, the storage-root computation included.
//!
//! A [`Block`] lies on a parent state, which a [`Root`] commits and a [`NodeSource`] holds. It takes
//! reads, writes and nested transactions. [`Block::proof_size`] can be asked at any place.
//! [`Block::seal`] computes the root once and hands out what follows: the changes of the node store
//! and the storage proof, from which alone the block can be executed again.
//!
//! ```
//! use povmeter::{Block, Root, StateVersion::V1, TrieId::Top};
//! use povmeter_store::{MemoryStore, NodeStore};
//!
//! // A state with three entries: a block on the empty state, committed.
//! let mut store = MemoryStore::new();
//! let mut genesis = Block::new(&store, Root::EMPTY);
//! for name in [b"alice", b"bobby", b"carol"] {
//!     genesis.set(Top, name, &[7; 40])?;
//! }
//! store.commit(genesis.seal(V1)?.update())?;
//!
//! // A block on it: one transaction, and the size of the proof after it.
//! let mut block = Block::new(&store, store.root());
//! block.start_transaction();
//! block.set(Top, b"alice", b"paid")?;
//! block.remove(Top, b"bobby")?;
//! block.commit_transaction()?;
//! let size = block.proof_size()?;
//!
//! // The end of the block: the root, and a proof of the size that was said.
//! let sealed = block.seal(V1)?;
//! assert_eq!(sealed.proof().recorded_bytes(), size.total_bytes());
//!
//! // Whoever has the compact proof and nothing else gets the same size and the same root.
//! let compact = sealed.proof().to_compact(store.root())?;
//! let mut again = Block::new(compact.to_source(store.root())?, store.root());
//! again.set(Top, b"alice", b"paid")?;
//! again.remove(Top, b"bobby")?;
//! assert_eq!(again.proof_size()?, size);
//! assert_eq!(again.seal(V1)?.update().root, sealed.update().root);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//! ```text
//! NodeSource, Root ──> Block<S, A> ───── seal ────> SealedBlock
//!                      │ get, set, ...              │ update() ── RootUpdate: root, nodes gained and lost
//!                      │ start, commit, rollback    │ proof() ─── StorageProof ──> CompactProof
//!                      └ proof_size() ─ ProofSize   └ size(), top_changes(), child_changes()
//! ```
//! | type | what it is |
//! |---|---|
//! | [`Block`] | the block while it is built or executed; `A` is [`Consensus`] or [`Advisory`] |
//! | [`TrieId`] | the top trie, or a child trie by its storage key |
//! | [`ProofSize`] | bytes that reads need, and bytes that only the root needs |
//! | [`Attributed`], [`Attribution`] | the same with notes of who needs what, and what came of them |
//! | [`RecordedEntry`], [`Want`], [`Owner`] | a node of the proof, who needs it, and whose it is |
//! | [`EntryKind`], [`Why`], [`Cause`] | what it is, what it is needed for, and its class |
//! | [`EstimatePolicy`], [`SizeBound`] | for authors: when to estimate, and a bound until then |
//! | [`SealedBlock`] | all that follows from a block; nothing can be written to it |
//! | [`RootUpdate`] | the step from the parent's root to the new one, for a node store |
//! | [`StorageProof`], [`CompactProof`] | the proof as a set of nodes, and as it travels |
//! | [`ProofNodes`] | the nodes of a proof: the [`NodeSource`] of a validator |
//! | [`NodeSource`] | where nodes of the parent state come from; one method |
//! | [`BlockPool`], [`PooledBlock`] | memory of blocks that are over, for blocks to come |
//! | [`BlockError`], [`ProofError`] | why a call has no result |
//! | [`SealError`] | why a block was not sealed, with the block |
//!
//! Node stores are in `povmeter-store`; `povmeter-substrate` puts a Substrate runtime on a block.
//!
//! # Guarantees
//! - A size is never below what the proof will be if the block ends there. It is above it only where
//!   changes made later make a node unnecessary that was counted, or where the order in which a
//!   sequential root computation works happens to spare it a node.
//! - Under [`Consensus`], author, importer and validator get the same sizes at the same places,
//!   whatever they have cached, on every platform, with `std` and without.
//! - No plausible value on failure: a root, a size or a value that can't be had is a [`BlockError`],
//!   which says what was expected and what was found. No call panics on input.
//! - A failed call has changed nothing but what is loaded: no value, no transaction, no size and no
//!   proof. It can be repeated.
//! - [`Block::seal`] takes the block, and hands it back only if it fails. What is sealed can't be
//!   changed:
//!   ```compile_fail,E0382
//!   # use povmeter::{Block, BlockError, ProofNodes, Root, StateVersion, TrieId};
//!   # let mut block = Block::new(ProofNodes::default(), Root::EMPTY);
//!   let sealed = block.seal(StateVersion::V1)?;
//!   block.set(TrieId::Top, b"late", b"write")?;
//!   # Ok::<(), BlockError>(())
//!   ```
//! - Roots and nodes are those of `sp-state-machine` 0.54, byte for byte; sizes are in the unit of its
//!   recorder, and proofs are encoded as `sp-trie` 47 encodes them.
//!
//! # Costs
//! - A read of a key the block changed, or read before: one or two hash table look-ups. Another read:
//!   a walk through the nodes on the way to the key; each is loaded and decoded once in a block.
//! - A size: for each key changed since the last one such a walk, or a look-up if the key was read or
//!   counted before. Nothing is encoded or hashed for it.
//! - A root: one update of the parent trie, with Blake2b-256 of the nodes that changed.
//! - Memory: every node loaded, and every key of up to 256 bytes read, stays until the block is dropped.
//!
//! # Features
//! - `std` (default): uses std in dependencies. Without it the crate is `no_std` and needs `alloc`;
//!   sizes, roots and proofs are the same.
//! - `parallel`: roots of blocks with many changes are computed on several threads, those of the
//!   rayon pool that [`Block::seal`] is called in; they are the same.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod accounting;
mod attribution;
mod block;
mod boundary;
mod changed;
mod error;
mod policy;
#[cfg(feature = "std")]
mod pool;
mod scratch;
mod seal;
mod seal_error;

pub use accounting::{Accounting, Advisory, Consensus};
pub use attribution::{Attributed, Attribution, Cause, EntryKind, Owner, RecordedEntry, Want, Why};
pub use block::{Block, Removal};
pub use changed::Change;
pub use error::BlockError;
pub use policy::{EstimatePolicy, SizeBound};
#[cfg(feature = "std")]
pub use pool::{BlockPool, PooledBlock};
pub use seal::SealedBlock;
pub use seal_error::SealError;

/// What a [`NodeSource`] hands out nodes as.
pub use bytes::Bytes;
pub use povmeter_delta_root::{
    DecodeError, KeyPath, LoadError, NodeBatch, NodeChange, NodeChanges, NodePrefix, NodeRequest,
    NodeSource, OpenRequests, RootError, RootUpdate, SourceError,
};
pub use povmeter_overlay::TransactionError;
pub use povmeter_pov_estimate::{CompactProof, ProofError, ProofNodes, ProofSize, StorageProof};
pub use povmeter_primitives::{NodeHash, Root, StateVersion, TrieId};

/// The example of the front page is one.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
