//! The rows that an earlier run left, checked before a scan goes on.
//!
//! ```text
//! open: read both files side by side, a row at a time; for each whole row of a block, in order:
//!     add up the rows of its items, which come next in the file of items
//!     the block fits if their bytes add up to its `recorded`, and no rows of earlier blocks are among them
//! keep_rows_of: if the node's chain has another block in the place of the last one, keep the rows up to the last block
//!     that the chain has, which is found by halving; if it has none of the last rows, the rows are of another chain
//! cut: keep the rows before those of the first block that does not fit; without one, keep the whole rows of blocks
//!     and the rows of their items
//! ```
//!
//! A line that is no row does not fit either, if the rows of a block before it do. Otherwise the file may be one of
//! another program. So may one whose unfinished last line is not the beginning of a row.
//!
//! All whole rows are read before a file is changed, so the rows of another part or program stay as they are.

use crate::{
    counted::counted,
    error::CliError,
    one_line::one_line,
    output::HexHash,
    scan::Shard,
    scan_files::{RowFile, RowFiles, WholeLines},
    scan_rows::Rows,
};
use serde::Deserialize;
use std::{
    collections::VecDeque,
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

/// The check that compares the attribution of a block with its proof. Where it failed, the rows of items need not add
/// up, and scanning again would not change that.
const ADDS_UP: &str = "attribution adds up";

/// The text with which each row begins.
const ROW_START: &[u8] = b"{\"block\":";

/// The part of a block's row that is read again.
#[derive(Deserialize)]
struct FoundBlock {
    block: u64,
    hash: HexHash,
    recorded: u64,
    failed: Vec<String>,
}

impl FoundBlock {
    fn fits(&self, items: &ItemSum) -> bool {
        let failed = self.failed.iter().any(|check| check == ADDS_UP);
        // Without a sum to compare, a damaged line after the rows may be one of them.
        let has_rows = items.rows > 0 && !items.is_before_damaged;
        let adds_up = items.bytes == self.recorded || failed && has_rows;
        adds_up && !items.has_others && !items.has_damaged
    }
}

/// The part of an item's row that is read again.
#[derive(Clone, Copy, Deserialize)]
struct FoundItem {
    block: u64,
    bytes: u64,
}

/// The rows of a part that an earlier run left.
pub(crate) struct FoundRows {
    files: RowFiles,
    checked: Checked,
}

/// What the rows say.
struct Checked {
    /// Number and hash of the last block, kept or not.
    last: Option<(u64, HexHash)>,
    /// Blocks that are kept and for which a check failed.
    failed: Vec<u64>,
    /// The block after those that are kept.
    next: u64,
    /// Bytes of the rows that are kept.
    blocks_kept: u64,
    items_kept: u64,
    /// The last blocks that are kept, in order: [`MOST_BACK`] at most.
    recent: VecDeque<RecentBlock>,
    misfit: Option<Misfit>,
}

/// How many of the last rows are compared with a chain that was reorganized. More would need memory for each row of a
/// long scan, and a chain that differs for so long is rather another one.
const MOST_BACK: usize = 1024;

/// A block whose rows are kept, and the bytes of the rows up to its own.
struct RecentBlock {
    block: u64,
    hash: HexHash,
    blocks_kept: u64,
    items_kept: u64,
}

/// The first block that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// The file that is wrong.
    path: PathBuf,
    block: u64,
    why: WhyNot,
}

/// Why a block does not fit.
#[derive(Debug, PartialEq, Eq)]
enum WhyNot {
    /// The line is no row.
    NoRow,
    /// The items do not add up to the bytes that the block recorded.
    Items { recorded: u64, items: ItemSum },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, block, why } = self;
        let path = path.display().to_string();
        write!(f, "{}: expected ", one_line(&path))?;
        match why {
            WhyNot::NoRow => write!(f, "the row of block {block}, found a line that is none")?,
            WhyNot::Items { recorded, items } => {
                write!(
                    f,
                    "rows of block {block} that add up to the {} of its proof, found ",
                    counted(*recorded, "byte")
                )?;
                match items.rows {
                    0 => write!(f, "none")?,
                    _ => write!(f, "rows of {}", counted(items.bytes, "byte"))?,
                }
                if items.has_others {
                    write!(f, " and rows of earlier blocks among them")?;
                }
                if items.has_damaged {
                    write!(f, " and a line that is no row")?;
                }
                if items.is_before_damaged {
                    write!(f, " before a line that is no row")?;
                }
            }
        }
        write!(f, "; scanning again from block {block}")
    }
}

impl FoundRows {
    /// Opens the files of `shard` in `folder`, or creates them, and checks their rows, which must be of blocks of
    /// `part`.
    ///
    /// # Errors
    /// Those of [`RowFiles::open`]; [`CliError::OtherRows`] or [`CliError::RowsBeyond`] if a row is of another part;
    /// [`CliError::NoRow`] if a line is no row, or an unfinished one not the beginning of a row, and no rows of a block
    /// before it fit.
    pub(crate) fn open(folder: &Path, shard: Shard, part: &Range<u64>) -> Result<Self, CliError> {
        let files = RowFiles::open(folder, shard)?;
        let checked = Checked::of(&files, part)?;
        Ok(Self { files, checked })
    }

    /// Number and hash of the last block.
    pub(crate) fn last(&self) -> Option<(u64, &HexHash)> {
        let last = self.checked.last.as_ref();
        last.map(|(number, hash)| (*number, hash))
    }

    /// The first block that does not fit.
    pub(crate) fn misfit(&self) -> Option<&Misfit> {
        self.checked.misfit.as_ref()
    }

    /// The path of the file of blocks.
    pub(crate) fn blocks_path(&self) -> &Path {
        &self.files.blocks.path
    }

    /// The block after those whose rows are kept.
    pub(crate) fn next(&self) -> u64 {
        self.checked.next
    }

    /// Keeps the rows up to the last block for which `hash` returns the hash in its row, and returns whether there is
    /// such a block among the last 1,024 that are kept. Otherwise nothing changes. Calls `hash` for some of these
    /// blocks only: it assumes that the two chains agree up to one block and differ after it.
    ///
    /// # Errors
    /// The first one of `hash`.
    pub(crate) fn keep_rows_of(
        &mut self,
        mut hash: impl FnMut(u64) -> Result<HexHash, CliError>,
    ) -> Result<bool, CliError> {
        let checked = &mut self.checked;
        let mut is_same =
            |recent: &RecentBlock| Ok::<_, CliError>(hash(recent.block)? == recent.hash);
        // The block at `same` is of the chain, that at `other` is not, or there is none.
        let (mut same, mut other) = match checked.recent.front() {
            Some(first) if is_same(first)? => (0, checked.recent.len()),
            _ => return Ok(false),
        };
        while other - same > 1 {
            let middle = same + (other - same) / 2;
            match is_same(&checked.recent[middle])? {
                true => same = middle,
                false => other = middle,
            }
        }
        checked.recent.truncate(same + 1);
        if let Some(last) = checked.recent.back() {
            checked.next = last.block + 1;
            (checked.blocks_kept, checked.items_kept) = (last.blocks_kept, last.items_kept);
            checked.failed.retain(|block| *block <= last.block);
            let next = checked.next;
            // The rows from there on are dropped anyway.
            checked.misfit.take_if(|misfit| misfit.block > next);
        }
        Ok(true)
    }

    /// Cuts off the rows that are not kept, and those of an unfinished block.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be written.
    pub(crate) fn cut(self) -> Result<Rows, CliError> {
        let Self { files, checked } = self;
        files.blocks.cut(checked.blocks_kept)?;
        files.items.cut(checked.items_kept)?;
        let Checked {
            next,
            mut recent,
            failed,
            ..
        } = checked;
        let last = recent.pop_back().map(|last| last.hash);
        Ok(Rows::new(files, next, last, failed))
    }
}

impl Checked {
    fn of(files: &RowFiles, part: &Range<u64>) -> Result<Self, CliError> {
        let mut checked = Self {
            last: None,
            failed: Vec::new(),
            next: part.start,
            blocks_kept: 0,
            items_kept: 0,
            recent: VecDeque::new(),
            misfit: None,
        };
        let mut items = FoundItems::new(&files.items, part)?;
        let (mut lines, mut next) = (files.blocks.lines()?, part.start);
        while let Some(line) = lines.next()? {
            let length = line.len() as u64;
            let Some(row) = block_row(&files.blocks, line, next, part)? else {
                checked.expect_fitting(&files.blocks)?;
                checked.misfit.get_or_insert_with(|| Misfit {
                    path: files.blocks.path.clone(),
                    block: next,
                    why: WhyNot::NoRow,
                });
                // The rows after it are dropped, but they must be of this part.
                while let Some(line) = lines.next()? {
                    expect_in_part(&files.blocks, line, part)?;
                }
                break;
            };
            let sum = items.add_up(next)?;
            next += 1;
            if checked.misfit.is_none() && row.fits(&sum) {
                checked.next = next;
                checked.blocks_kept += length;
                checked.items_kept = items.taken;
                checked
                    .failed
                    .extend((!row.failed.is_empty()).then_some(row.block));
                if checked.recent.len() == MOST_BACK {
                    checked.recent.pop_front();
                }
                checked.recent.push_back(RecentBlock {
                    block: row.block,
                    hash: row.hash.clone(),
                    blocks_kept: checked.blocks_kept,
                    items_kept: checked.items_kept,
                });
            } else {
                checked.misfit.get_or_insert_with(|| Misfit {
                    path: files.items.path.clone(),
                    block: row.block,
                    why: WhyNot::Items {
                        recorded: row.recorded,
                        items: sum,
                    },
                });
            }
            checked.last = Some((row.block, row.hash));
        }
        items.read_rest()?;
        if !may_start_row(lines.tail()) {
            checked.expect_fitting(&files.blocks)?;
        }
        if items.has_damaged || !may_start_row(items.lines.tail()) {
            checked.expect_fitting(&files.items)?;
        }
        Ok(checked)
    }

    /// Checks that the rows of a block fit, so that `file`, which has a line that is no row, is that of a scan.
    fn expect_fitting(&self, file: &RowFile) -> Result<(), CliError> {
        match self.recent.is_empty() {
            true => Err(CliError::NoRow {
                path: file.path.clone(),
            }),
            false => Ok(()),
        }
    }
}

/// Whether a row may begin with `tail`, the unfinished last line of a file.
fn may_start_row(tail: &[u8]) -> bool {
    tail.starts_with(ROW_START) || ROW_START.starts_with(tail)
}

/// The row of block `expected` in `line` of the file of blocks; `None` if the line is no row.
fn block_row(
    file: &RowFile,
    line: &[u8],
    expected: u64,
    part: &Range<u64>,
) -> Result<Option<FoundBlock>, CliError> {
    match serde_json::from_slice::<FoundBlock>(line).ok() {
        Some(row) if !part.contains(&row.block) => Err(file.beyond(part, row.block)),
        Some(row) if row.block != expected => Err(file.other(expected, row.block)),
        row => Ok(row),
    }
}

/// Checks that a row in `line` of the file of blocks, if it is one, is of `part`.
fn expect_in_part(file: &RowFile, line: &[u8], part: &Range<u64>) -> Result<(), CliError> {
    match serde_json::from_slice::<FoundBlock>(line).ok() {
        Some(row) if !part.contains(&row.block) => Err(file.beyond(part, row.block)),
        _ => Ok(()),
    }
}

/// What the rows of the items of a block add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ItemSum {
    rows: u64,
    bytes: u64,
    /// Whether rows of earlier blocks are among them.
    has_others: bool,
    /// Whether a line that is no row is among them.
    has_damaged: bool,
    /// Whether a line that is no row comes after them.
    is_before_damaged: bool,
}

/// Reads the rows of items, a block at a time.
struct FoundItems<'a> {
    file: &'a RowFile,
    lines: WholeLines<'a>,
    part: &'a Range<u64>,
    /// What [`Self::peek`] returns, if it was read already.
    ahead: Option<(Option<FoundItem>, u64)>,
    /// Bytes of the rows of the blocks so far.
    taken: u64,
    /// Whether a line so far is no row.
    has_damaged: bool,
}

impl<'a> FoundItems<'a> {
    fn new(file: &'a RowFile, part: &'a Range<u64>) -> Result<Self, CliError> {
        Ok(Self {
            file,
            lines: file.lines()?,
            part,
            ahead: None,
            taken: 0,
            has_damaged: false,
        })
    }

    /// Adds up the rows that come next, up to the first of a block above `block`.
    fn add_up(&mut self, block: u64) -> Result<ItemSum, CliError> {
        let mut sum = ItemSum::default();
        while let Some((row, length)) = self.peek()? {
            match row {
                Some(row) if row.block > block => break,
                Some(row) if row.block == block => {
                    sum.rows += 1;
                    // A sum that saturates is not the size of a proof, so no block recorded it.
                    sum.bytes = sum.bytes.saturating_add(row.bytes);
                }
                Some(_) => sum.has_others = true,
                // It may be of the next block. If it is of this one, the sum is too small.
                None if sum.rows > 0 => {
                    sum.is_before_damaged = true;
                    break;
                }
                None => sum.has_damaged = true,
            }
            self.taken += length;
            self.ahead = None;
        }
        Ok(sum)
    }

    /// Checks that the rows that are left are of the part, too.
    fn read_rest(&mut self) -> Result<(), CliError> {
        while self.peek()?.is_some() {
            self.ahead = None;
        }
        Ok(())
    }

    /// The row in the line that comes next, if it is one, and the length of the line in bytes.
    fn peek(&mut self) -> Result<Option<(Option<FoundItem>, u64)>, CliError> {
        if self.ahead.is_none() {
            let Some(line) = self.lines.next()? else {
                return Ok(None);
            };
            let length = line.len() as u64;
            let row = serde_json::from_slice::<FoundItem>(line).ok();
            match row {
                Some(row) if !self.part.contains(&row.block) => {
                    return Err(self.file.beyond(self.part, row.block));
                }
                row => self.ahead = Some((row, length)),
            }
            self.has_damaged |= row.is_none();
        }
        Ok(self.ahead)
    }
}

#[cfg(test)]
mod tests;
