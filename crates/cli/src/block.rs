//! `povmeter block`: one block, built and checked.

use crate::{
    attribution::AttributionArgs,
    block_report::BlockReport,
    checks::{check_block, check_workers, failed},
    error::CliError,
    measuring,
    options::{PlanArgs, SignaturesArg, StateArg, UsedOptions},
    output::printed,
    parent_state::{ParentState, Trust},
    progress, replay,
    report::{self, Growth, LimitArg, ReportArgs, Step},
    runtime_form::RuntimeArg,
};
use clap::Args;
use povmeter_dev_runtime::{
    build_block_with, BlockOutcome, Estimates, ExtrinsicTimes, PovmeterBlock,
};
use std::{num::NonZeroUsize, path::PathBuf};

/// What block to build, and where.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  povmeter block --transfers 100 --state memory   a small one, nothing on disk
  povmeter block --call transfer_all              transfers that delete accounts
  povmeter block --db state                       a state that is kept")]
pub(crate) struct BlockArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// How extrinsics are signed: sr25519, about 50 us each, or free, not at all
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, default_value_t = SignaturesArg::Sr25519)]
    signatures: SignaturesArg,
    /// How the runtime is compiled: native, or wasm if the program has the feature `wasm`
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, default_value_t = RuntimeArg::Native)]
    runtime: RuntimeArg,
    /// Where the parent state is stored: parity-db or memory
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true, default_value_t = StateArg::ParityDb)]
    state: StateArg,
    /// Folder for the parent state, created if missing, instead of a temporary one
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
    /// Also build it by this many threads, and compare
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// Build transfers on a relay chain's wasm runtime, from this raw chain specification
    #[arg(long, value_name = "FILE", conflicts_with_all = ["accounts", "call", "state_version",
        "signatures", "runtime", "state", "db", "workers"])]
    chain_spec: Option<PathBuf>,
    /// Print JSON, with every estimate
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    attribution: AttributionArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    limit: LimitArg,
}

/// The report on the block.
///
/// # Errors
/// A [`CliError`]. If a check fails, the error holds the report.
pub(crate) fn run(args: &BlockArgs) -> Result<String, CliError> {
    measuring::begin()?;
    let attributing = args.attribution.prepare()?;
    if let Some(spec) = &args.chain_spec {
        let PlanArgs {
            transfers, seed, ..
        } = args.plan;
        let page = (&args.report, args.limit);
        return replay::run_transfers(spec, transfers, seed, attributing.as_ref(), args.json, page);
    }
    if args.state == StateArg::Memory && args.db.is_some() {
        return Err(CliError::FolderForMemory);
    }
    let page = args.report.open(&report::BLOCK_CHARTS)?;
    let runtime = args.runtime.form(args.plan.state_version)?;
    let plan = args.plan.plan(args.signatures)?;
    let state = ParentState::open(&plan, args.state, args.db.as_deref(), Trust::Verify)?;
    let block = PovmeterBlock::new(state.nodes.clone(), &plan, Estimates::Everywhere);
    let bar = progress::bar(plan.extrinsics().len(), "building the block");
    let mut times = Vec::new();
    let outcome = build_block_with(&runtime, block, &plan, |progress| {
        bar.step();
        times.push(progress.times);
    });
    let outcome = outcome.map_err(CliError::build("povmeter"))?;
    drop(bar);
    let mut checks = progress::during("checking the block", || {
        check_block(&outcome, &plan, &state, &runtime)
    })?;
    if let Some(workers) = args.workers {
        checks.push(check_workers(&outcome, &plan, &state, &runtime, workers)?);
    }

    let mut attribution = None;
    if let Some(attributing) = &attributing {
        let (report, check) =
            attributing.of_block(&runtime, &state, &plan, &outcome, page.is_some())?;
        checks.push(check);
        attribution = Some(report);
    }

    let failed = failed(&checks);
    let options = UsedOptions::new(&args.plan, args.signatures, args.state, args.runtime);
    let report = BlockReport::new(options, &plan, &outcome, checks).with_attribution(attribution);
    if let Some(page) = page {
        page.write(&report.page(&growth(&outcome, &times, args.limit.bytes())))?;
    }
    printed(&report, args.json, failed)
}

/// The growth of the block by extrinsic. `times` holds all extrinsics but the inherent.
fn growth(outcome: &BlockOutcome, times: &[ExtrinsicTimes], limit: Option<u64>) -> Growth {
    let times = [outcome.inherent].into_iter().chain(times.iter().copied());
    let steps = outcome.boundaries.iter().zip(times);
    let steps = steps.map(|(size, times)| Step::new(*size, times));
    Growth::new(steps.collect(), outcome.sizes.recorded, limit)
}
