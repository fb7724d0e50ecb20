//! Why a command did not do what it was asked for.

use povmeter::Root;
use povmeter_dev_data::ChainSpecError;
use povmeter_dev_runtime::{AuthorError, PlanError, StateError, ValidateError};
use povmeter_store::OpenError;
use std::{error::Error, io, path::PathBuf, process::ExitCode};

/// What the program ends with if a result is worse than allowed.
const REGRESSED: u8 = 3;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    #[error("there is no such block: {0}")]
    Plan(#[from] PlanError),
    #[error("the state can't be opened: {0}")]
    Open(#[from] OpenError),
    #[error("expected `--db` only with `--state parity-db`, found it with `--state memory`")]
    FolderForMemory,
    #[error("no temporary folder for the state: {0}")]
    TemporaryFolder(#[source] io::Error),
    #[error("{}: expected the state with root {expected}, which these options make, found the \
        state with root {found}", path.display())]
    OtherState {
        path: PathBuf,
        expected: Root,
        found: Root,
    },
    #[error("the state can't be made: {0}")]
    State(#[from] StateError),
    #[error("`{name}` can't build the block")]
    Build {
        name: &'static str,
        #[source]
        source: AuthorError,
    },
    #[error("the proof that was made is none")]
    Proof(#[from] povmeter::ProofError),
    #[error("a validator with sp-state-machine refuses the proof")]
    Validate(#[from] ValidateError),
    #[error("{}: {source}", path.display())]
    Names {
        path: PathBuf,
        source: povmeter_attribution::NamesError,
    },
    #[error("{}: can't be written: {source}", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
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
        source: Box<povmeter_dev_data::RealBlocksError>,
    },
    #[cfg(feature = "wasm")]
    #[error("{}: {source}", path.display())]
    Sizes {
        path: PathBuf,
        source: povmeter_dev_data::wasm::SizeRecordError,
    },
    #[cfg(feature = "wasm")]
    #[error(transparent)]
    Replay(#[from] povmeter_dev_data::wasm::ReplayError),
    #[cfg(feature = "wasm")]
    #[error("there is no such block: {0}")]
    Chain(#[from] povmeter_dev_data::wasm::ChainError),
    #[cfg(feature = "wasm")]
    #[error(transparent)]
    Runtime(#[from] povmeter_dev_runtime::RuntimeError),
    #[cfg(not(feature = "wasm"))]
    #[error("expected a program that runs wasm, found one built without it")]
    NoWasm,
    #[cfg(feature = "wasm")]
    #[error("expected `--state-version 1` with `--runtime wasm`, found 0")]
    WasmVersion,
    #[error("expected all checks to hold, found {failed:?} not to")]
    ChecksFailed {
        failed: Vec<&'static str>,
        report: String,
    },
    #[error("expected nothing worse than allowed, found {}", what.join(", "))]
    Regressed { what: Vec<String>, report: String },
    #[error(transparent)]
    Diff(#[from] crate::diff::DiffError),
    #[error("estimates can't be measured: {0}")]
    Speed(#[from] povmeter_dev_measure::SpeedError),
    #[error("roots can't be measured: {0}")]
    RootSpeed(#[from] povmeter_dev_measure::RootSpeedError),
    #[error("threads can't be had: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("the real states can't be read")]
    KnownStates(#[from] povmeter_dev_oracle::KnownStatesError),
    #[error("the recorded block can't be read: {0}")]
    Trace(#[from] povmeter_dev_data::TraceError),
    #[error("expected a recorded block in the folder that POVMETER_DATA names, found no folder")]
    NoRecordedBlock,
    #[error("expected an operation whose name contains `{0}`, found none")]
    NoOperation(String),
    #[error("pooled blocks can't be measured: {0}")]
    Pool(#[from] povmeter_dev_measure::PoolError),
    #[error("the script for the shell is no text: {0}")]
    Completions(#[from] std::string::FromUtf8Error),
    #[error(transparent)]
    Report(#[from] crate::report::ReportError),
    #[error("the result can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the result can't be printed: {0}")]
    Output(#[source] io::Error),
}

impl CliError {
    /// The error for a block that could not be built by what is called `name`.
    pub(crate) fn build(name: &'static str) -> impl FnOnce(AuthorError) -> Self {
        move |source| Self::Build { name, source }
    }

    /// The report of a command that came to its end, and did not like what it found.
    pub(crate) fn report(&self) -> Option<&str> {
        match self {
            Self::ChecksFailed { report, .. } | Self::Regressed { report, .. } => Some(report),
            _ => None,
        }
    }

    /// What the program ends with. Code 2 is for options that can't be understood.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Regressed { .. } => ExitCode::from(REGRESSED),
            _ => ExitCode::FAILURE,
        }
    }
}

/// What `error` and the errors below it say, each once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let message = error.to_string();
        // Some messages quote the one below.
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        below = error.source();
    }
    text
}
