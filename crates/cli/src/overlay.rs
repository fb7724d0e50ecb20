//! `povmeter compare overlay`: the overlay beside sp-state-machine's.

use crate::{
    error::CliError,
    output::{finish, CommandResult},
    progress,
    report::{self, ReportArgs},
    table::Table,
    whole_number::whole,
};
use clap::Args;
use povmeter_dev_allocations::allocated;
use povmeter_dev_data::{data_dir, read_trace};
use povmeter_dev_measure::{
    measure_overlay, OverlayMemory, OverlayOptions, OverlayReport, OverlayRow,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How often to measure, and on which keys.
#[derive(Args, Debug)]
#[command(after_help = "\
Also measures the recorded block in the folder that POVMETER_DATA names, if it is set.

Example: one group of operations
  povmeter compare overlay --only 'next key'")]
pub(crate) struct OverlayArgs {
    /// Measured rounds; a quarter as many for operations on 100,000 keys
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = whole::<u32>(1..=100_000))]
    rounds: u32,
    /// Seed for keys
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// Only operations whose names contain this
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    only: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// Number of operations, for the progress bar.
const ROWS: usize = 21;

/// The overlay beside that of sp-state-machine, call by call.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Report {
    /// Measured rounds.
    pub(crate) rounds: u32,
    /// Seed for keys.
    pub(crate) seed: u64,
    /// One row for each operation.
    pub(crate) rows: Vec<OverlayRow>,
    /// Memory in use for each changed key.
    pub(crate) memory: OverlayMemory,
}

impl CommandResult for Report {
    const COMMAND: &'static str = "compare overlay";
    const WHAT: &'static str = "overlay";
    const SCHEMA: u64 = 1;
}

/// Prints the report on the overlay.
///
/// # Errors
/// A [`CliError`] if the recorded block can't be read, or no operation matches.
pub(crate) fn run(args: &OverlayArgs) -> Result<(), CliError> {
    let page = args.report.open(&report::OVERLAY_CHARTS)?;
    let path = data_dir()?.map(|data| data.join("traces/transfers-544.trace.gz"));
    let trace = path.map(|path| read_trace(&path)).transpose()?;
    let options = OverlayOptions {
        rounds: args.rounds as usize,
        seed: args.seed,
        only: args.only.clone(),
    };
    let bar = progress::bar(ROWS, "");
    let measured = measure_overlay(&options, trace.as_ref(), &allocated, |what| bar.next(what));
    let OverlayReport { rows, memory } = measured;
    drop(bar);
    if rows.is_empty() {
        return Err(CliError::NoOperation(args.only.clone()));
    }
    let report = Report {
        rounds: args.rounds,
        seed: args.seed,
        rows,
        memory,
    };
    finish(&report, args.json, Vec::new(), || {
        report::write(page, || report.page())
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "<",
            "peer ns",
            "povmeter ns",
            "times",
            "peer allocs",
            "povm allocs",
        ]);
        for row in &self.rows {
            table.row([
                row.operation.clone(),
                format!("{:.1}", row.peer_ns),
                format!("{:.1}", row.ours_ns),
                format!("{:.1}", row.ratio),
                format!("{:.3}", row.peer_allocations),
                format!("{:.3}", row.ours_allocations),
            ]);
        }
        writeln!(f, "{table}")?;
        let memory = &self.memory;
        write!(
            f,
            "\nbytes in use per changed key ({} keys): sp-state-machine {:.0}, povmeter {:.0}",
            memory.keys, memory.peer_bytes_per_key, memory.ours_bytes_per_key
        )
    }
}
