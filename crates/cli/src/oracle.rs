//! The bytes that the peer would have recorded if the block had ended after its last extrinsic.

use crate::error::CliError;
use povmeter_dev_ladder::{LadderBlock, Strategy};
use povmeter_dev_runtime::{
    build_block, BoundarySize, Host, HostError, Peer, Plan, TransactionStep,
};

/// The true size at the last boundary of a block, in the unit of the peer's recorder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oracle {
    /// Bytes recorded with the root computed after the last extrinsic.
    pub(crate) last: u64,
    /// Bytes recorded after the block was finalized.
    pub(crate) recorded: u64,
}

impl Oracle {
    /// Returns the true sizes of the block of `plan`, whose runtime is told the bytes recorded so far.
    ///
    /// # Errors
    /// [`CliError::Build`] if the peer can't build the block.
    pub(crate) fn ask(peer: &Peer, plan: &Plan) -> Result<Self, CliError> {
        // One boundary after the inherent, one after each extrinsic.
        let host = LastBoundary {
            host: LadderBlock::new(peer, Strategy::ROOT_EACH_TX),
            left: plan.extrinsics().len(),
        };
        let outcome =
            build_block(host, plan, |_| {}).map_err(CliError::build("sp-state-machine"))?;
        let last = outcome.boundaries.last().map_or(0, BoundarySize::total);
        Ok(Self {
            last,
            recorded: outcome.sizes.recorded,
        })
    }

    /// Returns the bytes that finalizing the block adds, without the root computation.
    pub(crate) fn finalize_adds(&self) -> u64 {
        self.recorded - self.last.min(self.recorded)
    }

    /// By how many bytes `estimate`, made after the last extrinsic, is too low.
    pub(crate) fn lacks(&self, estimate: u64) -> u64 {
        self.last.saturating_sub(estimate)
    }
}

/// A host that computes the size at the last boundary only, because a size costs a root computation.
struct LastBoundary<H> {
    host: H,
    /// Boundaries left before the last one.
    left: usize,
}

impl<H: Host> Host for LastBoundary<H> {
    type Finished = H::Finished;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        self.host.execute(call)
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        self.host.transaction(step)
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(None)
            }
            None => self.host.boundary(),
        }
    }

    fn recorded(&self) -> u64 {
        self.host.recorded()
    }

    fn finish(self) -> Result<H::Finished, HostError> {
        self.host.finish()
    }
}
