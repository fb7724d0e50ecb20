//! Works as `incremental`, but with a fast hasher for new nodes, because their hashes are never
//! published.
//!
//! It underestimates where `incremental` does, because it reads the same nodes.

use super::Rung;
use crate::{estimator::Estimator, estimator::TrialEstimator, trial::Committing, FakeHasher};
use povmeter_dev_runtime::{Peer, SplitRecorder};

pub(super) const RUNG: Rung = Rung {
    name: "fake-hasher",
    claims_complete: false,
    start,
};

fn start(peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
    let trial = Committing::<FakeHasher>::new(peer, recorder);
    Box::new(TrialEstimator::of_changes(Box::new(trial)))
}
