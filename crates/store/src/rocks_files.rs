//! Checks the files of a RocksDB before the database opens them.
//!
//! RocksDB lists its tables with their lengths in a manifest. But it takes a truncated manifest for a whole one,
//! deletes the tables that are no longer listed, and does not notice a missing log. It looks at a few of the tables
//! when it opens, so the store looks at all of them right after.

use crate::file_list::{check_list, ListedFile};
use crate::folder::{read_small, FolderEngine};
use crate::open_error::OpenError;
use crate::rocks_logs::check_log;
use rocksdb::{
    BlockBasedOptions, DBCompressionType, DBRecoveryMode, Options, DEFAULT_COLUMN_FAMILY_NAME,
};
use std::path::Path;

/// Name of the file that names the manifest.
const CURRENT: &str = "CURRENT";
/// Start of the name of a manifest; a number follows.
const MANIFEST: &str = "MANIFEST-";
/// End of the name of a table; a number comes before.
pub(crate) const TABLE: &str = ".sst";
/// Tables that are open at a time, below the usual limit of 1024 files for a process.
const OPEN_FILES: i32 = 512;
/// The most bytes of writes that only the log has, before they go to a table. The database allocates a
/// little more for the next log, so both fit into the space that must be free for a commit.
const LOG_BYTES: usize = 16 << 20;
/// Bits of a Bloom filter for each key: 1 % of the look-ups of an absent node read a table.
const FILTER_BITS: f64 = 10.0;
/// The database's own reports, in files `LOG`: the most files, and the most bytes of one.
const INFO_FILES: usize = 4;
const INFO_BYTES: usize = 1 << 20;

/// The one column family: keys of 32 bytes are hashes of nodes, shorter ones are keys of records.
pub(crate) const FAMILY: &str = DEFAULT_COLUMN_FAMILY_NAME;

/// RocksDB as the engine of a folder.
pub(crate) struct Rocks;

impl FolderEngine for Rocks {
    const NAME: &'static str = "rocksdb";

    fn is_file(name: &str) -> bool {
        let numbered = |start: &str| name.strip_prefix(start).is_some_and(is_number);
        let options = name.strip_prefix("OPTIONS-");
        let options = options.map(|rest| rest.strip_suffix(".dbtmp").unwrap_or(rest));
        Self::is_data(name)
            || numbered("LOG.old.")
            || options.is_some_and(is_number)
            || name.strip_suffix(".dbtmp").is_some_and(is_number)
            || [CURRENT, "IDENTITY", "LOCK", "LOG"].contains(&name)
    }

    fn is_data(name: &str) -> bool {
        let table = name.strip_suffix(TABLE).is_some_and(is_number);
        let manifest = name.strip_prefix(MANIFEST).is_some_and(is_number);
        table || manifest || log_number(name).is_some()
    }

    fn check(path: &Path) -> Result<(), OpenError> {
        let found = check_list::<Self>(path, is_fine)?;
        check_current(path, &found)?;
        let read_as_logs = |name: &str| name.starts_with(MANIFEST) || log_number(name).is_some();
        let mut logs = found.iter().filter(|(name, _)| read_as_logs(name));
        logs.try_for_each(|(name, _)| check_log(path, name))
    }
}

/// The options of a database, which is made if it is `new`.
pub(crate) fn options(new: bool) -> Options {
    let mut tables = BlockBasedOptions::default();
    tables.set_bloom_filter(FILTER_BITS, false);
    let mut options = Options::default();
    options.set_block_based_table_factory(&tables);
    options.create_if_missing(new);
    options.set_error_if_exists(new);
    // Most bytes of a node are hashes, which do not compress.
    options.set_compression_type(DBCompressionType::None);
    // A log may end anywhere after a crash, also within blocks that the system had not written yet. The
    // part before them is whole.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_max_open_files(OPEN_FILES);
    options.set_write_buffer_size(LOG_BYTES);
    options.set_keep_log_file_num(INFO_FILES);
    options.set_max_log_file_size(INFO_BYTES);
    options
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number of the log `name`; `None` for another file. Logs have rising numbers.
fn log_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    is_number(digits).then(|| digits.parse().ok())?
}

/// Whether a missing or shorter file is no damage, or damage that is detected without the list.
fn is_fine((name, _): &ListedFile, length: Option<u64>, found: &[ListedFile]) -> bool {
    match (log_number(name), length) {
        // Detected, because the manifest names the tables, and `CURRENT` the manifest.
        (None, None) => true,
        (None, Some(_)) => false,
        // The database deletes a log when its writes are in tables. Then there is a newer log. A log that
        // was empty when it was listed may have grown, so it must not be missing either.
        (Some(number), None) => {
            let mut logs = found.iter().filter_map(|(name, _)| log_number(name));
            logs.any(|other| other > number)
        }
        // A log may be shorter, because the database cuts off a write that failed. It replays a log up to
        // the first write that is not whole.
        (Some(_), Some(_)) => true,
    }
}

/// Checks that `CURRENT` in the folder `path` names a manifest, which is one of the files `found`.
fn check_current(path: &Path, found: &[ListedFile]) -> Result<(), OpenError> {
    let text = read_small(&path.join(CURRENT))?;
    let manifest = text.as_deref().and_then(|text| text.strip_suffix('\n'));
    let manifest = manifest.filter(|name| name.strip_prefix(MANIFEST).is_some_and(is_number));
    let Some(manifest) = manifest else {
        const EXPECTED: &str = "a file `CURRENT` that names a manifest";
        let text = text.map_or("no such text".to_owned(), |text| {
            format!("the text {text:?}")
        });
        return Err(OpenError::damaged(path, EXPECTED, text));
    };
    if found
        .iter()
        .any(|(name, bytes)| name == manifest && *bytes > 0)
    {
        return Ok(());
    }
    let expected = format!("the file `{manifest}`, which `{CURRENT}` names");
    Err(OpenError::damaged(
        path,
        expected,
        "no such file, or an empty one",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        for data in ["000012.sst", "000004.log", "MANIFEST-000005", "1234567.sst"] {
            assert!(Rocks::is_data(data) && Rocks::is_file(data), "{data}");
        }
        for other in [
            "CURRENT",
            "LOCK",
            "LOG",
            "LOG.old.1700000000000000",
            "IDENTITY",
        ] {
            assert!(Rocks::is_file(other) && !Rocks::is_data(other), "{other}");
        }
        for other in ["OPTIONS-000007", "OPTIONS-000009.dbtmp", "000001.dbtmp"] {
            assert!(Rocks::is_file(other) && !Rocks::is_data(other), "{other}");
        }
        for foreign in [
            "letter.txt",
            "a.sst",
            ".sst",
            "my.log",
            "MANIFEST",
            "OPTIONS-",
            "lock",
        ] {
            assert!(!Rocks::is_file(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_log_is_replaced_by_a_newer_one() {
        let found = [("000009.log".to_owned(), 0), ("000012.sst".to_owned(), 5)];
        assert!(is_fine(&("000008.log".to_owned(), 7), None, &found));
        assert!(!is_fine(&("000009.log".to_owned(), 0), None, &[]));
        assert!(!is_fine(&("000010.log".to_owned(), 0), None, &found));
    }
}
