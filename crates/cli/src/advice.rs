//! What to do about an error: the line below it.

use crate::{diff::DiffError, error::CliError, report::ReportError};
#[cfg(feature = "wasm")]
use povmeter_dev_data::wasm::ReplayError;
use povmeter_dev_data::{ChainSpecError, FileError, RealBlocksError};
use povmeter_dev_runtime::{PlanError, StateError};
use povmeter_store::OpenError;

const BUG: &str = "this should not be; please report it, with the command and its whole output";
const MAKE_STORE: &str = "name a folder that is not there yet, and the state is made in it";
const SPEC: &str =
    "a raw chain specification is what a node prints with `build-spec --raw`; a plain \
    state is `{\"top\": {\"0xKEY\": \"0xVALUE\"}, \"childrenDefault\": {}}`";
const BLOCKS: &str = "what such a file holds is in docs/integration.md, under Checking";
const RESULT: &str =
    "make one with `povmeter block --json > FILE`, or another command with `--json`";

#[cfg(feature = "wasm")]
const SIZES: &str =
    "the proof size is part of the block's result on such a chain: `--sizes` takes what its author told \
     the runtime, which is `reads` for a stock node, `estimate` for one with povmeter, or a record";

/// Whether another answer to the runtime's questions may lead to another result.
#[cfg(feature = "wasm")]
fn asked_for_sizes(error: &ReplayError) -> bool {
    matches!(
        error,
        ReplayError::Runtime { asked: Some(_), .. } | ReplayError::Header { asked: Some(_), .. }
    )
}

impl CliError {
    /// What the user can do. None where the error says it, or nobody knows.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Plan(PlanError::TooFewAccounts { .. }) => "ask for more with `--accounts`",
            Self::Plan(PlanError::TooManyTransfers { .. }) => {
                "ask for more `--accounts`, or for fewer `--transfers`"
            }
            Self::Open(error) => of_store(error)?,
            Self::FolderForMemory => "leave `--db` away, or use `--state parity-db`",
            Self::TemporaryFolder(_) => {
                "make room there, name another place in TMPDIR, or use `--db` or `--state memory`"
            }
            Self::OtherState { .. } => {
                "name another folder with `--db`, or use the options that this state was made with"
            }
            Self::State(StateError::Root { .. }) => {
                "try the other `--state-version`, and see whether the file is the right one"
            }
            Self::Build { .. } => {
                "if the state lies in a folder, it may be damaged: name another one with `--db`, and it \
                 is made anew; else please report it"
            }
            Self::ChecksFailed { .. } => {
                "povmeter and sp-state-machine do not agree, see the lines with FAILED above; please \
                 report it, with the command"
            }
            Self::Proof(_) | Self::Validate(_) | Self::Completions(_) | Self::Json(_) => BUG,
            Self::WriteFile { .. } => "name a file in a folder that is there",
            Self::Names { .. } => "what a line can be is told in docs/attribution.md",
            Self::File(FileError::Read { .. }) => "see whether the file is there, and can be read",
            Self::File(FileError::Gzip { .. }) => "the file is damaged or cut off; fetch it anew",
            Self::ChainSpec { source, .. } => of_spec(source)?,
            Self::Blocks { source, .. } => of_blocks(source)?,
            Self::NoRecordedBlock | Self::Trace(_) => {
                "POVMETER_DATA names the folder that has traces/transfers-544.trace.gz in it"
            }
            Self::KnownStates(_) => {
                "POVMETER_DATA names the folder that has genesis-roots.json, chain-specs and blocks in it; \
                 without a folder real states are left out"
            }
            Self::NoOperation(_) => "leave `--only` away to see the names of all",
            Self::Diff(error) => of_diff(error)?,
            Self::Report(error) => of_report(error),
            #[cfg(not(feature = "wasm"))]
            Self::NoWasm => {
                "build it anew: cargo build --release -p povmeter-cli --features wasm"
            }
            #[cfg(feature = "wasm")]
            Self::WasmVersion => "leave `--state-version` away, or use `--runtime native`",
            #[cfg(feature = "wasm")]
            Self::Sizes { .. } => "make one with `povmeter replay BLOCKS.json --write-sizes FILE`",
            #[cfg(feature = "wasm")]
            Self::Replay(error) if asked_for_sizes(error) => SIZES,
            #[cfg(feature = "wasm")]
            Self::Replay(ReplayError::NoSizes { .. } | ReplayError::NoEstimates) => SIZES,
            #[cfg(feature = "wasm")]
            Self::Replay(_) => {
                "see whether the state of the file is the one before its first block, and `state_version` \
                 is that of the chain; with `--peer` sp-state-machine executes it alone"
            }
            #[cfg(feature = "wasm")]
            Self::Chain(_) => {
                "the runtime must be a relay chain's of today, with metadata of version 14, as Paseo's is"
            }
            _ => return None,
        })
    }
}

fn of_report(error: &ReportError) -> &'static str {
    match error {
        ReportError::NotAFolder(_) | ReportError::Folder { .. } => {
            "name another folder with `--report`; it is made if nothing is there"
        }
        ReportError::NotOurs(_) => "move the file away, or name another folder with `--report`",
        ReportError::File { .. } => "see whether the file can be written, and there is room",
    }
}

fn of_store(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::NotAStore { .. } | OpenError::Occupied { .. } => Some(MAKE_STORE),
        OpenError::Damaged { .. } => {
            Some("name another folder with `--db`, or remove this one: the state is made anew")
        }
        OpenError::Database { .. } | OpenError::Io { .. } => {
            Some("see whether the folder can be read and written, and no other program has it open")
        }
        _ => None,
    }
}

fn of_spec(error: &ChainSpecError) -> Option<&'static str> {
    match error {
        ChainSpecError::File(_) => Some("see whether the file is there, and can be read"),
        ChainSpecError::NotJson(_)
        | ChainSpecError::Shape(_)
        | ChainSpecError::NoGenesis
        | ChainSpecError::NoTop
        | ChainSpecError::NotRaw { .. } => Some(SPEC),
        _ => None,
    }
}

fn of_blocks(error: &RealBlocksError) -> Option<&'static str> {
    match error {
        RealBlocksError::File(_) => Some("see whether the file is there, and can be read"),
        _ => Some(BLOCKS),
    }
}

fn of_diff(error: &DiffError) -> Option<&'static str> {
    Some(match error {
        DiffError::File(_) => "see whether the file is there, and can be read",
        DiffError::NotJson { .. } | DiffError::NotOurs { .. } => RESULT,
        DiffError::CutOff { .. } => {
            "the file was cut off, or nothing was written to it; make it anew"
        }
        DiffError::Schema { .. } => {
            "make it anew with this program, or compare with the one that made it"
        }
        DiffError::Field { .. } => "the file was changed since povmeter made it; make it anew",
        DiffError::DifferentCommands { .. } => {
            "`--allow-different` compares what they have in common"
        }
        DiffError::DifferentOptions { .. } => {
            "make one of them anew, or compare them all the same with `--allow-different`"
        }
    })
}
