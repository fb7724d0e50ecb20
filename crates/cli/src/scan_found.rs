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
//! All whole rows are read before a file is changed, so the rows of another part or program stay as they are.

use crate::{
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
        let adds_up = items.bytes == self.recorded || failed && items.rows > 0;
        adds_up && !items.has_others
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

/// The first block whose items do not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    path: PathBuf,
    block: u64,
    recorded: u64,
    items: ItemSum,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            block,
            recorded,
            items,
        } = self;
        let path = path.display().to_string();
        write!(
            f,
            "{}: expected rows of block {block} that add up to the {recorded} bytes of its proof, found ",
            one_line(&path)
        )?;
        match items.rows {
            0 => write!(f, "none")?,
            _ => write!(f, "rows of {} bytes", items.bytes)?,
        }
        if items.has_others {
            write!(f, " and rows of earlier blocks among them")?;
        }
        write!(f, "; scanning again from block {block}")
    }
}

impl FoundRows {
    /// Opens the files of `shard` in `folder`, or creates them, and checks their rows, which must be of blocks of
    /// `part`.
    ///
    /// # Errors
    /// Those of [`RowFiles::open`]; [`CliError::OtherRows`] or [`CliError::RowsBeyond`] if a row is of another part.
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

    /// The first block whose items do not fit.
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
            let row = block_row(&files.blocks, line, next, part)?;
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
                    recorded: row.recorded,
                    items: sum,
                });
            }
            checked.last = Some((row.block, row.hash));
        }
        items.read_rest(next)?;
        Ok(checked)
    }
}

/// The row of block `expected` in `line` of the file of blocks.
fn block_row(
    file: &RowFile,
    line: &[u8],
    expected: u64,
    part: &Range<u64>,
) -> Result<FoundBlock, CliError> {
    match serde_json::from_slice::<FoundBlock>(line).ok() {
        Some(row) if row.block == expected && part.contains(&row.block) => Ok(row),
        Some(row) if !part.contains(&row.block) => Err(file.beyond(part, row.block)),
        row => Err(file.other(expected, row.map(|row| row.block))),
    }
}

/// What the rows of the items of a block add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ItemSum {
    rows: u64,
    bytes: u64,
    /// Whether rows of earlier blocks are among them.
    has_others: bool,
}

/// Reads the rows of items, a block at a time.
struct FoundItems<'a> {
    file: &'a RowFile,
    lines: WholeLines<'a>,
    part: &'a Range<u64>,
    /// The row that comes next, with its length in bytes, if it was read already.
    ahead: Option<(FoundItem, u64)>,
    /// Bytes of the rows of the blocks so far.
    taken: u64,
}

impl<'a> FoundItems<'a> {
    fn new(file: &'a RowFile, part: &'a Range<u64>) -> Result<Self, CliError> {
        Ok(Self {
            file,
            lines: file.lines()?,
            part,
            ahead: None,
            taken: 0,
        })
    }

    /// Adds up the rows that come next, up to the first of a block above `block`.
    fn add_up(&mut self, block: u64) -> Result<ItemSum, CliError> {
        let mut sum = ItemSum::default();
        while let Some((row, length)) = self.peek(block)? {
            if row.block > block {
                break;
            }
            if row.block == block {
                sum.rows += 1;
                // A sum that saturates is not the size of a proof, so no block recorded it.
                sum.bytes = sum.bytes.saturating_add(row.bytes);
            } else {
                sum.has_others = true;
            }
            self.taken += length;
            self.ahead = None;
        }
        Ok(sum)
    }

    /// Checks that the rows that are left are of the part, too.
    fn read_rest(&mut self, expected: u64) -> Result<(), CliError> {
        while self.peek(expected)?.is_some() {
            self.ahead = None;
        }
        Ok(())
    }

    /// The row that comes next; an error tells that one of block `expected` was.
    fn peek(&mut self, expected: u64) -> Result<Option<(FoundItem, u64)>, CliError> {
        if self.ahead.is_none() {
            let Some(line) = self.lines.next()? else {
                return Ok(None);
            };
            let length = line.len() as u64;
            match serde_json::from_slice::<FoundItem>(line).ok() {
                Some(row) if self.part.contains(&row.block) => self.ahead = Some((row, length)),
                Some(row) => return Err(self.file.beyond(self.part, row.block)),
                None => return Err(self.file.other(expected, None)),
            }
        }
        Ok(self.ahead)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sp_core::H256;
    use std::fs;

    const SHARD: Shard = Shard { index: 2, of: 3 };

    /// A row of a block whose items have 7 bytes.
    fn row(block: u64) -> String {
        row_with(block, 7, "")
    }

    /// A row of a block with its bytes, and the name of a failed check or an empty text.
    fn row_with(block: u64, recorded: u64, failed: &str) -> String {
        let hash = hash(block);
        format!(
            "{{\"block\":{block},\"hash\":\"{hash}\",\"recorded\":{recorded},\"failed\":[{failed}]}}\n"
        )
    }

    fn item(block: u64, bytes: u64) -> String {
        format!("{{\"block\":{block},\"bytes\":{bytes}}}\n")
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
        let open = || FoundRows::open(folder.path(), SHARD, &part)?.cut();
        assert_eq!(open().unwrap().next(), 10);
        // Killed within the row of block 12, whose items are there.
        let whole = row(10) + &row(11);
        write("blocks", format!("{whole}{{\"block\":12,"));
        let items = item(10, 3) + &item(10, 4) + &item(11, 7);
        write("items", format!("{items}{}{}", item(12, 1), item(12, 2)));
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
    fn a_scan_goes_on_before_the_first_block_whose_items_do_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
        let failed = row_with(12, 7, "\"estimate complete\"");
        let blocks = [row(10), row_with(11, 0, ""), failed, row(13)];
        let [ten, twelve, thirteen] = [10, 12, 13].map(|block| item(block, 3) + &item(block, 4));
        let all = [&*ten, &twelve, &thirteen].concat();
        let cases = [
            (all.clone(), None),
            // Without rows, without those of a block, and without one of a block.
            (String::new(), Some((10, "found none;"))),
            ([&*ten, &thirteen].concat(), Some((12, "found none;"))),
            ([&*ten, &twelve].concat(), Some((13, "found none;"))),
            (
                [&*ten, &item(12, 4), &thirteen].concat(),
                Some((12, "found rows of 4 bytes;")),
            ),
            // A row twice, another size, a row of a block without items, a last row that is not whole.
            (
                [&*item(10, 3), &all].concat(),
                Some((10, "found rows of 10 bytes;")),
            ),
            (
                all.replace("3,\"bytes\":4", "3,\"bytes\":5"),
                Some((13, "found rows of 8 bytes;")),
            ),
            (
                [&*ten, &item(11, 1), &twelve].concat(),
                Some((11, "found rows of 1 bytes;")),
            ),
            (
                all.trim_end().to_owned(),
                Some((13, "found rows of 3 bytes;")),
            ),
            // Out of order.
            (
                [&*twelve, &ten, &thirteen].concat(),
                Some((10, "found none;")),
            ),
            (
                [&*ten, &twelve, &ten, &thirteen].concat(),
                Some((
                    12,
                    "found rows of 7 bytes and rows of earlier blocks among them;",
                )),
            ),
            // Rows behind those of an unfinished block are cut off with it.
            (format!("{all}{}{ten}", item(14, 9)), None),
        ];
        for (items, expected) in cases {
            fs::write(path("blocks"), blocks.concat()).unwrap();
            fs::write(path("items"), &items).unwrap();
            let found = FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
            assert_eq!(found.last(), Some((13, &hash(13))));
            let note = found.misfit().map(ToString::to_string).unwrap_or_default();
            let (next, why) = expected.unwrap_or((14, ""));
            assert!(note.contains(why), "{note}");
            assert_eq!(note.is_empty(), expected.is_none(), "{note}");
            if expected.is_some() {
                let from = format!("scanning again from block {next}");
                assert!(note.ends_with(&from), "{note}");
            }
            // Not before it is asked for.
            assert_eq!(fs::read_to_string(path("items")).unwrap(), items);
            let rows = found.cut().unwrap();
            assert_eq!(rows.next(), next, "{items}");
            let failed: &[u64] = if next > 12 { &[12] } else { &[] };
            assert_eq!(rows.failed_before(), failed);
            drop(rows);
            let kept = usize::try_from(next - 10).unwrap();
            let kept = blocks[..kept].concat();
            assert_eq!(fs::read_to_string(path("blocks")).unwrap(), kept);
            let of_kept = [(10, &ten), (12, &twelve), (13, &thirteen)];
            let of_kept = of_kept.iter().filter(|(block, _)| *block < next);
            let of_kept: String = of_kept.map(|(_, items)| items.as_str()).collect();
            assert_eq!(
                fs::read_to_string(path("items")).unwrap(),
                of_kept,
                "{items}"
            );
        }
    }

    #[test]
    fn items_of_a_block_whose_attribution_failed_need_not_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
        let open = || FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
        fs::write(path("blocks"), row_with(10, 7, "\"attribution adds up\"")).unwrap();
        fs::write(path("items"), item(10, 6)).unwrap();
        assert_eq!(open().misfit(), None);
        fs::write(path("items"), "").unwrap();
        assert!(open().misfit().is_some());
    }

    #[test]
    fn rows_of_others_stay_when_a_block_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
        fs::write(path("blocks"), row(10)).unwrap();
        for items in [item(10, 6) + "something else\n", item(10, 6) + &item(20, 1)] {
            fs::write(path("items"), &items).unwrap();
            let error = FoundRows::open(folder.path(), SHARD, &(10..20)).map(|_| ());
            let error = error.unwrap_err();
            let is_of_items = matches!(
                &error,
                CliError::OtherRows { path: found, .. } | CliError::RowsBeyond { path: found, .. }
                    if *found == path("items")
            );
            assert!(is_of_items, "{error}");
            assert_eq!(fs::read_to_string(path("blocks")).unwrap(), row(10));
            assert_eq!(fs::read_to_string(path("items")).unwrap(), items);
        }
    }

    #[test]
    fn rows_that_are_found_name_their_last_block_and_the_failed_ones() {
        let folder = tempfile::tempdir().unwrap();
        let open = || FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
        assert_eq!(open().last(), None);
        let check = "\"estimate complete\"";
        // No items have no rows.
        let rows = [(10, check), (11, ""), (12, check)];
        let rows = rows
            .map(|(block, check)| row_with(block, 0, check))
            .concat();
        // The row of block 13 is not whole.
        let rows = rows + row_with(13, 0, check).trim_end();
        fs::write(folder.path().join("blocks-2-of-3.jsonl"), rows).unwrap();
        let found = open();
        assert_eq!(found.last(), Some((12, &hash(12))));
        assert_eq!(found.misfit(), None);
        let found = found.cut().unwrap();
        assert_eq!(found.next(), 13);
        assert_eq!(found.failed_before(), [10, 12]);
    }

    /// Writes whole rows of these blocks, with a failed check in each fifth.
    fn write_blocks(folder: &Path, range: Range<u64>) {
        let check = |block| {
            if block % 5 == 0 {
                "\"estimate complete\""
            } else {
                ""
            }
        };
        let blocks: String = range
            .clone()
            .map(|block| row_with(block, 7, check(block)))
            .collect();
        let items: String = range
            .map(|block| item(block, 3) + &item(block, 4))
            .collect();
        fs::write(folder.join("blocks-2-of-3.jsonl"), blocks).unwrap();
        fs::write(folder.join("items-2-of-3.jsonl"), items).unwrap();
    }

    #[test]
    fn a_scan_goes_on_where_the_chain_was_reorganized() {
        let other = HexHash::from(H256::repeat_byte(9));
        let part = 10..20_000;
        for (blocks, first_other, kept) in [
            (10..30, 29, Some(29)),
            (10..30, 17, Some(17)),
            (10..30, 11, Some(11)),
            (10..30, 30, Some(30)),
            // All rows are of another chain.
            (10..30, 10, None),
            // The deepest reorganization, and one that is deeper.
            (10..5_000, 5_000 - 1_023, Some(5_000 - 1_023)),
            (10..5_000, 5_000 - 1_024, None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            write_blocks(folder.path(), blocks.clone());
            let mut found = FoundRows::open(folder.path(), SHARD, &part).unwrap();
            let mut asked = 0;
            let goes_back = found.keep_rows_of(|block| {
                asked += 1;
                Ok(if block < first_other {
                    hash(block)
                } else {
                    other.clone()
                })
            });
            assert_eq!(goes_back.unwrap(), kept.is_some());
            assert!(asked <= 11, "{asked}");
            let kept = kept.unwrap_or(blocks.end);
            assert_eq!(found.next(), kept);
            let rows = found.cut().unwrap();
            let failed: Vec<u64> = (10..kept).filter(|block| block % 5 == 0).collect();
            assert_eq!((rows.next(), rows.failed_before()), (kept, &failed[..]));
            // The next block is a child of the last one.
            rows.expect_parent(&hash(kept - 1)).unwrap();
            let error = rows.expect_parent(&other).unwrap_err();
            let is_next = matches!(error, CliError::OtherParent { block, .. } if block == kept);
            assert!(is_next, "{error}");
            drop(rows);
            let read = |folder: &Path| {
                ["blocks", "items"].map(|kind| {
                    fs::read_to_string(folder.join(format!("{kind}-2-of-3.jsonl"))).unwrap()
                })
            };
            let expected = tempfile::tempdir().unwrap();
            write_blocks(expected.path(), 10..kept);
            assert!(read(folder.path()) == read(expected.path()));
        }
    }

    #[test]
    fn a_misfit_before_a_reorganization_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        write_blocks(folder.path(), 10..15);
        fs::write(folder.path().join("items-2-of-3.jsonl"), item(10, 7)).unwrap();
        let mut found = FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
        let other = HexHash::from(H256::repeat_byte(9));
        let goes_back = found.keep_rows_of(|block| {
            Ok(if block < 13 {
                hash(block)
            } else {
                other.clone()
            })
        });
        assert!(goes_back.unwrap());
        let rows = found.cut().unwrap();
        assert_eq!(rows.next(), 11);
        rows.expect_parent(&hash(10)).unwrap();
        // Without a row there is nothing to compare with.
        let empty = tempfile::tempdir().unwrap();
        let mut found = FoundRows::open(empty.path(), SHARD, &(10..20)).unwrap();
        assert!(!found.keep_rows_of(|_| Ok(other.clone())).unwrap());
        found.cut().unwrap().expect_parent(&other).unwrap();
    }

    #[test]
    fn one_scan_at_a_time_has_the_rows_of_a_part() {
        let folder = tempfile::tempdir().unwrap();
        let open = |shard| FoundRows::open(folder.path(), shard, &(10..20))?.cut();
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
