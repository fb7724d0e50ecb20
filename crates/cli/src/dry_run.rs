//! `povmeter dry-run`: what an extrinsic or another runtime would add to a chain's next block.

#[cfg(not(feature = "wasm"))]
use crate::error::CliError;
use crate::{pov::LimitArg, remote_args::RemoteArgs, report::ReportArgs, whole_number::whole};
use clap::{ArgGroup, Args};
use povmeter_remote::BlockId;
use std::{path::PathBuf, str::FromStr};

/// What is tried, and on which block.
#[derive(Args, Debug)]
#[command(after_help = "\
Needs the feature `wasm`. Nothing is sent to the chain.

Examples:
  povmeter dry-run --url ws://127.0.0.1:9944 --extrinsic 0x4502...
  povmeter dry-run --url ws://127.0.0.1:9944 --runtime new.wasm
  povmeter dry-run 1000.povmeter --runtime new.wasm --pov-limit 10MiB")]
// Clap's own line is wider than a screen.
#[command(override_usage = "\
povmeter dry-run [OPTIONS] <--extrinsic <HEX>|--runtime <WASM>>
                        <FILE|--url <URL>>")]
#[command(group = ArgGroup::new("origin").required(true).args(["file", "url"]))]
#[group(id = "item", required = true, multiple = false, args = ["extrinsic", "runtime"])]
pub(crate) struct DryRunArgs {
    /// A block that `povmeter record` wrote: the item is tried in its place if the file has the nodes
    #[arg(value_name = "FILE", conflicts_with_all = ["cache", "rpc"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Block before the one with the item: number, hash, `best` or `finalized` [default: finalized]
    #[arg(long, value_name = "BLOCK", conflicts_with = "file")]
    pub(crate) block: Option<BlockId>,
    /// An extrinsic in hexadecimal, signed or not, with or without its length
    #[arg(long, value_name = "HEX")]
    pub(crate) extrinsic: Option<ExtrinsicArg>,
    /// A runtime in wasm, compressed or not: its migrations and the first initialization of a block
    #[arg(long, value_name = "WASM")]
    pub(crate) runtime: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limit: LimitArg,
    /// Rows of each attribution table
    #[arg(long, value_name = "ROWS", default_value_t = 15, value_parser = whole::<usize>(0..=1_000_000))]
    pub(crate) top: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// An extrinsic without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
pub(crate) struct ExtrinsicArg(pub(crate) Vec<u8>);

impl FromStr for ExtrinsicArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let bytes = hex::decode(digits)
            .map_err(|error| format!("expected an extrinsic in hexadecimal, found: {error}"))?;
        if bytes.is_empty() {
            return Err("expected an extrinsic in hexadecimal, found no byte".to_owned());
        }
        let mut input = &bytes[..];
        let length = <codec::Compact<u32> as codec::Decode>::decode(&mut input);
        let is_length = length.is_ok_and(|length| length.0 as usize == input.len());
        Ok(Self(if is_length { input.to_vec() } else { bytes }))
    }
}

/// Prints the report on the item.
///
/// # Errors
/// [`CliError::NoWasm`], because the program is built without the feature `wasm`.
#[cfg(not(feature = "wasm"))]
pub(crate) fn run(args: &DryRunArgs) -> Result<(), CliError> {
    args.remote.url()?;
    Err(CliError::NoWasm)
}

#[cfg(feature = "wasm")]
pub(crate) use with_wasm::run;

#[cfg(feature = "wasm")]
mod with_wasm {
    use super::DryRunArgs;
    use crate::{
        attribution_report::AttributionReport,
        checks::Check,
        dry_run_report::{AddedRow, DryRunReport, PartialRow, ITEMS, OUTCOMES},
        error::CliError,
        origin::{chain_name, read_recording, remote_or, remote_state},
        output::finish,
        pov::expect_within,
        progress,
        report::{self, DRY_RUN_CHARTS},
    };
    use povmeter::NodeSource;
    use povmeter_attribution::{ByteTally, Names};
    use povmeter_dev_data::{
        read_file,
        wasm::{DryRun, DryRunItem, DryRunOutcome, DryRunResult, ParentState, PartialBlock},
        RealBlock,
    };
    use povmeter_dev_oracle::on_one_thread;
    use povmeter_dev_runtime::SharedNodes;
    use povmeter_remote::{BlockId, RemoteNode, RemoteState};
    use sp_core::H256;
    use std::path::Path;

    /// Prints the report on the item.
    ///
    /// # Errors
    /// A [`CliError`] if the state can't be read, no block can hold the item, the chain would refuse the runtime, or the
    /// proof is larger than the limit.
    pub(crate) fn run(args: &DryRunArgs) -> Result<(), CliError> {
        on_one_thread()?;
        let read = [("FILE", &args.file), ("--runtime", &args.runtime)];
        let read = read
            .into_iter()
            .filter_map(|(name, path)| Some((name, path.as_deref()?)));
        let page = args.report.open_beside(&DRY_RUN_CHARTS, read)?;
        let item = match (&args.extrinsic, &args.runtime) {
            (Some(extrinsic), _) => DryRunItem::Extrinsic(extrinsic.0.clone()),
            (None, Some(path)) => DryRunItem::Runtime(read_runtime(path)?),
            (None, None) => return Err(CliError::NoUrl),
        };
        let place = match (&args.file, args.remote.node()?) {
            (Some(path), _) => Place::of_file(path)?,
            (None, Some(node)) => Place::of_chain(node, args.block)?,
            (None, None) => return Err(CliError::NoUrl),
        };
        let result = progress::during("executing the block", || place.run.run(&item));
        let result = result.map_err(|error| place.error(error))?;
        let report = place.report(args, &item, &result);
        finish(&report, args.json, report.failed(), || {
            report::write(page, || report.page())
        })?;
        let limit = report.pov_limit.as_ref();
        expect_within([(Some(report.number), &report.with.pov, limit)])
    }

    /// The first bytes of a compressed runtime, from `sp-maybe-compressed-blob`.
    const COMPRESSED: [u8; 8] = [82, 188, 83, 118, 70, 219, 142, 5];

    /// Reads the runtime in the file at `path`, and checks that it begins like one.
    fn read_runtime(path: &Path) -> Result<Vec<u8>, CliError> {
        let code = read_file(path)?;
        if code.starts_with(b"\0asm") || code.starts_with(&COMPRESSED) {
            return Ok(code);
        }
        Err(CliError::NotRuntime {
            path: path.to_owned(),
            found: match code.is_empty() {
                true => "an empty file",
                false => "other bytes",
            },
        })
    }

    /// The block that an item is tried in.
    struct Place {
        name: String,
        run: DryRun,
        root: povmeter::Root,
        remote: Option<(RemoteNode, RemoteState)>,
    }

    impl Place {
        /// Returns the place of the recorded block.
        fn of_file(path: &Path) -> Result<Self, CliError> {
            let (block, name, nodes, root) = read_recording(path)?;
            let parent = ParentState::new(shared(nodes), root);
            let run = DryRun::in_place_of(&block.header, parent).map_err(CliError::from)?;
            Ok(Self {
                name,
                run,
                root,
                remote: None,
            })
        }

        /// Returns the place on top of a block of a chain.
        fn of_chain(node: RemoteNode, block: Option<BlockId>) -> Result<Self, CliError> {
            let id = block.unwrap_or(BlockId::Finalized);
            let (header, state) = progress::during(format!("fetching block {id}"), || {
                let (hash, header) = node.head(&id)?;
                Ok::<_, CliError>((header, node.state_after(&hash)?))
            })?;
            let header = RealBlock::from_header(&header, Vec::new());
            let header = header.map_err(|source| CliError::RemoteBlock(Box::new(source)))?;
            let parent = remote_state(&state, &[])?;
            let run = DryRun::after(&header.header, parent);
            let run = run.map_err(|error| remote_or(&state, error))?;
            Ok(Self {
                name: chain_name(&node),
                run,
                root: state.root(),
                remote: Some((node, state)),
            })
        }

        fn error(&self, error: impl Into<CliError>) -> CliError {
            match &self.remote {
                Some((_, state)) => remote_or(state, error),
                None => error.into(),
            }
        }

        fn report(
            &self,
            args: &DryRunArgs,
            item: &DryRunItem,
            result: &DryRunResult,
        ) -> DryRunReport {
            let [extrinsic, runtime] = ITEMS;
            let (item, ms) = match item {
                DryRunItem::Extrinsic(_) => (extrinsic, milliseconds(&result.with).1),
                DryRunItem::Runtime(_) => {
                    let (with, without) =
                        (milliseconds(&result.with), milliseconds(&result.without));
                    (runtime, with.0 - without.0)
                }
            };
            let [succeeded, failed] = OUTCOMES;
            let (outcome, call_error) = match &result.outcome {
                DryRunOutcome::CallFailed(error) => (failed, Some(error.clone())),
                _ => (succeeded, None),
            };
            let (without, with) = (row(&result.without), row(&result.with));
            DryRunReport {
                name: self.name.clone(),
                item: item.to_owned(),
                number: result.number,
                parent_state_root: H256(self.root.into()).into(),
                spec_version: result.spec_version,
                new_spec_version: result.new_spec_version,
                outcome: outcome.to_owned(),
                call_error,
                added: AddedRow::of(&with, &without, ms),
                pov_limit: args.limit.judge(&with.pov, with.recorded),
                attribution: attribution(result, args.top),
                checks: result.spec_names.iter().map(accepted).collect(),
                without,
                with,
                requests: self.remote.as_ref().map(|(node, _)| node.requests()),
            }
        }
    }

    /// Whether `set_code` accepts a runtime, by the names of the chain's runtime and of its own. Its version is higher,
    /// or there would be no result.
    fn accepted([chain, new]: &[String; 2]) -> Check {
        Check {
            name: "accepted by set_code".to_owned(),
            holds: chain == new,
            detail: match chain == new {
                true => format!("its spec name is `{chain}`, and its spec version is higher"),
                false => format!("expected the spec name `{chain}`, found `{new}`"),
            },
        }
    }

    fn shared(nodes: impl NodeSource + Send + Sync + 'static) -> SharedNodes {
        SharedNodes::new(nodes)
    }

    /// Returns the processor times of the initialization and of the extrinsic.
    fn milliseconds(block: &PartialBlock) -> (f64, f64) {
        let ms = |spent: povmeter_dev_runtime::Spent| spent.cpu.as_secs_f64() * 1e3;
        (ms(block.initialize), ms(block.apply))
    }

    fn row(block: &PartialBlock) -> PartialRow {
        let (initialize, apply) = milliseconds(block);
        PartialRow {
            recorded: block.sizes.recorded,
            encoded: block.sizes.encoded,
            compact: block.sizes.compact,
            nodes: block.sizes.nodes,
            pov: block.pov.into(),
            weight_ref_time: block.weight.map(|weight| weight.ref_time),
            weight_proof_size: block.weight.map(|weight| weight.proof_size),
            ms: initialize + apply,
        }
    }

    /// Attributes the nodes that only the block with the item has.
    fn attribution(result: &DryRunResult, top: usize) -> AttributionReport {
        let mut names = Names::well_known();
        for name in &result.names {
            names.add(name.clone());
        }
        let added = result.added_nodes();
        let tally = ByteTally::of_some(&result.attribution, &names, |entry| {
            added.contains(entry.hash().as_bytes())
        });
        AttributionReport::new(&tally, top)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn extrinsics_come_with_and_without_their_length() {
        let bytes = |text: &str| text.parse::<ExtrinsicArg>().unwrap().0;
        assert_eq!(bytes("0x0c040001"), [4, 0, 1]);
        assert_eq!(bytes("040001"), [4, 0, 1]);
        // The first byte is a length, but not the length of the rest.
        assert_eq!(bytes("0x1004000102ff"), [16, 4, 0, 1, 2, 255]);
        for text in ["", "0x", "0x1", "zz"] {
            assert!(text.parse::<ExtrinsicArg>().is_err(), "{text}");
        }
    }
}
