//! Makes no estimate, and does the bookkeeping of the others: the baseline for their cost.
//!
//! It neither underestimates nor overestimates, because it returns no size.

use super::Rung;
use crate::{estimator::Estimator, touched::Touch};
use povmeter_dev_runtime::{BoundarySize, HostError, Peer, PeerBlock, SplitRecorder};

pub(super) const RUNG: Rung = Rung {
    name: "none",
    claims_complete: false,
    start,
};

fn start(_: &Peer, _: &SplitRecorder) -> Box<dyn Estimator> {
    Box::new(NoEstimate)
}

struct NoEstimate;

impl Estimator for NoEstimate {
    fn at_boundary(
        &mut self,
        _: Vec<Touch>,
        _: &mut PeerBlock<SplitRecorder>,
    ) -> Result<Option<BoundarySize>, HostError> {
        Ok(None)
    }
}
