//! The folder of a scan: the names of its files, and the number of parts that they are of.

use crate::{error::CliError, scan::Shard};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What the rows of a file are of.
pub(crate) const KINDS: [&str; 2] = ["blocks", "items"];

/// The path of the JSON lines of `shard` in `folder`.
pub(crate) fn rows_path(folder: &Path, kind: &str, shard: Shard) -> PathBuf {
    let Shard { index, of } = shard;
    folder.join(format!("{kind}-{index}-of-{of}.jsonl"))
}

/// Checks that `folder` has no files of another number of parts than `shard`, because a query of all files would
/// count their blocks twice. A folder that does not exist has none.
///
/// # Errors
/// [`CliError::OtherParts`] for the first such file in the order of names; [`CliError::Rows`] if the folder can't be
/// read.
pub(crate) fn expect_parts(folder: &Path, shard: Shard) -> Result<(), CliError> {
    let failed = |source| CliError::Rows {
        path: folder.to_owned(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    let mut other: Option<(PathBuf, Shard)> = None;
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let found = shard_of(&path).filter(|found| found.of != shard.of);
        // The order of the entries differs from one file system to the next.
        if let Some(found) = found.filter(|_| other.as_ref().is_none_or(|(least, _)| path < *least))
        {
            other = Some((path, found));
        }
    }
    match other {
        None => Ok(()),
        Some((path, found)) => Err(CliError::OtherParts {
            path,
            expected: shard.of,
            found,
        }),
    }
}

/// The part that the name of a file of rows tells; `None` for any other file.
fn shard_of(path: &Path) -> Option<Shard> {
    let ending = path.extension()?;
    if ending != "jsonl" && ending != "parquet" {
        return None;
    }
    let (kind, part) = path.file_stem()?.to_str()?.split_once('-')?;
    let (index, of) = part.split_once("-of-")?;
    KINDS.contains(&kind).then_some(())?;
    format!("{index}/{of}").parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_number_of_parts_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let expect = |of| expect_parts(path, Shard { index: 1, of });
        assert!(expect_parts(&path.join("missing"), Shard { index: 1, of: 2 }).is_ok());
        for name in [
            "blocks-1-of-2.jsonl",
            "blocks-2-of-2.parquet",
            "items-2-of-2.jsonl",
            // No files of a scan.
            "blocks-1-of-4.csv",
            "blocks-5-of-4.jsonl",
            "blocks-1-of-many.jsonl",
            "notes-1-of-4.jsonl",
            "blocks.jsonl",
        ] {
            fs::write(path.join(name), "").unwrap();
        }
        expect(2).unwrap();
        let is_first = |error: CliError, name: &str, shard: Shard| {
            matches!(
                error,
                CliError::OtherParts { path, expected: 4, found } if path.ends_with(name) && found == shard
            )
        };
        let error = expect(4).unwrap_err();
        assert!(is_first(
            error,
            "blocks-1-of-2.jsonl",
            Shard { index: 1, of: 2 }
        ));
        fs::write(path.join("blocks-1-of-1.parquet"), "").unwrap();
        let error = expect(4).unwrap_err();
        assert!(is_first(
            error,
            "blocks-1-of-1.parquet",
            Shard { index: 1, of: 1 }
        ));
    }
}
