//! Works as `fake-hasher`, but applies a key again only if its fate changes from written to deleted
//! or back, because the nodes that a key needs do not depend on its value.
//!
//! It underestimates where `fake-hasher` does, because it too applies the keys in the order of the
//! extrinsics.

use super::Rung;
use crate::{estimator::Estimator, estimator::TrialEstimator, trial::Committing, FakeHasher};
use povmeter_dev_runtime::{Peer, SplitRecorder};

pub(super) const RUNG: Rung = Rung {
    name: "each-key-once",
    claims_complete: false,
    start,
};

fn start(peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
    let trial = Committing::<FakeHasher>::new(peer, recorder);
    Box::new(TrialEstimator::of_fates(Box::new(trial)))
}
