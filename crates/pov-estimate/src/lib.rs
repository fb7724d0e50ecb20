//! What a storage proof holds.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod compact_size;
mod estimator;
mod proof;
mod recorder;
mod size;

pub use compact_size::CompactSize;
pub use estimator::{Estimator, EstimatorMark};
pub use proof::{CompactProof, ProofError, ProofNodes, StorageProof};
pub use recorder::{Estimating, Reading, Recorder, RecorderMark};
pub use size::ProofSize;
