//! povmeter.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod accounting;
mod block;
mod boundary;
mod error;
mod seal;

pub use accounting::{Accounting, Advisory, Consensus};
pub use block::{Block, Removal};
pub use error::BlockError;
pub use seal::{OwnedChange, SealedBlock};

pub use povmeter_delta_root::{
    child_root_key, state_update, Blake2b256, Changes, DecodeError, KeyChanges, KeyPath, LoadError,
    NodeChange, NodeHash, NodePrefix, NodeSource, Root, RootError, RootUpdate, ShadowState,
    SourceError, StateVersion, TrieId, CHILD_ROOT_PREFIX,
};
pub use povmeter_overlay::TransactionError;
pub use povmeter_pov_estimate::{CompactProof, ProofError, ProofNodes, ProofSize, StorageProof};
