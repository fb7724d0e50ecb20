//! The block of a plan, with its extrinsics in order or on several threads.

use crate::{
    host::HostError,
    plan::Plan,
    povmeter_host::parent_root,
    runtime::{with_state_version, Executive, Header, Runtime},
};
use codec::Encode;
use povmeter::{Accounting, BlockPool, NodeSource, ProofSize};
use povmeter_parallel::{Decided, Ending, Parallel, Statistics, Trap, Verdict};
use povmeter_substrate::{
    Calls, FrameLimits, LimitsError, SealedMachine, SizeSource, StateMachine, StorageRules,
};
use sp_runtime::ApplyExtrinsicResult;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The rules for the storage items that all extrinsics of the [`runtime`](crate::runtime) share.
///
/// # Errors
/// [`LimitsError`] if the runtime's constants are of another version of the system pallet.
pub fn runtime_rules() -> Result<StorageRules, LimitsError> {
    let weights = <Runtime as frame_system::Config>::BlockWeights::get();
    let length = <Runtime as frame_system::Config>::BlockLength::get();
    let limits = FrameLimits::of_constants(&weights.encode(), &length.encode())?;
    Ok(StorageRules::of_frame(&limits))
}

/// How the signed extrinsics of a block are executed.
#[derive(Clone, Copy, Debug)]
pub enum Execution<'r> {
    /// One after the other.
    InOrder,
    /// On several threads, with these rules.
    Parallel(Parallel, &'r StorageRules),
}

/// A block of a plan.
#[derive(Debug)]
pub struct PlanBlock {
    /// The header, with the root that the runtime got from the host.
    pub header: Header,
    /// The result of each signed extrinsic, and the size after it.
    pub extrinsics: Vec<(ApplyExtrinsicResult, ProofSize)>,
    /// The sealed block.
    pub sealed: SealedMachine,
    /// How they were executed; `None` if in order.
    pub statistics: Option<Statistics>,
    /// The time of the signed extrinsics.
    pub extrinsics_took: Duration,
    /// The time of the whole block.
    pub took: Duration,
}

/// Builds the block of `plan` on the state that `source` holds. The runtime gets `sizes`.
///
/// # Errors
/// [`HostError`] if the machine fails.
///
/// # Panics
/// If the runtime panics, as it does if the state cannot be read.
pub fn execute_plan<S: NodeSource + Sync, A: Accounting>(
    source: &S,
    plan: &Plan,
    sizes: SizeSource,
    execution: Execution<'_>,
    pool: Arc<BlockPool>,
) -> Result<PlanBlock, HostError> {
    let version = plan.options().state_version;
    with_state_version(version, || {
        let begun = Instant::now();
        let root = parent_root(plan);
        let mut machine =
            StateMachine::<_, A>::with_accounting(pool, source, root, sizes, A::default());
        let failed = HostError::state;
        let initialize = || Executive::initialize_block(plan.header());
        machine.execute(initialize).map_err(failed)?;
        machine.start_transaction();
        let inherent = || Executive::apply_extrinsic(plan.inherent().clone());
        let inherent = machine.execute(inherent).map_err(failed)?;
        if !matches!(inherent, Ok(Ok(()))) {
            return Err(HostError::state(format!(
                "the inherent was refused: {inherent:?}"
            )));
        }
        machine.commit_transaction().map_err(failed)?;
        machine.proof_size().map_err(failed)?;
        let extrinsics_begun = Instant::now();
        let (extrinsics, statistics) = match execution {
            Execution::InOrder => (in_order(&mut machine, plan)?, None),
            Execution::Parallel(parallel, rules) => {
                let calls = Extrinsics(plan);
                let count = u32::try_from(plan.extrinsics().len()).map_err(HostError::state)?;
                let batch = machine.execute_in_parallel(parallel, source, rules, &calls, count);
                let batch = batch.map_err(failed)?;
                let ended = batch.transactions.into_iter().map(|executed| {
                    let result = result_of(executed.ending).map_err(HostError::state)?;
                    Ok((result, executed.size))
                });
                (
                    ended.collect::<Result<_, HostError>>()?,
                    Some(batch.statistics),
                )
            }
        };
        let extrinsics_took = extrinsics_begun.elapsed();
        let header = machine.execute(Executive::finalize_block).map_err(failed)?;
        let sealed = machine.seal(version).map_err(failed)?;
        Ok(PlanBlock {
            header,
            extrinsics,
            sealed,
            statistics,
            extrinsics_took,
            took: begun.elapsed(),
        })
    })
}

fn in_order<S: NodeSource, A: Accounting>(
    machine: &mut StateMachine<S, A>,
    plan: &Plan,
) -> Result<Vec<(ApplyExtrinsicResult, ProofSize)>, HostError> {
    let mut done = Vec::with_capacity(plan.extrinsics().len());
    for extrinsic in plan.extrinsics() {
        machine.start_transaction();
        let apply = || Executive::apply_extrinsic(extrinsic.clone());
        let result = machine.execute(apply).map_err(HostError::state)?;
        match result {
            Ok(_) => machine.commit_transaction(),
            Err(_) => machine.rollback_transaction(),
        }
        .map_err(HostError::state)?;
        let size = machine.proof_size().map_err(HostError::state)?;
        done.push((result, size));
    }
    Ok(done)
}

/// The signed extrinsics of a plan.
struct Extrinsics<'p>(&'p Plan);

impl Calls for Extrinsics<'_> {
    type Output = ApplyExtrinsicResult;

    fn call(&self, index: u32) -> ApplyExtrinsicResult {
        let Self(plan) = self;
        // The state version is a value of the thread.
        with_state_version(plan.options().state_version, || {
            Executive::apply_extrinsic(plan.extrinsics()[index as usize].clone())
        })
    }

    fn decide(&self, call: Decided<'_, ApplyExtrinsicResult>) -> Verdict {
        match call.output {
            Ok(_) => Verdict::Keep,
            Err(_) => Verdict::LeaveOut,
        }
    }
}

fn result_of(ending: Ending<ApplyExtrinsicResult>) -> Result<ApplyExtrinsicResult, Trap> {
    match ending {
        Ending::Kept(result) | Ending::LeftOut(result) => Ok(result),
        Ending::Trapped(trap) => Err(trap),
    }
}
