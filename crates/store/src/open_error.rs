//! Why a store on disk was not opened or made.

use crate::folder::FORMAT;
use crate::store::record_text;
use crate::StoreError;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// What a path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FolderContent {
    /// Nothing: the path does not exist.
    Absent,
    /// An empty folder.
    Empty,
    /// Something that is not a folder.
    NotAFolder,
    /// A store in a format that this version does not read.
    Format(u32),
    /// A store of another engine.
    OtherEngine {
        /// Name of the engine.
        engine: String,
    },
    /// A store that was never complete, because its making was interrupted. Making a store there
    /// removes the remains.
    Unfinished,
    /// A parity-db that is not a store.
    ParityDb {
        /// Number of columns of the database.
        columns: usize,
    },
    /// A RocksDB that is not a store.
    RocksDb,
    /// A folder that is not empty and has no marker of a store.
    Other {
        /// Name of one file or folder in it.
        entry: String,
    },
    /// A complete store.
    Store,
}

impl FolderContent {
    /// Whether a store can be made at the path.
    pub fn is_free(&self) -> bool {
        matches!(self, Self::Absent | Self::Empty | Self::Unfinished)
    }
}

impl fmt::Display for FolderContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("nothing"),
            Self::Empty => f.write_str("an empty folder"),
            Self::NotAFolder => f.write_str("something that is not a folder"),
            Self::Format(format) => write!(f, "a povmeter node store of format {format}"),
            Self::OtherEngine { engine } => write!(f, "a povmeter node store on {engine}"),
            Self::Unfinished => f.write_str("a povmeter node store whose making was interrupted"),
            Self::ParityDb { columns } => write!(f, "a parity-db with {columns} columns"),
            Self::RocksDb => f.write_str("a RocksDB that is no povmeter node store"),
            Self::Other { entry } => write!(f, "a folder that holds `{entry}`"),
            Self::Store => write!(f, "a povmeter node store of format {FORMAT}"),
        }
    }
}

/// Why a store on disk was not made with what it should hold from the beginning. There is no store at the path then,
/// unless it was there before.
#[derive(Debug, thiserror::Error)]
pub enum FillError<E> {
    /// The store was not made.
    #[error(transparent)]
    Open(OpenError),
    /// What it should hold was not written.
    #[error(transparent)]
    Fill(E),
}

/// Why a store on disk was not opened or made. Nothing was written to a path with foreign content. A
/// failure of the disk or the database may leave an unfinished store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path holds something other than a store. Name another folder. If nothing or an empty folder was found,
    /// `create` or `open_or_create` makes a store there.
    #[error("{}: expected a povmeter node store of format {FORMAT}, found {found}", path.display())]
    NotAStore {
        /// Path that was to be opened.
        path: PathBuf,
        /// What the path holds.
        found: FolderContent,
    },
    /// The path for a new store is taken. Name another folder.
    #[error("{}: expected nothing or an empty folder, found {found}", path.display())]
    Occupied {
        /// Path for the new store.
        path: PathBuf,
        /// What the path holds.
        found: FolderContent,
    },
    /// The folder is marked as a store, but its database is not that of a store: a file, or a record about
    /// the kept states, is missing, too short or not what it should be. Put the file back, restore the store from a backup, or make
    /// it again.
    #[error("{}: damaged node store: expected {expected}, found {found}", path.display())]
    Damaged {
        /// Folder of the store.
        path: PathBuf,
        /// The part that a store must have.
        expected: String,
        /// What was found in its place.
        found: String,
    },
    /// Another process, or another part of this one, has the store open or is making it. Wait until it
    /// is done. A store that was just closed can be in use for a moment longer if another thread has started a
    /// child process, because the child has a copy of the lock until it executes its program.
    #[error("{}: expected a store that nobody has open, found it in use", path.display())]
    InUse {
        /// Folder of the store.
        path: PathBuf,
    },
    /// The folder or a file in it can not be written. Databases write even when they are only read.
    #[error("{}: expected a folder that can be written: {source}", path.display())]
    ReadOnly {
        /// Folder or file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The disk is nearly full. Free space.
    #[error("{available} bytes are free on the disk of {}, a new store needs {needed}", path.display())]
    DiskFull {
        /// Folder for the store.
        path: PathBuf,
        /// Free bytes.
        available: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder that was read or written.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The database could not be opened.
    #[error("{}: the database could not be opened: {source}", path.display())]
    Database {
        /// Folder of the store.
        path: PathBuf,
        /// Error of the database.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl OpenError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    Self::ReadOnly { path, source }
                }
                _ => Self::Io { path, source },
            }
        }
    }

    pub(crate) fn damaged(
        path: &Path,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn database(path: &Path, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Database {
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// The error for records about the kept states that could not be read.
    pub(crate) fn records(path: &Path, error: StoreError) -> Self {
        match error {
            StoreError::DamagedRecord { key, bytes } => {
                Self::damaged(path, format!("the record `{key}`"), record_text(bytes))
            }
            error => Self::database(path, error),
        }
    }
}
