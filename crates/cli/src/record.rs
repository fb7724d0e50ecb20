//! `povmeter record`: a block and everything that it reads, as one file.

#[cfg(not(feature = "wasm"))]
use crate::error::CliError;
use crate::{
    counted::counted,
    one_line::one_line,
    output::{CommandResult, HexHash},
    remote_args::RemoteArgs,
    replay::SizesArg,
};
use clap::Args;
use povmeter_remote::BlockId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// Which block to record.
#[derive(Args, Debug)]
#[command(after_help = "\
Needs the feature `wasm`. The file holds the block, its runtime, and the nodes
of the parent state that it reads. It is written even if a check fails or the
runtime does; the exit code is 1 then.

Examples:
  povmeter record --url ws://127.0.0.1:9944 --block 1000 1000.povmeter
  povmeter record --from westend-1-64.json --block 5 westend-5.povmeter
  povmeter replay 1000.povmeter --attribute")]
#[group(id = "origin", required = true, multiple = false, args = ["from", "url"])]
pub(crate) struct RecordArgs {
    /// File to write
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// File of blocks that `povmeter replay` reads, in place of a running chain
    #[arg(long, value_name = "BLOCKS.json", conflicts_with_all = ["cache", "rpc"])]
    pub(crate) from: Option<PathBuf>,
    /// Number or hash of the block, of a chain also `best` or `finalized` [default: finalized, or the first of the file]
    #[arg(long, value_name = "BLOCK")]
    pub(crate) block: Option<BlockId>,
    /// Proof sizes that the runtime is told, as for `povmeter replay`
    #[arg(long, value_name = "SOURCE", default_value = "reads")]
    pub(crate) sizes: SizesArg,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A recorded block.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct RecordReport {
    /// The file.
    pub(crate) file: String,
    /// Size of the file in bytes.
    pub(crate) file_bytes: u64,
    /// Number of the block.
    pub(crate) number: u32,
    /// Its hash.
    pub(crate) hash: HexHash,
    /// Root of the state that it starts from.
    pub(crate) parent_state_root: HexHash,
    /// Extrinsics in it, inherents included.
    pub(crate) extrinsics: usize,
    /// Nodes in the file: those of the proof and of the runtime, and those that only the checks read.
    pub(crate) nodes: usize,
    /// Bytes of these nodes.
    pub(crate) node_bytes: u64,
    /// Requests that the node was sent; null if the block comes from a file.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) requests: Option<u64>,
    /// Checks that failed; none in results of earlier versions.
    #[serde(default)]
    pub(crate) failed: Vec<FailedCheck>,
    /// Why the block could not be executed to its end; null if it was, and in results of earlier versions.
    #[serde(default)]
    pub(crate) error: Option<String>,
}

/// A check that failed.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct FailedCheck {
    /// Name of the check.
    pub(crate) name: String,
    /// The numbers behind the result.
    pub(crate) detail: String,
}

impl fmt::Display for FailedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, detail } = self;
        write!(f, "FAILED {name}: {}", one_line(detail))
    }
}

impl CommandResult for RecordReport {
    const COMMAND: &'static str = "record";
    const WHAT: &'static str = "record";
    const SCHEMA: u64 = 1;
}

impl fmt::Display for RecordReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            file_bytes,
            number,
            hash,
            extrinsics,
            nodes,
            node_bytes,
            requests,
            failed,
            error,
            ..
        } = self;
        let extrinsics = counted(*extrinsics as u64, "extrinsic");
        writeln!(f, "block {number}, {hash}, of {extrinsics}")?;
        let nodes = counted(*nodes as u64, "node");
        write!(
            f,
            "{file}: {file_bytes} bytes, {nodes} of {node_bytes} bytes"
        )?;
        if let Some(requests) = requests {
            let requests = counted(*requests, "request");
            write!(f, "\n{requests} to the node")?;
        }
        for check in failed {
            write!(f, "\n{check}")?;
        }
        if error.is_some() {
            write!(
                f,
                "\nFAILED to execute the block: the file holds what was read"
            )?;
        }
        Ok(())
    }
}

/// Refuses to record, because this program can't run wasm.
///
/// # Errors
/// Always [`CliError::NoWasm`].
#[cfg(not(feature = "wasm"))]
pub(crate) fn run(args: &RecordArgs) -> Result<(), CliError> {
    args.remote.url()?;
    Err(CliError::NoWasm)
}

#[cfg(feature = "wasm")]
pub(crate) use with_wasm::run;

#[cfg(feature = "wasm")]
mod with_wasm {
    use super::{FailedCheck, RecordArgs, RecordReport};
    use crate::{
        error::{chain, CliError},
        origin::{chain_name, Origin, RemoteParent},
        output::{all_done, checked, printed, tell},
        output_file::OutputFile,
        progress,
    };
    use bytes::Bytes;
    use codec::Encode;
    use povmeter::Root;
    use povmeter_dev_data::{
        wasm::{
            Check, ParentState, Replay, ReplayError, ReplayMode, ReplayOptions, ReplaySizes,
            Replayer,
        },
        RealBlock, RealBlocks,
    };
    use povmeter_dev_runtime::SharedNodes;
    use povmeter_remote::{BlockId, NotingSource, Recording};
    use sp_core::H256;
    use std::path::Path;

    /// What the file holds, in its errors.
    const RECORDING: &str = "the recording";

    /// What the executions of a block read, and what was wrong with them.
    #[derive(Default)]
    struct Executed {
        nodes: Vec<Bytes>,
        /// The checks that failed, each name once.
        failed: Vec<Check>,
        /// Why an execution ended early.
        error: Option<ReplayError>,
    }

    /// Writes the file, and prints the report on it.
    ///
    /// # Errors
    /// A [`CliError`] if the block can't be executed, a check fails, or the file can't be written. A block whose
    /// check fails is in the file nevertheless, and so is one whose execution ends early.
    pub(crate) fn run(args: &RecordArgs) -> Result<(), CliError> {
        if let (Some(_), Some(id @ (BlockId::Best | BlockId::Finalized))) = (&args.from, args.block)
        {
            return Err(CliError::BlockOfFile(id));
        }
        let file = OutputFile::open(RECORDING, &args.file, |head| {
            Recording::is_one(head.as_bytes())
        })?;
        let sizes = args.sizes.sizes()?;
        let node = args.remote.node()?;
        let (recording, block, executed) = match (&node, &args.from) {
            (Some(node), _) => {
                let id = args.block.unwrap_or(BlockId::Finalized);
                let fetched = RemoteParent::of_block(node, &id)?;
                let executed = execute(&fetched.parent, &fetched.block, &sizes);
                // Nodes of the state are missing.
                if let Some(error) = fetched.state.failure() {
                    return Err(error.into());
                }
                let mut executed = executed?;
                let nodes = std::mem::take(&mut executed.nodes);
                let recording = Recording::new(chain_name(node), fetched.fetched, nodes);
                let recording = recording.map_err(refused(&args.file))?;
                (recording, fetched.block, executed)
            }
            (None, Some(path)) => of_file(path, args, &sizes)?,
            (None, None) => return Err(CliError::NoUrl),
        };
        let requests = node.map(|node| node.requests());
        write(args, &file, (&recording, &block), executed, requests)
    }

    /// Writes the recording of a block, prints the report on it, and returns what was wrong with the block. Without
    /// the file there is no report, because it is about the file; the details of failed checks are shown.
    ///
    /// # Errors
    /// As for [`run`].
    fn write(
        args: &RecordArgs,
        file: &OutputFile,
        (recording, block): (&Recording, &RealBlock),
        executed: Executed,
        requests: Option<u64>,
    ) -> Result<(), CliError> {
        let Executed { failed, error, .. } = executed;
        let content = recording.to_bytes().map_err(refused(&args.file))?;
        let names = failed.iter().map(|check| check.name.to_owned()).collect();
        let checks = failed.into_iter().map(|check| FailedCheck {
            name: check.name.to_owned(),
            detail: check.detail,
        });
        let report = RecordReport {
            file: args.file.display().to_string(),
            file_bytes: content.len() as u64,
            number: block.header.number,
            hash: block.hash.into(),
            parent_state_root: H256(recording.parent_root.into()).into(),
            extrinsics: block.body.len(),
            nodes: recording.nodes.len(),
            node_bytes: recording.nodes.iter().map(|node| node.len() as u64).sum(),
            requests,
            failed: checks.collect(),
            error: error.as_ref().map(|error| chain(error)),
        };
        let finished = match file.write(&content) {
            Ok(()) => printed(&report, args.json, names),
            Err(error) => {
                for check in &report.failed {
                    tell(&check.to_string());
                }
                all_done([Err(error.into()), checked::<RecordReport>(names)])
            }
        };
        // The error of the execution comes last, because it is the worst.
        all_done([finished, error.map_or(Ok(()), |error| Err(error.into()))])
    }

    fn refused(path: &Path) -> impl Fn(povmeter_remote::RecordingError) -> CliError + '_ {
        move |source| CliError::Recording {
            path: path.to_owned(),
            source,
        }
    }

    /// Executes a block on povmeter and in lockstep. If an execution ends early, executes the block once more on
    /// each, because the recording must have the nodes that all of them read until then.
    ///
    /// # Errors
    /// A [`ReplayError`] if the block could not even be begun.
    fn execute(
        parent: &ParentState,
        block: &RealBlock,
        sizes: &ReplaySizes,
    ) -> Result<Executed, ReplayError> {
        let noting = NotingSource::new(parent.nodes.clone());
        let mut noted = ParentState {
            nodes: SharedNodes::new(noting.clone()),
            ..parent.clone()
        };
        let run = |mode, noted: &ParentState| {
            let options = ReplayOptions {
                mode,
                every_node: false,
                attribute: true,
                each_extrinsic: true,
            };
            let mut replayer = Replayer::new(options).with_sizes(sizes.clone());
            progress::during("executing the block", || replayer.replay(noted, block))
        };
        let mut executed = Executed::default();
        for mode in [ReplayMode::Ours, ReplayMode::Lockstep] {
            let replayed = match run(mode, &noted) {
                Ok(replayed) => replayed,
                Err(error) if !is_of_execution(&error) => return Err(error),
                Err(error) => {
                    executed.error = Some(error);
                    break;
                }
            };
            for check in replayed.checks {
                let is_known = |known: &Check| known.name == check.name;
                if !check.holds && !executed.failed.iter().any(is_known) {
                    executed.failed.push(check);
                }
            }
        }
        if executed.error.is_some() {
            // The execution that tells the keys would fail first.
            noted.hints = None;
            for mode in [ReplayMode::Ours, ReplayMode::Lockstep, ReplayMode::Peer] {
                // Each fails like the first one.
                let _ = run(mode, &noted);
            }
        }
        executed.nodes = noting.noted();
        Ok(executed)
    }

    /// Whether the runtime was there and began, so that the nodes read until then show the error again.
    fn is_of_execution(error: &ReplayError) -> bool {
        matches!(
            error,
            ReplayError::Header { .. }
                | ReplayError::Runtime { .. }
                | ReplayError::Host { .. }
                | ReplayError::Proof { .. }
        )
    }

    /// Executes a block of the file at `path` for a recording.
    fn of_file(
        path: &Path,
        args: &RecordArgs,
        sizes: &ReplaySizes,
    ) -> Result<(Recording, RealBlock, Executed), CliError> {
        let Origin::File(file, state) = Origin::of_file(path)? else {
            return Err(CliError::RecordRecording(path.to_owned()));
        };
        let index = index(path, &file, args.block)?;
        let block = file.blocks[index].clone();
        let (name, before) = (file.name.clone(), index.checked_sub(1));
        let parent = before.map(|before| file.blocks[before].header.encode());
        let options = ReplayOptions {
            // sp-state-machine makes no estimates.
            mode: match sizes {
                ReplaySizes::Estimate => ReplayMode::Ours,
                ReplaySizes::Reads | ReplaySizes::Record(_) => ReplayMode::Peer,
            },
            ..ReplayOptions::default()
        };
        let mut replay = Replay::new(file, &state, options)?.with_sizes(sizes.clone());
        // The blocks before it produce its parent state.
        for replayed in replay.by_ref().take(index) {
            replayed?;
        }
        let root: Root = replay.root();
        let mut executed = execute(&replay.parent(), &block, sizes)?;
        let recording = Recording {
            name,
            parent_root: root,
            parent,
            header: block.header.encode(),
            body: block.body.clone(),
            nodes: std::mem::take(&mut executed.nodes),
        };
        Ok((recording, block, executed))
    }

    /// The index of the block in the file; 0 if none is named.
    fn index(path: &Path, file: &RealBlocks, id: Option<BlockId>) -> Result<usize, CliError> {
        let Some(id) = id else { return Ok(0) };
        let mut numbers = file.blocks.iter().map(|block| block.header.number);
        let first = numbers.next().unwrap_or_default();
        let last = numbers.next_back().unwrap_or(first);
        let mut blocks = file.blocks.iter();
        let found = blocks.position(|block| match id {
            BlockId::Number(number) => u64::from(block.header.number) == number,
            BlockId::Hash(hash) => block.hash.0 == hash,
            _ => false,
        });
        found.ok_or_else(|| CliError::NotInFile {
            path: path.to_owned(),
            first,
            last,
            block: id,
        })
    }

    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    mod tests {
        use super::*;
        use clap::Parser;

        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: RecordArgs,
        }

        #[test]
        fn a_block_whose_check_fails_is_recorded() {
            let example = concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../examples/kusama-1.povmeter"
            );
            let recording = Recording::read(Path::new(example)).unwrap();
            let block = RealBlock::from_header(&recording.header, recording.body.clone()).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("block.povmeter");
            let line = ["record", "--from", "blocks.json", path.to_str().unwrap()];
            let Line { args } = Line::parse_from(line);
            let file = OutputFile::open(RECORDING, &path, |_| false).unwrap();
            let executed = Executed {
                failed: vec![Check {
                    name: "estimate complete",
                    holds: false,
                    detail: "5 bytes, truth 6".to_owned(),
                    by_design: None,
                }],
                ..Executed::default()
            };
            let error = write(&args, &file, (&recording, &block), executed, None).unwrap_err();
            assert!(
                matches!(&error, CliError::ChecksFailed { failed, .. } if failed == &["estimate complete"]),
                "{error}"
            );
            assert_eq!(Recording::read(&path).unwrap(), recording);
        }

        #[test]
        fn a_report_names_what_failed() {
            let report = RecordReport {
                file: "1.povmeter".to_owned(),
                file_bytes: 1,
                number: 1,
                hash: H256::zero().into(),
                parent_state_root: H256::zero().into(),
                extrinsics: 2,
                nodes: 3,
                node_bytes: 4,
                requests: None,
                failed: vec![FailedCheck {
                    name: "estimate complete".to_owned(),
                    detail: "5 bytes, truth 6".to_owned(),
                }],
                error: Some("block 1: the runtime failed".to_owned()),
            };
            let text = report.to_string();
            for line in [
                "FAILED estimate complete: 5 bytes, truth 6",
                "FAILED to execute the block: the file holds what was read",
            ] {
                assert!(text.lines().any(|found| found == line), "{text}");
            }
        }
    }
}
