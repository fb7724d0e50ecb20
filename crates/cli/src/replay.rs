//! `povmeter replay`: blocks of real chains, executed again by the chain's own runtime.

use crate::{
    attribution::AttributionArgs,
    error::CliError,
    pov::LimitArg,
    remote_args::{BlockRange, RemoteArgs},
    report::ReportArgs,
};
use clap::Args;
use povmeter_remote::BlockId;
#[cfg(not(feature = "wasm"))]
use std::path::Path;
use std::{convert::Infallible, path::PathBuf, str::FromStr};

/// Which blocks to replay, and how.
#[derive(Args, Debug)]
#[command(after_help = "\
Needs the feature `wasm`. docs/remote.md and docs/integration.md have more.

Examples:
  why the proof of a chain's block is large
    povmeter replay --url ws://127.0.0.1:9944 --block 1000 --attribute
  every result of every call beside sp-state-machine's
    povmeter replay westend-1-64.json --lockstep")]
#[group(id = "origin", required = true, multiple = false, args = ["file", "url"])]
pub(crate) struct ReplayArgs {
    /// File of `povmeter record`, or JSON of consecutive blocks
    #[arg(value_name = "FILE", conflicts_with_all = ["cache", "rpc"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Number, hash, `best` or `finalized` (the default)
    #[arg(long, value_name = "BLOCK", conflicts_with = "file")]
    block: Option<BlockId>,
    /// Blocks from number A to number B
    #[arg(long, value_name = "A..B", conflicts_with_all = ["file", "block"])]
    blocks: Option<BlockRange>,
    /// Execute on sp-state-machine alone
    #[arg(long, conflicts_with = "lockstep")]
    peer: bool,
    /// Execute on both and compare every call's result
    #[arg(long)]
    lockstep: bool,
    /// Proof sizes that runtimes are told: `reads` (as sp-state-machine records them), `estimate` (with
    /// the root's nodes), or a file that `--write-sizes` wrote
    #[arg(long, value_name = "SOURCE", default_value = "reads")]
    sizes: SizesArg,
    /// Write the proof sizes that the runtimes were told
    #[arg(long, value_name = "FILE")]
    write_sizes: Option<PathBuf>,
    /// Also execute each proof without each of its nodes
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

impl ReplayArgs {
    /// Fails if the options ask sp-state-machine for sizes that it can't tell.
    fn expect_sizes(&self) -> Result<(), CliError> {
        match (self.peer, &self.sizes) {
            (true, SizesArg::Estimate) => Err(CliError::EstimatesOfPeer),
            _ => Ok(()),
        }
    }
}

/// The source of the proof sizes that a runtime is told.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
pub(crate) enum SizesArg {
    Reads,
    Estimate,
    File(PathBuf),
}

impl FromStr for SizesArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "reads" => Self::Reads,
            "estimate" => Self::Estimate,
            path => Self::File(path.into()),
        })
    }
}

/// Refuses to replay blocks, because this program can't run wasm.
///
/// # Errors
/// A [`CliError`] if the file is not valid, else [`CliError::NoWasm`].
#[cfg(not(feature = "wasm"))]
pub(crate) fn run(args: &ReplayArgs) -> Result<(), CliError> {
    args.expect_sizes()?;
    args.remote.url()?;
    // Report a bad file first, as a program with wasm does.
    if let Some(path) = &args.file {
        if !povmeter_remote::Recording::is_one(&povmeter_dev_data::read_file(path)?) {
            povmeter_dev_data::RealBlocks::read(path).map_err(CliError::blocks(path))?;
        }
    }
    Err(CliError::NoWasm)
}

/// Refuses to build a block of transfers, because this program can't run wasm.
///
/// # Errors
/// Always [`CliError::NoWasm`].
#[cfg(not(feature = "wasm"))]
pub(crate) fn run_transfers(
    _: &Path,
    _: u32,
    _: u64,
    _: bool,
    _: (&AttributionArgs, &ReportArgs, LimitArg),
) -> Result<(), CliError> {
    Err(CliError::NoWasm)
}

#[cfg(feature = "wasm")]
pub(crate) use with_wasm::{run, run_transfers};

#[cfg(feature = "wasm")]
mod with_wasm {
    use super::{AttributionArgs, LimitArg, ReplayArgs, ReportArgs, SizesArg};
    use crate::pov::expect_within;
    use crate::{
        attribution::Attributing,
        error::{chain, CliError},
        origin::Origin,
        output::{all_done, finish},
        output_file::OutputFile,
        progress,
        remote_args::BlockIds,
        replay_report::ReplayReport,
        report::{self, Growth, ReportFolder, Step, REPLAY_CHARTS},
    };
    use povmeter_dev_data::{
        wasm::relay_chain_block, wasm::ReplayMode, wasm::ReplayOptions, wasm::ReplaySizes,
        wasm::ReplayedBlock, wasm::SizeRecord, ChainSpec,
    };
    use povmeter_dev_oracle::on_one_thread;
    use std::path::Path;

    /// The option that names the file of sizes to write.
    const WRITE_SIZES: &str = "--write-sizes";

    pub(crate) fn run(args: &ReplayArgs) -> Result<(), CliError> {
        args.expect_sizes()?;
        on_one_thread()?;
        let sizes = args.sizes.sizes()?;
        let files = args.attribution.files().chain(named(args));
        let page = args.report.open_beside(&REPLAY_CHARTS, files)?;
        // A comparison with sp-state-machine is about results, not about bytes.
        let attributing = args.attribution.prepare(!args.peer && !args.lockstep)?;
        let record = args
            .write_sizes
            .as_deref()
            .map(|path| OutputFile::open(WRITE_SIZES, path, SizeRecord::is_beginning));
        let record = record.transpose()?;
        let origin = match (&args.file, args.remote.node()?) {
            (Some(path), _) => {
                progress::during("reading blocks and state", || Origin::of_file(path))?
            }
            (None, Some(node)) => {
                Origin::Chain(node, BlockIds::of(args.block, args.blocks.as_ref()))
            }
            (None, None) => return Err(CliError::NoUrl),
        };
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
        let output = Output {
            page,
            sizes: record,
            json: args.json,
            limit: args.limit,
        };
        replay(origin, (options, sizes), attributing.as_ref(), output)
    }

    /// The files that only this command reads or writes, each with its option.
    fn named(args: &ReplayArgs) -> impl Iterator<Item = (&'static str, &Path)> {
        let sizes = match &args.sizes {
            SizesArg::File(path) => Some(("--sizes", path.as_path())),
            SizesArg::Reads | SizesArg::Estimate => None,
        };
        let record = args.write_sizes.as_deref();
        let file = args.file.as_deref();
        let file = file.into_iter().map(|path| ("BLOCKS.json", path));
        file.chain(sizes)
            .chain(record.map(|path| (WRITE_SIZES, path)))
    }

    impl SizesArg {
        /// The sizes, read if they are in a file.
        ///
        /// # Errors
        /// [`CliError::Sizes`] if the file is not valid.
        pub(crate) fn sizes(&self) -> Result<ReplaySizes, CliError> {
            Ok(match self {
                Self::Reads => ReplaySizes::Reads,
                Self::Estimate => ReplaySizes::Estimate,
                Self::File(path) => {
                    let record = SizeRecord::read(path).map_err(CliError::sizes(path))?;
                    ReplaySizes::Record(record)
                }
            })
        }
    }

    /// Where results go.
    struct Output {
        page: Option<ReportFolder>,
        sizes: Option<OutputFile>,
        json: bool,
        limit: LimitArg,
    }

    pub(crate) fn run_transfers(
        path: &Path,
        transfers: u32,
        seed: u64,
        json: bool,
        (attribution, report, limit): (&AttributionArgs, &ReportArgs, LimitArg),
    ) -> Result<(), CliError> {
        let files = attribution.files().chain([("--chain-spec", path)]);
        let page = report.open_beside(&REPLAY_CHARTS, files)?;
        let attributing = attribution.prepare(true)?;
        let spec = ChainSpec::read(path).map_err(CliError::chain_spec(path))?;
        let (file, state) = progress::during("building the block", || {
            relay_chain_block(spec, transfers, seed)
        })?;
        let options = ReplayOptions {
            attribute: attributing.is_some(),
            each_extrinsic: page.is_some(),
            ..ReplayOptions::default()
        };
        let output = Output {
            page,
            sizes: None,
            json,
            limit,
        };
        let sizes = ReplaySizes::default();
        let origin = Origin::File(file, state);
        replay(origin, (options, sizes), attributing.as_ref(), output)
    }

    fn replay(
        origin: Origin,
        (options, sizes): (ReplayOptions, ReplaySizes),
        attributing: Option<&Attributing>,
        output: Output,
    ) -> Result<(), CliError> {
        let Output {
            page,
            sizes: record_file,
            json,
            limit,
        } = output;
        let (mut growths, mut record) = (Vec::new(), SizeRecord::default());
        let mut report = ReplayReport::new(origin.name(), options.mode, &sizes);
        let bar = progress::bar(origin.len(), "replaying");
        let mut ended = Ok(());
        for block in origin.replay(options, sizes)? {
            let block = match block {
                Ok(block) => block,
                // Without a block there is nothing to report.
                Err(error) if report.blocks.is_empty() => return Err(error),
                Err(error) => {
                    report.error = Some(chain(&error));
                    ended = Err(error);
                    break;
                }
            };
            report.add(&block, attributing, limit);
            record.add(block.number, block.hash, block.told.clone());
            if page.is_some() {
                growths.push(growth(&block, limit, options.mode));
            }
            bar.step();
        }
        drop(bar);
        if page.is_some() {
            report.draw();
        }
        let finished = finish(&report, json, report.failed(), || {
            // Each is written even if another can't be.
            let page = report::write(page, || report.page(growths));
            // These don't say that blocks are missing, and an earlier file may have them all.
            if ended.is_err() {
                return page;
            }
            let sizes = record_file.map_or(Ok(()), |file| {
                file.write(record.to_json()?.as_bytes())?;
                Ok(())
            });
            let files = attributing.map(|attributing| attributing.write(report.tally()));
            all_done([page, sizes, files.unwrap_or(Ok(()))])
        });
        let blocks = report.blocks.iter();
        let limited = blocks.filter_map(|row| {
            let pov = row.pov.as_ref()?;
            Some((Some(row.number), pov, row.pov_limit.as_ref()))
        });
        let judged = finished.and_then(|()| expect_within(limited));
        // The error of a block comes last, because it is why the replay is not complete.
        all_done([judged, ended])
    }

    /// The growth of a block by extrinsic.
    fn growth(block: &ReplayedBlock, limit: LimitArg, mode: ReplayMode) -> Growth {
        let steps = block.steps.iter();
        let steps = steps.map(|step| Step::new(step.size, step.times, step.block_bytes));
        let recorded = block.sizes.recorded;
        let growth = Growth::new(steps.collect(), recorded, block.pov.into(), limit.bytes());
        match mode {
            ReplayMode::Peer => growth.without_estimates(),
            ReplayMode::Ours | ReplayMode::Lockstep => growth,
        }
    }
}
