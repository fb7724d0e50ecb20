//! What a block author does with a plan.

use crate::{
    entry::EntryPoints, entry::Native, entry::RuntimeError, host::BoundarySize, host::Built,
    host::Host, host::HostError, host::ProofSizes, host::TransactionStep, plan::Plan,
    runtime::with_state_version, runtime::Extrinsic, runtime::Header, stopwatch::Spent,
};
use povmeter_attribution::BlockPart;
use sp_core::H256;
use sp_runtime::{
    traits::Header as _, transaction_validity::TransactionValidityError, ApplyExtrinsicResult,
    DispatchError,
};
use sp_trie::CompactProof;

/// The outcome of building the block of `plan` under `host`.
///
/// Initializes the block, applies the inherent and every signed extrinsic, each in a transaction of
/// the host which is rolled back if the extrinsic is refused, asks the host for the size after each,
/// and finalizes the block. `progress` is called after every signed extrinsic, between the clocks.
///
/// # Errors
/// An [`AuthorError`] if the host fails, the inherent is refused, or the host's root is not the one
/// that the runtime put into the header.
///
/// # Panics
/// If the host panics inside the runtime, as the peer does when a node is missing: a runtime has no
/// way to be told of errors.
pub fn build_block<H: Host>(
    host: H,
    plan: &Plan,
    progress: impl FnMut(Progress),
) -> Result<BlockOutcome, AuthorError> {
    build_block_with(&Native, host, plan, progress)
}

/// As [`build_block`], with another form of the runtime.
///
/// # Errors
/// As [`build_block`], and if a call into the runtime has no result.
pub fn build_block_with<H: Host>(
    runtime: &impl EntryPoints,
    host: H,
    plan: &Plan,
    progress: impl FnMut(Progress),
) -> Result<BlockOutcome, AuthorError> {
    with_state_version(plan.options().state_version, || {
        Author::new(host, runtime).build(plan, progress)
    })
}

/// How far the author is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Signed extrinsics applied or refused so far.
    pub done: usize,
    /// All signed extrinsics.
    pub total: usize,
    /// What the host said after the last of them.
    pub size: Option<BoundarySize>,
    /// How long the last of them took.
    pub times: ExtrinsicTimes,
}

/// How long one extrinsic took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtrinsicTimes {
    /// The extrinsic, with the transaction around it.
    pub execute: Spent,
    /// The estimate after it.
    pub estimate: Spent,
}

/// All that is known about a block when it is built.
#[derive(Debug)]
pub struct BlockOutcome {
    /// The header, with the state root that the runtime got from its host.
    pub header: Header,
    /// How many signed extrinsics are in the block.
    pub applied: usize,
    /// Those of them whose call failed. They are in the block and paid their fee.
    pub failed: Vec<(usize, DispatchError)>,
    /// Signed extrinsics that are not in the block.
    pub refused: Vec<Rejected>,
    /// The sizes after the inherent and after every signed extrinsic; empty if the host does not
    /// estimate.
    pub boundaries: Vec<BoundarySize>,
    /// What was recorded before the block was finalized, in bytes.
    pub recorded_before_finalize: u64,
    /// The sizes of the whole proof.
    pub sizes: ProofSizes,
    /// The whole proof in compact form.
    pub compact: CompactProof,
    /// Where the time went.
    pub phases: Phases,
    /// How long the inherent took; [`Progress`] tells of all others.
    pub inherent: ExtrinsicTimes,
    /// Root, nodes, proof and changes.
    pub built: Built,
}

/// A signed extrinsic that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place in the plan.
    pub index: usize,
    /// The runtime's reason.
    pub reason: TransactionValidityError,
}

/// Where the time of a block went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// `initialize_block`.
    pub initialize: Spent,
    /// The extrinsics, the inherent among them, with the transactions around them.
    pub extrinsics: Spent,
    /// The estimates after them.
    pub boundaries: Spent,
    /// `finalize_block`, in which the runtime asks for the root.
    pub finalize: Spent,
    /// Taking root, nodes, proof and changes from the host; their sizes are not part of it.
    pub finish: Spent,
}

impl Phases {
    /// All phases together.
    #[must_use]
    pub fn total(&self) -> Spent {
        let Self {
            initialize,
            extrinsics,
            boundaries,
            finalize,
            finish,
        } = *self;
        let mut total = initialize;
        for phase in [extrinsics, boundaries, finalize, finish] {
            total += phase;
        }
        total
    }
}

/// Why there is no block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorError {
    /// The host failed.
    #[error("the host failed")]
    Host(#[from] HostError),
    /// The runtime failed.
    #[error("the runtime failed")]
    Runtime(#[from] RuntimeError),
    /// The timestamp was refused.
    #[error("the runtime refused the inherent: {0:?}")]
    Inherent(ApplyExtrinsicResult),
    /// Host and runtime do not agree about the root.
    #[error("expected the root {expected:?} of the header, found the host at {found:?}")]
    Root {
        /// The root in the header.
        expected: H256,
        /// The root that the host finished with.
        found: H256,
    },
}

/// A block in the making.
struct Author<'r, H, R> {
    host: H,
    runtime: &'r R,
    phases: Phases,
    boundaries: Vec<BoundarySize>,
    failed: Vec<(usize, DispatchError)>,
    refused: Vec<Rejected>,
}

impl<'r, H: Host, R: EntryPoints> Author<'r, H, R> {
    fn new(host: H, runtime: &'r R) -> Self {
        let (boundaries, failed, refused) = Default::default();
        Self {
            host,
            runtime,
            phases: Phases::default(),
            boundaries,
            failed,
            refused,
        }
    }

    fn build(
        mut self,
        plan: &Plan,
        mut progress: impl FnMut(Progress),
    ) -> Result<BlockOutcome, AuthorError> {
        let Self {
            host,
            phases,
            runtime,
            ..
        } = &mut self;
        host.begin(BlockPart::Initialize);
        phases
            .initialize
            .during(|| host.execute(|| runtime.initialize_block(plan.header())))??;
        let (inherent, execute) = self.apply(0, plan.inherent())?;
        if !matches!(inherent, Ok(Ok(()))) {
            return Err(AuthorError::Inherent(inherent));
        }
        let (_, estimate) = self.boundary()?;
        let inherent = ExtrinsicTimes { execute, estimate };
        let total = plan.extrinsics().len();
        for (index, extrinsic) in plan.extrinsics().iter().enumerate() {
            let (result, execute) = self.apply(index + 1, extrinsic)?;
            match result {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.failed.push((index, error)),
                Err(reason) => self.refused.push(Rejected { index, reason }),
            }
            let (size, estimate) = self.boundary()?;
            progress(Progress {
                done: index + 1,
                total,
                size,
                times: ExtrinsicTimes { execute, estimate },
            });
        }
        self.finish(plan, inherent)
    }

    /// One extrinsic in its transaction, `index` among those tried, and how long it took.
    fn apply(
        &mut self,
        index: usize,
        extrinsic: &Extrinsic,
    ) -> Result<(ApplyExtrinsicResult, Spent), AuthorError> {
        let extrinsic = extrinsic.clone();
        let Self {
            host,
            phases,
            runtime,
            ..
        } = self;
        host.begin(BlockPart::Extrinsic(index));
        let mut spent = Spent::default();
        let result = spent.during(|| {
            host.transaction(TransactionStep::Start)?;
            let result = host.execute(|| runtime.apply_extrinsic(extrinsic))??;
            // An extrinsic whose call failed is part of the block nevertheless.
            let step = match result {
                Ok(_) => TransactionStep::Commit,
                Err(_) => TransactionStep::Rollback,
            };
            host.transaction(step)?;
            Ok::<_, AuthorError>(result)
        })?;
        phases.extrinsics += spent;
        Ok((result, spent))
    }

    fn boundary(&mut self) -> Result<(Option<BoundarySize>, Spent), HostError> {
        let Self { host, phases, .. } = self;
        let mut spent = Spent::default();
        let size = spent.during(|| host.boundary())?;
        phases.boundaries += spent;
        self.boundaries.extend(size);
        Ok((size, spent))
    }

    fn finish(self, plan: &Plan, inherent: ExtrinsicTimes) -> Result<BlockOutcome, AuthorError> {
        let Self {
            mut host,
            runtime,
            mut phases,
            boundaries,
            failed,
            refused,
        } = self;
        let recorded_before_finalize = host.recorded();
        host.begin(BlockPart::Finalize);
        let header = phases
            .finalize
            .during(|| host.execute(|| runtime.finalize_block()))??;
        let recorded = host.recorded();
        let finished = phases.finish.during(|| host.finish())?;
        let built: Built = finished.into();
        if built.root != *header.state_root() {
            return Err(AuthorError::Root {
                expected: *header.state_root(),
                found: built.root,
            });
        }
        let parent = *plan.parent().state_root();
        let (sizes, compact) = ProofSizes::measure(&built.proof, recorded, parent)?;
        Ok(BlockOutcome {
            applied: plan.extrinsics().len() - refused.len(),
            header,
            failed,
            refused,
            boundaries,
            recorded_before_finalize,
            sizes,
            compact,
            phases,
            inherent,
            built,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Peer, PlanOptions};

    #[test]
    fn times_of_extrinsics_are_those_of_their_phases() {
        let options = PlanOptions {
            accounts: 20,
            transfers: 3,
            ..PlanOptions::default()
        };
        let plan = Plan::new(options).unwrap();
        let peer = Peer::in_memory(&plan).unwrap();
        let mut times = Vec::new();
        let outcome = build_block(peer.block(), &plan, |progress| times.push(progress.times));
        let outcome = outcome.unwrap();
        assert_eq!(times.len(), 3);
        let (mut execute, mut estimate) = (Spent::default(), Spent::default());
        for times in times.iter().chain([&outcome.inherent]) {
            assert!(times.execute.wall > times.estimate.wall, "{times:?}");
            execute += times.execute;
            estimate += times.estimate;
        }
        assert_eq!(execute, outcome.phases.extrinsics);
        assert_eq!(estimate, outcome.phases.boundaries);
    }
}
