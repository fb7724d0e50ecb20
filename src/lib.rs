//! A state machine for Substrate-style chains that knows, after every transaction, how large the
//! block's storage proof would be if the block ended now, the storage-root computation included.
//!
//! A [`Block`] starts from a parent state, which a [`Root`] commits to and a [`NodeSource`] holds. It
//! takes reads, writes and nested transactions. [`Block::proof_size`] can be called at any point.
//! [`Block::seal`] computes the root once and returns the changes to the node store and the storage
//! proof. The block can be executed again from that proof alone.
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
//! | [`Block`] | the block while it is built or executed; `A` is [`Consensus`], [`Advisory`], or [`Attributed`] of either |
//! | [`TrieId`] | the top trie, or a child trie by its storage key |
//! | [`ProofSize`] | bytes that reads need, and bytes that only the root needs |
//! | [`Attributed`], [`Attribution`] | an accounting that notes which part needs which node, and its result |
//! | [`RecordedEntry`], [`Want`], [`Owner`] | a node of the proof, a reason to need it, and its owner |
//! | [`EntryKind`], [`Why`], [`Cause`] | what the node is, why it is needed, and its class |
//! | [`EstimatePolicy`], [`SizeBound`] | for authors: when to estimate exactly, and an upper bound until then |
//! | [`SealedBlock`] | the result of a block: root update, changes, proof and size, all read-only |
//! | [`RootUpdate`] | the new root, and the nodes that a node store inserts and removes |
//! | [`StorageProof`], [`CompactProof`] | the proof as a set of nodes, and in the form that collators send |
//! | [`ProofNodes`] | the nodes of a proof: the [`NodeSource`] of a validator |
//! | [`ReadsMark`] | a point to which the counts of reads can be taken back |
//! | [`SeenNodes`] | which nodes of the proof a host with its own recorder has seen |
//! | [`EarlierNodes`] | nodes that earlier blocks of the same PoV brought, so they do not count again |
//! | [`Hashing`], [`HashMode`] | how roots are hashed: with which instructions, or by a function, such as that of a wasm host |
//! | [`UnsupportedMode`] | why a [`HashMode`] was refused |
//! | [`seed_hash_tables`] | keys of hash tables, for validators in wasm |
//! | [`Overlay`], [`Lookup`] | what the block changed so far, to look at; the result of a look-up in it |
//! | [`NodeSource`] | supplies nodes of the parent state; one required method |
//! | [`BlockPool`], [`PooledBlock`] | reuses the memory of finished blocks, and the nodes that they loaded |
//! | [`BlockError`], [`ProofError`] | why a call failed |
//! | [`SealError`] | why sealing failed, with the block |
//!
//! Node stores are in `povmeter-store`; `povmeter-substrate` puts a Substrate runtime on a block.
//!
//! # Guarantees
//! - A size is never below the proof size if the block ends at that point. It is above only where a
//!   later change makes a counted node unnecessary, or where the order of a sequential root computation
//!   happens to skip a node.
//! - Under [`Consensus`], author, importer and validator get the same sizes at the same points, with
//!   any cache, on every platform, with `std` and without.
//! - No plausible value on failure: a call that can't compute its root, size or value returns a
//!   [`BlockError`], which says what was expected and what was found. No input makes a call panic, unless the changes of
//!   one block take 4 GiB, as a value of 4 GiB does; that counts as out of memory. Hashes of nodes are not checked as
//!   they are read, as in sp-state-machine: wrap a source that may be damaged, or may lie, in `povmeter_store::Verified`.
//!   Proofs are checked when they are opened.
//! - A root needs stack for each branch above a changed key: about 1.3 KB, where trie-db needs 2.7. So 2 MiB last for
//!   a chain of 1,500 keys each of which is the beginning of the next, and without optimisation for one of 500; those
//!   of a hashed map need some twenty levels. The length of a compact proof during the block needs stack for each node on
//!   a path that is in several tries, or in one at several places.
//! - A failed call leaves nothing behind but loaded nodes: it changes no value, transaction, size or
//!   proof. It can be repeated.
//! - [`Block::seal`] consumes the block and returns it only on failure. A sealed block can't be
//!   changed:
//!   ```compile_fail,E0382
//!   # use povmeter::{Block, BlockError, ProofNodes, Root, StateVersion, TrieId};
//!   # let mut block = Block::new(ProofNodes::default(), Root::EMPTY);
//!   let sealed = block.seal(StateVersion::V1)?;
//!   block.set(TrieId::Top, b"late", b"write")?;
//!   # Ok::<(), BlockError>(())
//!   ```
//! - Roots and nodes are those of `sp-state-machine` 0.54, byte for byte, with
//!   [few exceptions](https://github.com/povmeter/povmeter/blob/main/docs/differences.md#what-a-chain-can-notice); sizes
//!   are in the unit of its recorder, and proofs are encoded as `sp-trie` 47 encodes them.
//!
//! # Costs
//! - A read of a key the block changed, or read before: one or two hash table look-ups. Any other read:
//!   a walk through the nodes on the path to the key; each node is loaded and decoded once per block.
//! - A size: such a walk for each key changed since the last size, or one look-up if the key was read
//!   or counted before. Nothing is encoded or hashed for it.
//! - A root: one update of the parent trie, with Blake2b-256 of the nodes that changed.
//! - Memory: every node loaded, and every key of up to 256 bytes read, stays until the block is dropped.
//! - Under [`BlockPool::carrying`] a node is loaded and decoded once for many blocks.
//!
//! # Features
//! - `std` (default): uses std in dependencies. Without it the crate is `no_std` and needs `alloc`;
//!   sizes, roots and proofs are the same.
//! - `parallel`: roots of blocks with many changes are computed on the threads of the rayon pool that
//!   [`Block::seal`] is called in; the roots are the same.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod accounting;
mod attribution;
mod block;
mod boundary;
#[cfg(feature = "std")]
mod carrier;
mod changed;
mod earlier;
mod error;
mod policy;
#[cfg(feature = "std")]
mod pool;
mod scratch;
mod seal;
mod seal_error;

pub use accounting::{Accounting, Advisory, Consensus, Untold};
pub use attribution::{Attributed, Attribution, Cause, EntryKind, Owner, RecordedEntry, Want, Why};
pub use block::{Block, ReadsMark, Removal, SeenNodes};
pub use changed::Change;
pub use earlier::EarlierNodes;
pub use error::BlockError;
pub use policy::{EstimatePolicy, SizeBound};
#[cfg(feature = "std")]
pub use pool::{BlockPool, PooledBlock};
pub use seal::SealedBlock;
pub use seal_error::SealError;

/// The type in which a [`NodeSource`] returns nodes.
pub use bytes::Bytes;
pub use povmeter_delta_root::{
    DecodeError, HashMode, Hashing, KeptValue, KeyPath, LoadError, NodeBatch, NodeChange,
    NodeChanges, NodePrefix, NodeRequest, NodeSource, OpenRequests, RootError, RootUpdate,
    SourceError, UnsupportedMode,
};
pub use povmeter_overlay::{Lookup, Overlay, TransactionError};
pub use povmeter_pov_estimate::{CompactProof, ProofError, ProofNodes, ProofSize, StorageProof};
pub use povmeter_primitives::{
    child_root_key, seed_hash_tables, HashError, NodeHash, Root, StateVersion, TrieId,
};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
