//! Works as `forget`, but looks every written key up instead of inserting it, so only deletions
//! change the trie.
//!
//! It underestimates where `forget` does, because a boundary still does not see the deletions of
//! the others. It overestimates where a look-up reads an old value of 33 bytes or more that nothing
//! else reads, because the root does not read it.

use super::Rung;
use crate::{estimator::Estimator, estimator::TrialEstimator, trial::Ephemeral, trial::Writes};
use povmeter_dev_runtime::{Peer, SplitRecorder};

pub(super) const RUNG: Rung = Rung {
    name: "get-for-writes",
    claims_complete: false,
    start,
};

fn start(peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
    let trial = Ephemeral::on(peer, recorder, Writes::Get);
    Box::new(TrialEstimator::of_fates(Box::new(trial)))
}
