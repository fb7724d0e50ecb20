//! `povmeter compare pool`: a block in fresh memory beside a block that reuses earlier blocks' memory.

use crate::{
    advice::BUG,
    error::CliError,
    output::{self, finish, verdict, CommandResult},
    progress,
    report::{self, ReportArgs},
    table::Table,
};
use clap::Args;
use povmeter_dev_allocations::allocated;
use povmeter_dev_data::{data_dir, read_trace};
use povmeter_dev_measure::{measure_pool, PoolReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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

// Without a doc comment, so that the schema is that of the type inside, with its description.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Report(pub(crate) PoolReport);

impl CommandResult for Report {
    const COMMAND: &'static str = "compare pool";
    const WHAT: &'static str = "pool";
    const SCHEMA: u64 = 1;
    const IF_FAILED: &'static str = BUG;
}

/// Prints the report on pooled blocks.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed before.
pub(crate) fn run(args: &PoolArgs) -> Result<(), CliError> {
    let page = args.report.open(&report::POOL_CHARTS)?;
    let folder = data_dir()?.ok_or(CliError::NoRecordedBlock)?;
    let trace = read_trace(&folder.join("traces/transfers-544.trace.gz"))?;
    let measured = progress::during("replaying a block", || measure_pool(&trace, &allocated))?;
    let report = Report(measured);
    finish(&report, args.json, report.failed(), || {
        report::write(page, || report.page())
    })
}

impl Report {
    /// The checks, whether they hold, and what they compare.
    pub(crate) fn named_checks(&self) -> [(&'static str, bool, &'static str); 2] {
        let PoolReport {
            same_block,
            same_sizes,
            ..
        } = self.0;
        [
            ("same block", same_block, "root, changes and proof"),
            ("same sizes", same_sizes, "after each transfer"),
        ]
    }

    /// The names of the checks that failed.
    fn failed(&self) -> Vec<String> {
        output::failed(self.named_checks().map(|(name, holds, _)| (name, holds)))
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
            ..
        } = &self.0;
        writeln!(
            f,
            "{extrinsics} transfers, replayed call by call, with the proof size after each\n"
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
        write!(
            f,
            "{table}\n\nbytes per block: {bytes_percent:.1} % of fresh, {kept_percent:.1} % if a store \
             keeps the nodes"
        )?;
        for (name, holds, about) in self.named_checks() {
            write!(f, "\n{}{name}: {about}", verdict(holds))?;
        }
        Ok(())
    }
}
