//! `povmeter compare pool`: a block in fresh memory and in that of earlier blocks.

use crate::{allocations, error::CliError, progress};
use clap::Args;
use povmeter_workload::{
    data_dir, read_trace,
    speed::{measure_pool, PoolReport},
};
use serde::Serialize;
use std::fmt;

/// How to print.
#[derive(Args, Debug)]
pub(crate) struct PoolArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    what: &'static str,
    #[serde(flatten)]
    measured: PoolReport,
}

/// The report on pooled blocks.
///
/// # Errors
/// A [`CliError`], among them the report if a check does not hold.
pub(crate) fn run(args: &PoolArgs) -> Result<String, CliError> {
    let folder = data_dir().ok_or(CliError::NoRecordedBlock)?;
    let trace = read_trace(&folder.join("traces/transfers-544.trace.gz"))?;
    let measured = progress::during("replaying a block", || {
        measure_pool(&trace, &allocations::allocated)
    })?;
    let report = Report {
        what: "pool",
        measured,
    };
    let text = if args.json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.to_string()
    };
    let failed = report.failed();
    if failed.is_empty() {
        Ok(text)
    } else {
        Err(CliError::ChecksFailed {
            failed,
            report: text,
        })
    }
}

impl Report {
    /// The names of the checks that do not hold.
    fn failed(&self) -> Vec<&'static str> {
        let checks = [
            ("same_block", self.measured.same_block),
            ("same_sizes", self.measured.same_sizes),
        ];
        let failed = checks.into_iter().filter(|(_, holds)| !holds);
        failed.map(|(name, _)| name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolReport {
            fresh,
            pooled,
            bytes_percent,
            extrinsics,
            ..
        } = &self.measured;
        writeln!(
            f,
            "{extrinsics} transfers, replayed call by call, a size after each\n"
        )?;
        writeln!(
            f,
            "{:<8} {:>13} {:>13} {:>12} {:>17}",
            "", "allocs/extr.", "allocations", "bytes", "bytes of sealing"
        )?;
        for (name, row) in [("fresh", fresh), ("pooled", pooled)] {
            writeln!(
                f,
                "{name:<8} {:>13.3} {:>13} {:>12} {:>17}",
                row.allocations_per_extrinsic, row.allocations, row.bytes, row.bytes_of_sealing
            )?;
        }
        writeln!(f, "\nbytes until sealed: {bytes_percent:.1} % of fresh")?;
        let verdict = |holds| if holds { "ok" } else { "FAILED" };
        let PoolReport {
            same_block,
            same_sizes,
            ..
        } = self.measured;
        writeln!(
            f,
            "{:<7}same_block: root, changes and proof",
            verdict(same_block)
        )?;
        write!(
            f,
            "{:<7}same_sizes: after each transfer",
            verdict(same_sizes)
        )
    }
}
