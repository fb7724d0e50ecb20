//! The block of a plan, with its extrinsics executed in order or on several threads.

use crate::{
    author::BlockOutcome,
    entry::EntryPoints,
    entry::{RememberSignatures, RuntimeError},
    host::{BoundarySize, HostError},
    parent_state::parent_root,
    plan::Plan,
    runtime::{with_state_version, Header, Runtime},
};
use codec::Encode;
use povmeter::{Accounting, BlockPool, NodeSource, ProofSize};
use povmeter_parallel::{Decided, Ending, Experience, Parallel, Statistics, Strategy, Verdict};
use povmeter_substrate::{
    Calls, FrameLimits, LimitsError, MachineError, SealedMachine, SizeSource, StateMachine,
    StorageRules,
};
use sp_externalities::Extensions;
use sp_runtime::ApplyExtrinsicResult;
use sp_trie::StorageProof;
use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

/// Returns the rules for the storage items that all extrinsics of the [`runtime`](crate::runtime)
/// share.
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

/// Returns the settings for calls of `runtime` on `workers` threads. If the runtime gets `sizes`, everything
/// after the check of a signature must wait for its turn. The other threads then only check
/// [signatures](EntryPoints::signatures), if `runtime` remembers them. Otherwise they execute calls ahead as
/// soon as that is faster.
pub fn parallel_of(
    runtime: &impl EntryPoints,
    sizes: &SizeSource,
    workers: NonZeroUsize,
) -> Parallel {
    let parallel = Parallel::new(workers);
    match *sizes != SizeSource::Unrecorded && runtime.signatures().is_some() {
        true => parallel.with_strategy(Strategy::Prepare),
        false => parallel,
    }
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
    /// How they were executed on several threads; `None` if in order.
    pub statistics: Option<Statistics>,
    /// The experience for the next block, if that is executed on several threads.
    pub experience: Option<Experience>,
    /// The time of the signed extrinsics.
    pub extrinsics_took: Duration,
    /// The time of the whole block.
    pub took: Duration,
}

impl PlanBlock {
    /// Returns the number of signed extrinsics that were executed ahead, at least in part, or had their
    /// signature checked ahead.
    pub fn ahead(&self) -> u64 {
        let ahead = |all: Statistics| all.begun_ahead().saturating_add(all.preparations);
        self.statistics.map_or(0, ahead)
    }

    /// Returns whether both are the same block, with the same results, sizes and proof.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.sealed, &other.sealed);
        self.header == other.header
            && self.extrinsics == other.extrinsics
            && ours.sizes == theirs.sizes
            && ours.block.top_changes().eq(theirs.block.top_changes())
            && ours.block.proof().nodes() == theirs.block.proof().nodes()
    }

    /// Returns whether this is the block of `outcome`, with the same proof, the same sizes after its
    /// extrinsics, and the same sizes told to the runtime.
    pub fn is_block_of(&self, outcome: &BlockOutcome) -> bool {
        let sizes = self.extrinsics.iter().map(|(_, size)| size.total_bytes());
        // The first boundary is the one after the inherent.
        let estimates = outcome.boundaries.iter().skip(1).map(BoundarySize::total);
        let nodes = self.sealed.block.proof().nodes();
        let proof = StorageProof::new(nodes.iter().map(|node| node.to_vec()));
        self.header == outcome.header
            && sizes.eq(estimates)
            && Some(&self.sealed.sizes) == outcome.built.told.as_ref()
            && proof == outcome.built.proof
    }
}

/// Builds the block of `plan` with the entry points of `runtime`, on the state that `source` holds. The
/// runtime gets `sizes`.
///
/// # Errors
/// [`HostError`] if the machine fails, the inherent is refused, or a call into the runtime has no
/// result.
///
/// # Panics
/// If the native runtime panics, as it does if the state cannot be read.
pub fn execute_plan<S: NodeSource + Sync, A: Accounting>(
    runtime: &(impl EntryPoints + Sync),
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
        let initialize = || runtime.initialize_block(plan.header());
        let initialized = machine.execute(initialize).map_err(failed)?;
        initialized.map_err(HostError::state)?;
        machine.start_transaction();
        let inherent = || runtime.apply_extrinsic(plan.inherent().clone());
        let inherent = machine.execute(inherent).map_err(failed)?;
        let inherent = inherent.map_err(HostError::state)?;
        if !matches!(inherent, Ok(Ok(()))) {
            return Err(HostError::state(format!(
                "the inherent was refused: {inherent:?}"
            )));
        }
        machine.commit_transaction().map_err(failed)?;
        machine.proof_size().map_err(failed)?;
        let extrinsics_begun = Instant::now();
        let (extrinsics, statistics, experience) = match execution {
            Execution::InOrder => (in_order(runtime, &mut machine, plan)?, None, None),
            Execution::Parallel(parallel, rules) => {
                let signatures = runtime.signatures();
                let calls = Extrinsics {
                    runtime,
                    plan,
                    signatures,
                };
                let count = u32::try_from(plan.extrinsics().len()).map_err(HostError::state)?;
                let batch = machine.execute_in_parallel(parallel, source, rules, &calls, count);
                let batch = batch.map_err(failed)?;
                let ended = batch.transactions.into_iter().map(|executed| {
                    let result = result_of(executed.ending)?;
                    Ok((result, executed.size))
                });
                (
                    ended.collect::<Result<_, HostError>>()?,
                    Some(batch.statistics),
                    batch.experience,
                )
            }
        };
        let extrinsics_took = extrinsics_begun.elapsed();
        let finalize = || runtime.finalize_block();
        let header = machine.execute(finalize).map_err(failed)?;
        let header = header.map_err(HostError::state)?;
        let sealed = machine.seal(version).map_err(MachineError::from);
        let sealed = sealed.map_err(failed)?;
        Ok(PlanBlock {
            header,
            extrinsics,
            sealed,
            statistics,
            experience,
            extrinsics_took,
            took: begun.elapsed(),
        })
    })
}

fn in_order<S: NodeSource, A: Accounting>(
    runtime: &impl EntryPoints,
    machine: &mut StateMachine<S, A>,
    plan: &Plan,
) -> Result<Vec<(ApplyExtrinsicResult, ProofSize)>, HostError> {
    let mut done = Vec::with_capacity(plan.extrinsics().len());
    for extrinsic in plan.extrinsics() {
        machine.start_transaction();
        let apply = || runtime.apply_extrinsic(extrinsic.clone());
        let result = machine.execute(apply).map_err(HostError::state)?;
        let result = result.map_err(HostError::state)?;
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
struct Extrinsics<'p, R> {
    runtime: &'p R,
    plan: &'p Plan,
    signatures: Option<Box<dyn RememberSignatures>>,
}

/// The result of a call into the runtime.
type Applied = Result<ApplyExtrinsicResult, RuntimeError>;

impl<R: EntryPoints + Sync> Calls for Extrinsics<'_, R> {
    type Output = Applied;

    fn call(&self, index: u32) -> Applied {
        let Self { runtime, plan, .. } = self;
        // The state version is a value of the thread.
        with_state_version(plan.options().state_version, || {
            runtime.apply_extrinsic(plan.extrinsics()[index as usize].clone())
        })
    }

    fn prepare(&self, index: u32) -> bool {
        let Self {
            runtime,
            plan,
            signatures,
        } = self;
        let checked = || signatures.as_ref().map(|signatures| signatures.checked());
        let before = checked();
        with_state_version(plan.options().state_version, || {
            runtime.prepare_extrinsic(plan.extrinsics()[index as usize].clone());
        });
        checked() != before
    }

    fn decide(&self, call: Decided<'_, Applied>) -> Verdict {
        match call.output {
            Ok(Ok(_)) => Verdict::Keep,
            Ok(Err(_)) => Verdict::LeaveOut,
            // `result_of` then fails the block.
            Err(_) => Verdict::LeaveOut,
        }
    }

    fn extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        if let Some(signatures) = &self.signatures {
            signatures.register(&mut extensions);
        }
        extensions
    }
}

fn result_of(ending: Ending<Applied>) -> Result<ApplyExtrinsicResult, HostError> {
    match ending {
        Ending::Kept(result) | Ending::LeftOut(result) => result.map_err(HostError::state),
        Ending::Trapped(trap) => Err(HostError::state(trap)),
    }
}

#[cfg(all(test, feature = "wasm"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{commit_parent, wasm::WasmRuntime, PlanOptions};
    use povmeter::{Advisory, Consensus};
    use povmeter_store::MemoryStore;

    /// Each thread calls an instance of its own, kept or not. The executor turns a stop into an error of the call.
    #[test]
    fn a_runtime_in_wasm_has_the_same_block_on_several_threads() {
        let options = PlanOptions {
            accounts: 200,
            transfers: 90,
            signatures: crate::Signatures::Sr25519,
            ..PlanOptions::default()
        };
        let plan = Plan::new(options).unwrap().with_refused(40);
        let mut store = MemoryStore::new();
        commit_parent(&mut store, &plan).unwrap();
        let runtime = WasmRuntime::workload();
        let rules = runtime_rules().unwrap();
        let workers = |count| Parallel::new(NonZeroUsize::new(count).unwrap());
        let ways = [
            workers(1).with_strategy(Strategy::EachAhead),
            workers(2).with_strategy(Strategy::Always),
            workers(4).with_strategy(Strategy::EachAhead),
            workers(2).with_strategy(Strategy::Prepare),
        ];
        let plan = (&plan, &rules);
        let kept = runtime.clone().keeping_instances().unwrap();
        let preparing = runtime.clone().preparing_in_kept_instances().unwrap();
        for parallel in [&runtime, &kept, &preparing] {
            let runtimes = (&runtime, parallel);
            compare::<Advisory>(runtimes, &store, plan, &SizeSource::Unrecorded, &ways);
            compare::<Consensus>(runtimes, &store, plan, &SizeSource::Estimate, &ways);
        }
    }

    fn compare<A: Accounting>(
        (in_order, parallel): (&WasmRuntime, &WasmRuntime),
        store: &MemoryStore,
        (plan, rules): (&Plan, &StorageRules),
        sizes: &SizeSource,
        ways: &[Parallel],
    ) {
        let build = |runtime, execution| {
            let pool = Arc::default();
            execute_plan::<_, A>(runtime, store, plan, sizes.clone(), execution, pool).unwrap()
        };
        let expected = build(in_order, Execution::InOrder);
        let found = build(parallel, Execution::InOrder);
        assert!(found.is_same_as(&expected), "in order");
        for way in ways {
            let found = build(parallel, Execution::Parallel(*way, rules));
            assert!(found.is_same_as(&expected), "{way:?}");
        }
    }
}
