//! `povmeter compare pool`: a block in fresh memory and in that of earlier blocks.

use crate::{
    allocations,
    error::CliError,
    output::{self, printed, verdict, Heading},
    progress,
    report::{self, ReportArgs},
    table::Table,
};
use clap::Args;
use povmeter_workload::{
    data_dir, read_trace,
    speed::{measure_pool, PoolReport},
};
use serde::Serialize;
use std::fmt;

/// How to print.
#[derive(Args, Debug)]
#[command(after_help = "\
Needs the recorded block traces/transfers-544.trace.gz in the folder that POVMETER_DATA names.

Example:
  POVMETER_DATA=data povmeter compare pool")]
pub(crate) struct PoolArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    heading: Heading,
    #[serde(flatten)]
    pub(crate) measured: PoolReport,
}

/// The report on pooled blocks.
///
/// # Errors
/// A [`CliError`], among them the report if a check does not hold.
pub(crate) fn run(args: &PoolArgs) -> Result<String, CliError> {
    let page = args.report.open(&report::POOL_CHARTS)?;
    let folder = data_dir().ok_or(CliError::NoRecordedBlock)?;
    let trace = read_trace(&folder.join("traces/transfers-544.trace.gz"))?;
    let measured = progress::during("replaying a block", || {
        measure_pool(&trace, &allocations::allocated)
    })?;
    let report = Report {
        heading: Heading::POOL,
        measured,
    };
    if let Some(page) = page {
        page.write(&report.page())?;
    }
    printed(&report, args.json, report.failed())
}

impl Report {
    /// The checks, whether they hold, and what they are about.
    pub(crate) fn named_checks(&self) -> [(&'static str, bool, &'static str); 2] {
        let PoolReport {
            same_block,
            same_sizes,
            ..
        } = self.measured;
        [
            ("same_block", same_block, "root, changes and proof"),
            ("same_sizes", same_sizes, "after each transfer"),
        ]
    }

    /// The names of the checks that do not hold.
    fn failed(&self) -> Vec<&'static str> {
        output::failed(self.named_checks().map(|(name, holds, _)| (name, holds)))
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
        let mut table = Table::new([
            "<",
            "allocs/extr.",
            "allocations",
            "bytes",
            "bytes of sealing",
        ]);
        for (name, row) in [("fresh", fresh), ("pooled", pooled)] {
            table.row([
                name.to_owned(),
                format!("{:.3}", row.allocations_per_extrinsic),
                row.allocations.to_string(),
                row.bytes.to_string(),
                row.bytes_of_sealing.to_string(),
            ]);
        }
        write!(
            f,
            "{table}\n\nbytes until sealed: {bytes_percent:.1} % of fresh"
        )?;
        for (name, holds, about) in self.named_checks() {
            write!(f, "\n{}{name}: {about}", verdict(holds))?;
        }
        Ok(())
    }
}
