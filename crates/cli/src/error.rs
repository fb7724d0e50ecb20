//! The errors of all commands.

#[cfg(feature = "wasm")]
use crate::output::HexHash;
use crate::{
    memory::in_words, one_line::one_line, output::tell, output_file::OutputFileError,
    report::ReportError,
};
use povmeter::Root;
#[cfg(feature = "wasm")]
use povmeter_dev_data::{wasm::SizeRecordError, FileError};
use povmeter_dev_data::{ChainSpecError, RealBlocksError};
use povmeter_dev_runtime::{AuthorError, HostError, PlanError, StateError, ValidateError};
use povmeter_store::{BackupError, OpenError, PruneError, StatError, StoreError};
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Exit code if a number is worse than its limit, a check fails that held before, or a PoV is larger than its limit.
const REGRESSED: u8 = 3;
/// Exit code if options contradict each other.
const WRONG_USAGE: u8 = 2;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    #[error("can't plan the block: {0}")]
    Plan(#[from] PlanError),
    #[error("can't plan the chain: {accounts} accounts allow {most} transfers that empty the sender, not the {found} of \
             {blocks} blocks")]
    TooManyInChain {
        accounts: u32,
        most: u32,
        found: u32,
        blocks: u32,
    },
    #[error("can't open the state: {0}")]
    Open(#[from] OpenError),
    /// The error of a folder that must hold a state already.
    #[error("can't open the state: {0}")]
    OpenStored(#[source] OpenError),
    #[error("the state: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Remote(#[from] povmeter_remote::RemoteError),
    #[cfg(feature = "wasm")]
    #[error("a block of the running chain: {0}")]
    RemoteBlock(#[source] Box<povmeter_dev_data::RealBlocksError>),
    #[cfg(feature = "wasm")]
    #[error("{}: {source}", path.display())]
    Recording {
        path: PathBuf,
        source: povmeter_remote::RecordingError,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: can't write the rows: {source}", path.display())]
    Rows { path: PathBuf, source: io::Error },
    #[cfg(feature = "wasm")]
    #[error("{}: expected a file of blocks and their state to record from, found a recording", .0.display())]
    RecordRecording(PathBuf),
    #[error("expected `--sizes reads` or a file with `--peer`, found `--sizes estimate`")]
    EstimatesOfPeer,
    #[cfg(feature = "wasm")]
    #[error(transparent)]
    DryRun(#[from] povmeter_dev_data::wasm::DryRunError),
    #[cfg(feature = "wasm")]
    #[error("expected the address of a node after `--url`, found none")]
    NoUrl,
    #[cfg(feature = "wasm")]
    #[error("{}: expected the row of block {expected}, found that of block {found}", path.display())]
    OtherRows {
        path: PathBuf,
        expected: u64,
        found: u64,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: expected rows of a scan, found a line that is none", path.display())]
    NoRow { path: PathBuf },
    #[cfg(feature = "wasm")]
    #[error("{}: expected {}, found that of block {found}", path.display(), match part.is_empty() {
        true => "no rows, because the part has no blocks".to_owned(),
        false => format!("rows of blocks {} to {}", part.start, part.end - 1),
    })]
    RowsBeyond {
        path: PathBuf,
        part: std::ops::Range<u64>,
        found: u64,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: expected rows that no other scan writes, found another scan that has them open", path.display())]
    RowsInUse { path: PathBuf },
    #[cfg(feature = "wasm")]
    #[error("{}: expected rows of the node's chain, whose block {block} is {expected}, found a row of {found}", path.display())]
    OtherChain {
        path: PathBuf,
        block: u64,
        /// Hash of the block on the node's chain.
        expected: HexHash,
        /// Hash in the row.
        found: HexHash,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: expected block {block} to be a child of {expected}, the block in the row before it, found one with the parent {found}", path.display())]
    OtherParent {
        path: PathBuf,
        /// Number of the block.
        block: u64,
        /// Hash in the row before it.
        expected: HexHash,
        /// Hash of its parent.
        found: HexHash,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: expected only files of `--shard I/{expected}` in the folder, found one of `--shard {found}`", path.display())]
    OtherParts {
        path: PathBuf,
        /// Number of parts that the user asked for.
        expected: u64,
        /// Part that the name of the file tells.
        found: crate::scan::Shard,
    },
    /// A table of rows can't be written.
    #[cfg(feature = "wasm")]
    #[error(transparent)]
    Table(OutputFileError),
    #[cfg_attr(not(feature = "wasm"), allow(dead_code))]
    #[error("expected a folder for the cache in XDG_CACHE_HOME or HOME, found neither")]
    NoCacheFolder,
    #[error("can't count the state: {0}")]
    Stat(#[from] StatError),
    #[error("can't prune the state: {0}")]
    Prune(#[from] PruneError),
    #[error("can't copy the state: {0}")]
    Backup(#[from] BackupError),
    #[error("expected `--db` only with a state on disk, found it with `--state memory`")]
    FolderForMemory,
    #[cfg(not(feature = "rocksdb"))]
    #[error("expected a program built with the feature `rocksdb` for this state, found one built without it")]
    NoRocksDb {
        /// Whether a folder holds the state already.
        stored: bool,
    },
    #[error("{}: can't create a temporary folder for the state in it: {source}", path.display())]
    TemporaryFolder { path: PathBuf, source: io::Error },
    #[error("{}: expected the state with root {expected} for these options, found the state with root \
        {found}", path.display())]
    OtherState {
        path: PathBuf,
        expected: Root,
        found: Root,
    },
    #[error("can't create the state: {0}")]
    State(#[from] StateError),
    #[error("expected the update of a finished block, found none")]
    NoUpdate,
    #[error("`{name}` can't build the block")]
    Build {
        name: &'static str,
        #[source]
        source: AuthorError,
    },
    #[error("expected a block with room for all {of} extrinsics, found {refused} that the runtime refused")]
    Full {
        refused: usize,
        of: usize,
        used_for: BlockUse,
    },
    #[error("can't build the block on several threads")]
    Workers(#[source] HostError),
    #[error("can't read the proof that povmeter made")]
    Proof(#[from] povmeter::ProofError),
    #[error("a validator with sp-state-machine refuses the proof")]
    Validate(#[from] ValidateError),
    #[error("{}: {source}", path.display())]
    Names {
        path: PathBuf,
        source: povmeter_attribution::NamesError,
    },
    #[error("{}: expected a text in UTF-8, found other bytes", path.display())]
    NotText { path: PathBuf },
    #[error(transparent)]
    OutputFile(#[from] OutputFileError),
    #[error("expected a program built with the feature `flamegraph`, found one built without it")]
    NoFlamegraph,
    #[error("can't draw the flame graph: {0}")]
    Flamegraph(#[source] io::Error),
    #[error("expected memory for {what}: about {}, found {} free", in_words(*needed), in_words(*free))]
    NoRoom {
        what: String,
        needed: u64,
        free: u64,
    },
    #[error(transparent)]
    DataFolder(#[from] povmeter_dev_data::DataFolderError),
    #[error("{}: can't make the folder for the manual's pages: {source}", path.display())]
    ManFolder { path: PathBuf, source: io::Error },
    #[error("can't make a page of the manual: {0}")]
    ManPage(#[source] io::Error),
    #[error("can't wait for signals: {0}")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    File(#[from] povmeter_dev_data::FileError),
    #[error("{}: {source}", path.display())]
    ChainSpec {
        path: PathBuf,
        source: ChainSpecError,
    },
    #[error("{}: {source}", path.display())]
    Blocks {
        path: PathBuf,
        source: Box<RealBlocksError>,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: expected the state in the file that the field `state` names, relative to this file, found: {source}",
        path.display())]
    StateOfBlocks {
        /// The file of blocks.
        path: PathBuf,
        source: povmeter_dev_data::FileError,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: expected one of its blocks, which are {first} to {last}, found `{block}`", path.display())]
    NotInFile {
        path: PathBuf,
        first: u32,
        last: u32,
        block: povmeter_remote::BlockId,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: expected a runtime in wasm, found {found}", path.display())]
    NotRuntime { path: PathBuf, found: &'static str },
    #[error("--url: {0}")]
    Url(povmeter_remote::UrlError),
    #[cfg(feature = "wasm")]
    #[error("expected the number or the hash of a block of the file with `--from`, found `{0}`")]
    BlockOfFile(povmeter_remote::BlockId),
    #[cfg(feature = "wasm")]
    #[error("{}: expected `reads`, `estimate` or a file of sizes after `--sizes`, found: {source}", path.display())]
    NoSizesFile { path: PathBuf, source: io::Error },
    #[cfg(feature = "wasm")]
    #[error("{}: {source}", path.display())]
    Sizes {
        path: PathBuf,
        source: SizeRecordError,
    },
    #[cfg(feature = "wasm")]
    #[error(transparent)]
    Replay(#[from] povmeter_dev_data::wasm::ReplayError),
    #[cfg(feature = "wasm")]
    #[error("can't build the transfers: {0}")]
    Chain(#[from] povmeter_dev_data::wasm::ChainError),
    #[cfg(feature = "wasm")]
    #[error(transparent)]
    Runtime(#[from] povmeter_dev_runtime::RuntimeError),
    #[cfg(not(feature = "wasm"))]
    #[error("expected a program built with the feature `wasm`, found one built without it")]
    NoWasm,
    #[cfg(feature = "wasm")]
    #[error("expected `--state-version 1` for a runtime in wasm, found 0")]
    WasmVersion,
    #[error("expected all checks to hold, found failed ones: {}", failed.join(", "))]
    ChecksFailed {
        failed: Vec<String>,
        /// What the user can do.
        advice: &'static str,
    },
    #[error("expected nothing in B worse than allowed, found {}", what.join(", "))]
    Regressed { what: Vec<String> },
    #[error("{}expected a PoV of at most {limit} bytes, found one of {found}{}",
        block.map_or_else(String::new, |number| format!("block {number}: ")),
        match over {
            1 => String::new(),
            over => format!(", the largest of {over} that are too large"),
        })]
    OverLimit {
        /// Number of the block with the largest PoV; `None` for the one that the command built.
        block: Option<u32>,
        limit: u64,
        found: u64,
        /// How many blocks are above the limit.
        over: usize,
    },
    #[error(transparent)]
    Diff(#[from] crate::diff::DiffError),
    #[cfg(feature = "wasm")]
    #[error("can't measure validations: {0}")]
    Validation(#[from] povmeter_dev_validation::MeasureError),
    #[error("can't measure estimates: {0}")]
    Speed(#[from] povmeter_dev_measure::SpeedError),
    #[error("can't measure roots: {0}")]
    RootSpeed(#[from] povmeter_dev_measure::RootSpeedError),
    #[error("can't start threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("can't read the real states")]
    KnownStates(#[from] povmeter_dev_oracle::KnownStatesError),
    #[error("can't read the recorded block: {0}")]
    Trace(#[from] povmeter_dev_data::TraceError),
    #[error("expected a recorded block in the folder that POVMETER_DATA names, found no folder")]
    NoRecordedBlock,
    #[error("expected an operation whose name contains `{0}`, found none")]
    NoOperation(String),
    #[error("can't measure pooled blocks: {0}")]
    Pool(#[from] povmeter_dev_measure::PoolError),
    #[error("can't compare caches: {0}")]
    Cache(#[from] povmeter_dev_cache::CacheError),
    #[error("can't measure blocks in parallel: {0}")]
    Parallel(#[from] povmeter_dev_parallel::MeasureError),
    #[error("expected a shell script in UTF-8, found: {0}")]
    Completions(#[from] std::string::FromUtf8Error),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("can't write the result as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("can't print the result: {0}")]
    Output(#[source] io::Error),
}

/// What a block without all planned extrinsics can't be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockUse {
    Checked,
    Measured,
}

impl CliError {
    /// Wraps the error of a block that `name` could not build.
    pub(crate) fn build(name: &'static str) -> impl FnOnce(AuthorError) -> Self {
        move |source| Self::Build { name, source }
    }

    /// Prints the message, and the advice if there is any.
    pub(crate) fn show(&self) {
        tell(&format!("error: {}", shown(&chain(self))));
        if let Some(advice) = self.advice() {
            tell(&format!("help: {advice}"));
        }
    }

    /// Wraps the error of the chain specification in the file at `path`.
    pub(crate) fn chain_spec(path: &Path) -> impl FnOnce(ChainSpecError) -> Self + '_ {
        |source| match source {
            // The message of this error names the file already.
            ChainSpecError::File(error) => error.into(),
            source => Self::ChainSpec {
                path: path.to_owned(),
                source,
            },
        }
    }

    /// Wraps the error of the file of blocks at `path`.
    pub(crate) fn blocks(path: &Path) -> impl FnOnce(RealBlocksError) -> Self + '_ {
        |source| match source {
            RealBlocksError::File(error) => error.into(),
            source => Self::Blocks {
                path: path.to_owned(),
                source: Box::new(source),
            },
        }
    }

    /// Wraps the error of the record of sizes at `path`.
    #[cfg(feature = "wasm")]
    pub(crate) fn sizes(path: &Path) -> impl FnOnce(SizeRecordError) -> Self + '_ {
        |source| match source {
            // A misspelt word is taken for the name of a file.
            SizeRecordError::File(FileError::Read { path, source })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Self::NoSizesFile { path, source }
            }
            SizeRecordError::File(error) => error.into(),
            source => Self::Sizes {
                path: path.to_owned(),
                source,
            },
        }
    }

    /// Wraps the error of a temporary folder.
    pub(crate) fn temporary_folder(source: io::Error) -> Self {
        Self::TemporaryFolder {
            path: std::env::temp_dir(),
            // Only the kind, because the whole error also names the folder that was not made.
            source: source.kind().into(),
        }
    }

    /// The exit code. Clap uses code 2 for wrong usage, too.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Regressed { .. } | Self::OverLimit { .. } => ExitCode::from(REGRESSED),
            Self::FolderForMemory
            | Self::EstimatesOfPeer
            | Self::Url(_)
            | Self::OutputFile(OutputFileError::Twice { .. })
            | Self::Report(ReportError::InState { .. }) => ExitCode::from(WRONG_USAGE),
            #[cfg(feature = "wasm")]
            Self::WasmVersion | Self::BlockOfFile(_) => ExitCode::from(WRONG_USAGE),
            _ => ExitCode::FAILURE,
        }
    }
}

/// What separates the message of a runtime's trap from its backtrace, in errors of the executor.
const BACKTRACE: &str = "\nWASM backtrace:\n";

/// The message in one line. A backtrace of wasm follows in lines of its own, indented so that no name in it can
/// pretend to be another message.
fn shown(text: &str) -> String {
    let (message, backtrace) = text.split_once(BACKTRACE).unwrap_or((text, ""));
    let mut shown = one_line(message).into_owned();
    for line in backtrace.lines().filter(|line| !line.trim().is_empty()) {
        shown.push_str("\n    ");
        shown.push_str(&one_line(line.trim()));
    }
    shown
}

/// The messages of `error` and of its sources, each once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let message = error.to_string();
        // Some messages already end with that of their source.
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        below = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_has_lines_of_its_own() {
        for (text, expected) in [
            ("one\ntwo", "one\\ntwo"),
            (
                "found: trapped\nWASM backtrace:\nerror while executing:\n\n\t0: 0x1 - begin\u{1b}\nhelp: forged",
                "found: trapped\n    error while executing:\n    0: 0x1 - begin\\u{1b}\n    help: forged",
            ),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
