//! The report on a comparison, as a table and as JSON.

use crate::{compare::CacheArg, options::UsedOptions};
use serde::Serialize;
use std::fmt;

/// One contender's result. Times are processor time of the thread unless they are named otherwise,
/// sizes are bytes.
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
    /// Share of the state machine in the block's time; the rest is the runtime.
    pub(crate) state_machine_percent: f64,
    pub(crate) rounds: usize,
    pub(crate) claims_complete: bool,
    /// What the last estimate lacks of the truth; `None` without estimates.
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
    what: &'static str,
    options: UsedOptions,
    cache: CacheArg,
    rounds: u32,
    rows: Vec<Row>,
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
            what: "block",
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

    /// The names of the checks that do not hold.
    pub(crate) fn failed_checks(&self) -> Vec<&'static str> {
        let Checks {
            roots_equal,
            estimates_complete,
        } = self.checks;
        let checks = [
            ("roots_equal", roots_equal),
            ("estimates_complete", estimates_complete),
        ];
        let failed = checks.into_iter().filter(|(_, holds)| !holds);
        failed.map(|(name, _)| name).collect()
    }
}

impl fmt::Display for CompareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = match self.cache {
            CacheArg::None => "no cache",
            CacheArg::Warm => "the peer's cache warm",
        };
        writeln!(f, "{}, {cache}", self.options.line())?;
        writeln!(
            f,
            "medians of {} rounds; cpu time of the thread, % of the throughput of peer-none\n",
            self.rounds
        )?;
        writeln!(
            f,
            "{:<15} {:>9} {:>7} {:>9} {:>7} {:>8} {:>7} {:>6} {:>9} {:>6} {:>9} {:>9} {:>9} {:>6} {:>9}",
            "",
            "cpu ms",
            "%",
            "wall ms",
            "us/tx",
            "final ms",
            "state %",
            "rounds",
            "estimate",
            "under",
            "recorded",
            "encoded",
            "compact",
            "nodes",
            "allocs/tx",
        )?;
        for row in &self.rows {
            let or_none =
                |size: Option<u64>| size.map_or_else(|| "-".to_owned(), |size| size.to_string());
            writeln!(
                f,
                "{:<15} {:>9.3} {:>7.1} {:>9.3} {:>7.1} {:>8.3} {:>7.1} {:>6} {:>9} {:>6} {:>9} {:>9} {:>9} {:>6} {:>9.1}",
                row.name,
                row.median_ms,
                row.percent_of_peer_none,
                row.median_wall_ms,
                row.per_extrinsic_us,
                row.finalize_ms,
                row.state_machine_percent,
                row.rounds,
                or_none(row.estimate_after_last),
                or_none(row.estimate_under_bytes),
                row.recorded,
                row.encoded,
                row.compact,
                row.nodes,
                row.allocations_per_extrinsic,
            )?;
        }
        let verdict = |holds| if holds { "ok" } else { "FAILED" };
        let Checks {
            roots_equal,
            estimates_complete,
        } = self.checks;
        writeln!(
            f,
            "\n{:<7}roots_equal: same root, changes and nodes as the peer",
            verdict(roots_equal)
        )?;
        write!(
            f,
            "{:<7}estimates_complete: nothing under where that is claimed",
            verdict(estimates_complete)
        )
    }
}
