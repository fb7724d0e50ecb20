//! Computes the peer's root of all changes so far after every extrinsic, counts the nodes that it
//! reads, and drops the rest.
//!
//! Each boundary costs as much as the end of a block. It never underestimates, because it is the
//! predicted computation itself. It overestimates if a later extrinsic makes a read unnecessary,
//! because counts never fall.

use super::Rung;
use crate::{estimator::noted_size, estimator::Estimator, touched::Touch};
use povmeter_dev_runtime::{
    BoundarySize, EstimateRecorder, HostError, Peer, PeerBackend, PeerBlock, SplitRecorder,
    TransactionStep,
};
use sp_core::storage::StateVersion;

pub(super) const RUNG: Rung = Rung {
    name: "root-each-tx",
    claims_complete: true,
    start,
};

fn start(peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
    Box::new(PeerRoot {
        backend: peer.backend(recorder.estimates()),
        version: peer.version(),
    })
}

/// Computes the peer's root, with a recorder for estimates.
struct PeerRoot {
    backend: PeerBackend<EstimateRecorder>,
    version: StateVersion,
}

impl Estimator for PeerRoot {
    fn at_boundary(
        &mut self,
        _: Vec<Touch>,
        block: &mut PeerBlock<SplitRecorder>,
    ) -> Result<Option<BoundarySize>, HostError> {
        block.overlay.storage_root(&self.backend, self.version);
        // Roll back an empty transaction to clear the overlay's cached root, because an append does
        // not clear it.
        block.overlay.start_transaction();
        let step = TransactionStep::Rollback;
        let none = |_| HostError::NoOpenTransaction { step };
        block.overlay.rollback_transaction().map_err(none)?;
        Ok(Some(noted_size(block)))
    }
}
