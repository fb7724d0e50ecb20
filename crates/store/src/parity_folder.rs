//! The folder of a parity-db store: its marker, and what else a path may hold.
//!
//! parity-db writes into a folder before it knows whether the folder is its own, and panics on some
//! damaged metadata. So this module inspects the folder first, without writing.

use parity_db::{ColumnOptions, Options};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the file that marks a folder as a store. It is written last, when the store is complete.
const MARKER: &str = "povmeter-store";
/// Start of the marker file; the format number follows, then a line end.
const MARKER_TEXT: &str = "povmeter node store, format ";
/// The format that this version reads and writes.
const FORMAT: u32 = 1;
/// Name of the file where parity-db describes its columns.
const METADATA: &str = "metadata";
/// Limit in bytes for reading a marker or metadata file; those of a store are much shorter.
const SMALL_FILE: u64 = 1 << 16;

/// Column of the nodes, keyed by hash.
pub(crate) const NODES: u8 = 0;
/// Column for facts about the whole state.
pub(crate) const STATE: u8 = 1;

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
    /// A parity-db that is not a store.
    ParityDb {
        /// Number of columns of the database.
        columns: usize,
    },
    /// A folder that is not empty and has no marker of a store.
    Other {
        /// Name of one file or folder in it.
        entry: String,
    },
    /// A complete store.
    Store,
}

impl fmt::Display for FolderContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("nothing"),
            Self::Empty => f.write_str("an empty folder"),
            Self::NotAFolder => f.write_str("something that is not a folder"),
            Self::Format(format) => write!(f, "a povmeter node store of format {format}"),
            Self::ParityDb { columns } => write!(f, "a parity-db with {columns} columns"),
            Self::Other { entry } => write!(f, "a folder that holds `{entry}`"),
            Self::Store => write!(f, "a povmeter node store of format {FORMAT}"),
        }
    }
}

/// Why a store on disk was not opened or made. Nothing was written to the path, except if the
/// database itself failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path holds something other than a store.
    #[error("{}: expected a povmeter node store of format {FORMAT}, found {found}", path.display())]
    NotAStore {
        /// Path that was to be opened.
        path: PathBuf,
        /// What the path holds.
        found: FolderContent,
    },
    /// The path for a new store is taken.
    #[error("{}: expected nothing or an empty folder, found {found}", path.display())]
    Occupied {
        /// Path for the new store.
        path: PathBuf,
        /// What the path holds.
        found: FolderContent,
    },
    /// The folder is marked as a store, but its database is not that of a store.
    #[error("{}: damaged node store: expected {expected}, found {found}", path.display())]
    Damaged {
        /// Folder of the store.
        path: PathBuf,
        /// The part that a store must have.
        expected: &'static str,
        /// What was found in its place.
        found: String,
    },
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder that was read or written.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The database could not be opened, for example because it is already open.
    #[error("{}: the database could not be opened: {source}", path.display())]
    Database {
        /// Folder of the store.
        path: PathBuf,
        /// Error of the database.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl OpenError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, expected: &'static str, found: String) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            expected,
            found,
        }
    }

    pub(crate) fn database(path: &Path, source: parity_db::Error) -> Self {
        Self::Database {
            path: path.to_owned(),
            source: Box::new(source),
        }
    }
}

/// The parity-db options for the folder `path`.
pub(crate) fn options(path: &Path) -> Options {
    let mut options = Options::with_columns(path, 2);
    // Keys are hashes: uniform, and equal keys have equal values. Equal nodes are counted.
    options.columns[usize::from(NODES)] = ColumnOptions {
        uniform: true,
        preimage: true,
        ref_counted: true,
        ..ColumnOptions::default()
    };
    // With statistics the database would write an extra file each time it is closed.
    options.stats = false;
    options
}

/// Returns what `path` holds, without writing to it.
pub(crate) fn inspect(path: &Path) -> Result<FolderContent, OpenError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FolderContent::Absent),
        Err(error) => return Err(OpenError::io(path)(error)),
        Ok(metadata) if !metadata.is_dir() => return Ok(FolderContent::NotAFolder),
        Ok(_) => {}
    }
    match read_small(&path.join(MARKER))?
        .as_deref()
        .and_then(marked_format)
    {
        Some(FORMAT) => return check_database(path).map(|()| FolderContent::Store),
        Some(format) => return Ok(FolderContent::Format(format)),
        None => {}
    }
    if let Some(columns) = read_small(&path.join(METADATA))?
        .as_deref()
        .and_then(parity_columns)
    {
        return Ok(FolderContent::ParityDb { columns });
    }
    let mut entries = fs::read_dir(path).map_err(OpenError::io(path))?;
    match entries.next() {
        None => Ok(FolderContent::Empty),
        Some(entry) => {
            let name = entry.map_err(OpenError::io(path))?.file_name();
            Ok(FolderContent::Other {
                entry: name.to_string_lossy().into_owned(),
            })
        }
    }
}

/// Marks the folder `path` as a store. Its database must be complete and on disk.
pub(crate) fn mark(path: &Path) -> Result<(), OpenError> {
    let marker = path.join(MARKER);
    let write = || {
        let mut file = File::create_new(&marker)?;
        writeln!(file, "{MARKER_TEXT}{FORMAT}")?;
        file.sync_all()
    };
    write().map_err(OpenError::io(&marker))
}

/// Checks that parity-db will open the database of the marked folder `path` unchanged.
fn check_database(path: &Path) -> Result<(), OpenError> {
    const EXPECTED: &str = "a parity-db `metadata` file with a salt and two columns: \
        nodes (uniform, preimage, reference-counted) and state";
    let damaged = |found: String| OpenError::damaged(path, EXPECTED, found);
    let text = read_small(&path.join(METADATA))?.ok_or_else(|| damaged("no such file".into()))?;
    if let Some(line) = text.lines().find(|line| !loads(line)) {
        return Err(damaged(format!("the line `{line}`")));
    }
    let found = Options::load_metadata(path)
        .map_err(|error| OpenError::database(path, error))?
        .ok_or_else(|| damaged("no such file".into()))?
        .columns;
    let expected = options(path).columns;
    if found.len() != expected.len() {
        return Err(damaged(format!("{} columns", found.len())));
    }
    match (0..)
        .zip(found.iter().zip(&expected))
        .find(|(_, (found, expected))| found != expected)
    {
        Some((column, (found, _))) => Err(damaged(format!("column {column} with {found:?}"))),
        None => Ok(()),
    }
}

/// Whether parity-db reads this line of its metadata without a panic. It does not check the length
/// of the salt or the number of the compression.
fn loads(line: &str) -> bool {
    let Some((key, value)) = line.split_once('=') else {
        return false;
    };
    if key == "salt" {
        return value.len() == 64 && value.bytes().all(|digit| digit.is_ascii_hexdigit());
    }
    let mut options = value
        .split(", ")
        .filter_map(|option| option.split_once(": "));
    !options.any(|(name, value)| name == "compression" && !matches!(value, "0" | "1" | "2"))
}

/// Number of columns in the text of a parity-db metadata file; `None` for any other text.
fn parity_columns(metadata: &str) -> Option<usize> {
    let starts = |start: &str| {
        metadata
            .lines()
            .filter(|line| line.starts_with(start))
            .count()
    };
    (starts("version=") > 0 && starts("salt=") > 0).then(|| starts("col"))
}

/// Format number in the text of a marker file; `None` for any other text.
fn marked_format(text: &str) -> Option<u32> {
    text.strip_prefix(MARKER_TEXT)?.trim_end().parse().ok()
}

/// Reads the text of a file. Returns `None` if it is absent or cannot belong to a store, because it
/// is not a plain file, too long, or not text.
fn read_small(path: &Path) -> Result<Option<String>, OpenError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(path)(error)),
        Ok(metadata) if !metadata.is_file() || metadata.len() > SMALL_FILE => return Ok(None),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(OpenError::io(path))?;
    file.take(SMALL_FILE)
        .read_to_end(&mut bytes)
        .map_err(OpenError::io(path))?;
    Ok(String::from_utf8(bytes).ok())
}
