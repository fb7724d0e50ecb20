//! Why a command failed, and the exit code that says so.

use crate::{blocks_file::BlocksFileError, faults::DatabaseFault};
use povmeter_node_runtime::Hash;
use std::{io, path::PathBuf, process::ExitCode, sync::Arc};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A folder or a file cannot be used.
    #[error("expected to use {path}, found: {source}")]
    Path { path: PathBuf, source: io::Error },
    /// The database cannot be opened.
    #[error("expected a database in {folder}, found: {source}")]
    OpenDatabase {
        folder: PathBuf,
        source: parity_db::Error,
    },
    /// There is no chain in a folder.
    #[error("expected a chain in {folder}, found none; `run` and `import-blocks` begin one")]
    NoChain { folder: PathBuf },
    /// The database failed while it was in use.
    #[error("{0}")]
    Database(Arc<DatabaseFault>),
    /// The client refused or failed.
    #[error("{0}")]
    Client(Box<sp_blockchain::Error>),
    /// A part of the service cannot start.
    #[error("{0}")]
    Service(Box<sc_service::Error>),
    /// The runtime refused the accounts.
    #[error("expected the storage of block 0, found: {0}")]
    Genesis(String),
    /// The chain in the folder began with another block.
    #[error("expected a chain whose block 0 is {expected:?}, as the options for its accounts and runtime say, found {found:?}; leave these options out to use the chain")]
    OtherChain { expected: Hash, found: Hash },
    /// A block that must be there is not.
    #[error("expected block {number} with its header and body, found none")]
    MissingBlock { number: u32 },
    /// A file of blocks is of no use.
    #[error("{path}: {source}")]
    BlocksFile {
        path: PathBuf,
        source: BlocksFileError,
    },
    /// A block was not imported.
    #[error("expected to import block {number} ({hash:?}), found: {reason}")]
    Import {
        number: u32,
        hash: Hash,
        reason: String,
    },
    /// A block executed again has another result.
    #[error("expected {expected:?} as the {what} of block {number}, found {found:?}")]
    Differs {
        what: &'static str,
        number: u32,
        expected: Hash,
        found: Hash,
    },
    /// A block cannot be executed again.
    #[error("expected to execute block {number} again, found: {reason}")]
    Execute { number: u32, reason: String },
    /// There are fewer blocks to execute than were asked for.
    #[error("expected to execute the latest {expected} blocks again, found {found} whose parents' states are there; `--execute all` executes as many as there are")]
    TooFewBlocks { expected: u32, found: u32 },
    /// The state of a block cannot be read.
    #[error("expected the whole state of block {number}, found: {reason}")]
    State { number: u32, reason: String },
    /// A call of the node's interface failed.
    #[error("expected a result of `{method}`, found: {reason}")]
    Rpc { method: String, reason: String },
    /// A result cannot be printed.
    #[error("expected to print the result, found: {0}")]
    Output(io::Error),
    /// The interface cannot be offered.
    #[error("expected to listen on {address}, found: {reason}")]
    Listen { address: String, reason: String },
    /// Extrinsics stay out of blocks.
    #[error("expected {expected} extrinsics in blocks within {seconds} s, found {found}")]
    NotIncluded {
        expected: u64,
        found: u64,
        seconds: u64,
    },
    /// A program that is measured failed.
    #[error("expected a measurement of {program}, found: {reason}")]
    Program { program: PathBuf, reason: String },
    /// Two programs that must make the same blocks do not.
    #[error("expected block {expected:?} of the other program, too, found {found:?}")]
    OtherBlocks { expected: Hash, found: Hash },
    /// A task that the node cannot do without has ended.
    #[error(
        "expected the node to run until it is told to stop, found that a part of it ended: {0}"
    )]
    Stopped(String),
    /// Something below an interface without errors failed.
    #[error("expected a command that ends, found that a part of the node gave up: {0}")]
    GaveUp(String),
}

impl From<sp_blockchain::Error> for Error {
    fn from(error: sp_blockchain::Error) -> Self {
        Self::Client(Box::new(error))
    }
}

impl From<sc_service::Error> for Error {
    fn from(error: sc_service::Error) -> Self {
        Self::Service(Box::new(error))
    }
}

impl Error {
    /// The exit code: 3 for a database that is missing or cannot be used, 4 for a state or block that is wrong, 5 for a
    /// file of blocks that is of no use, 1 for everything else. 2 is for wrong options.
    pub(crate) fn exit_code(&self) -> ExitCode {
        use sp_blockchain::Error as Client;
        let of_database = |error: &Client| {
            matches!(
                error,
                Client::DatabaseError(_) | Client::StateDatabase(_) | Client::Backend(_)
            )
        };
        ExitCode::from(match self {
            Self::OpenDatabase { .. } | Self::NoChain { .. } | Self::Database(_) => 3,
            Self::Client(error) if of_database(error) => 3,
            Self::Import { .. }
            | Self::Differs { .. }
            | Self::Execute { .. }
            | Self::State { .. }
            | Self::MissingBlock { .. }
            | Self::GaveUp(_) => 4,
            Self::BlocksFile { .. } => 5,
            _ => 1,
        })
    }
}
