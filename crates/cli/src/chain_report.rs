//! The report on a chain of blocks, as a table and as JSON.

use crate::{
    advice::BUG,
    counted::counted,
    options::UsedOptions,
    output::{self, verdict, CommandResult},
    spread::median,
    table::Table,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChainOptions {
    #[serde(flatten)]
    pub(crate) block: UsedOptions,
    /// Blocks built.
    pub(crate) blocks: u32,
    /// States kept in the store.
    pub(crate) keep: u32,
    /// Most MiB of loaded nodes that a block leaves to the next.
    pub(crate) carry_mib: u32,
}

/// One block. Times are wall times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChainRow {
    /// Number of the block.
    pub(crate) number: u32,
    /// Time to build it, from the first call to the root and the proof.
    pub(crate) block_ms: f64,
    /// Time to commit it to the store.
    pub(crate) commit_ms: f64,
    /// Time to prune the oldest state; about zero while the store keeps few.
    pub(crate) prune_ms: f64,
    /// Nodes that it asked the store for.
    pub(crate) nodes_asked: u64,
    /// Bytes of its proof, each node with the prefix of its length.
    pub(crate) proof_bytes: u64,
    /// Bytes of loaded nodes that it leaves to the next block.
    pub(crate) carried_bytes: u64,
    /// Bytes of resident memory of the process after it; null where the system does not tell them.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) resident_bytes: Option<u64>,
    /// Bytes of the store's files after it.
    pub(crate) disk_bytes: u64,
}

/// What must hold.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChainChecks {
    /// Whether the last block has the same estimates, root and proof sizes if it loads all nodes itself.
    pub(crate) again_same: bool,
    /// Whether the loaded nodes that are left at the end are within `carry_mib`.
    pub(crate) carried_within: bool,
    /// Whether the store holds every node of the kept states, each with its hash and count, and no other.
    pub(crate) verified: bool,
}

/// Blocks on top of each other, each committed to a store, which is pruned.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChainReport {
    pub(crate) options: ChainOptions,
    /// Median time to build a block of the second half, in milliseconds.
    pub(crate) block_ms: f64,
    /// Median time to commit such a block.
    pub(crate) commit_ms: f64,
    /// Median time to prune after such a block.
    pub(crate) prune_ms: f64,
    /// Median number of nodes that such a block asked the store for.
    pub(crate) nodes_asked: f64,
    pub(crate) checks: ChainChecks,
    /// The blocks.
    pub(crate) rows: Vec<ChainRow>,
}

impl CommandResult for ChainReport {
    const COMMAND: &'static str = "chain";
    const WHAT: &'static str = "chain";
    const SCHEMA: u64 = 1;
    const IF_FAILED: &'static str = BUG;
}

impl ChainReport {
    pub(crate) fn new(options: ChainOptions, rows: Vec<ChainRow>, checks: ChainChecks) -> Self {
        let later = &rows[rows.len() / 2..];
        let median = |of: fn(&ChainRow) -> f64| median(later.iter().map(of));
        Self {
            options,
            block_ms: median(|row| row.block_ms),
            commit_ms: median(|row| row.commit_ms),
            prune_ms: median(|row| row.prune_ms),
            // Exact, because counts are far below 2^52.
            nodes_asked: median(|row| row.nodes_asked as f64),
            checks,
            rows,
        }
    }

    /// The options in one line.
    pub(crate) fn line(&self) -> String {
        let ChainOptions {
            block,
            blocks,
            keep,
            carry_mib,
        } = &self.options;
        format!(
            "{} of {}; {} kept, {carry_mib} MiB carried on",
            counted((*blocks).into(), "block"),
            block.line(),
            counted((*keep).into(), "state")
        )
    }

    /// The checks, whether they hold, and what they compare.
    pub(crate) fn named_checks(&self) -> [(&'static str, bool, &'static str); 3] {
        let ChainChecks {
            again_same,
            carried_within,
            verified,
        } = self.checks;
        [
            (
                "same again",
                again_same,
                "the last block, with all nodes loaded anew",
            ),
            (
                "carried within its bound",
                carried_within,
                "the memory of loaded nodes",
            ),
            (
                "verified",
                verified,
                "every node of every kept state, its hash and its count",
            ),
        ]
    }

    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<String> {
        output::failed(self.named_checks().map(|(name, holds, _)| (name, holds)))
    }
}

/// The most blocks in the table.
const SHOWN: usize = 12;

impl fmt::Display for ChainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.line())?;
        let mut table = Table::new([
            "block",
            "ms",
            "commit ms",
            "prune ms",
            "nodes asked",
            "proof KiB",
            "carried MiB",
            "resident MiB",
            "disk MiB",
        ]);
        let every = self.rows.len().div_ceil(SHOWN).max(1);
        for row in self
            .rows
            .iter()
            .rev()
            .step_by(every)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
            table.row([
                row.number.to_string(),
                format!("{:.2}", row.block_ms),
                format!("{:.2}", row.commit_ms),
                format!("{:.2}", row.prune_ms),
                row.nodes_asked.to_string(),
                format!("{:.1}", row.proof_bytes as f64 / 1024.0),
                mib(row.carried_bytes),
                row.resident_bytes.map_or_else(|| "-".to_owned(), mib),
                mib(row.disk_bytes),
            ]);
        }
        write!(
            f,
            "{table}\n\nmedian of the second half: {:.2} ms, commit {:.2} ms, prune {:.2} ms, {:.0} nodes \
             asked",
            self.block_ms, self.commit_ms, self.prune_ms, self.nodes_asked
        )?;
        for (name, holds, about) in self.named_checks() {
            write!(f, "\n{}{name}: {about}", verdict(holds))?;
        }
        Ok(())
    }
}
