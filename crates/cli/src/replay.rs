//! `povmeter replay`: blocks of real chains, executed again by the chain's own runtime.

use crate::attribution::AttributionArgs;
use crate::report::{LimitArg, ReportArgs};
#[cfg(not(feature = "wasm"))]
use crate::{attribution::Attributing, error::CliError};
use clap::Args;
#[cfg(not(feature = "wasm"))]
use std::path::Path;
use std::path::PathBuf;

/// Which blocks to replay, and how.
#[derive(Args, Debug)]
#[command(after_help = "\
Needs a program built with `--features wasm`. The form of the file is described
in docs/integration.md.

Example: every result of every call beside sp-state-machine's
  povmeter replay westend-1-64.json --lockstep")]
pub(crate) struct ReplayArgs {
    /// File of blocks that follow each other, with the file of the state before the first
    #[arg(value_name = "BLOCKS.json")]
    blocks: PathBuf,
    /// On sp-state-machine alone
    #[arg(long, conflicts_with = "lockstep")]
    peer: bool,
    /// On both, every result of every call compared
    #[arg(long)]
    lockstep: bool,
    /// Try each proof without each of its nodes, too: one more execution for each node
    #[arg(long, conflicts_with_all = ["peer", "lockstep"])]
    every_node: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    attribution: AttributionArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    limit: LimitArg,
}

/// The report on the blocks.
///
/// # Errors
/// A [`CliError`] if a file is not what it should be, a block does not come to the root of its
/// header, or a check does not hold.
#[cfg(not(feature = "wasm"))]
pub(crate) fn run(args: &ReplayArgs) -> Result<String, CliError> {
    // As much as is said about a file that can't be read.
    povmeter_workload::RealBlocks::read(&args.blocks).map_err(|source| CliError::Blocks {
        path: args.blocks.clone(),
        source: Box::new(source),
    })?;
    Err(CliError::NoWasm)
}

/// The report on a block of transfers on the chain of `spec`.
///
/// # Errors
/// A [`CliError`] if there is no such block, or a check does not hold.
#[cfg(not(feature = "wasm"))]
pub(crate) fn run_transfers(
    _: &Path,
    _: u32,
    _: u64,
    _: Option<&Attributing>,
    _: bool,
    _: (&ReportArgs, LimitArg),
) -> Result<String, CliError> {
    Err(CliError::NoWasm)
}

#[cfg(feature = "wasm")]
pub(crate) use with_wasm::{run, run_transfers};

#[cfg(feature = "wasm")]
mod with_wasm {
    use super::{LimitArg, ReplayArgs, ReportArgs};
    use crate::{
        attribution::Attributing,
        error::CliError,
        progress,
        replay_report::ReplayReport,
        report::{Growth, ReportFolder, Step, REPLAY_CHARTS},
    };
    use povmeter_workload::{
        wasm::{relay_chain_block, Replay, ReplayMode, ReplayOptions, ReplayedBlock},
        ChainSpec, RealBlocks,
    };
    use std::path::Path;

    pub(crate) fn run(args: &ReplayArgs) -> Result<String, CliError> {
        let attributing = args.attribution.prepare()?;
        let page = args.report.open(&REPLAY_CHARTS)?;
        let (file, state) = progress::during("reading blocks and state", || read(args))?;
        let mode = match (args.peer, args.lockstep) {
            (true, _) => ReplayMode::Peer,
            (_, true) => ReplayMode::Lockstep,
            _ => ReplayMode::Ours,
        };
        let options = ReplayOptions {
            mode,
            every_node: args.every_node,
            attribute: attributing.is_some(),
            each_extrinsic: page.is_some(),
        };
        let page = page.map(|folder| (folder, args.limit));
        replay(file, &state, options, attributing.as_ref(), args.json, page)
    }

    pub(crate) fn run_transfers(
        path: &Path,
        transfers: u32,
        seed: u64,
        attributing: Option<&Attributing>,
        json: bool,
        (report, limit): (&ReportArgs, LimitArg),
    ) -> Result<String, CliError> {
        let page = report.open(&REPLAY_CHARTS)?;
        let spec = ChainSpec::read(path).map_err(|source| CliError::ChainSpec {
            path: path.to_owned(),
            source,
        })?;
        let (file, state) = progress::during("building the block", || {
            relay_chain_block(spec, transfers, seed)
        })?;
        let options = ReplayOptions {
            attribute: attributing.is_some(),
            each_extrinsic: page.is_some(),
            ..ReplayOptions::default()
        };
        let page = page.map(|folder| (folder, limit));
        replay(file, &state, options, attributing, json, page)
    }

    fn replay(
        file: RealBlocks,
        state: &ChainSpec,
        options: ReplayOptions,
        attributing: Option<&Attributing>,
        json: bool,
        page: Option<(ReportFolder, LimitArg)>,
    ) -> Result<String, CliError> {
        let mut growths = Vec::new();
        let mut report = ReplayReport::new(&file, options.mode);
        let replay = progress::during("making the state", || Replay::new(file, state, options))?;
        let bar = progress::bar(replay.len(), "replaying");
        for block in replay {
            let block = block?;
            report.add(&block, attributing);
            if let Some((_, limit)) = &page {
                growths.push(growth(&block, *limit, options.mode));
            }
            bar.step();
        }
        drop(bar);
        if let Some(attributing) = attributing {
            attributing.write(report.tally())?;
        }
        if let Some((folder, _)) = page {
            folder.write(&report.page(growths))?;
        }
        let failed = report.failed();
        let report = if json {
            serde_json::to_string_pretty(&report)?
        } else {
            report.to_string()
        };
        if failed.is_empty() {
            Ok(report)
        } else {
            Err(CliError::ChecksFailed { failed, report })
        }
    }

    /// A block extrinsic by extrinsic.
    fn growth(block: &ReplayedBlock, limit: LimitArg, mode: ReplayMode) -> Growth {
        let steps = block.steps.iter();
        let steps = steps.map(|step| Step::new(step.size, step.times));
        let growth = Growth::new(steps.collect(), block.sizes.recorded, limit.bytes());
        match mode {
            ReplayMode::Peer => growth.without_estimates(),
            ReplayMode::Ours | ReplayMode::Lockstep => growth,
        }
    }

    fn read(args: &ReplayArgs) -> Result<(RealBlocks, ChainSpec), CliError> {
        let file = RealBlocks::read(&args.blocks).map_err(|source| CliError::Blocks {
            path: args.blocks.clone(),
            source: Box::new(source),
        })?;
        let state = file.read_state().map_err(|source| CliError::ChainSpec {
            path: file.state_path.clone(),
            source,
        })?;
        Ok((file, state))
    }
}
