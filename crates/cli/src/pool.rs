//! `povmeter compare pool`: a block in fresh memory and in that of earlier blocks.

use crate::{
    allocations,
    error::CliError,
    output::{self, printed, verdict, Heading},
    progress,
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
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    heading: Heading,
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
        heading: Heading::POOL,
        measured,
    };
    printed(&report, args.json, report.failed())
}

impl Report {
    /// The names of the checks that do not hold.
    fn failed(&self) -> Vec<&'static str> {
        output::failed([
            ("same_block", self.measured.same_block),
            ("same_sizes", self.measured.same_sizes),
        ])
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolReport {
            fresh,
            pooled,
            kept,
            bytes_percent,
            kept_percent,
            extrinsics,
            same_block,
            same_sizes,
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
        let rows = [
            ("fresh", fresh),
            ("pooled", pooled),
            ("pooled, nodes kept", kept),
        ];
        for (name, row) in rows {
            table.row([
                name.to_owned(),
                format!("{:.3}", row.allocations_per_extrinsic),
                format!("{:.1}", row.allocations),
                format!("{:.0}", row.bytes),
                format!("{:.0}", row.bytes_of_sealing),
            ]);
        }
        writeln!(
            f,
            "{table}\n\nbytes of a block: {bytes_percent:.1} % of fresh, {kept_percent:.1} % where a \
             store keeps the nodes"
        )?;
        writeln!(
            f,
            "{}same_block: root, changes and proof",
            verdict(*same_block)
        )?;
        write!(f, "{}same_sizes: after each transfer", verdict(*same_sizes))
    }
}
