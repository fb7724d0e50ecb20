//! A block that the peer builds, with an estimate after every extrinsic.

use crate::{
    estimator::Estimator, estimator::TrialEstimator, strategy::Strategy, touched::TouchLog,
    touched::Tracked, trial::Trial,
};
use povmeter_dev_runtime::{
    BoundarySize, Finished, Host, HostError, Peer, PeerBlock, SplitRecorder, TransactionStep,
};
use sp_externalities::set_and_run_with_externalities;

/// A block that the peer builds with a [`Strategy`] for estimates.
pub struct LadderBlock {
    block: PeerBlock<SplitRecorder>,
    log: TouchLog,
    estimator: Box<dyn Estimator>,
}

impl LadderBlock {
    /// Makes a block on the parent state of `peer`, with `strategy` for estimates. Estimates have a
    /// cache if the peer has one.
    pub fn new(peer: &Peer, strategy: Strategy) -> Self {
        let block = PeerBlock::<SplitRecorder>::new(peer);
        let estimator = strategy.start(peer, &block.recorder);
        Self {
            block,
            log: TouchLog::default(),
            estimator,
        }
    }

    /// As [`Self::new`], but passes the changed keys of each boundary to `trial`.
    pub fn with_trial(peer: &Peer, trial: Box<dyn Trial>) -> Self {
        Self {
            block: PeerBlock::<SplitRecorder>::new(peer),
            log: TouchLog::default(),
            estimator: Box::new(TrialEstimator::of_changes(trial)),
        }
    }
}

impl Host for LadderBlock {
    type Finished = Finished;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        let Self { block, log, .. } = self;
        let depth = log.depth();
        let result = block.inside(|ext| {
            set_and_run_with_externalities(
                &mut Tracked {
                    inner: ext,
                    log: &mut *log,
                },
                call,
            )
        })?;
        log.roll_back_to(depth);
        Ok(result)
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        self.block.transaction(step)?;
        self.log.follow(step);
        Ok(())
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        let touches = self.log.take();
        self.estimator.at_boundary(touches, &mut self.block)
    }

    fn recorded(&self) -> u64 {
        self.block.recorded()
    }

    fn finish(self) -> Result<Finished, HostError> {
        self.block.finish()
    }
}
