//! Rows of a scan, in files of JSON lines, and in Parquet when the scan is complete.
//!
//! ```text
//! for each block, in order: append the rows of its items, then the row of the block
//! open existing files: lock the file of blocks, because another scan may write to it
//!     the last whole row in the file of blocks belongs to the last finished block
//!     cut off the rows of later blocks in both files
//! end without a row, but for a part without blocks: remove the files and the folder that the scan made
//! ```

use crate::{
    error::CliError,
    output::HexHash,
    scan::Shard,
    scan_parquet::{Columns, BLOCKS, ITEMS},
    scratch::{EmptyFile, EmptyFolder},
};
use fs4::fs_std::FileExt;
use povmeter_attribution::{Bytes, Item};
use povmeter_dev_data::wasm::ReplayedBlock;
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    ops::Range,
    path::{Path, PathBuf},
};

/// A block. Sizes are bytes.
#[derive(Serialize)]
pub(crate) struct BlockRow {
    block: u64,
    hash: HexHash,
    state_root: HexHash,
    timestamp_ms: Option<u64>,
    extrinsics: usize,
    recorded: u64,
    encoded: u64,
    compact: u64,
    nodes: u64,
    pov: u64,
    pov_compressed: u64,
    estimate_after_last: Option<u64>,
    whole_ms: f64,
    steps_ms: f64,
    reads: u64,
    writes: u64,
    failed: Vec<&'static str>,
}

impl BlockRow {
    pub(crate) fn new(block: &ReplayedBlock, timestamp_ms: Option<u64>) -> Self {
        let failed = block.checks.iter().filter(|check| !check.holds);
        Self {
            block: block.number.into(),
            hash: block.hash.into(),
            state_root: block.state_root.into(),
            timestamp_ms,
            extrinsics: block.extrinsics,
            recorded: block.sizes.recorded,
            encoded: block.sizes.encoded,
            compact: block.sizes.compact,
            nodes: block.sizes.nodes,
            pov: block.pov.total(),
            pov_compressed: block.pov.compressed,
            estimate_after_last: block.estimate.map(|estimate| estimate.total()),
            whole_ms: block.times.whole.cpu.as_secs_f64() * 1e3,
            steps_ms: block.times.steps.cpu.as_secs_f64() * 1e3,
            reads: block.calls.reads,
            writes: block.calls.writes,
            failed: failed.map(|check| check.name).collect(),
        }
    }
}

/// The bytes of the proof of a block that are needed for a storage item.
#[derive(Serialize)]
pub(crate) struct ScanItemRow {
    block: u64,
    timestamp_ms: Option<u64>,
    pallet: String,
    item: Option<String>,
    bytes: u64,
    nodes: u64,
    read: u64,
    root: u64,
    sibling: u64,
    value: u64,
    shared: u64,
}

impl ScanItemRow {
    pub(crate) fn new(block: u64, timestamp_ms: Option<u64>, item: &Item, bytes: &Bytes) -> Self {
        let mut names = item.frames().map(str::to_owned);
        Self {
            block,
            timestamp_ms,
            pallet: names.next().unwrap_or_default(),
            item: names.next(),
            bytes: bytes.bytes,
            nodes: bytes.nodes,
            read: bytes.read,
            root: bytes.root,
            sibling: bytes.sibling,
            value: bytes.value,
            shared: bytes.shared,
        }
    }
}

/// The files of a part of a scan.
pub(crate) struct Rows {
    // Declared before the files, so that these are removed while the lock is held.
    made: Vec<EmptyFile>,
    blocks: RowFile,
    items: RowFile,
    // Declared after the files, because a folder with files can't be removed.
    _folder: Option<EmptyFolder>,
    next: u64,
    found: FoundBlocks,
}

struct RowFile {
    path: PathBuf,
    file: File,
    /// Whether this run made it.
    is_new: bool,
}

/// The part of an item's row that is read again.
#[derive(Deserialize)]
struct NumberedRow {
    block: u64,
}

/// The part of a block's row that is read again.
#[derive(Deserialize)]
struct FoundRow {
    block: u64,
    hash: HexHash,
    failed: Vec<String>,
}

/// The rows of blocks that an earlier run left.
#[derive(Default)]
struct FoundBlocks {
    /// Number and hash of the last block.
    last: Option<(u64, HexHash)>,
    /// Blocks for which a check failed.
    failed: Vec<u64>,
}

impl Rows {
    /// Opens the files of `shard` in `folder`, or creates them. Removes what an interrupted run left half
    /// done. The file of blocks stays locked until the result is dropped, which removes what was created and is
    /// still empty.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be used; [`CliError::RowsInUse`] if another scan has it open;
    /// [`CliError::OtherRows`] or [`CliError::RowsBeyond`] if it is of another part.
    pub(crate) fn open(folder: &Path, shard: Shard, part: &Range<u64>) -> Result<Self, CliError> {
        let made_folder = match folder.is_dir() {
            true => None,
            false => Some(EmptyFolder::new(folder).map_err(failed(folder))?),
        };
        let Shard { index, of } = shard;
        let path = |kind: &str| folder.join(format!("{kind}-{index}-of-{of}.jsonl"));
        let blocks = RowFile::open(path("blocks"))?;
        blocks.lock()?;
        let mut made = Vec::new();
        made.extend(blocks.is_new.then(|| EmptyFile::new(&blocks.path)));
        let items = RowFile::open(path("items"))?;
        if items.is_new {
            // Removed before the file of blocks, whose lock keeps other scans from this one.
            made.insert(0, EmptyFile::new(&items.path));
        }
        let mut rows = Self {
            made,
            blocks,
            items,
            _folder: made_folder,
            next: part.start,
            found: FoundBlocks::default(),
        };
        rows.found = rows.blocks.find_blocks(part)?;
        if let Some((last, _)) = rows.found.last {
            rows.next = last + 1;
        }
        rows.items.cut_items(rows.next, part)?;
        Ok(rows)
    }

    /// Number and hash of the last block that an earlier run left.
    pub(crate) fn last_found(&self) -> Option<(u64, &HexHash)> {
        let last = self.found.last.as_ref();
        last.map(|(number, hash)| (*number, hash))
    }

    /// The blocks of earlier runs for which a check failed, in order.
    pub(crate) fn failed_before(&self) -> &[u64] {
        &self.found.failed
    }

    /// Number of the block that comes next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds the rows of the next block.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be written.
    pub(crate) fn add(&mut self, block: &BlockRow, items: &[ScanItemRow]) -> Result<(), CliError> {
        let mut text = Vec::new();
        for item in items {
            serde_json::to_writer(&mut text, item)?;
            text.push(b'\n');
        }
        self.items.append(&text)?;
        let mut text = serde_json::to_vec(block)?;
        text.push(b'\n');
        self.blocks.append(&text)?;
        self.next += 1;
        Ok(())
    }

    /// The paths of the files of blocks and of items.
    pub(crate) fn files(&self) -> [String; 2] {
        [&self.blocks, &self.items].map(|file| file.path.display().to_string())
    }

    /// Writes all rows as Parquet, and returns the paths of the files of blocks and of items. The files of rows stay
    /// from now on, also empty ones.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be written.
    pub(crate) fn write_tables(&mut self) -> Result<[String; 2], CliError> {
        let write = |columns: Columns, rows: &RowFile| {
            let path = columns.write_beside(&rows.path, &rows.file)?;
            Ok::<_, CliError>(path.display().to_string())
        };
        let tables = [write(BLOCKS, &self.blocks)?, write(ITEMS, &self.items)?];
        self.made.drain(..).for_each(EmptyFile::keep);
        Ok(tables)
    }
}

impl RowFile {
    /// Opens the file at `path`, or creates it.
    fn open(path: PathBuf) -> Result<Self, CliError> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let (opened, is_new) = match options.clone().create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).open(&path), false)
            }
            made => (made, true),
        };
        let file = opened.map_err(failed(&path))?;
        Ok(Self { path, file, is_new })
    }

    fn append(&mut self, text: &[u8]) -> Result<(), CliError> {
        self.file.write_all(text).map_err(failed(&self.path))
    }

    /// Locks the file until it is closed.
    fn lock(&self) -> Result<(), CliError> {
        let locked = self.file.try_lock_exclusive();
        // Another scan may have removed the empty file since it was opened here.
        match locked.and_then(|locked| Ok(locked && self.has_name()?)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CliError::RowsInUse {
                path: self.path.clone(),
            }),
            Err(error) => Err(failed(&self.path)(error)),
        }
    }

    /// Whether the file was not removed.
    #[cfg(unix)]
    fn has_name(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.nlink() > 0)
    }

    /// Returns `true`, because a file that is open can not be removed on this system.
    #[cfg(not(unix))]
    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Returns what the rows of blocks say, and cuts off a last row that is not whole.
    fn find_blocks(&self, part: &Range<u64>) -> Result<FoundBlocks, CliError> {
        let (mut found, mut next) = (FoundBlocks::default(), part.start);
        self.keep_while(|line| {
            let row = serde_json::from_slice::<FoundRow>(line).ok();
            match row {
                Some(row) if row.block == next && part.contains(&row.block) => {
                    next += 1;
                    if !row.failed.is_empty() {
                        found.failed.push(row.block);
                    }
                    found.last = Some((row.block, row.hash));
                    Ok(true)
                }
                Some(row) if !part.contains(&row.block) => Err(self.beyond(part, row.block)),
                row => Err(self.other(next, row.map(|row| row.block))),
            }
        })?;
        Ok(found)
    }

    /// Cuts off a last row that is not whole, and the rows of items of block `end` and of later blocks.
    fn cut_items(&self, end: u64, part: &Range<u64>) -> Result<(), CliError> {
        let mut next = part.start;
        self.keep_while(|line| {
            let row = serde_json::from_slice::<NumberedRow>(line).ok();
            match row.map(|row| row.block) {
                Some(block) if block >= end && part.contains(&block) => Ok(false),
                // There are several rows for each block.
                Some(block) if part.contains(&block) => {
                    next = block + 1;
                    Ok(true)
                }
                Some(block) => Err(self.beyond(part, block)),
                None => Err(self.other(next, None)),
            }
        })
    }

    /// Calls `keep` with each whole row until it returns `false`, and cuts off what follows the last row kept. The
    /// file stays as it was if `keep` fails.
    fn keep_while(
        &self,
        mut keep: impl FnMut(&[u8]) -> Result<bool, CliError>,
    ) -> Result<(), CliError> {
        let mut reader = BufReader::new(&self.file);
        let (mut kept, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            let read = read.map_err(failed(&self.path))?;
            // The last line may not have been written to its end.
            if !line.ends_with(b"\n") || !keep(&line)? {
                break;
            }
            kept += read as u64;
        }
        self.file.set_len(kept).map_err(failed(&self.path))
    }

    /// The error of a row of a block that is not in `part`.
    fn beyond(&self, part: &Range<u64>, found: u64) -> CliError {
        CliError::RowsBeyond {
            path: self.path.clone(),
            part: part.clone(),
            found,
        }
    }

    /// The error of a row that is not that of block `expected`.
    fn other(&self, expected: u64, found: Option<u64>) -> CliError {
        CliError::OtherRows {
            path: self.path.clone(),
            expected,
            found,
        }
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CliError + '_ {
    move |source| CliError::Rows {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sp_core::H256;
    use std::fs;

    const SHARD: Shard = Shard { index: 2, of: 3 };

    fn row(block: u64) -> String {
        row_with(block, "")
    }

    /// A row of a block with the name of a failed check, or an empty text.
    fn row_with(block: u64, failed: &str) -> String {
        let hash = hash(block);
        format!("{{\"block\":{block},\"hash\":\"{hash}\",\"failed\":[{failed}]}}\n")
    }

    fn hash(block: u64) -> HexHash {
        H256::from_low_u64_be(block).into()
    }

    #[test]
    fn an_interrupted_scan_goes_on_after_its_last_whole_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
        let part = 10..20;
        let write = |kind: &str, text: String| fs::write(path(kind), text).unwrap();
        let read = |kind: &str| fs::read_to_string(path(kind)).unwrap();
        let open = || Rows::open(folder.path(), SHARD, &part);
        assert_eq!(open().unwrap().next(), 10);
        // Killed within the row of block 12, whose items are there.
        let whole = row(10) + &row(11);
        write("blocks", format!("{whole}{{\"block\":12,"));
        let items = row(10) + &row(10) + &row(11);
        write("items", format!("{items}{}{}", row(12), row(12)));
        assert_eq!(open().unwrap().next(), 12);
        assert_eq!(
            (read("blocks"), read("items")),
            (whole.clone(), items.clone())
        );
        // Killed within an item.
        write("items", format!("{items}{{\"blo"));
        assert_eq!(open().unwrap().next(), 12);
        assert_eq!(read("items"), items);
        // Other rows are not touched.
        let refused = |text: String| {
            write("blocks", text.clone());
            let error = open().map(|_| ()).unwrap_err();
            assert_eq!(read("blocks"), text);
            error
        };
        for text in [row(11), "something else\n".to_owned(), row(10) + &row(10)] {
            let error = refused(text);
            assert!(matches!(error, CliError::OtherRows { .. }), "{error}");
        }
        let whole: String = (10..=part.end).map(row).collect();
        for (text, beyond) in [(row(9), 9), (whole, part.end)] {
            let error = refused(text);
            let is_beyond = matches!(error, CliError::RowsBeyond { found, .. } if found == beyond);
            assert!(is_beyond, "{error}");
        }
    }

    #[test]
    fn rows_that_are_found_name_their_last_block_and_the_failed_ones() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Rows::open(folder.path(), SHARD, &(10..20)).unwrap();
        assert_eq!(open().last_found(), None);
        let check = "\"estimate complete\"";
        let rows = [row_with(10, check), row(11), row_with(12, check)].concat();
        // The row of block 13 is not whole.
        let rows = rows + row_with(13, check).trim_end();
        fs::write(folder.path().join("blocks-2-of-3.jsonl"), rows).unwrap();
        let found = open();
        assert_eq!(found.next(), 13);
        assert_eq!(found.last_found(), Some((12, &hash(12))));
        assert_eq!(found.failed_before(), [10, 12]);
    }

    #[test]
    fn one_scan_at_a_time_has_the_rows_of_a_part() {
        let folder = tempfile::tempdir().unwrap();
        let open = |shard| Rows::open(folder.path(), shard, &(10..20));
        let first = open(SHARD).unwrap();
        let blocks = folder.path().join("blocks-2-of-3.jsonl");
        let unfinished = row(10).trim_end().to_owned();
        fs::write(&blocks, &unfinished).unwrap();
        let second = open(SHARD).map(|_| ()).unwrap_err();
        assert!(
            matches!(&second, CliError::RowsInUse { path } if *path == blocks),
            "{second}"
        );
        // The row that the first scan is about to finish.
        assert_eq!(fs::read_to_string(&blocks).unwrap(), unfinished);
        open(Shard { index: 1, of: 3 }).unwrap();
        drop(first);
        open(SHARD).unwrap();
    }
}
