//! The folder of a parity-db store: what marks it as one, and what else a path may hold.
//!
//! parity-db writes into a folder before it knows whether the folder is its own, and panics on some
//! damaged metadata. So everything is looked at here first, reading only.

use parity_db::{ColumnOptions, Options};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// File that marks a folder as a store. It is written last, when the store is complete.
const MARKER: &str = "povmeter-store";
/// What the marker file begins with; the number of the format follows, then a line end.
const MARKER_TEXT: &str = "povmeter node store, format ";
/// The format that this version reads and writes.
const FORMAT: u32 = 1;
/// Where parity-db keeps the description of its columns.
const METADATA: &str = "metadata";
/// No marker and no metadata file of a store is nearly as long.
const SMALL_FILE: u64 = 1 << 16;

/// Column of the nodes, by hash.
pub(crate) const NODES: u8 = 0;
/// Column of what is known about the state as a whole.
pub(crate) const STATE: u8 = 1;

/// What a path holds where a store was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FolderContent {
    /// Nothing: the path does not exist.
    Absent,
    /// An empty folder.
    Empty,
    /// Something that is not a folder.
    NotAFolder,
    /// A store in a format of another version.
    Format(u32),
    /// A parity-db that is not a store, with so many columns.
    ParityDb {
        /// Columns of the database.
        columns: usize,
    },
    /// A folder with this file or folder in it, and without the marker of a store.
    Other {
        /// Name of one entry of the folder.
        entry: String,
    },
    /// A whole store.
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

/// Why a store on disk was not opened or made. Nothing was written to the path, unless the database
/// itself failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path holds something else than a store.
    #[error("{}: expected a povmeter node store of format {FORMAT}, found {found}", path.display())]
    NotAStore {
        /// Where the store was looked for.
        path: PathBuf,
        /// What is there.
        found: FolderContent,
    },
    /// There is something where a new store was to be made.
    #[error("{}: expected nothing or an empty folder, found {found}", path.display())]
    Occupied {
        /// Where the store was to be made.
        path: PathBuf,
        /// What is there.
        found: FolderContent,
    },
    /// The folder is marked as a store, but the database in it is not one.
    #[error("{}: damaged node store: expected {expected}, found {found}", path.display())]
    Damaged {
        /// Folder of the store.
        path: PathBuf,
        /// What belongs to a store.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The file system did not answer.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder that was read or written.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The database could not be opened; among other reasons because it is open already.
    #[error("{}: the database could not be opened: {source}", path.display())]
    Database {
        /// Folder of the store.
        path: PathBuf,
        /// What the database said.
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

/// Options of the database in the folder `path`.
pub(crate) fn options(path: &Path) -> Options {
    let mut options = Options::with_columns(path, 2);
    // Node hashes are uniform and name their content; equal nodes are counted.
    options.columns[usize::from(NODES)] = ColumnOptions {
        uniform: true,
        preimage: true,
        ref_counted: true,
        ..ColumnOptions::default()
    };
    // Statistics would be written to a file of their own each time the database is closed.
    options.stats = false;
    options
}

/// What `path` holds, found out without writing to it.
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

/// Marks the folder `path`, whose database is complete and on disk, as a store.
pub(crate) fn mark(path: &Path) -> Result<(), OpenError> {
    let marker = path.join(MARKER);
    let write = || {
        let mut file = File::create_new(&marker)?;
        writeln!(file, "{MARKER_TEXT}{FORMAT}")?;
        file.sync_all()
    };
    write().map_err(OpenError::io(&marker))
}

/// Checks that parity-db will open the database of the marked folder `path` as it is.
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

/// Whether parity-db reads this line of its metadata without a panic: it takes the length of the
/// salt and the number of the compression for granted.
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

/// Columns that a parity-db metadata file lists; `None` if it is no such file.
fn parity_columns(metadata: &str) -> Option<usize> {
    let starts = |start: &str| {
        metadata
            .lines()
            .filter(|line| line.starts_with(start))
            .count()
    };
    (starts("version=") > 0 && starts("salt=") > 0).then(|| starts("col"))
}

/// The format that the text of a marker file names; `None` if it is no such text.
fn marked_format(text: &str) -> Option<u32> {
    text.strip_prefix(MARKER_TEXT)?.trim_end().parse().ok()
}

/// The text of a file; `None` if there is no such file, or it cannot be one of a store: not a plain
/// file, too long, or not text.
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
