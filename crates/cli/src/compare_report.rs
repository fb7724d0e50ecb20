//! The report on a comparison, as a table and as JSON.

use crate::{
    compare::CacheArg,
    options::UsedOptions,
    output::{self, verdict, Heading},
    table::{or_dash, Table},
};
use serde::Serialize;
use std::fmt;

/// One contender's result. Times are processor time of the thread unless named otherwise; sizes are
/// bytes.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) median_ms: f64,
    pub(crate) percent_of_peer_none: f64,
    pub(crate) estimate_after_last: Option<u64>,
    pub(crate) recorded: u64,
    pub(crate) encoded: u64,
    pub(crate) compact: u64,
    pub(crate) nodes: u64,
    pub(crate) allocations_per_extrinsic: f64,
    pub(crate) median_wall_ms: f64,
    /// Executing one extrinsic, without the estimate after it.
    pub(crate) per_extrinsic_us: f64,
    /// `finalize_block`, in which the root is computed.
    pub(crate) finalize_ms: f64,
    /// The runtime's call for the root in `finalize_block`, in blocks whose calls are timed.
    pub(crate) root_ms: f64,
    /// Share of the state machine in the block's time; the rest is the runtime.
    pub(crate) state_machine_percent: f64,
    pub(crate) rounds: usize,
    pub(crate) claims_complete: bool,
    /// By how many bytes the last estimate is too low; `None` without estimates.
    pub(crate) estimate_under_bytes: Option<u64>,
}

#[derive(Clone, Copy, Serialize)]
struct Checks {
    roots_equal: bool,
    estimates_complete: bool,
}

/// All contenders' results.
#[derive(Serialize)]
pub(crate) struct CompareReport {
    #[serde(flatten)]
    heading: Heading,
    options: UsedOptions,
    cache: CacheArg,
    rounds: u32,
    pub(crate) rows: Vec<Row>,
    checks: Checks,
}

impl CompareReport {
    pub(crate) fn new(
        options: UsedOptions,
        cache: CacheArg,
        rounds: u32,
        rows: Vec<Row>,
        roots_equal: bool,
    ) -> Self {
        let mut claiming = rows.iter().filter(|row| row.claims_complete);
        let estimates_complete = claiming.all(|row| row.estimate_under_bytes == Some(0));
        Self {
            heading: Heading::COMPARE,
            options,
            cache,
            rounds,
            rows,
            checks: Checks {
                roots_equal,
                estimates_complete,
            },
        }
    }

    /// The checks, whether they hold, and what that means.
    pub(crate) fn named_checks(&self) -> [(&'static str, bool, &'static str); 2] {
        let Checks {
            roots_equal,
            estimates_complete,
        } = self.checks;
        [
            (
                "roots_equal",
                roots_equal,
                "same root, changes and nodes as sp-state-machine",
            ),
            (
                "estimates_complete",
                estimates_complete,
                "no estimate is too low where completeness is claimed",
            ),
        ]
    }

    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<&'static str> {
        output::failed(self.named_checks().map(|(name, holds, _)| (name, holds)))
    }

    /// Which block was built.
    pub(crate) fn block_line(&self) -> String {
        let cache = match self.cache {
            CacheArg::None => "no cache",
            CacheArg::Warm => "sp-state-machine's cache warm",
        };
        format!("{}, {cache}", self.options.line())
    }
}

impl fmt::Display for CompareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.block_line())?;
        writeln!(
            f,
            "medians of {} rounds; cpu time of the thread; %: throughput in percent of peer-none's\n",
            self.rounds
        )?;
        writeln!(f, "{}", self.table())?;
        for (name, holds, meaning) in self.named_checks() {
            write!(f, "\n{}{name}: {meaning}", verdict(holds))?;
        }
        Ok(())
    }
}

impl CompareReport {
    fn table(&self) -> Table<16> {
        let mut table = Table::new([
            "<",
            "cpu ms",
            "%",
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
                row.name.to_owned(),
                format!("{:.3}", row.median_ms),
                format!("{:.1}", row.percent_of_peer_none),
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
                format!("{:.1}", row.allocations_per_extrinsic),
            ]);
        }
        table
    }
}
