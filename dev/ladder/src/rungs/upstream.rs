//! The open proposal for sp-state-machine: it works as `get-for-writes`, but applies every key that
//! the overlay changed since the last boundary, even if it was applied before.
//!
//! It has an ephemeral trie per boundary, look-ups for writes, removals for deletions, and no
//! commit. It underestimates where only the deletions of several extrinsics together merge a
//! branch, because a boundary applies only the keys changed since the last one. It overestimates
//! where a look-up reads an old value of 33 bytes or more that nothing else reads, because the root
//! does not read it.

use super::Rung;
use crate::{estimator::Estimator, estimator::TrialEstimator, trial::Ephemeral, trial::Writes};
use povmeter_dev_runtime::{Peer, SplitRecorder};

pub(super) const RUNG: Rung = Rung {
    name: "upstream",
    claims_complete: false,
    start,
};

fn start(peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
    let trial = Ephemeral::on(peer, recorder, Writes::Get);
    Box::new(TrialEstimator::of_changes(Box::new(trial)))
}
