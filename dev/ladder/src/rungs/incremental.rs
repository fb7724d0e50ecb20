//! Applies only the keys changed since the last boundary, to a trie that continues from the root of
//! the last boundary.
//!
//! The trie reads the nodes of the parent state and the new ones, which it commits to memory with
//! the real Blake2. It underestimates where the order of the extrinsics and the order of the keys
//! read different siblings, because the end of the block applies the net changes in the order of
//! the keys.

use super::Rung;
use crate::{estimator::Estimator, estimator::TrialEstimator, trial::Committing};
use povmeter_dev_runtime::{runtime::Hashing, Peer, SplitRecorder};

pub(super) const RUNG: Rung = Rung {
    name: "incremental",
    claims_complete: false,
    start,
};

fn start(peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
    let trial = Committing::<Hashing>::new(peer, recorder);
    Box::new(TrialEstimator::of_changes(Box::new(trial)))
}
