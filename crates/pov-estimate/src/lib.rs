//! What a storage proof holds, and how large it would be if the block ended now.
//!
//! A [`Recorder`] counts each node once, and takes counts back when their transaction is rolled back.
//! An [`Estimator`] gets the keys that a block changed, and makes the recorder count the nodes that the
//! root computation will need for them. [`StorageProof`] and [`CompactProof`] are the result.
//!
//! ```
//! use povmeter_delta_root::{Fate, ShadowState, TrieHandle, TrieId};
//! # use povmeter_delta_root::{state_update, Changes, Root, StateVersion};
//! use povmeter_pov_estimate::{ChangedKey, Estimator, ProofNodes, Recorder, StorageProof};
//! # let entries = [b"alice", b"bobby"].map(|key| (&key[..], Some(&[7; 32][..])));
//! # let changes = Changes { top: entries.to_vec(), children: vec![] };
//! # let mut empty = ShadowState::new(ProofNodes::default(), Root::EMPTY);
//! # let parent = state_update(&mut empty, &changes, StateVersion::V1, &mut ())?;
//! # let root = parent.root;
//! # let source = StorageProof::new(parent.inserted().map(|node| parent.nodes.share(node.encoded))).to_source();
//!
//! // A parent state in which alice and bobby have 32 bytes each.
//! let mut state = ShadowState::new(source, root);
//! let (mut recorder, mut estimator) = (Recorder::default(), Estimator::default());
//! state.value(TrieId::Top, b"alice", &mut recorder.reading())?;
//! let read = recorder.size();
//!
//! // Alice is deleted: the root computation will merge bobby with the branch above, and so reads it.
//! let observer = &mut recorder.estimating();
//! let alice = ChangedKey { trie: TrieHandle::TOP, index: 0, key: b"alice", fate: Fate::Deleted };
//! let mut boundary = estimator.boundary(&mut state, 1);
//! boundary.mark_key(&mut state, alice, observer)?;
//! boundary.settle(&mut state, observer)?;
//! assert_eq!(recorder.size().read_bytes, read.read_bytes);
//! assert!(recorder.size().root_bytes > 32);
//!
//! let nodes = recorder.nodes().map(|node| state.table().bytes(node).clone());
//! let proof = StorageProof::new(nodes);
//! assert_eq!(proof.recorded_bytes(), recorder.size().total_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//! | type | what it is |
//! |---|---|
//! | [`Recorder`], [`RecorderMark`] | the counted nodes, and a point to roll back to |
//! | [`Reading`], [`Estimating`] | observers that count nodes for reads, and nodes for the root |
//! | [`Estimator`], [`EstimatorMark`] | finds the nodes that changed keys need; a point to roll back to |
//! | [`Boundary`], [`ChangedKey`] | a boundary in progress, and a key for it |
//! | [`ProofSize`] | bytes of the nodes that reads need, and of the nodes that only the root needs |
//! | [`CompactSize`] | the length of the compact proof, kept up to date |
//! | [`StorageProof`] | a set of nodes, in lexicographic order |
//! | [`CompactProof`] | a proof without the hashes that follow from its other nodes; collators send this form |
//! | [`ProofNodes`] | the nodes of a proof, as a source to execute a block on |
//! | [`ProofError`] | what is wrong with a proof |
//!
//! # Guarantees
//! - A size is never below what the root computation of the keys handed in will need.
//! - A node is counted once per hash, even if it is at several places or in several tries.
//! - Taking counts back leaves nothing behind but loaded nodes.
//! - Proofs are encoded, and packed, as `sp-trie` 47 does it, byte for byte.
//! - Reading a proof never panics, and no memory is reserved for items that the proof only claims to have. A decoded
//!   item takes its own bytes and up to 64 more in the list, even if it is empty and so a single byte of the input. A
//!   source made from it also needs memory in proportion to the number of items.
//!   [`CompactProof::to_source`] computes every hash anew: what it accepts is a proof of that root.
//!
//! # Costs
//! - Counting a node that is already counted: one look-up in a table by index.
//! - A key handed in for the first time in a block: a walk through the shadow trie, or one hash table
//!   look-up if it was read before. A key that was counted before: one look-up in a table by index.
//! - The first read of a key: a walk, and a copy of the key. A later read: one hash table look-up.
//! - Taking counts back: a step for each count made since the mark.
//! - A size: nothing. The compact length: a step for each node counted or taken back since the last
//!   call, and a walk up to the root for each new reference to a node or value that has several.
//!
//! # Features
//! - `std` (default): `std` in povmeter-delta-root. Without it the crate is `no_std` and needs `alloc`.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod compact_size;
mod estimator;
mod known_paths;
mod proof;
mod recorder;
mod size;
mod unpack;

pub use compact_size::CompactSize;
pub use estimator::{Boundary, ChangedKey, Estimator, EstimatorMark};
pub use proof::{CompactProof, ProofError, ProofNodes, StorageProof};
pub use recorder::{Estimating, Reading, Recorder, RecorderMark};
pub use size::ProofSize;
