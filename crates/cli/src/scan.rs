//! `povmeter scan`: the proofs of many blocks of a chain, as rows for a database.

#[cfg(not(feature = "wasm"))]
use crate::error::CliError;
use crate::{
    counted::counted,
    output::CommandResult,
    remote_args::{BlockRange, RemoteArgs},
    replay::SizesArg,
};
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, ops::RangeInclusive, path::PathBuf, str::FromStr};

/// Which blocks to scan, and where the rows go.
#[derive(Args, Debug)]
#[command(after_help = "\
Needs the feature `wasm`. A scan that was interrupted, or met a block that it
can't replay, goes on where it ended.
The exit code is 1 if a check of any block in the files failed.
docs/remote.md lists the fields, and shows how to run and query shards.

Examples:
  povmeter scan --url ws://127.0.0.1:9944 --blocks 1000..1999 rows
  povmeter scan --url ws://127.0.0.1:9944 --blocks 1000..1999 --shard 3/8 rows")]
pub(crate) struct ScanArgs {
    /// Folder for the rows: blocks-I-of-N and items-I-of-N, as .jsonl, and as .parquet at the end
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Blocks of the chain, from number A to number B
    #[arg(long, value_name = "A..B", requires = "url")]
    pub(crate) blocks: BlockRange,
    /// Scan the part I of N equal parts
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(crate) shard: Shard,
    /// Proof sizes that runtimes are told, as for `povmeter replay`
    #[arg(long, value_name = "SOURCE", default_value = "reads")]
    pub(crate) sizes: SizesArg,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One of several parts of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Counts from 1.
    pub(crate) index: u64,
    pub(crate) of: u64,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        let shard = parts.map(|(index, of)| Self { index, of });
        let shard = shard.filter(|shard| (1..=shard.of).contains(&shard.index));
        shard.ok_or_else(|| "expected a part and the number of parts, as in 3/8".to_owned())
    }
}

impl Shard {
    /// The blocks of `range` in this part. A part holds consecutive blocks, because these share nodes. The
    /// lengths of parts differ by one block at most.
    pub(crate) fn part(self, range: &RangeInclusive<u64>) -> std::ops::Range<u64> {
        let length = u128::from(range.end() - range.start()) + 1;
        let end = |parts: u64| {
            let blocks = length * u128::from(parts) / u128::from(self.of);
            // At most one above the last block of the range.
            range.start() + u64::try_from(blocks).unwrap_or(u64::MAX)
        };
        end(self.index - 1)..end(self.index)
    }
}

/// What a scan did.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct ScanReport {
    /// File with a row for each block.
    pub(crate) blocks_file: String,
    /// File with a row for each storage item of each block.
    pub(crate) items_file: String,
    /// The rows of the blocks as Parquet; null if the scan ended early, and in results of earlier versions.
    #[serde(default)]
    pub(crate) blocks_table: Option<String>,
    /// The rows of the items as Parquet; null if the scan ended early, and in results of earlier versions.
    #[serde(default)]
    pub(crate) items_table: Option<String>,
    /// Number of the first block of the part; null if the part has none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) first: Option<u64>,
    /// Number of its last block; null if the part has none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) last: Option<u64>,
    /// Blocks that this run added.
    pub(crate) added: u64,
    /// Blocks that were in the files before.
    pub(crate) before: u64,
    /// Blocks of this run for which a check failed.
    pub(crate) failed: Vec<u64>,
    /// Blocks that were in the files before and for which a check failed; none in results of earlier versions.
    #[serde(default)]
    pub(crate) failed_before: Vec<u64>,
    /// Requests that the node was sent.
    pub(crate) requests: u64,
    /// Why the scan ended before the last block of the part; null if it did not, and in results of earlier versions.
    #[serde(default)]
    pub(crate) error: Option<String>,
}

impl ScanReport {
    /// The blocks in the files for which a check failed, in order.
    fn all_failed(&self) -> impl Iterator<Item = u64> + '_ {
        self.failed_before.iter().chain(&self.failed).copied()
    }
}

impl CommandResult for ScanReport {
    const COMMAND: &'static str = "scan";
    const WHAT: &'static str = "scan";
    const SCHEMA: u64 = 1;
}

impl fmt::Display for ScanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (Some(first), Some(last)) => write!(f, "blocks {first} to {last}: ")?,
            _ => write!(f, "no blocks in this part: ")?,
        }
        let Self { added, before, .. } = self;
        let requests = counted(self.requests, "request");
        writeln!(
            f,
            "{added} added, {before} were there; {requests} to the node"
        )?;
        writeln!(f, "{}", self.blocks_file)?;
        write!(f, "{}", self.items_file)?;
        for table in [&self.blocks_table, &self.items_table]
            .into_iter()
            .flatten()
        {
            write!(f, "\n{table}")?;
        }
        for number in self.all_failed() {
            write!(f, "\nFAILED a check of block {number}: see its row")?;
        }
        if let (Some(first), Some(_)) = (self.first, &self.error) {
            let next = first + self.before + self.added;
            write!(
                f,
                "\nFAILED to scan block {next}: the files hold the rows before it"
            )?;
        }
        Ok(())
    }
}

/// Refuses to scan, because this program can't run wasm.
///
/// # Errors
/// Always [`CliError::NoWasm`].
#[cfg(not(feature = "wasm"))]
pub(crate) fn run(args: &ScanArgs) -> Result<(), CliError> {
    args.remote.url()?;
    Err(CliError::NoWasm)
}

#[cfg(feature = "wasm")]
pub(crate) use with_wasm::run;

#[cfg(feature = "wasm")]
mod with_wasm {
    use super::{ScanArgs, ScanReport};
    use crate::{
        error::{chain, CliError},
        one_line::one_line,
        origin::RemoteParent,
        output::{all_done, printed, tell, HexHash},
        progress,
        scan_found::FoundRows,
        scan_rows::{BlockRow, Rows, ScanItemRow},
    };
    use povmeter_attribution::{ByteTally, Names};
    use povmeter_dev_data::wasm::{ReplayAttribution, ReplayOptions, ReplayedBlock, Replayer};
    use povmeter_dev_oracle::on_one_thread;
    use povmeter_remote::{BlockId, RemoteNode};
    use sp_core::H256;
    use sp_crypto_hashing::twox_128;

    /// Scans the part, and prints the report.
    ///
    /// # Errors
    /// A [`CliError`] if a block can't be fetched or executed, or is no child of the one before it, a file can't be
    /// written, the rows found are of another chain, or a check of any block in the files failed. Rows that were
    /// written before stay in the files, and are reported.
    pub(crate) fn run(args: &ScanArgs) -> Result<(), CliError> {
        on_one_thread()?;
        let sizes = args.sizes.sizes()?;
        args.remote.url()?;
        let part = args.shard.part(&args.blocks.0);
        let mut found = FoundRows::open(&args.folder, args.shard, &part)?;
        let node = args.remote.node()?.ok_or(CliError::NoUrl)?;
        expect_chain(&node, &mut found)?;
        if let Some(misfit) = found.misfit() {
            tell(&format!("note: {misfit}"));
        }
        let mut rows = found.cut()?;
        let before = rows.next() - part.start;
        let options = ReplayOptions {
            attribute: true,
            ..ReplayOptions::default()
        };
        let mut replayer = Replayer::new(options).with_sizes(sizes);
        let mut failed = Vec::new();
        let mut scanned = scan_until(part.end, &mut failed, &node, &mut replayer, &mut rows);
        let tables = match scanned {
            // Without a row there is nothing to report.
            Err(error) if rows.next() == part.start => return Err(error),
            Err(_) => [None, None],
            // The rows are there, and with them a report.
            Ok(()) => match progress::during("writing tables", || rows.write_tables()) {
                Ok(tables) => tables.map(Some),
                Err(error) => {
                    scanned = Err(error);
                    [None, None]
                }
            },
        };
        let ([blocks_file, items_file], [blocks_table, items_table]) = (rows.files(), tables);
        let report = ScanReport {
            blocks_file,
            items_file,
            blocks_table,
            items_table,
            first: (!part.is_empty()).then_some(part.start),
            last: (!part.is_empty()).then(|| part.end - 1),
            added: rows.next() - part.start - before,
            before,
            requests: node.requests(),
            failed,
            failed_before: rows.failed_before().to_vec(),
            error: scanned.as_ref().err().map(|error| chain(error)),
        };
        let failed = report.all_failed();
        let failed = failed.map(|number| format!("block {number}"));
        let printed = printed(&report, args.json, failed.collect());
        // The error of a block comes last, because it is why the scan is not complete.
        all_done([printed, scanned])
    }

    /// Scans the blocks before `end` that have no row, and adds those for which a check failed to `failed`.
    ///
    /// # Errors
    /// A [`CliError`] if a block can't be fetched or executed, or is no child of the one before it, or its rows can't
    /// be written.
    fn scan_until(
        end: u64,
        failed: &mut Vec<u64>,
        node: &RemoteNode,
        replayer: &mut Replayer,
        rows: &mut Rows,
    ) -> Result<(), CliError> {
        let bar = progress::bar(end - rows.next(), "scanning");
        while rows.next() < end {
            let number = rows.next();
            let block = scan(node, number, replayer, rows)?;
            if block.checks.iter().any(|check| !check.holds) {
                failed.push(number);
            }
            bar.step();
        }
        Ok(())
    }

    /// Checks that the last row that was found, kept or not, is of the node's chain. If the chain was reorganized,
    /// keeps the rows up to the last one that is.
    ///
    /// # Errors
    /// [`CliError::OtherChain`] if the last row is of another chain, and no row shortly before it is of the node's;
    /// [`CliError::Remote`] if the node does not answer.
    fn expect_chain(node: &RemoteNode, rows: &mut FoundRows) -> Result<(), CliError> {
        let hash = |block| {
            let hash = node.block_hash(&BlockId::Number(block))?;
            Ok::<_, CliError>(HexHash::from(H256(hash)))
        };
        let Some((block, found)) = rows.last() else {
            return Ok(());
        };
        let (expected, found) = (hash(block)?, found.clone());
        if expected == found {
            return Ok(());
        }
        let goes_back = rows.keep_rows_of(hash)?;
        let other = CliError::OtherChain {
            path: rows.blocks_path().to_owned(),
            block,
            expected,
            found,
        };
        if !goes_back {
            return Err(other);
        }
        let other = one_line(&other.to_string()).into_owned();
        let next = rows.next();
        tell(&format!("note: {other}; scanning again from block {next}"));
        Ok(())
    }

    /// Replays a block and adds its rows.
    fn scan(
        node: &RemoteNode,
        number: u64,
        replayer: &mut Replayer,
        rows: &mut Rows,
    ) -> Result<ReplayedBlock, CliError> {
        let parent = RemoteParent::of_block(node, &BlockId::Number(number))?;
        rows.expect_parent(&H256(parent.fetched.parts.parent).into())?;
        let replayed = replayer.replay(&parent.parent, &parent.block);
        let block = replayed.map_err(|error| parent.error(error))?;
        let timestamp = timestamp(&block);
        let mut items = Vec::new();
        if let Some(ReplayAttribution {
            block: noted,
            names,
        }) = &block.attribution
        {
            let mut known = Names::well_known();
            for name in names.as_ref().as_ref().into_iter().flatten() {
                known.add(name.clone());
            }
            let tally = ByteTally::of(noted, &known);
            let of_item = |(item, bytes)| ScanItemRow::new(number, timestamp, item, bytes);
            items.extend(tally.by_item.iter().map(of_item));
        }
        rows.add(&BlockRow::new(&block, timestamp), &items)?;
        Ok(block)
    }

    /// The time that the block sets, in milliseconds since 1970.
    fn timestamp(block: &ReplayedBlock) -> Option<u64> {
        let key = [twox_128(b"Timestamp"), twox_128(b"Now")].concat();
        let mut changes = block.changes.iter();
        let (_, value) = changes.find(|(changed, _)| *changed == key)?;
        let bytes = value.as_deref()?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_range() {
        for (range, of) in [(1..=1, 1), (5..=9, 2), (1..=3, 8), (10..=999, 7)] {
            let mut next = *range.start();
            for index in 1..=of {
                let part = Shard { index, of }.part(&range);
                assert_eq!(part.start, next);
                let length = part.end - part.start;
                let all = range.end() - range.start() + 1;
                assert!(length == all / of || length == all / of + 1, "{part:?}");
                next = part.end;
            }
            assert_eq!(next, range.end() + 1);
        }
        assert_eq!("3/8".parse(), Ok(Shard { index: 3, of: 8 }));
        for text in ["", "3", "0/8", "9/8", "a/b", "1/0"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
