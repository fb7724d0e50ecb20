//! Rows of a scan, in files of JSON lines, and in Parquet when the scan is complete.
//!
//! ```text
//! for each block, in order: append the rows of its items, then the row of the block
//! open existing files: the last whole row in the file of blocks belongs to the last finished block
//!     cut off the rows of later blocks in both files
//! ```

use crate::{
    error::CliError,
    output::HexHash,
    scan::Shard,
    scan_parquet::{Columns, BLOCKS, ITEMS},
};
use povmeter_attribution::{Bytes, Item};
use povmeter_dev_data::wasm::ReplayedBlock;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
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
    blocks: RowFile,
    items: RowFile,
    next: u64,
}

struct RowFile {
    path: PathBuf,
    file: File,
}

/// The part of a row that is read again.
#[derive(Deserialize)]
struct NumberedRow {
    block: u64,
}

impl Rows {
    /// Opens the files of `shard` in `folder`, or creates them. Removes what an interrupted run left half
    /// done.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be used; [`CliError::OtherRows`] if it is of another part.
    pub(crate) fn open(folder: &Path, shard: Shard, part: &Range<u64>) -> Result<Self, CliError> {
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let Shard { index, of } = shard;
        let open = |kind: &str| {
            let path = folder.join(format!("{kind}-{index}-of-{of}.jsonl"));
            let mut options = OpenOptions::new();
            let opened = options.create(true).read(true).append(true).open(&path);
            let file = opened.map_err(failed(&path))?;
            Ok::<_, CliError>(RowFile { path, file })
        };
        let (blocks, items) = (open("blocks")?, open("items")?);
        let done = blocks.cut_after(None, part)?;
        items.cut_after(Some(done), part)?;
        Ok(Self {
            blocks,
            items,
            next: done,
        })
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

    /// Writes all rows as Parquet, and returns the paths of the files of blocks and of items.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be written.
    pub(crate) fn write_tables(&self) -> Result<[String; 2], CliError> {
        let write = |columns: Columns, rows: &RowFile| {
            let path = columns.write_beside(&rows.path)?;
            Ok::<_, CliError>(path.display().to_string())
        };
        Ok([write(BLOCKS, &self.blocks)?, write(ITEMS, &self.items)?])
    }
}

impl RowFile {
    fn append(&mut self, text: &[u8]) -> Result<(), CliError> {
        self.file.write_all(text).map_err(failed(&self.path))
    }

    /// Cuts off a last row that is not whole and, with `end`, the rows of block `end` and of later blocks.
    /// Returns the block number after that of the last row left.
    fn cut_after(&self, end: Option<u64>, part: &Range<u64>) -> Result<u64, CliError> {
        let mut reader = BufReader::new(&self.file);
        let (mut kept, mut next, mut line) = (0, part.start, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            let read = read.map_err(failed(&self.path))?;
            // The last line was not written to its end.
            if !line.ends_with(b"\n") {
                break;
            }
            let row = serde_json::from_slice::<NumberedRow>(&line);
            let block = row.ok().map(|row| row.block);
            let other = |found: Option<u64>| CliError::OtherRows {
                path: self.path.clone(),
                expected: next,
                found,
            };
            match (block, end) {
                // The file of blocks has one row for each block.
                (Some(block), None) if block == next && part.contains(&block) => next += 1,
                // The file of items has several rows for each block.
                (Some(block), Some(end)) if block >= end && part.contains(&block) => break,
                (Some(block), Some(_)) if part.contains(&block) => next = block + 1,
                (found, _) => return Err(other(found)),
            }
            kept += read as u64;
        }
        self.file.set_len(kept).map_err(failed(&self.path))?;
        Ok(next)
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

    const SHARD: Shard = Shard { index: 2, of: 3 };

    fn row(block: u64) -> String {
        format!("{{\"block\":{block},\"x\":1}}\n")
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
        for text in [
            row(9),
            row(11),
            "something else\n".to_owned(),
            row(10) + &row(10),
        ] {
            write("blocks", text.clone());
            let error = open().map(|_| ()).unwrap_err();
            assert!(matches!(error, CliError::OtherRows { .. }), "{error}");
            assert_eq!(read("blocks"), text);
        }
    }
}
