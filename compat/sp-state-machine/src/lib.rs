//! `sp-state-machine` with povmeter below [`OverlayedChanges`], [`Ext`] and [`TrieBackend`].
//!
//! A node puts this crate in the place of the original by two lines in its `Cargo.toml`; nothing else of the
//! node changes. `compat/make-patch FOLDER` makes the folder:
//! ```toml
//! [patch.crates-io]
//! sp-state-machine = { path = "FOLDER/sp-state-machine" }
//! ```
//! Then `cargo update sp-state-machine@0.54.0` is needed once.
//!
//! Items that the table does not name are the original's. Without the feature `std`, as runtimes compile the
//! crate, all items are.
//!
//! | type | what it is here |
//! |---|---|
//! | [`OverlayedChanges`] | a povmeter block: overlay, shadow trie, recorder; bound to the parent state by the first access |
//! | [`Ext`] | externalities over an overlay and a backend |
//! | [`TrieBackend`], [`TrieBackendBuilder`] | the original's; a block also reads nodes through it, and records each |
//! | [`Backend`], [`TrieBackendStorage`] | the original's traits, each with one provided method |
//! | [`StateMachine`], `prove_*`, `*_proof_check*` | calls into the runtime and proofs, over these types |
//! | [`TestExternalities`], [`ReadOnlyExternalities`] | as the original's, over these types |
//! | [`povmeter`] | the settings of a node: whether sizes include what the root computation adds, and the caches |
//!
//! # Guarantees
//! - Roots, values, proofs and sizes are the original's, unless the node chooses
//!   [`ProofSizes::Estimate`](povmeter::ProofSizes::Estimate), or the runtime calls the second version of the
//!   proof-size function, with [few exceptions](https://github.com/povmeter/povmeter/blob/main/docs/differences.md#what-a-chain-can-notice).
//! - A hasher other than Blake2b-256, an overlay that collects extrinsics, a backend that is not made of trie nodes,
//!   and a wrapper around a backend that is not one of `sc-client-db`'s get the original's implementation.
//! - Where the original returns the old root because a node is missing, this crate panics with the reason: the
//!   interface has no room for an error, and a block with a made-up root is worse.
#![cfg_attr(not(feature = "std"), no_std)]

pub use original::*;

// Named one by one, these take precedence over the original's.
#[cfg(feature = "std")]
pub use crate::{
    backend::{Backend, KeysIter, PairsIter},
    ext::Ext,
    in_memory_backend::{new_in_mem, InMemoryBackend},
    overlayed_changes::OverlayedChanges,
    proving::{
        execution_proof_check, execution_proof_check_on_trie_backend, prove_execution,
        prove_execution_on_trie_backend,
    },
    read_only::{InspectState, ReadOnlyExternalities},
    reading::{
        prove_child_read, prove_child_read_on_trie_backend, prove_range_read_with_child_with_size,
        prove_range_read_with_child_with_size_on_trie_backend, prove_range_read_with_size,
        prove_range_read_with_size_on_trie_backend, prove_read, prove_read_on_trie_backend,
        read_child_proof_check_on_proving_backend, read_proof_check_on_proving_backend,
        read_range_proof_check_on_proving_backend,
        read_range_proof_check_with_child_on_proving_backend,
    },
    state_machine::StateMachine,
    storage::TrieBackendStorage,
    testing::TestExternalities,
    trie_backend::{create_proof_check_backend, TrieBackend, TrieBackendBuilder},
    view::OverlayedValue,
};

#[cfg(feature = "std")]
pub mod backend;
#[cfg(feature = "std")]
mod block;
#[cfg(feature = "std")]
mod cache;
#[cfg(feature = "std")]
mod database;
#[cfg(feature = "std")]
mod essence;
#[cfg(feature = "std")]
mod ext;
#[cfg(feature = "std")]
mod extensions;
#[cfg(feature = "std")]
mod fallback;
#[cfg(feature = "std")]
mod handover;
#[cfg(feature = "std")]
mod in_memory_backend;
#[cfg(feature = "std")]
mod machine;
#[cfg(feature = "std")]
mod nodes;
#[cfg(feature = "std")]
mod overlayed_changes;
#[cfg(feature = "std")]
pub mod povmeter;
#[cfg(feature = "std")]
mod proving;
#[cfg(feature = "std")]
mod read_only;
#[cfg(feature = "std")]
mod reading;
#[cfg(feature = "std")]
mod runtime_code;
#[cfg(feature = "std")]
mod state_machine;
#[cfg(feature = "std")]
mod storage;
#[cfg(feature = "std")]
mod testing;
#[cfg(feature = "std")]
mod trie_backend;
#[cfg(feature = "std")]
mod view;
#[cfg(feature = "std")]
mod wrapped;
