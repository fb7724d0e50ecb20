//! What is compared: the peer, the ladder of strategies, povmeter.

use crate::{allocations, error::CliError, parent_state::ParentState};
use povmeter_workload::{
    build_block, BlockOutcome, Estimates, Host, LadderBlock, Peer, Plan, PovmeterBlock, Strategy,
};

/// One way to build a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// sp-state-machine with its recorder, without estimates.
    Peer,
    /// sp-state-machine with a strategy for estimates.
    Ladder(Strategy),
    /// povmeter without estimates; its runtime is told what the peer's is.
    PovmeterNone,
    /// povmeter with an estimate after every extrinsic and whenever the runtime asks.
    Povmeter,
}

impl Contender {
    /// All of them, the peer first.
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

    /// Whether it claims never to underestimate.
    pub(crate) fn claims_complete(self) -> bool {
        match self {
            Self::Ladder(strategy) => strategy.claims_complete(),
            Self::Povmeter => true,
            Self::Peer | Self::PovmeterNone => false,
        }
    }

    /// Whether a block takes seconds.
    pub(crate) fn is_slow(self) -> bool {
        self == Self::Ladder(Strategy::RootEachTx)
    }
}

/// Where contenders meet.
pub(crate) struct Arena<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) state: &'a ParentState,
    pub(crate) peer: &'a Peer,
}

/// A block and what it cost.
pub(crate) struct Attempt {
    pub(crate) outcome: BlockOutcome,
    /// Allocations in extrinsics and in the estimates after them, per extrinsic; the first one,
    /// which grows what is kept, is not among them. Zero for fewer than two extrinsics.
    pub(crate) allocations_per_extrinsic: f64,
}

impl Arena<'_> {
    /// A block built by `contender`.
    ///
    /// # Errors
    /// [`CliError::Build`].
    pub(crate) fn build(&self, contender: Contender) -> Result<Attempt, CliError> {
        let povmeter =
            |estimates| PovmeterBlock::new(self.state.nodes.clone(), self.plan, estimates);
        match contender {
            Contender::Peer => self.attempt(contender, self.peer.block()),
            Contender::Ladder(strategy) => {
                self.attempt(contender, LadderBlock::new(self.peer, strategy))
            }
            Contender::PovmeterNone => self.attempt(contender, povmeter(Estimates::Nowhere)),
            Contender::Povmeter => self.attempt(contender, povmeter(Estimates::Everywhere)),
        }
    }

    fn attempt(&self, contender: Contender, host: impl Host) -> Result<Attempt, CliError> {
        let (mut first, mut last) = (0, 0);
        let outcome = build_block(host, self.plan, |progress| {
            last = allocations::count();
            if progress.done == 1 {
                first = last;
            }
        })
        .map_err(CliError::build(contender.name()))?;
        let counted = self.plan.extrinsics().len().saturating_sub(1);
        // Both far below 2^52, so exact.
        let allocations_per_extrinsic = (last - first) as f64 / counted.max(1) as f64;
        Ok(Attempt {
            outcome,
            allocations_per_extrinsic,
        })
    }
}
