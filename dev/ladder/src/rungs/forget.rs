//! Works as `each-key-once`, but opens the trie on the parent's root for each boundary and drops it
//! without a commit, so it hashes nothing and keeps no nodes.
//!
//! It underestimates where only the deletions of several extrinsics together merge a branch,
//! because a boundary does not see the deletions of the others.

use super::Rung;
use crate::{estimator::Estimator, estimator::TrialEstimator, trial::Ephemeral, trial::Writes};
use povmeter_dev_runtime::{Peer, SplitRecorder};

pub(super) const RUNG: Rung = Rung {
    name: "forget",
    claims_complete: false,
    start,
};

fn start(peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
    let trial = Ephemeral::on(peer, recorder, Writes::Insert);
    Box::new(TrialEstimator::of_fates(Box::new(trial)))
}
