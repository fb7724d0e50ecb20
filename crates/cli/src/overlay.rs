//! `povmeter compare overlay`: the overlay beside sp-state-machine's.

use crate::{allocations, error::CliError, progress};
use clap::Args;
use povmeter_workload::{
    data_dir, read_trace,
    speed::{measure_overlay, OverlayOptions, OverlayReport},
};
use serde::Serialize;
use std::fmt;

/// How often to measure, and on which keys.
#[derive(Args, Debug)]
pub(crate) struct OverlayArgs {
    /// Measured rounds; those with 100,000 keys are a quarter as many
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// What keys are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only operations whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Operations there are, for the bar.
const ROWS: usize = 21;

#[derive(Debug, Serialize)]
struct Report {
    what: &'static str,
    rounds: u32,
    seed: u64,
    #[serde(flatten)]
    measured: OverlayReport,
}

/// The report on the overlay.
///
/// # Errors
/// A [`CliError`] if the recorded block can't be read.
pub(crate) fn run(args: &OverlayArgs) -> Result<String, CliError> {
    let path = data_dir().map(|data| data.join("traces/transfers-544.trace.gz"));
    let trace = path.map(|path| read_trace(&path)).transpose()?;
    let options = OverlayOptions {
        rounds: args.rounds as usize,
        seed: args.seed,
        only: args.only.clone(),
    };
    let bar = progress::bar(ROWS, "");
    let measured = measure_overlay(
        &options,
        trace.as_deref(),
        &allocations::allocated,
        |what| {
            bar.say(what);
            bar.step();
        },
    );
    drop(bar);
    let report = Report {
        what: "overlay",
        rounds: args.rounds,
        seed: args.seed,
        measured,
    };
    if args.json {
        Ok(serde_json::to_string_pretty(&report)?)
    } else {
        Ok(report.to_string())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<34} {:>11} {:>11} {:>7} {:>11} {:>11}",
            "", "peer ns", "povmeter ns", "times", "peer allocs", "povm allocs"
        )?;
        for row in &self.measured.rows {
            writeln!(
                f,
                "{:<34} {:>11.1} {:>11.1} {:>7.1} {:>11.3} {:>11.3}",
                row.operation,
                row.peer_ns,
                row.ours_ns,
                row.ratio,
                row.peer_allocations,
                row.ours_allocations,
            )?;
        }
        let OverlayReport {
            memory, children, ..
        } = &self.measured;
        writeln!(
            f,
            "\nbytes in use per changed key ({} keys): peer {:.0}, povmeter {:.0}",
            memory.keys, memory.peer_bytes_per_key, memory.ours_bytes_per_key
        )?;
        write!(
            f,
            "{} branches over {} child stores, {} touched by each: {} stores and {} bytes, {:.1} % of \
             {} stores and {} bytes if made at once; {} allocations for an untouched branch",
            children.transactions * children.branches_per_transaction,
            children.stores,
            children.touched,
            children.stores_made,
            children.bytes,
            children.stores_percent,
            children.eager_stores,
            children.eager_bytes,
            children.allocations_of_an_untouched_branch,
        )
    }
}
