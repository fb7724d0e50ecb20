//! The folder of a store on disk: its marker, and what else a path may hold.
//!
//! Databases write into a folder before they know whether it holds their files. So this module
//! inspects the folder first, without writing. A new folder gets its marker before anything else, so
//! that a half-made store is recognized and made again:
//!
//! ```text
//! povmeter node store, format 3
//! engine parity-db
//! state being made            then, when all is on disk: state complete
//! ```
//! A marker of format 1 is the first line alone. Its store has one state and no journals. In format 2, the records about
//! the states have no checksums.

use crate::file_list::{FILE_LIST, NEW_FILE_LIST};
use crate::open_error::{FolderContent, OpenError};
use crate::StoreError;
use fs4::fs_std::FileExt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the file that marks a folder as a store.
pub(crate) const MARKER: &str = "povmeter-store";
/// Name under which a marker is written before it replaces the earlier one.
pub(crate) const NEW_MARKER: &str = "povmeter-store.new";
/// Name under which the marker of a complete store is written before it replaces that of the store's making.
pub(crate) const COMPLETE_MARKER: &str = "povmeter-store.complete";
/// Start of the marker file; the format number follows, then a line end.
const MARKER_TEXT: &str = "povmeter node store, format ";
/// The format that this version writes.
pub(crate) const FORMAT: u32 = 3;
/// Limit in bytes for reading a marker or a similar file; those of a store are much shorter.
const SMALL_FILE: u64 = 1 << 20;
/// Bytes that stay free on the disk, because databases write in the background, and some fail badly
/// on a full disk.
pub(crate) const DISK_RESERVE: u64 = 64 << 20;

/// A database that keeps its files in the folder of a store.
pub(crate) trait FolderEngine {
    /// Name of the engine in the marker.
    const NAME: &'static str;

    /// Whether the database makes files of this name.
    fn is_file(name: &str) -> bool;

    /// Whether the file of this name holds data, which would be lost with the file.
    fn is_data(name: &str) -> bool;

    /// Checks, without writing, that the database in the complete folder `path` can be opened.
    fn check(path: &Path) -> Result<(), OpenError>;
}

/// What a marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker<'a> {
    /// Format 1, which only parity-db had.
    First,
    /// A later format that this version reads.
    Later {
        format: u32,
        engine: &'a str,
        complete: bool,
    },
    /// Another format.
    Other(u32),
}

/// A complete store, found by [`inspect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Format of the marker.
    pub(crate) format: u32,
}

/// Returns what `path` holds, without writing to it; `Ok` for a complete store of the engine `E`.
pub(crate) fn inspect<E: FolderEngine>(
    path: &Path,
) -> Result<Result<Found, FolderContent>, OpenError> {
    let marker = path.join(MARKER);
    let is_marked = marker.exists();
    let found = inspect_once::<E>(path)?;
    // Another process may have begun a store meanwhile.
    match is_marked == marker.exists() {
        true => Ok(found),
        false => inspect_once::<E>(path),
    }
}

fn inspect_once<E: FolderEngine>(path: &Path) -> Result<Result<Found, FolderContent>, OpenError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Err(FolderContent::Absent));
        }
        Err(error) => return Err(OpenError::io(path)(error)),
        Ok(metadata) if !metadata.is_dir() => return Ok(Err(FolderContent::NotAFolder)),
        Ok(_) => {}
    }
    let marker = read_small(&path.join(MARKER))?;
    match marker.as_deref().and_then(read_marker) {
        Some(Marker::First) if E::NAME != "parity-db" => {
            let engine = "parity-db".to_owned();
            return Ok(Err(FolderContent::OtherEngine { engine }));
        }
        Some(Marker::First) => {
            check::<E>(path)?;
            return Ok(Ok(Found { format: 1 }));
        }
        Some(Marker::Later { engine, .. }) if engine != E::NAME => {
            let engine = engine.to_owned();
            return Ok(Err(FolderContent::OtherEngine { engine }));
        }
        Some(Marker::Later {
            format,
            complete: true,
            ..
        }) => {
            check::<E>(path)?;
            return Ok(Ok(Found { format }));
        }
        Some(Marker::Later { .. }) => {
            return Ok(Err(match foreign_entry::<E>(path)? {
                Some(entry) => FolderContent::Other { entry },
                None => FolderContent::Unfinished,
            }));
        }
        Some(Marker::Other(format)) => return Ok(Err(FolderContent::Format(format))),
        None => {}
    }
    without_marker(path).map(Err)
}

/// Checks the files of a store. Those of an open one may change at any time, so that it looks damaged.
fn check<E: FolderEngine>(path: &Path) -> Result<(), OpenError> {
    E::check(path).or_else(|damaged| match hold(path) {
        Err(in_use @ OpenError::InUse { .. }) => Err(in_use),
        // Whoever had it open may have changed files between two looks.
        Ok(_held) => E::check(path),
        Err(_) => Err(damaged),
    })
}

/// Returns what the folder `path`, which has no marker, holds.
fn without_marker(path: &Path) -> Result<FolderContent, OpenError> {
    if let Some(columns) = read_small(&path.join("metadata"))?
        .as_deref()
        .and_then(parity_columns)
    {
        return Ok(FolderContent::ParityDb { columns });
    }
    let current = read_small(&path.join("CURRENT"))?;
    if current.is_some_and(|text| text.starts_with("MANIFEST-")) {
        return Ok(FolderContent::RocksDb);
    }
    let names = names(path)?;
    let Some(name) = names.first() else {
        return Ok(FolderContent::Empty);
    };
    // Only the beginning of a marker was made.
    if names == [NEW_MARKER] {
        let begun = read_small(&path.join(NEW_MARKER))?;
        if begun.is_some_and(|text| MARKER_TEXT.starts_with(&text) || text.starts_with(MARKER_TEXT))
        {
            return Ok(FolderContent::Unfinished);
        }
    }
    Ok(FolderContent::Other {
        entry: name.clone(),
    })
}

/// An entry of the folder that neither the engine nor this module makes.
fn foreign_entry<E: FolderEngine>(path: &Path) -> Result<Option<String>, OpenError> {
    let ours = |name: &str| {
        let markers = [MARKER, NEW_MARKER, COMPLETE_MARKER];
        let lists = [FILE_LIST, NEW_FILE_LIST];
        markers.contains(&name) || lists.contains(&name) || E::is_file(name)
    };
    Ok(names(path)?.into_iter().find(|name| !ours(name)))
}

/// The names in the folder `path`, sorted.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, OpenError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(OpenError::io(path))? {
        let name = entry.map_err(OpenError::io(path))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The error of opening a path that holds something else.
pub(crate) fn not_a_store(path: &Path, found: FolderContent) -> OpenError {
    OpenError::NotAStore {
        path: path.to_owned(),
        found,
    }
}

/// The error of making a store at a path that holds something else.
pub(crate) fn occupied(path: &Path, found: FolderContent) -> OpenError {
    OpenError::Occupied {
        path: path.to_owned(),
        found,
    }
}

/// Locks the complete store in the folder `path` until the returned file is closed.
pub(crate) fn hold(path: &Path) -> Result<File, OpenError> {
    let marker = path.join(MARKER);
    let file = open_to_lock(&marker).map_err(OpenError::io(&marker))?;
    lock_named(&file, path)?;
    Ok(file)
}

/// Opens a marker to lock it. For writing too, because network file systems lock no other files.
pub(crate) fn open_to_lock(marker: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(marker)
}

/// Locks the marker of the folder `path`, and checks that another process has not replaced it since it was opened.
pub(crate) fn lock_named(marker: &File, path: &Path) -> Result<(), OpenError> {
    lock(marker, path)?;
    let named = path.join(MARKER);
    match is_at(marker, &named) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::InUse {
            path: path.to_owned(),
        }),
        Err(error) => Err(OpenError::io(&named)(error)),
    }
}

/// Whether `file` is the file at `path` now.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let opened = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((opened.dev(), opened.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns `true`, because a file that is open can not be replaced on this system.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Locks the marker of the folder `path`.
pub(crate) fn lock(marker: &File, path: &Path) -> Result<(), OpenError> {
    match marker.try_lock_exclusive() {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::InUse {
            path: path.to_owned(),
        }),
        Err(error) => Err(OpenError::io(path)(error)),
    }
}

/// The text of the marker of a store of the engine `engine`.
pub(crate) fn marker_text(engine: &str, complete: bool) -> String {
    let state = if complete { "complete" } else { "being made" };
    format!("{MARKER_TEXT}{FORMAT}\nengine {engine}\nstate {state}\n")
}

/// Replaces the file `name` in the folder `path` as a whole or not at all.
pub(crate) fn replace_file(path: &Path, name: &str, text: &str) -> Result<(), OpenError> {
    let temporary = path.join(format!("{name}.new"));
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path.join(name))?;
        sync_folder(path)
    };
    write().map_err(|error| {
        // If this fails too, the first error is enough.
        let _ = fs::remove_file(&temporary);
        OpenError::io(&temporary)(error)
    })
}

/// Writes the names in the folder `path` to the disk.
#[cfg(unix)]
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Does nothing, because folders can not be opened on this system.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Free bytes on the disk of the folder `path`.
pub(crate) fn available(path: &Path) -> Result<u64, OpenError> {
    fs4::available_space(path).map_err(OpenError::io(path))
}

/// Checks that the disk has room for a commit of `bytes`: once in the log, once in the tables.
///
/// parity-db maps its tables into memory. If the disk is full when such memory is written, the system
/// kills the process, so the reserve must be free before. RocksDB stops with an error, which the
/// reserve mostly prevents.
pub(crate) fn check_space(path: &Path, bytes: usize) -> Result<(), StoreError> {
    let needed = DISK_RESERVE + 2 * u64::try_from(bytes).unwrap_or(u64::MAX / 4);
    match available(path) {
        Ok(available) if available < needed => Err(StoreError::DiskFull {
            path: path.to_owned(),
            available,
            needed,
        }),
        // If the free space is unknown, the database finds out whether it is enough.
        _ => Ok(()),
    }
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

/// What the text of a marker file says; `None` for any other text.
fn read_marker(text: &str) -> Option<Marker<'_>> {
    let mut lines = text.strip_prefix(MARKER_TEXT)?.lines();
    match lines.next()?.trim_end().parse().ok()? {
        1 => Some(Marker::First),
        format @ 2..=FORMAT => {
            let engine = lines.next()?.strip_prefix("engine ")?;
            let complete = match lines.next()? {
                "state complete" => true,
                "state being made" => false,
                _ => return None,
            };
            Some(Marker::Later {
                format,
                engine,
                complete,
            })
        }
        format => Some(Marker::Other(format)),
    }
}

/// Reads the text of a file. Returns `None` if it is absent or cannot belong to a store, because it
/// is not a plain file, too long, or not text.
pub(crate) fn read_small(path: &Path) -> Result<Option<String>, OpenError> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match fs::metadata(path) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
        Err(error) => return Err(OpenError::io(path)(error)),
        Ok(metadata) if !metadata.is_file() || metadata.len() > SMALL_FILE => return Ok(None),
        Ok(_) => {}
    }
    let file = match File::open(path) {
        // Another process has renamed or removed it.
        Err(error) if error.kind() == NotFound => return Ok(None),
        opened => opened.map_err(OpenError::io(path))?,
    };
    let mut bytes = Vec::new();
    file.take(SMALL_FILE)
        .read_to_end(&mut bytes)
        .map_err(OpenError::io(path))?;
    Ok(String::from_utf8(bytes).ok())
}

/// Returns the engine of the store in the folder `path`, complete or not; `None` if the folder holds
/// no store of a format that this version knows.
///
/// # Errors
/// [`OpenError::ReadOnly`] if access to the marker is denied, [`OpenError::Io`] if reading it failed.
pub fn engine_of(path: impl AsRef<Path>) -> Result<Option<String>, OpenError> {
    let marker: PathBuf = path.as_ref().join(MARKER);
    let text = read_small(&marker)?;
    Ok(text
        .as_deref()
        .and_then(read_marker)
        .and_then(|marker| match marker {
            Marker::First => Some("parity-db".to_owned()),
            Marker::Later { engine, .. } => Some(engine.to_owned()),
            Marker::Other(_) => None,
        }))
}
