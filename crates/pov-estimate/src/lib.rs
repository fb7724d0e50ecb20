//! What a storage proof holds.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod estimator;
mod proof;
mod recorder;
mod size;

pub use estimator::{Estimator, EstimatorMark};
pub use proof::{CompactProof, ProofError, ProofNodes, StorageProof};
pub use recorder::{Estimating, Reading, Recorder, RecorderMark};
pub use size::ProofSize;
