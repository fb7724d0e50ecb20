//! Advice on errors: the `help:` line below the message.

use crate::{
    diff::DiffError,
    error::{BlockUse, CliError},
    output_file::OutputFileError,
    report::ReportError,
};
#[cfg(feature = "wasm")]
use povmeter_dev_data::wasm::{ChainError, DryRunError, RefusedExtrinsic, ReplayError};
use povmeter_dev_data::{ChainSpecError, FileError, RealBlocksError};
#[cfg(feature = "wasm")]
use povmeter_dev_runtime::HostError;
use povmeter_dev_runtime::{PlanError, StateError};
#[cfg(feature = "wasm")]
use povmeter_dev_validation::{MeasureError, RandomError};
#[cfg(feature = "wasm")]
use povmeter_remote::{NotRecorded, RecordingError};
use povmeter_remote::{RemoteError, UrlError};
use povmeter_store::{BackupError, FolderContent, OpenError, PruneError, StatError, StoreError};
#[cfg(feature = "wasm")]
use povmeter_substrate::MachineError;
#[cfg(feature = "wasm")]
use std::error::Error;
use std::io;

pub(crate) const BUG: &str = "report this bug with the command and its whole output";
/// For failed checks of results that are compared with those of sp-state-machine.
pub(crate) const DISAGREE: &str =
    "report the command and its output, because povmeter and sp-state-machine disagree";
/// For a store on disk.
pub(crate) const RESTORE: &str =
    "restore a backup, or remove the folder so that the state is created again: docs/stores.md";
const MAKE_STORE: &str =
    "name a folder that does not exist yet, so that the state is created in it";
const FREE: &str = "free space on the disk, or name a folder on another one";
const FREE_OUTPUT: &str =
    "free space where standard output goes; the result is on standard error above";
const VERIFY: &str = "run `povmeter db verify PATH`, which lists what is wrong with the state";
const SPEC: &str =
    "pass a raw chain specification, as a node prints it with `build-spec --raw`, or a plain \
    state, such as `{\"top\": {\"0xKEY\": \"0xVALUE\"}, \"childrenDefault\": {}}`";
const BLOCKS: &str = "see docs/integration.md, under Checking, for the fields of such a file";
const AGAIN: &str = "make the file again, because it is empty or was cut off";
const RESULT: &str =
    "make one with `povmeter block --json > FILE`, or with `chain`, `replay`, `genesis` or `compare`; those of \
     other commands can't be compared";

#[cfg(feature = "wasm")]
const RUNTIME: &str =
    "check that the file is a runtime: wasm, or compressed as `*.compact.compressed.wasm`";
#[cfg(feature = "wasm")]
const SIZES: &str =
    "pass to `--sizes` what the block's author told the runtime (`reads` for a stock node, `estimate` \
     for one with povmeter, or a record), because the block's result depends on it";

/// Whether the runtime asked for the proof size. Then another answer may change the block's result.
#[cfg(feature = "wasm")]
fn asked_for_sizes(error: &ReplayError) -> bool {
    matches!(
        error,
        ReplayError::Runtime { asked: Some(_), .. } | ReplayError::Header { asked: Some(_), .. }
    )
}

/// Whether a record has more or fewer sizes than the runtime asked for.
#[cfg(feature = "wasm")]
fn other_count_of_sizes(error: &ReplayError) -> bool {
    let ReplayError::Host { source, .. } = error else {
        return false;
    };
    let source = match source {
        HostError::State(source) => source.downcast_ref(),
        _ => None,
    };
    matches!(source, Some(MachineError::Replay(_)))
}

/// Whether `address` is that of a web server.
fn is_http(address: &str) -> bool {
    address.starts_with("http://") || address.starts_with("https://")
}

impl CliError {
    /// What the user can do; `None` if the message says it, or no remedy is known.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Plan(PlanError::TooFewAccounts { .. }) => "raise `--accounts`",
            Self::Plan(PlanError::TooManyTransfers { .. }) => {
                "raise `--accounts` or lower `--transfers`"
            }
            Self::TooManyInChain { .. } => {
                "raise `--accounts`, or lower `--blocks` or `--transfers`, because each account is emptied once"
            }
            #[cfg(feature = "wasm")]
            Self::Validation(MeasureError::Blocks(RandomError::Plan(
                PlanError::TooManyTransfers { .. },
            ))) => "raise `--accounts` and `--usual-accounts`, or lower `--transfers`",
            Self::Open(error) => of_store(error)?,
            Self::OpenStored(OpenError::NotAStore { found, .. })
                if !matches!(found, FolderContent::Unfinished) =>
            {
                "name the folder of a state that `povmeter block --db PATH` or `povmeter chain --db PATH` made"
            }
            Self::OpenStored(error) => of_store(error)?,
            Self::Store(error)
            | Self::Stat(StatError::Store(error))
            | Self::Prune(PruneError::Store(error))
            | Self::Backup(BackupError::Store(error)) => of_database(error)?,
            Self::Stat(StatError::Node { .. }) => VERIFY,
            Self::Prune(PruneError::NoSuchRoot { .. }) => "`povmeter db stat PATH` lists the roots",
            Self::Backup(BackupError::Open(OpenError::Occupied { .. })) => {
                "name a folder that does not exist yet for the copy"
            }
            Self::Backup(BackupError::Open(error)) => of_store(error)?,
            Self::Backup(BackupError::Inside { .. }) => {
                "name a folder beside that of the state, or on another disk"
            }
            Self::Full { used_for: BlockUse::Checked, .. } => {
                "lower `--transfers`, because a block that leaves extrinsics out can't be checked"
            }
            Self::Full { used_for: BlockUse::Measured, .. } => {
                "lower `--transfers`, because only a block with all extrinsics is measured"
            }
            Self::FolderForMemory => "omit `--db` or use `--state parity-db`",
            Self::EstimatesOfPeer => "omit one of them, because sp-state-machine makes no estimates",
            #[cfg(not(feature = "rocksdb"))]
            Self::NoRocksDb { stored: true } => {
                "install the program with `--features rocksdb`, or name another folder for a state on parity-db"
            }
            #[cfg(not(feature = "rocksdb"))]
            Self::NoRocksDb { stored: false } => {
                "install the program with `--features rocksdb`, or use `--state parity-db`"
            }
            Self::TemporaryFolder { .. } => {
                "free space there, name another folder in TMPDIR, or use `--db` or `--state memory`"
            }
            Self::OtherState { .. } => {
                "name another folder with `--db` or use the options that this state was created with"
            }
            Self::State(StateError::Root { .. }) => {
                "try the other `--state-version` or check that the file is the right one"
            }
            Self::State(StateError::Store(error)) => of_database(error)?,
            Self::Build { .. } => {
                "name another folder with `--db`, because the state in this one may be damaged, or \
                 report the error if the state is in no folder"
            }
            Self::ChecksFailed { advice, .. } => advice,
            Self::Proof(_) | Self::Validate(_) | Self::Completions(_) | Self::Json(_) => BUG,
            Self::OutputFile(error) => of_output_file(error),
            Self::ManFolder { .. } => "name a folder that can be made or written to",
            Self::NoFlamegraph => {
                "use `--folded` and a flame graph program, or build the program with default features"
            }
            Self::NotText { .. } => "save the file as UTF-8 text",
            Self::NoRoom { .. } => {
                "lower the numbers, stop other programs, or use a machine with more memory"
            }
            Self::DataFolder(_) => {
                "name the folder of the real chain data in POVMETER_DATA, or unset it"
            }
            Self::Output(_) => FREE_OUTPUT,
            Self::Names { .. } => "see docs/attribution.md for the form of a line",
            Self::File(error) => of_file(error)?,
            Self::ChainSpec { source, .. } => of_spec(source)?,
            Self::Blocks { source, .. } => of_blocks(source)?,
            #[cfg(feature = "wasm")]
            Self::StateOfBlocks { source: FileError::Read { .. }, .. } => {
                "put the state there, or correct the field"
            }
            #[cfg(feature = "wasm")]
            Self::StateOfBlocks { source, .. } => of_file(source)?,
            #[cfg(feature = "wasm")]
            Self::NotInFile { .. } => "name one of these blocks with `--block`",
            #[cfg(feature = "wasm")]
            Self::NotRuntime { .. } => RUNTIME,
            Self::NoRecordedBlock | Self::Trace(_) => {
                "set POVMETER_DATA to the folder that contains traces/transfers-544.trace.gz"
            }
            Self::KnownStates(_) => {
                "set POVMETER_DATA to the folder that contains genesis-roots.json, chain-specs and \
                 blocks; without a folder real states are skipped"
            }
            Self::Remote(error) => of_remote(error)?,
            Self::Url(UrlError::User(_)) => {
                "leave them out; a key can be in the path, as in `wss://HOST/KEY`"
            }
            Self::Url(error) if is_http(error.found()) => {
                "write `ws` in place of `http`, because a node answers both at the same port"
            }
            Self::NoCacheFolder => "name a folder with `--cache`",
            #[cfg(feature = "wasm")]
            Self::Recording { source, .. } => of_recording(source)?,
            #[cfg(feature = "wasm")]
            Self::RecordRecording(_) => "name a file of blocks, or replay the recording as it is",
            #[cfg(feature = "wasm")]
            Self::DryRun(error) => of_dry_run(error)?,
            #[cfg(feature = "wasm")]
            Self::Rows { .. } => "name a folder that can be written, and run it again to go on",
            #[cfg(feature = "wasm")]
            Self::OtherRows { .. } | Self::RowsBeyond { .. } => "name another folder, or repeat the range and part of its files",
            #[cfg(feature = "wasm")]
            Self::NoRow { .. } => {
                "name another folder; or if a scan wrote this file, remove both files of this part, to scan it again"
            }
            #[cfg(feature = "wasm")]
            Self::RowsInUse { .. } => "wait until the other scan is done, or name another folder",
            #[cfg(feature = "wasm")]
            Self::OtherChain { .. } => {
                "name another folder, or a node of the chain that the rows are from; if the chain was \
                 reorganized, remove the files of this part and scan it again"
            }
            #[cfg(feature = "wasm")]
            Self::OtherParent { .. } => {
                "the chain was reorganized: run it again, which scans the abandoned blocks again"
            }
            #[cfg(feature = "wasm")]
            Self::OtherParts { .. } => {
                "name another folder, because a query of all files in one folder would count blocks twice"
            }
            #[cfg(feature = "wasm")]
            Self::Table(OutputFileError::Folder { .. } | OutputFileError::NotOurs { .. }) => {
                "move it away, or name another folder"
            }
            #[cfg(feature = "wasm")]
            Self::Table(error) => of_output_file(error),
            Self::NoOperation(_) => "omit `--only` to see all names",
            Self::Diff(error) => of_diff(error)?,
            Self::Report(error) => of_report(error),
            #[cfg(not(feature = "wasm"))]
            Self::NoWasm => {
                "build the program with `cargo build --release -p povmeter-cli --features wasm`"
            }
            #[cfg(feature = "wasm")]
            Self::WasmVersion => "omit `--state-version` or use `--runtime native`",
            #[cfg(feature = "wasm")]
            Self::NoSizesFile { .. } => "correct the word, or check that the file exists",
            #[cfg(feature = "wasm")]
            Self::Sizes { .. } => "make a record with `povmeter replay BLOCKS.json --write-sizes FILE`",
            #[cfg(feature = "wasm")]
            Self::Replay(error) if asked_for_sizes(error) || other_count_of_sizes(error) => SIZES,
            #[cfg(feature = "wasm")]
            Self::Replay(ReplayError::NoSizes { .. } | ReplayError::NoEstimates) => SIZES,
            #[cfg(feature = "wasm")]
            Self::Replay(error) if lacks_node(error) => RECORDING,
            #[cfg(feature = "wasm")]
            Self::Replay(_) => {
                "in a file of blocks, check that its state is the one before its first block and that `state_version` \
                 is the chain's; `povmeter replay --peer` tells whether sp-state-machine alone executes the block"
            }
            #[cfg(feature = "wasm")]
            Self::Chain(error) => of_chain(error),
            _ => return None,
        })
    }
}

fn of_remote(error: &RemoteError) -> Option<&'static str> {
    Some(match error {
        RemoteError::Connect { .. } => {
            "check the address, and that the node runs and allows such connections (`--rpc-external`)"
        }
        RemoteError::NoTls { .. } => {
            "build the program with `--features wasm,tls`, or use an address with ws://"
        }
        RemoteError::NoHandshake { .. }
        | RemoteError::TimedOut { .. }
        | RemoteError::Broken { .. } => {
            "run it again, which goes on from the cache, or set another time-out with `--rpc timeout=120`"
        }
        RemoteError::Limited { .. } => {
            "run it again later, which goes on from the cache, or ask less with `--rpc in-flight=1`"
        }
        RemoteError::TooLarge { .. } => "ask a node that allows larger answers (`--rpc-max-response-size`)",
        RemoteError::NoState { .. } => {
            "ask a node that keeps the states of all blocks (`--state-pruning archive`)"
        }
        RemoteError::BeyondBest { .. } => "ask for blocks up to the best one, or wait until the chain has this block",
        RemoteError::Cache(_) => "name another folder with `--cache`",
        _ => return None,
    })
}

fn of_file(error: &FileError) -> Option<&'static str> {
    Some(match error {
        FileError::Read { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
            "name a file in this folder"
        }
        FileError::Read { .. } => "check that the file exists and can be read",
        FileError::Gzip { .. } => "fetch the file again: it is damaged or cut off",
        FileError::Utf16 { .. } => {
            "convert the file to UTF-8; PowerShell writes UTF-16 with `>`, and UTF-8 with \
             `| Out-File -Encoding utf8`"
        }
        FileError::TooLarge { .. } => {
            "check that this is the right file, because none of this kind is so large"
        }
        _ => return None,
    })
}

#[cfg(feature = "wasm")]
fn of_recording(error: &RecordingError) -> Option<&'static str> {
    Some(match error {
        RecordingError::File(_) => "check that the file and its folder can be read and written",
        RecordingError::Foreign => {
            "make one with `povmeter record`, which also takes a file of blocks with `--from`"
        }
        RecordingError::Version { .. } => "record the block again with this program",
        _ => "record the block again, or fetch the file again",
    })
}

#[cfg(feature = "wasm")]
fn of_chain(error: &ChainError) -> &'static str {
    match error {
        ChainError::Refused(RefusedExtrinsic::Full { .. }) => "lower `--transfers`",
        ChainError::Refused(_) => {
            "use the specification of another relay chain, as Paseo's, because this one's runtime or genesis does not \
             allow transfers"
        }
        _ => "use the specification of a relay chain of today with metadata of version 14, as Paseo's",
    }
}

#[cfg(feature = "wasm")]
const RECORDING: &str =
    "a recording holds only the nodes that its own block reads: use `--url` and a node, which has all of the state";

/// Whether a recording lacks a node.
#[cfg(feature = "wasm")]
fn lacks_node(error: &(dyn Error + 'static)) -> bool {
    error.is::<NotRecorded>() || error.source().is_some_and(lacks_node)
}

#[cfg(feature = "wasm")]
fn of_dry_run(error: &DryRunError) -> Option<&'static str> {
    Some(match error {
        _ if lacks_node(error) => RECORDING,
        DryRunError::Runtime { part, .. } if *part == DryRunError::NEW_CODE => RUNTIME,
        DryRunError::Runtime { .. } => {
            "check that the extrinsic was made for this runtime; one that it can't decode can make it fail"
        }
        DryRunError::Refused { .. } => "sign it for this block's state: nonce, era and genesis hash count",
        DryRunError::Full { .. } => "split it, because its weight or length is above the block's limit",
        DryRunError::NotHigher { .. } => "raise `spec_version` of the new runtime",
        _ => return None,
    })
}

fn of_output_file(error: &OutputFileError) -> &'static str {
    match error {
        OutputFileError::Folder { .. } => "name a file in this folder",
        OutputFileError::NotOurs { .. } => "move the file away or name another one",
        OutputFileError::Twice { .. } => "name another file for one of them",
        OutputFileError::Write { source, .. } => match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                "name a file in a folder that exists"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FREE,
            io::ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
            _ => "name a file that can be written",
        },
    }
}

fn of_report(error: &ReportError) -> &'static str {
    match error {
        ReportError::NotAFolder(_) | ReportError::Folder { .. } => {
            "name another folder with `--report`; it is created if it does not exist"
        }
        ReportError::InState { .. } => "name a folder beside that of the state with `--report`",
        ReportError::NotOurs(_) => "move the file away or name another folder with `--report`",
        ReportError::File { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FREE,
            io::ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
            _ => "check that the file can be written",
        },
    }
}

fn of_store(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::NotAStore { found, .. } | OpenError::Occupied { found, .. } => match found {
            FolderContent::Unfinished => {
                Some("remove the folder, because its state was never complete")
            }
            _ => Some(MAKE_STORE),
        },
        OpenError::Damaged { .. } => Some(
            "put the file back, restore a copy, or remove the folder so that the state is created again",
        ),
        OpenError::InUse { .. } => Some("stop the other program, or wait until it is done"),
        OpenError::ReadOnly { .. } => Some("make the folder and its files writable"),
        OpenError::DiskFull { .. } => Some(FREE),
        OpenError::Database { .. } | OpenError::Io { .. } => {
            Some("check that the folder can be read and written and no other program has it open")
        }
        _ => None,
    }
}

fn of_database(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::DiskFull { .. } => Some(FREE),
        StoreError::DamagedRecord { .. } => {
            Some("restore a copy, or remove the folder so that the state is created again")
        }
        StoreError::Database { .. }
        | StoreError::DamagedNode { .. }
        | StoreError::MissingReferences { .. } => Some(VERIFY),
        _ => None,
    }
}

fn of_spec(error: &ChainSpecError) -> Option<&'static str> {
    match error {
        ChainSpecError::File(error) => of_file(error),
        ChainSpecError::NotJson(error) if error.is_eof() => Some(AGAIN),
        ChainSpecError::NotJson(_)
        | ChainSpecError::Shape(_)
        | ChainSpecError::NoGenesis
        | ChainSpecError::NoTop
        | ChainSpecError::NotRaw { .. } => Some(SPEC),
        ChainSpecError::Hex { .. }
        | ChainSpecError::RepeatedKey { .. }
        | ChainSpecError::NoChild { .. } => {
            Some("correct this entry, or make the file again with the program that wrote it")
        }
        _ => None,
    }
}

fn of_blocks(error: &RealBlocksError) -> Option<&'static str> {
    match error {
        RealBlocksError::File(error) => of_file(error),
        RealBlocksError::Json(error) if error.is_eof() => Some(AGAIN),
        _ => Some(BLOCKS),
    }
}

fn of_diff(error: &DiffError) -> Option<&'static str> {
    Some(match error {
        DiffError::File(FileError::TooLarge { .. }) => {
            "check that this is the right file; if it is, make one of fewer blocks, because larger ones can't be compared"
        }
        DiffError::File(error) => return of_file(error),
        DiffError::NotJson { .. } | DiffError::NotOurs { .. } => RESULT,
        DiffError::CutOff { .. } => AGAIN,
        DiffError::Schema { .. } => {
            "make the result again with this program, or compare with the program that made it"
        }
        DiffError::Field { .. } => {
            "make the file again, because it was changed since povmeter made it"
        }
        DiffError::NothingToJudge { .. } => "compare results of one command, or omit the limits",
        DiffError::Value(_) => BUG,
        DiffError::DifferentCommands { .. } => {
            "use `--allow-different` to compare what they have in common"
        }
        DiffError::DifferentOptions { .. } => {
            "make one of them again with the other's options, or use `--allow-different`"
        }
    })
}
