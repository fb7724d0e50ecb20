//! `povmeter record`: a block and everything that it reads, as one file.

#[cfg(not(feature = "wasm"))]
use crate::error::CliError;
use crate::{
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
of the parent state that it reads.

Examples:
  povmeter record --url ws://127.0.0.1:9944 --block 1000 1000.povmeter
  povmeter record --from westend-1-64.json --block 5 westend-5.povmeter
  povmeter replay 1000.povmeter --attribute")]
pub(crate) struct RecordArgs {
    /// File to write
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// File of blocks that `povmeter replay` reads, in place of a running chain
    #[arg(
        long,
        value_name = "BLOCKS.json",
        required_unless_present = "url",
        conflicts_with = "url"
    )]
    pub(crate) from: Option<PathBuf>,
    /// Number or hash of the block, `best` or `finalized` [default: finalized, or the first of the file]
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
            ..
        } = self;
        writeln!(f, "block {number}, {hash}, of {extrinsics} extrinsics")?;
        write!(
            f,
            "{file}: {file_bytes} bytes, {nodes} nodes of {node_bytes} bytes"
        )?;
        if let Some(requests) = requests {
            write!(f, "\n{requests} requests to the node")?;
        }
        Ok(())
    }
}

/// Refuses to record, because this program can't run wasm.
///
/// # Errors
/// Always [`CliError::NoWasm`].
#[cfg(not(feature = "wasm"))]
pub(crate) fn run(_: &RecordArgs) -> Result<(), CliError> {
    Err(CliError::NoWasm)
}

#[cfg(feature = "wasm")]
pub(crate) use with_wasm::run;

#[cfg(feature = "wasm")]
mod with_wasm {
    use super::{RecordArgs, RecordReport};
    use crate::{
        error::CliError,
        origin::{chain_name, Origin, RemoteParent},
        output::printed,
        output_file::OutputFile,
        progress,
    };
    use codec::Encode;
    use povmeter::Root;
    use povmeter_dev_data::{
        wasm::{ParentState, Replay, ReplayMode, ReplayOptions, ReplaySizes, Replayer},
        RealBlock, RealBlocks,
    };
    use povmeter_dev_runtime::SharedNodes;
    use povmeter_remote::{BlockId, NotingSource, Recording, RemoteError};
    use sp_core::H256;
    use std::path::Path;

    /// Writes the file, and prints the report on it.
    ///
    /// # Errors
    /// A [`CliError`] if the block can't be executed, a check fails, or the file can't be written.
    pub(crate) fn run(args: &RecordArgs) -> Result<(), CliError> {
        let file = OutputFile::open("FILE", &args.file, |head| {
            Recording::is_one(head.as_bytes())
        })?;
        let sizes = args.sizes.sizes()?;
        let node = args.remote.node()?;
        let (recording, block) = match (&node, &args.from) {
            (Some(node), _) => {
                let id = args.block.unwrap_or(BlockId::Finalized);
                let fetched = RemoteParent::of_block(node, &id)?;
                let noted = record(&fetched.parent, &fetched.block, &sizes);
                let nodes = noted.map_err(|error| fetched.error(error))?;
                let name = chain_name(node);
                let recording = Recording::new(name, fetched.fetched, nodes);
                (recording.map_err(refused(&args.file))?, fetched.block)
            }
            (None, Some(path)) => of_file(path, args, &sizes)?,
            (None, None) => return Err(CliError::NoUrl),
        };
        let content = recording.to_bytes();
        file.write(&content)?;
        let report = RecordReport {
            file: args.file.display().to_string(),
            file_bytes: content.len() as u64,
            number: block.header.number,
            hash: block.hash.into(),
            parent_state_root: H256(recording.parent_root.into()).into(),
            extrinsics: block.body.len(),
            nodes: recording.nodes.len(),
            node_bytes: recording.nodes.iter().map(|node| node.len() as u64).sum(),
            requests: node.map(|node| node.requests()),
        };
        printed(&report, args.json, Vec::new())
    }

    fn refused(path: &Path) -> impl Fn(povmeter_remote::RecordingError) -> CliError + '_ {
        move |source| CliError::Recording {
            path: path.to_owned(),
            source,
        }
    }

    /// Executes a block on povmeter and in lockstep, and returns all nodes that were read.
    fn record(
        parent: &ParentState,
        block: &RealBlock,
        sizes: &ReplaySizes,
    ) -> Result<Vec<bytes::Bytes>, CliError> {
        let noting = NotingSource::new(parent.nodes.clone());
        let noted = ParentState {
            nodes: SharedNodes::new(noting.clone()),
            ..parent.clone()
        };
        for mode in [ReplayMode::Ours, ReplayMode::Lockstep] {
            let options = ReplayOptions {
                mode,
                every_node: false,
                attribute: true,
                each_extrinsic: true,
            };
            let mut replayer = Replayer::new(options).with_sizes(sizes.clone());
            let replayed =
                progress::during("executing the block", || replayer.replay(&noted, block))?;
            let failed: Vec<String> = replayed
                .checks
                .iter()
                .filter(|check| !check.holds)
                .map(|check| check.name.to_owned())
                .collect();
            if !failed.is_empty() {
                return Err(CliError::ChecksFailed { failed });
            }
        }
        Ok(noting.noted())
    }

    /// Records a block of the file at `path`.
    fn of_file(
        path: &Path,
        args: &RecordArgs,
        sizes: &ReplaySizes,
    ) -> Result<(Recording, RealBlock), CliError> {
        let Origin::File(file, state) = Origin::of_file(path)? else {
            return Err(CliError::RecordRecording(path.to_owned()));
        };
        let index = index(&file, args.block)?;
        let block = file.blocks[index].clone();
        let (name, before) = (file.name.clone(), index.checked_sub(1));
        let parent = before.map(|before| file.blocks[before].header.encode());
        let options = ReplayOptions {
            mode: ReplayMode::Peer,
            ..ReplayOptions::default()
        };
        let mut replay = Replay::new(file, &state, options)?.with_sizes(sizes.clone());
        // The blocks before it produce its parent state.
        for replayed in replay.by_ref().take(index) {
            replayed?;
        }
        let root: Root = replay.root();
        let nodes = record(&replay.parent(), &block, sizes)?;
        let recording = Recording {
            name,
            parent_root: root,
            parent,
            header: block.header.encode(),
            body: block.body.clone(),
            nodes,
        };
        Ok((recording, block))
    }

    /// The index of the block in the file; 0 if none is named.
    fn index(file: &RealBlocks, id: Option<BlockId>) -> Result<usize, CliError> {
        let Some(id) = id else { return Ok(0) };
        let mut blocks = file.blocks.iter();
        let found = blocks.position(|block| match id {
            BlockId::Number(number) => u64::from(block.header.number) == number,
            BlockId::Hash(hash) => block.hash.0 == hash,
            _ => false,
        });
        let block = id.to_string();
        found.ok_or(CliError::Remote(RemoteError::UnknownBlock { block }))
    }
}
