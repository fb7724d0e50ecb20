//! `povmeter block`: one block, built and checked.

use crate::{
    attribution::AttributionArgs,
    block_report::{BesidePeer, BlockReport},
    checks::{check_block, check_workers, failed},
    error::{BlockUse, CliError},
    options::{PlanArgs, SignaturesArg, StateArg, UsedOptions},
    output::{all_done, finish},
    parent_state::ParentState,
    pov::{expect_within, LimitArg, PovRow},
    progress, replay,
    report::{self, Growth, ReportArgs, Step},
    runtime_form::{RuntimeArg, RuntimeForm},
    spread::{median, Spread},
    whole_number::whole,
};
use clap::Args;
use povmeter_dev_oracle::on_one_thread;
use povmeter_dev_runtime::{
    build_block_timed, build_block_with, BlockOutcome, Estimates, Plan, PovmeterBlock,
};
use std::{
    num::NonZeroUsize,
    path::PathBuf,
    time::{Duration, Instant},
};

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
    /// How the runtime is compiled: native, or, with the feature `wasm`, wasm or wasm-kept, whose
    /// instances are kept from call to call
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, default_value_t = RuntimeArg::Native)]
    runtime: RuntimeArg,
    /// Parent state: memory, parity-db, or rocksdb with that feature [default: what PATH holds, or parity-db]
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true)]
    state: Option<StateArg>,
    /// Folder for the parent state, created if missing, instead of a temporary one
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
    /// Also build it on this many threads, and compare
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=1_024))]
    workers: Option<u16>,
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

/// Prints the report on the block.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed first.
pub(crate) fn run(args: &BlockArgs) -> Result<(), CliError> {
    on_one_thread()?;
    if let Some(spec) = &args.chain_spec {
        let PlanArgs {
            transfers, seed, ..
        } = args.plan;
        let options = (&args.attribution, &args.report, args.limit);
        return replay::run_transfers(spec, transfers, seed, args.json, options);
    }
    let stored = StateArg::in_folder(args.state, args.db.as_deref())?;
    args.plan.expect_room()?;
    args.report.expect_outside(args.db.as_deref())?;
    let page = args
        .report
        .open_beside(&report::BLOCK_CHARTS, args.attribution.files())?;
    let attributing = args.attribution.prepare(true)?;
    let runtime = args
        .runtime
        .form(args.plan.state_version, args.workers > Some(1))?;
    let plan = args.plan.plan(args.signatures)?;
    let state = ParentState::open(&plan, stored, args.db.as_deref())?;
    let block = PovmeterBlock::new(state.nodes.clone(), &plan, Estimates::Everywhere);
    let bar = progress::bar(plan.extrinsics().len(), "building the block");
    let outcome = build_block_timed(&runtime, block, &plan, |_| bar.step());
    let outcome = outcome.map_err(CliError::build("povmeter"))?;
    drop(bar);
    let mut checks = progress::during("checking the block", || {
        check_block(&outcome, &plan, &state, &runtime)
    })
    .map_err(|error| match outcome.refused.len() {
        0 => error,
        // A check executes the refused extrinsics again, but the proof may lack their nodes. That error would
        // blame the store, so it is not shown.
        refused => CliError::Full {
            refused,
            of: plan.extrinsics().len(),
            used_for: BlockUse::Checked,
        },
    })?;
    if let Some(workers) = args
        .workers
        .and_then(|workers| NonZeroUsize::new(workers.into()))
    {
        checks.push(check_workers(&outcome, &plan, &state, &runtime, workers)?);
    }

    let beside_peer = progress::during("comparing times", || beside_peer(&plan, &state, &runtime))?;
    let (mut attribution, mut bytes) = (None, None);
    if let Some(attributing) = &attributing {
        let (report, check, tally) =
            attributing.of_block(&runtime, &state, &plan, &outcome, page.is_some())?;
        checks.push(check);
        attribution = Some(report);
        bytes = Some(tally);
    }

    let failed = failed(&checks);
    let options = UsedOptions::new(&args.plan, args.signatures, stored, args.runtime);
    let pov = outcome.pov(&plan).into();
    let report = BlockReport::new(options, &plan, (&outcome, pov), checks)
        .with_limit(args.limit)
        .with_peer(beside_peer)
        .with_attribution(attribution);
    finish(&report, args.json, failed, || {
        let growth = growth((&outcome, pov), &plan, args.limit.bytes());
        let page = report::write(page, || report.page(&growth));
        let files = attributing.as_ref().zip(bytes.as_ref());
        let files = files.map_or(Ok(()), |(attributing, bytes)| attributing.write(bytes));
        all_done([page, files])
    })?;
    let pov = report.pov.as_ref();
    expect_within(pov.map(|pov| (None, pov, report.pov_limit.as_ref())))
}

/// The most rounds, each a block of both state machines.
const ROUNDS: usize = 7;
/// No round but the first begins after this time.
const LONGEST: Duration = Duration::from_secs(10);

/// Builds the block of `plan` again, in turns by sp-state-machine and by povmeter.
fn beside_peer(
    plan: &Plan,
    state: &ParentState,
    runtime: &RuntimeForm,
) -> Result<BesidePeer, CliError> {
    let (peer, begun) = (state.peer(plan), Instant::now());
    let mut ratios = Vec::new();
    while ratios.len() < ROUNDS && (ratios.is_empty() || begun.elapsed() < LONGEST) {
        let theirs = build_block_with(runtime, peer.block(), plan, |_| {});
        let theirs = theirs.map_err(CliError::build("sp-state-machine"))?;
        let block = PovmeterBlock::new(state.as_stored.clone(), plan, Estimates::Everywhere);
        let ours = build_block_with(runtime, block, plan, |_| {});
        let ours = ours.map_err(CliError::build("povmeter"))?;
        let [theirs, ours] =
            [theirs, ours].map(|block| block.phases.total().cpu.as_secs_f64().max(1e-9));
        ratios.push(theirs / ours);
    }
    Ok(BesidePeer {
        rounds: ratios.len(),
        ratio: median(ratios.iter().copied()),
        ratio_spread: Spread::of(ratios.into_iter()),
    })
}

/// Returns how the block grows with each extrinsic.
fn growth((outcome, pov): (&BlockOutcome, PovRow), plan: &Plan, limit: Option<u64>) -> Growth {
    let steps = outcome.boundaries.iter().zip(outcome.times.iter().copied());
    let steps = steps.zip(outcome.block_bytes(plan));
    let steps = steps.map(|((size, times), block)| Step::new(*size, times, block));
    Growth::new(steps.collect(), outcome.sizes.recorded, pov, limit)
}
