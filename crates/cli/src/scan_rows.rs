//! Rows of a scan, in files of JSON lines, and in Parquet when the scan is complete.
//!
//! ```text
//! for each block, in order: append the rows of its items, then the row of the block
//! a block whose parent is not the block in the row before ends the scan: the chain was reorganized
//! go on with existing files: see [`crate::scan_found`]
//! end without a row, but for a part without blocks: remove the files and the folder that the scan made
//! ```

use crate::{error::CliError, output::HexHash, scan_files::RowFiles};
use povmeter_attribution::{CauseBytes, Item};
use povmeter_dev_data::wasm::ReplayedBlock;
use serde::Serialize;

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
    pub(crate) fn new(
        block: u64,
        timestamp_ms: Option<u64>,
        item: &Item,
        bytes: &CauseBytes,
    ) -> Self {
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

/// The rows of a part of a scan: whole blocks, whose items are there.
pub(crate) struct Rows {
    files: RowFiles,
    next: u64,
    /// Hash of the last block, if there is a row.
    last: Option<HexHash>,
    failed_before: Vec<u64>,
}

impl Rows {
    /// Rows of the blocks before `next`, which are in `files`. The last one has the hash `last`; a check of
    /// `failed_before` failed.
    pub(crate) fn new(
        files: RowFiles,
        next: u64,
        last: Option<HexHash>,
        failed_before: Vec<u64>,
    ) -> Self {
        Self {
            files,
            next,
            last,
            failed_before,
        }
    }

    /// Checks that `parent` is the hash in the last row, because the next block must be a child of that block. Without
    /// a row it may be any.
    ///
    /// # Errors
    /// [`CliError::OtherParent`] if it is another.
    pub(crate) fn expect_parent(&self, parent: &HexHash) -> Result<(), CliError> {
        match &self.last {
            Some(expected) if expected != parent => Err(CliError::OtherParent {
                path: self.files.blocks.path.clone(),
                block: self.next,
                expected: expected.clone(),
                found: parent.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The blocks of earlier runs for which a check failed, in order.
    pub(crate) fn failed_before(&self) -> &[u64] {
        &self.failed_before
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
        self.files.items.append(&text)?;
        let mut text = serde_json::to_vec(block)?;
        text.push(b'\n');
        self.files.blocks.append(&text)?;
        self.last = Some(block.hash.clone());
        self.next += 1;
        Ok(())
    }

    /// The paths of the files of blocks and of items.
    pub(crate) fn files(&self) -> [String; 2] {
        [&self.files.blocks, &self.files.items].map(|file| file.path.display().to_string())
    }

    /// Writes all rows as Parquet, and returns the paths of the files of blocks and of items. The files of rows stay
    /// from now on, also empty ones.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be written.
    pub(crate) fn write_tables(&mut self) -> Result<[String; 2], CliError> {
        let tables = self.files.write_tables()?;
        Ok(tables.map(|path| path.display().to_string()))
    }
}
