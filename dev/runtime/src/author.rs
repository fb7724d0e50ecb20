//! A block author that builds the block of a plan.

use crate::{
    entry::EntryPoints, entry::Native, entry::RuntimeError, host::BoundarySize, host::Built,
    host::Host, host::HostError, host::ProofSizes, host::TransactionStep, plan::Plan,
    pov::PovSizes, runtime::with_state_version, runtime::Extrinsic, runtime::Header,
    stopwatch::Spent,
};
use codec::{Compact, Encode};
use povmeter_attribution::BlockPart;
use sp_core::H256;
use sp_runtime::{
    traits::Header as _, transaction_validity::TransactionValidityError, ApplyExtrinsicResult,
    DispatchError,
};
use sp_trie::CompactProof;

/// Returns the outcome of building the block of `plan` on `host`.
///
/// Initializes the block, applies the inherent and every signed extrinsic, asks the host for the size
/// after each, and finalizes the block. Each extrinsic has a transaction of the host, which is rolled
/// back if the extrinsic is refused. Calls `progress` after every signed extrinsic, untimed.
///
/// # Errors
/// [`AuthorError`] if the host fails, the inherent is refused, or the host's root is not the one
/// that the runtime put into the header.
///
/// # Panics
/// If the host panics inside the runtime, as the peer does when a node is missing.
pub fn build_block<H: Host>(
    host: H,
    plan: &Plan,
    progress: impl FnMut(Progress),
) -> Result<BlockOutcome, AuthorError> {
    build_block_with(&Native, host, plan, progress)
}

/// As [`build_block`], with the entry points of `runtime`.
///
/// # Errors
/// Those of [`build_block`], and [`AuthorError::Runtime`] if a call into the runtime has no result.
pub fn build_block_with<H: Host>(
    runtime: &impl EntryPoints,
    host: H,
    plan: &Plan,
    progress: impl FnMut(Progress),
) -> Result<BlockOutcome, AuthorError> {
    with_state_version(plan.options().state_version, || {
        Author::new(host, runtime, None).build(plan, progress)
    })
}

/// As [`build_block_with`], and also measures the [time](BlockOutcome::times) of each extrinsic. Each
/// extrinsic needs four readings of the thread's clock, a quarter of a microsecond each.
///
/// # Errors
/// Those of [`build_block_with`].
pub fn build_block_timed<H: Host>(
    runtime: &impl EntryPoints,
    host: H,
    plan: &Plan,
    progress: impl FnMut(Progress),
) -> Result<BlockOutcome, AuthorError> {
    with_state_version(plan.options().state_version, || {
        Author::new(host, runtime, Some(Vec::new())).build(plan, progress)
    })
}

/// The progress of the author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Signed extrinsics applied or refused so far.
    pub done: usize,
    /// Number of signed extrinsics.
    pub total: usize,
    /// Size at the boundary after these extrinsics; `None` if the host does not estimate.
    pub size: Option<BoundarySize>,
}

/// Time of one extrinsic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtrinsicTimes {
    /// The extrinsic, including the transaction around it.
    pub execute: Spent,
    /// The estimate after it.
    pub estimate: Spent,
}

/// The outcome of building a block.
#[derive(Debug)]
pub struct BlockOutcome {
    /// The header, with the state root that the runtime got from its host.
    pub header: Header,
    /// Number of signed extrinsics in the block.
    pub applied: usize,
    /// The index and error of each signed extrinsic whose call failed. It is in the block and paid
    /// its fee.
    pub failed: Vec<(usize, DispatchError)>,
    /// Signed extrinsics that are not in the block, by index.
    pub refused: Vec<Rejected>,
    /// The sizes after the inherent and after every signed extrinsic; empty if the host does not
    /// estimate.
    pub boundaries: Vec<BoundarySize>,
    /// Bytes recorded before the block was finalized.
    pub recorded_before_finalize: u64,
    /// The sizes of the whole proof.
    pub sizes: ProofSizes,
    /// The whole proof in compact form.
    pub compact: CompactProof,
    /// Time of each phase.
    pub phases: Phases,
    /// Time of each extrinsic, the inherent first; empty unless [`build_block_timed`] built the block.
    pub times: Vec<ExtrinsicTimes>,
    /// Root, nodes, proof and changes.
    pub built: Built,
}

impl BlockOutcome {
    /// Returns the extrinsics in the block of `plan`: the inherent, and the signed ones that were not
    /// refused.
    pub fn body<'p>(&self, plan: &'p Plan) -> Vec<&'p Extrinsic> {
        let signed = plan.extrinsics().iter().enumerate();
        let applied = signed.filter(|(index, _)| !self.is_refused(*index));
        let applied = applied.map(|(_, extrinsic)| extrinsic);
        [plan.inherent()].into_iter().chain(applied).collect()
    }

    /// Returns the sizes of the whole PoV. Costs milliseconds for a megabyte.
    pub fn pov(&self, plan: &Plan) -> PovSizes {
        PovSizes::measure(&self.header, &self.body(plan), &self.compact)
    }

    /// Returns the bytes of the header and of the extrinsics up to each of [`Self::boundaries`]. The header
    /// and the length prefix of the extrinsics are those of the finished block.
    pub fn block_bytes(&self, plan: &Plan) -> Vec<u64> {
        let signed = plan.extrinsics().iter().enumerate();
        let sizes = signed.map(|(index, extrinsic)| match self.is_refused(index) {
            true => 0,
            false => extrinsic.encoded_size() as u64,
        });
        let sizes = [plan.inherent().encoded_size() as u64]
            .into_iter()
            .chain(sizes);
        let length = Compact(self.applied as u64 + 1).encoded_size();
        let mut bytes = (self.header.encoded_size() + length) as u64;
        let sums = sizes.map(|size| {
            bytes += size;
            bytes
        });
        sums.collect()
    }

    fn is_refused(&self, index: usize) -> bool {
        let refused = &self.refused;
        refused
            .binary_search_by_key(&index, |rejected| rejected.index)
            .is_ok()
    }
}

/// A signed extrinsic that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its index in the plan.
    pub index: usize,
    /// The runtime's reason.
    pub reason: TransactionValidityError,
}

/// The time of each phase of a block. Unless extrinsics are timed, the processor time of
/// `extrinsics` and `boundaries` is one measurement, divided in proportion to their wall-clock
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// `initialize_block`.
    pub initialize: Spent,
    /// The extrinsics, including the inherent and the transactions around them.
    pub extrinsics: Spent,
    /// The estimates after each extrinsic.
    pub boundaries: Spent,
    /// `finalize_block`, in which the runtime asks for the root.
    pub finalize: Spent,
    /// Taking root, nodes, proof and changes from the host, without measuring their sizes.
    pub finish: Spent,
}

impl Phases {
    /// Sum of all phases.
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

/// Why a block was not built.
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
    /// The roots of host and runtime differ.
    #[error("expected the root {expected:?} of the header, found the host at {found:?}")]
    Root {
        /// The root in the header.
        expected: H256,
        /// The root that the host finished with.
        found: H256,
    },
}

/// A block that is being built.
struct Author<'r, H, R> {
    host: H,
    runtime: &'r R,
    phases: Phases,
    /// The times of each extrinsic so far, if they are timed.
    times: Option<Vec<ExtrinsicTimes>>,
    boundaries: Vec<BoundarySize>,
    failed: Vec<(usize, DispatchError)>,
    refused: Vec<Rejected>,
}

impl<'r, H: Host, R: EntryPoints> Author<'r, H, R> {
    fn new(host: H, runtime: &'r R, times: Option<Vec<ExtrinsicTimes>>) -> Self {
        let (boundaries, failed, refused) = Default::default();
        Self {
            host,
            runtime,
            phases: Phases::default(),
            times,
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
        let mut all = Spent::default();
        all.during(|| self.extrinsics(plan, &mut progress))?;
        if self.times.is_none() {
            for phase in [&mut self.phases.extrinsics, &mut self.phases.boundaries] {
                phase.cpu = all.cpu_of(phase.wall);
            }
        }
        self.finish(plan)
    }

    fn extrinsics(
        &mut self,
        plan: &Plan,
        progress: &mut impl FnMut(Progress),
    ) -> Result<(), AuthorError> {
        let inherent = self.apply(0, plan.inherent())?;
        if !matches!(inherent, Ok(Ok(()))) {
            return Err(AuthorError::Inherent(inherent));
        }
        self.boundary()?;
        let total = plan.extrinsics().len();
        for (index, extrinsic) in plan.extrinsics().iter().enumerate() {
            match self.apply(index + 1, extrinsic)? {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.failed.push((index, error)),
                Err(reason) => self.refused.push(Rejected { index, reason }),
            }
            let size = self.boundary()?;
            progress(Progress {
                done: index + 1,
                total,
                size,
            });
        }
        Ok(())
    }

    /// Applies one extrinsic in its own transaction and returns the runtime's result. `index` counts
    /// the extrinsics tried before it.
    fn apply(
        &mut self,
        index: usize,
        extrinsic: &Extrinsic,
    ) -> Result<ApplyExtrinsicResult, AuthorError> {
        let extrinsic = extrinsic.clone();
        let Self {
            host,
            phases,
            runtime,
            times,
            ..
        } = self;
        host.begin(BlockPart::Extrinsic(index));
        let mut spent = Spent::default();
        let apply = || {
            host.transaction(TransactionStep::Start)?;
            let result = host.execute(|| runtime.apply_extrinsic(extrinsic))??;
            // An extrinsic whose call failed is still part of the block.
            let step = match result {
                Ok(_) => TransactionStep::Commit,
                Err(_) => TransactionStep::Rollback,
            };
            host.transaction(step)?;
            Ok::<_, AuthorError>(result)
        };
        let result = match times {
            Some(times) => {
                let result = spent.during(apply)?;
                times.push(ExtrinsicTimes {
                    execute: spent,
                    ..ExtrinsicTimes::default()
                });
                result
            }
            None => spent.during_on_the_wall(apply)?,
        };
        phases.extrinsics += spent;
        Ok(result)
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        let Self {
            host,
            phases,
            times,
            ..
        } = self;
        let mut spent = Spent::default();
        let size = match times.as_mut().and_then(|times| times.last_mut()) {
            Some(times) => {
                let size = spent.during(|| host.boundary())?;
                times.estimate = spent;
                size
            }
            None => spent.during_on_the_wall(|| host.boundary())?,
        };
        phases.boundaries += spent;
        self.boundaries.extend(size);
        Ok(size)
    }

    fn finish(self, plan: &Plan) -> Result<BlockOutcome, AuthorError> {
        let Self {
            mut host,
            runtime,
            mut phases,
            times,
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
            times: times.unwrap_or_default(),
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
        let outcome = build_block_timed(&Native, peer.block(), &plan, |_| {}).unwrap();
        assert_eq!(outcome.times.len(), 4);
        let (mut execute, mut estimate) = (Spent::default(), Spent::default());
        for times in &outcome.times {
            assert_ne!(times.execute, Spent::default());
            execute += times.execute;
            estimate += times.estimate;
        }
        assert_eq!(execute, outcome.phases.extrinsics);
        assert_eq!(estimate, outcome.phases.boundaries);
        // Without them, the phases have theirs.
        let outcome = build_block(peer.block(), &plan, |_| {}).unwrap();
        assert_eq!(outcome.times, []);
        let Phases { extrinsics, .. } = outcome.phases;
        assert!(!extrinsics.wall.is_zero() && !extrinsics.cpu.is_zero());
    }
}
