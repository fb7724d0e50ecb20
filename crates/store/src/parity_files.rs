//! Checks the files of a parity-db before the database opens them.
//!
//! parity-db panics on some damaged metadata and on a missing table, starts empty if an index is
//! missing, and maps files into memory, where reading beyond the end of a shortened file kills the
//! process.

use crate::file_list::{check_list, ListedFile};
use crate::folder::{read_small, FolderEngine};
use crate::open_error::OpenError;
use parity_db::{ColumnOptions, Options};
use std::fs;
use std::io;
use std::path::Path;

/// Name of the file where parity-db describes its columns.
const METADATA: &str = "metadata";
/// Bytes by which parity-db extends a value table at a time.
const TABLE_STEP: u64 = 256 << 10;
/// Bytes before the entries of an index.
const INDEX_HEADER: u64 = 16 << 10;
/// Bytes of a chunk of an index, which has 2^n chunks for n bits.
const INDEX_CHUNK: u64 = 512;

/// Column of the nodes, keyed by hash.
pub(crate) const NODES: u8 = 0;
/// Column of the records about the kept states.
pub(crate) const STATE: u8 = 1;

/// parity-db as the engine of a folder.
pub(crate) struct Parity;

impl FolderEngine for Parity {
    const NAME: &'static str = "parity-db";

    fn is_file(name: &str) -> bool {
        let numbered = |start: &str| {
            let rest = name.strip_prefix(start);
            let digits = |rest: &str| {
                rest.bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b'_')
            };
            rest.is_some_and(digits)
        };
        ["table_", "index_", "refcount_", "log"]
            .into_iter()
            .any(numbered)
            || [METADATA, "lock"].contains(&name)
    }

    /// Excludes logs, which are deleted when applied, and the metadata, which are checked.
    fn is_data(name: &str) -> bool {
        name.starts_with("table_") || name.starts_with("index_")
    }

    fn check(path: &Path) -> Result<(), OpenError> {
        check_metadata(path)?;
        check_files(path)
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

/// The column and the bits of the index in the file `name`; `None` for another file.
fn index_of(name: &str) -> Option<(&str, u32)> {
    let (column, bits) = name.strip_prefix("index_")?.split_once('_')?;
    let bits = bits.parse().ok().filter(|bits| *bits < 48)?;
    Some((column, bits))
}

/// Length of the file `path`; `None` if there is none.
fn length(path: &Path) -> Result<Option<u64>, OpenError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io(path)(error)),
    }
}

/// Checks that no listed table or index in `path` is missing, and that all have possible lengths.
fn check_files(path: &Path) -> Result<(), OpenError> {
    let found = check_list::<Parity>(path, is_fine)?;
    for (name, length) in found {
        let expected = if let Some((_, bits)) = index_of(&name) {
            let whole = INDEX_HEADER + (INDEX_CHUNK << bits);
            (length != whole).then(|| format!("the file `{name}` of {whole} bytes"))
        } else if name.starts_with("table_") {
            let whole = length % TABLE_STEP == 0;
            (!whole).then(|| format!("the file `{name}` of a multiple of {TABLE_STEP} bytes"))
        } else {
            None
        };
        // The process ended when it had just made an empty file; the log has the file's content.
        if let Some(expected) = expected.filter(|_| length > 0) {
            return Err(OpenError::damaged(
                path,
                expected,
                format!("{length} bytes"),
            ));
        }
    }
    Ok(())
}

/// Whether the file is missing and was empty, or is a missing index that a larger index in `found`
/// replaces.
fn is_fine((name, bytes): &ListedFile, length: Option<u64>, found: &[ListedFile]) -> bool {
    if length.is_some() || *bytes == 0 {
        return length.is_none();
    }
    let Some((column, bits)) = index_of(name) else {
        return false;
    };
    let mut found = found.iter().filter_map(|(name, _)| index_of(name));
    found.any(|(other, more)| other == column && more > bits)
}

/// Checks that parity-db will open the database of the marked folder `path` unchanged.
fn check_metadata(path: &Path) -> Result<(), OpenError> {
    const EXPECTED: &str = "a parity-db `metadata` file with a salt and two columns: \
        nodes (uniform, preimage, reference-counted) and state";
    let damaged = |found: String| OpenError::damaged(path, EXPECTED, found);
    if length(&path.join(METADATA))?.is_none() {
        return Err(damaged("no such file".into()));
    }
    let text = read_small(&path.join(METADATA))?;
    let text = text.ok_or_else(|| damaged("a file that is not text".into()))?;
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

/// Whether parity-db reads this line of its metadata without a panic. parity-db does not check the
/// length of the salt or the number of the compression.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_replaced_by_a_larger_one_of_its_column() {
        let file = |name: &str| (name.to_owned(), 5);
        let without = |found: &[&str]| {
            let found: Vec<_> = found.iter().map(|name| file(name)).collect();
            is_fine(&file("index_00_16"), None, &found)
        };
        assert!(without(&["index_01_17", "index_00_17"]));
        for found in [
            &[][..],
            &["index_00_15"],
            &["index_00_16"],
            &["index_01_17"],
        ] {
            assert!(!without(found), "{found:?}");
        }
        // One that has another length is damaged all the same.
        assert!(!is_fine(
            &file("index_00_16"),
            Some(4),
            &[file("index_00_17")]
        ));
        assert!(is_fine(&("table_00_00".to_owned(), 0), None, &[]));
        assert!(!is_fine(&file("table_00_00"), None, &[file("table_00_01")]));
    }
}
