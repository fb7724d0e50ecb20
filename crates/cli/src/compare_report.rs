//! The report on a comparison, as a table and as JSON.

use crate::{
    compare::CacheArg,
    compare_threads::ThreadsRow,
    counted::counted,
    options::UsedOptions,
    output::{self, verdict, CommandResult},
    spread::Spread,
    table::{or_dash, Table},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One way to build a block. Times are processor time of the thread unless named otherwise; sizes are
/// bytes.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Row {
    /// Name of the way; peer-none is sp-state-machine without estimates.
    pub(crate) name: String,
    /// Processor time of the whole block in milliseconds, median of the rounds.
    pub(crate) median_ms: f64,
    /// Throughput in percent of peer-none.
    pub(crate) percent_of_peer_none: f64,
    /// Its range in the middle half of the rounds, against the median of peer-none; null for fewer than
    /// four rounds.
    #[serde(default)]
    pub(crate) percent_spread: Option<Spread>,
    /// The estimate after the last extrinsic in bytes; null without estimates.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) estimate_after_last: Option<u64>,
    /// Bytes of the proof, each node with the prefix of its length.
    pub(crate) recorded: u64,
    /// Bytes of the proof, encoded.
    pub(crate) encoded: u64,
    /// Bytes of the compact proof, encoded.
    pub(crate) compact: u64,
    /// Number of nodes.
    pub(crate) nodes: u64,
    /// Allocations per extrinsic, including the estimate after it. The first extrinsic does not count; null if there is
    /// no other.
    pub(crate) allocations_per_extrinsic: Option<f64>,
    /// Wall time of the whole block in milliseconds, median of the rounds.
    pub(crate) median_wall_ms: f64,
    /// Processor time of one extrinsic in microseconds, without the estimate after it.
    pub(crate) per_extrinsic_us: f64,
    /// Processor time of finalize_block in milliseconds, in which the root is computed.
    pub(crate) finalize_ms: f64,
    /// Processor time in milliseconds of the call for the root in finalize_block, in blocks whose calls
    /// are timed one by one.
    pub(crate) root_ms: f64,
    /// Share of the state machine in the time of the block, in percent; the rest is the runtime.
    pub(crate) state_machine_percent: f64,
    /// Rounds that this way took part in.
    pub(crate) rounds: usize,
    /// Whether it claims that no estimate is too low.
    pub(crate) claims_complete: bool,
    /// Bytes that the last estimate lacks; null without estimates.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) estimate_under_bytes: Option<u64>,
}

/// Name and meaning of each way.
pub(crate) const WAYS: [(&str, &str); 11] = [
    (
        "peer-none",
        "sp-state-machine with its recorder, no estimate",
    ),
    (
        "none",
        "the same with what the next seven need: their baseline",
    ),
    ("root-each-tx", "the storage root after each extrinsic"),
    (
        "incremental",
        "only keys changed since the last estimate, over its nodes",
    ),
    (
        "fake-hasher",
        "the same with a fast hash in place of Blake2b",
    ),
    ("each-key-once", "no key that an earlier estimate had"),
    (
        "forget",
        "a trie for each estimate, dropped without a commit",
    ),
    ("get-for-writes", "a look-up in place of an insertion"),
    (
        "upstream",
        "as polkadot-sdk pull request 10215 proposes: such a trie",
    ),
    ("povmeter-none", "povmeter without an estimate"),
    ("povmeter", "povmeter with a size after each extrinsic"),
];

impl Row {
    /// The range of the throughput in the middle half of the rounds.
    pub(crate) fn spread(&self) -> Option<String> {
        let Spread { low, high } = self.percent_spread?;
        Some(format!("{low:.1} to {high:.1}"))
    }
}

/// What must hold.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Checks {
    /// Whether every way builds the block of sp-state-machine.
    pub(crate) roots_equal: bool,
    /// Whether no estimate is too low where completeness is claimed.
    pub(crate) estimates_complete: bool,
    /// Whether several threads build the block of one; null without several.
    #[serde(default)]
    pub(crate) threads_equal: Option<bool>,
}

/// Ways to build a block, measured side by side.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct CompareReport {
    /// The block that was asked for.
    pub(crate) options: UsedOptions,
    /// What is kept from earlier blocks.
    pub(crate) cache: CacheArg,
    /// Measured rounds.
    pub(crate) rounds: u32,
    /// One row for each way.
    pub(crate) rows: Vec<Row>,
    /// The block on several threads; empty unless it was asked for.
    #[serde(default)]
    pub(crate) threads: Vec<ThreadsRow>,
    /// What must hold.
    pub(crate) checks: Checks,
}

/// Its `what` is that of `block`, too; the field `rows` tells the results apart.
impl CommandResult for CompareReport {
    const COMMAND: &'static str = "compare block";
    const WHAT: &'static str = "block";
    const SCHEMA: u64 = 1;
}

impl CompareReport {
    pub(crate) fn new(
        options: UsedOptions,
        cache: CacheArg,
        rounds: u32,
        (rows, roots_equal): (Vec<Row>, bool),
        (threads, threads_equal): (Vec<ThreadsRow>, bool),
    ) -> Self {
        let mut claiming = rows.iter().filter(|row| row.claims_complete);
        let estimates_complete = claiming.all(|row| row.estimate_under_bytes == Some(0));
        Self {
            options,
            cache,
            rounds,
            rows,
            checks: Checks {
                roots_equal,
                estimates_complete,
                threads_equal: (!threads.is_empty()).then_some(threads_equal),
            },
            threads,
        }
    }

    /// The checks, whether they hold, and what that means.
    pub(crate) fn named_checks(&self) -> Vec<(&'static str, bool, &'static str)> {
        let Checks {
            roots_equal,
            estimates_complete,
            threads_equal,
        } = self.checks;
        let mut checks = vec![
            (
                "roots equal",
                roots_equal,
                "same root, changes and nodes as sp-state-machine",
            ),
            (
                "estimates complete",
                estimates_complete,
                "no estimate is too low where completeness is claimed",
            ),
        ];
        checks.extend(threads_equal.map(|equal| {
            let meaning = "several threads come to the block, the sizes and the proof of one";
            ("threads equal", equal, meaning)
        }));
        checks
    }

    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<String> {
        let checks = self.named_checks().into_iter();
        output::failed(checks.map(|(name, holds, _)| (name, holds)))
    }

    /// Describes the block and the caches in one line.
    pub(crate) fn block_line(&self) -> String {
        let cache = match self.cache {
            CacheArg::None => "no cache",
            CacheArg::Warm => "caches warm",
        };
        format!("{}, {cache}", self.options.line())
    }
}

impl fmt::Display for CompareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.block_line())?;
        writeln!(
            f,
            "medians of {}; cpu time of the thread; %: throughput in percent of peer-none's, then from \
             where to where it was in the middle half of the rounds\n",
            counted(self.rounds as u64, "round")
        )?;
        writeln!(f, "{}\n", self.table())?;
        for (name, meaning) in WAYS {
            writeln!(f, "{name:<14}  {meaning}")?;
        }
        if self.cache == CacheArg::Warm {
            let note = "\ncaches warm: each block has the same parent, so no cache has to follow a block; \
                        `povmeter chain` times blocks that follow each other";
            writeln!(f, "{note}")?;
        }
        if !self.threads.is_empty() {
            writeln!(
                f,
                "\non threads, time of the clock:\n{}\n",
                self.text_of_threads()
            )?;
        }
        for (name, holds, meaning) in self.named_checks() {
            write!(f, "\n{}{name}: {meaning}", verdict(holds))?;
        }
        Ok(())
    }
}

impl CompareReport {
    fn text_of_threads(&self) -> Table<7> {
        let mut table = Table::new([
            "<",
            "runtime asks for sizes",
            "extrinsics ms",
            "times as fast",
            "block ms",
            "%",
            "ahead",
        ]);
        for row in &self.threads {
            table.row([
                row.name(),
                row.asks().to_owned(),
                format!("{:.3}", row.extrinsics_wall_ms),
                row.times_as_fast(),
                format!("{:.3}", row.wall_ms),
                format!("{:.1}", row.percent_of_peer_none),
                row.ahead.to_string(),
            ]);
        }
        table
    }

    fn table(&self) -> Table<17> {
        let mut table = Table::new([
            "<",
            "cpu ms",
            "%",
            "half of them",
            "wall ms",
            "us/tx",
            "final ms",
            "root ms",
            "state %",
            "rounds",
            "estimate",
            "under",
            "recorded",
            "encoded",
            "compact",
            "nodes",
            "allocs/tx",
        ]);
        for row in &self.rows {
            table.row([
                row.name.clone(),
                format!("{:.3}", row.median_ms),
                format!("{:.1}", row.percent_of_peer_none),
                row.spread().unwrap_or_else(|| "-".to_owned()),
                format!("{:.3}", row.median_wall_ms),
                format!("{:.1}", row.per_extrinsic_us),
                format!("{:.3}", row.finalize_ms),
                format!("{:.3}", row.root_ms),
                format!("{:.1}", row.state_machine_percent),
                row.rounds.to_string(),
                or_dash(row.estimate_after_last),
                or_dash(row.estimate_under_bytes),
                row.recorded.to_string(),
                row.encoded.to_string(),
                row.compact.to_string(),
                row.nodes.to_string(),
                or_dash(
                    row.allocations_per_extrinsic
                        .map(|number| format!("{number:.1}")),
                ),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender;

    #[test]
    fn each_way_is_explained() {
        let ways = Contender::all().into_iter().map(Contender::name);
        assert!(ways.eq(WAYS.map(|(name, _)| name)));
    }
}
