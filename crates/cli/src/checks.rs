//! The checks of a block.

use crate::{
    error::{BlockUse, CliError},
    oracle::Oracle,
    parent_state::ParentState,
    runtime_form::RuntimeForm,
};
use codec::Encode;
use povmeter::Consensus;
use povmeter_dev_runtime::{
    build_block, build_block_with, execute_plan, parallel_of, runtime_rules, BlockOutcome,
    BoundarySize, Built, Estimates, Execution, HostError, Plan, PlanBlock, PovmeterBlock,
};
use povmeter_substrate::SizeSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{num::NonZeroUsize, sync::Arc};

/// A check, and whether it holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Check {
    /// Name of the check.
    pub(crate) name: String,
    /// Whether it holds.
    pub(crate) holds: bool,
    /// Numbers and details.
    pub(crate) detail: String,
}

/// Whether two state machines built the same block: root, changes, nodes inserted and removed.
pub(crate) fn same_block(a: &Built, b: &Built) -> bool {
    a.root == b.root
        && a.update == b.update
        && a.main_changes == b.main_changes
        && a.child_changes == b.child_changes
}

/// Checks the block that povmeter built from `plan` with `runtime`. The peer's blocks for the comparison run
/// the native runtime.
///
/// # Errors
/// A [`CliError`] if a block for the comparison can't be built, or the peer refuses the proof.
pub(crate) fn check_block(
    block: &BlockOutcome,
    plan: &Plan,
    state: &ParentState,
    runtime: &RuntimeForm,
) -> Result<Vec<Check>, CliError> {
    let peer = state.checked_peer(plan);
    let told = block.built.told.as_deref().unwrap_or_default();
    let theirs = build_block(peer.block_told(told), plan, |_| {});
    let theirs = theirs.map_err(CliError::build("sp-state-machine"))?;
    Ok(vec![
        estimate_complete(block, &Oracle::ask(&peer, plan)?),
        Check {
            name: "same block as sp-state-machine".to_owned(),
            holds: same_block(&block.built, &theirs.built),
            detail: format!(
                "root {:?}, {} keys changed, {} nodes inserted or removed",
                theirs.built.root,
                theirs.built.main_changes.len(),
                theirs.built.update.nodes().len(),
            ),
        },
        Check {
            name: "same proof as sp-state-machine".to_owned(),
            holds: block.built.proof == theirs.built.proof,
            detail: format!("{} bytes recorded", theirs.sizes.recorded),
        },
        executes_again(block, plan, told, runtime)?,
        Check {
            name: "sp-state-machine validates the proof".to_owned(),
            holds: peer.validate_told(plan, &block.compact, told)? == block.built.root,
            detail: format!("{} bytes compact", block.sizes.compact),
        },
    ])
}

fn estimate_complete(block: &BlockOutcome, oracle: &Oracle) -> Check {
    let last = block.boundaries.last().map_or(0, BoundarySize::total);
    let grown = block.sizes.recorded.saturating_sub(last);
    let finalize = oracle.finalize_adds();
    let under = oracle.lacks(last).max(grown.saturating_sub(finalize));
    Check {
        name: "estimate complete".to_owned(),
        holds: under == 0,
        detail: format!(
            "{last} after the last extrinsic, {finalize} touched by finalize, {} recorded after \
             the root: {under} bytes under",
            block.sizes.recorded,
        ),
    }
}

fn executes_again(
    block: &BlockOutcome,
    plan: &Plan,
    told: &[u64],
    runtime: &RuntimeForm,
) -> Result<Check, CliError> {
    let again = PovmeterBlock::from_compact(&block.compact.encode(), plan, Estimates::InRuntime)?;
    let again = build_block_with(runtime, again, plan, |_| {});
    let again = again.map_err(CliError::build("povmeter"))?;
    let sizes = again.built.told.as_deref() == Some(told);
    Ok(Check {
        name: "executes again from the compact proof alone".to_owned(),
        holds: sizes && same_block(&again.built, &block.built),
        detail: format!(
            "root {:?}, {} sizes told, {}",
            again.built.root,
            told.len(),
            if sizes { "the same" } else { "not the same" },
        ),
    })
}

/// Checks that several threads build `block`, too.
///
/// # Errors
/// [`CliError::Workers`] if they can't build a block.
pub(crate) fn check_workers(
    block: &BlockOutcome,
    plan: &Plan,
    state: &ParentState,
    runtime: &RuntimeForm,
    workers: NonZeroUsize,
) -> Result<Check, CliError> {
    let rules = runtime_rules().map_err(|error| CliError::Workers(HostError::state(error)))?;
    let sizes = SizeSource::Estimate;
    let parallel = parallel_of(runtime, &sizes, workers);
    let build = |execution| {
        let (sizes, pool) = (sizes.clone(), Arc::default());
        execute_plan::<_, Consensus>(runtime, &state.nodes, plan, sizes, execution, pool)
            .map_err(CliError::Workers)
    };
    let in_order = build(Execution::InOrder)?;
    let found = build(Execution::Parallel(parallel, &rules))?;
    let ms = |block: &PlanBlock| block.extrinsics_took.as_secs_f64() * 1e3;
    let ahead = found.ahead();
    Ok(Check {
        name: format!("same block by {workers} workers"),
        holds: found.is_block_of(block),
        detail: format!(
            "extrinsics in {:.1} ms, {:.1} ms in order; {ahead} of {} begun ahead of their turn, or their signatures checked",
            ms(&found),
            ms(&in_order),
            found.extrinsics.len(),
        ),
    })
}

/// Expects a block that is measured to hold all of the `of` extrinsics that were planned. Otherwise the
/// numbers for each extrinsic would count extrinsics that are not in the block.
///
/// # Errors
/// [`CliError::Full`] if the runtime `refused` any.
pub(crate) fn expect_none_refused(refused: usize, of: usize) -> Result<(), CliError> {
    match refused {
        0 => Ok(()),
        _ => Err(CliError::Full {
            refused,
            of,
            used_for: BlockUse::Measured,
        }),
    }
}

/// The names of the checks that failed.
pub(crate) fn failed(checks: &[Check]) -> Vec<String> {
    let failed = checks.iter().filter(|check| !check.holds);
    failed.map(|check| check.name.clone()).collect()
}
