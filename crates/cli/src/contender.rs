//! The contenders of a comparison: the peer, the ladder of strategies, povmeter.

use crate::{
    checks::expect_none_refused, error::CliError, parent_state::ParentState,
    runtime_form::RuntimeForm,
};
use povmeter::BlockPool;
use povmeter_dev_allocations::allocated;
use povmeter_dev_ladder::{LadderBlock, Strategy};
use povmeter_dev_runtime::{
    build_block_with, clock_cost, BlockOutcome, Calls, Estimates, Host, LockstepBlock, Peer, Plan,
    PovmeterBlock, SharedNodes, SizeRule,
};
use std::{sync::Arc, time::Duration};

/// One way to build a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// sp-state-machine with its recorder, without estimates.
    Peer,
    /// sp-state-machine with a strategy for estimates.
    Ladder(Strategy),
    /// povmeter without estimates; its runtime is told the same sizes as the peer's.
    PovmeterNone,
    /// povmeter with an estimate after every extrinsic and whenever the runtime asks.
    Povmeter,
}

impl Contender {
    /// Returns all contenders, the peer first.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Peer];
        all.extend(Strategy::ALL.map(Self::Ladder));
        all.extend([Self::PovmeterNone, Self::Povmeter]);
        all
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer-none",
            Self::Ladder(strategy) => strategy.name(),
            Self::PovmeterNone => "povmeter-none",
            Self::Povmeter => "povmeter",
        }
    }

    /// Whether the contender claims never to underestimate.
    pub(crate) fn claims_complete(self) -> bool {
        match self {
            Self::Ladder(strategy) => strategy.claims_complete(),
            Self::Povmeter => true,
            Self::Peer | Self::PovmeterNone => false,
        }
    }

    /// Whether a block takes seconds.
    pub(crate) fn is_slow(self) -> bool {
        self == Self::Ladder(Strategy::ROOT_EACH_TX)
    }
}

/// What all contenders build on.
pub(crate) struct Arena<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) state: &'a ParentState,
    pub(crate) peer: &'a Peer,
    pub(crate) runtime: &'a RuntimeForm,
    /// The memory that povmeter's blocks reuse.
    pub(crate) pool: Arc<BlockPool>,
}

/// A block and its allocations.
pub(crate) struct Attempt {
    pub(crate) outcome: BlockOutcome,
    /// Allocations per extrinsic, the estimate after it included. The first extrinsic does not count, because it grows
    /// buffers that the others reuse; `None` if there is no other.
    pub(crate) allocations_per_extrinsic: Option<f64>,
}

/// The state machine's share of a block's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The share in percent.
    pub(crate) percent: f64,
    /// Processor time of the thread for the runtime's call for the root.
    pub(crate) root: Duration,
}

impl Arena<'_> {
    /// Builds a block with `contender`.
    ///
    /// # Errors
    /// [`CliError::Build`] if it can't, [`CliError::Full`] if the runtime refused an extrinsic.
    pub(crate) fn build(&self, contender: Contender) -> Result<Attempt, CliError> {
        match contender {
            Contender::Peer => self.attempt(contender, self.peer.block()),
            Contender::Ladder(strategy) => {
                self.attempt(contender, LadderBlock::new(self.peer, strategy))
            }
            Contender::PovmeterNone => self.attempt(contender, self.ours(Estimates::Nowhere)),
            Contender::Povmeter => self.attempt(contender, self.ours(Estimates::Everywhere)),
        }
    }

    fn ours(&self, estimates: Estimates) -> PovmeterBlock<SharedNodes> {
        let (pool, nodes) = (Arc::clone(&self.pool), self.state.as_stored.clone());
        PovmeterBlock::pooled(pool, nodes, self.plan, estimates)
    }

    /// Builds a block with `contender`, and returns the state machine's share of its time: calls from the
    /// runtime, estimates, and finishing the block. The rest is the runtime's time.
    ///
    /// # Errors
    /// [`CliError::Build`] if `contender` can't build it.
    pub(crate) fn share(&self, contender: Contender) -> Result<Share, CliError> {
        match contender {
            Contender::Peer => self.share_of(contender, self.peer.block()),
            Contender::Ladder(strategy) => {
                self.share_of(contender, LadderBlock::new(self.peer, strategy))
            }
            Contender::PovmeterNone => self.share_of(contender, self.ours(Estimates::Nowhere)),
            Contender::Povmeter => self.share_of(contender, self.ours(Estimates::Everywhere)),
        }
    }

    fn share_of(&self, contender: Contender, host: impl Host) -> Result<Share, CliError> {
        let mut calls = Calls::default();
        let host = LockstepBlock::new(host, None, SizeRule::Equal, &mut calls).timed();
        let outcome = build_block_with(self.runtime, host, self.plan, |_| {})
            .map_err(CliError::build(contender.name()))?;
        let phases = outcome.phases;
        // Half of the time of reading the clock falls into the measured calls.
        let clock = clock_cost().as_secs_f64() * calls.all as f64;
        let inside = (calls.time.as_secs_f64() - clock / 2.0).max(0.0);
        let inside = inside + (phases.boundaries.wall + phases.finish.wall).as_secs_f64();
        let all = (phases.total().wall.as_secs_f64() - clock).max(inside);
        Ok(Share {
            percent: inside / all * 100.0,
            root: calls.root_time,
        })
    }

    fn attempt(&self, contender: Contender, host: impl Host) -> Result<Attempt, CliError> {
        let (mut first, mut last) = (0, 0);
        let outcome = build_block_with(self.runtime, host, self.plan, |progress| {
            last = allocated().calls;
            if progress.done == 1 {
                first = last;
            }
        })
        .map_err(CliError::build(contender.name()))?;
        let planned = self.plan.extrinsics().len();
        expect_none_refused(outcome.refused.len(), planned)?;
        let counted = planned.saturating_sub(1);
        // Exact, because both are far below 2^52.
        let allocations_per_extrinsic =
            (counted > 0).then(|| (last - first) as f64 / counted as f64);
        Ok(Attempt {
            outcome,
            allocations_per_extrinsic,
        })
    }
}
