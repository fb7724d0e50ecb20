//! `povmeter compare parallel`: blocks on several threads, beside one transaction after the other.

use crate::{
    advice::BUG,
    counted::counted,
    error::CliError,
    output::{self, finish, verdict, CommandResult},
    progress,
    report::{self, ReportArgs},
    table::{or_dash, Table},
    whole_number::whole,
};
use clap::{Args, ValueEnum};
use povmeter_dev_allocations::of_all_threads;
use povmeter_dev_parallel::{measure, Bound, Mode, Report as Measured, Settings, Target, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which blocks, and by how many workers.
#[derive(Args, Debug)]
#[command(after_help = "\
Takes a minute or two; with --transactions 10000 ten times as long.

Example: one workload, without a cost of its own
  povmeter compare parallel --workload worst --cost-us 0 --transactions 10000")]
pub(crate) struct ParallelArgs {
    /// Transactions of a block
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = whole::<u32>(1..=1_000_000))]
    transactions: u32,
    /// What transactions do: random-100, random-10000, no-conflict, worst, iterate, same-value, existence
    #[arg(long, value_enum, value_name = "WHAT,..", hide_possible_values = true, value_delimiter = ',',
        hide_default_value = true, default_values_t = WorkloadArg::all())]
    workload: Vec<WorkloadArg>,
    /// Extra computation of each transaction, in microseconds
    #[arg(long, value_name = "US,..", value_delimiter = ',', default_values_t = [0, 1, 10, 125],
        value_parser = whole::<u32>(0..=1_000_000))]
    cost_us: Vec<u32>,
    /// Numbers of workers
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 2, 5, 10, 15, 20],
        value_parser = whole::<u32>(1..=1_000))]
    workers: Vec<u32>,
    /// Rounds, each of which runs every mode once; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1..=1_000_000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// A workload by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WorkloadArg(Workload);

impl WorkloadArg {
    fn all() -> Vec<Self> {
        Workload::ALL.map(Self).to_vec()
    }
}

impl ValueEnum for WorkloadArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [WorkloadArg; Workload::ALL.len()] = {
            let mut all = [WorkloadArg(Workload::Random100); Workload::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = WorkloadArg(Workload::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

impl fmt::Display for WorkloadArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

// Without a doc comment, so that the schema is that of the type inside, with its description.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Report(pub(crate) Measured);

impl CommandResult for Report {
    const COMMAND: &'static str = "compare parallel";
    const WHAT: &'static str = "parallel";
    const SCHEMA: u64 = 1;
    const IF_FAILED: &'static str = BUG;
}

/// Prints the report on blocks in parallel.
///
/// # Errors
/// A [`CliError`], also if a check fails.
pub(crate) fn run(args: &ParallelArgs) -> Result<(), CliError> {
    let page = args.report.open(&report::PARALLEL_CHARTS)?;
    let settings = Settings {
        transactions: args.transactions,
        workloads: args.workload.iter().map(|workload| workload.0).collect(),
        costs_us: args.cost_us.clone(),
        workers: args.workers.clone(),
        rounds: args.rounds,
    };
    let bar = std::cell::OnceCell::new();
    let measured = measure(&settings, Some(of_all_threads), &mut |part, parts, what| {
        let bar = bar.get_or_init(|| progress::bar(parts, ""));
        bar.say(what.to_owned());
        bar.reach(part);
    })?;
    drop(bar);
    let report = Report(measured);
    finish(&report, args.json, report.failed(), || {
        report::write(page, || report.page())
    })
}

/// The ways to execute a block.
const MODES: [Mode; 4] = [
    Mode::Sequential,
    Mode::Adaptive,
    Mode::Always,
    Mode::EachAhead,
];

/// How a mode executes a block.
fn meaning(mode: Mode) -> &'static str {
    match mode {
        Mode::Sequential => {
            "one transaction after the other on a plain block; the others are compared with it"
        }
        Mode::Adaptive => "in parallel only while that is faster: the default of povmeter-parallel",
        Mode::Always => "always in parallel",
        Mode::EachAhead => "each transaction is executed ahead of its turn, also with one worker",
    }
}

/// The note on the model, for each place that shows its numbers.
pub(crate) const MODEL_NOTE: &str =
    "a simulation of the scheduler, fed with the measured costs of one worker, with a processor for each \
     worker. It knows nothing of caches, of locks that threads wait for, or of validations before the turn, so \
     it is no measurement";

impl Report {
    /// The checks, whether they hold, and what they compare.
    pub(crate) fn named_checks(&self) -> [(&'static str, bool, &'static str); 1] {
        let what = "root and proof size of each block are those of the plain block";
        [("same_as_sequential", self.0.same_as_sequential(), what)]
    }

    /// The names of the checks that failed.
    fn failed(&self) -> Vec<String> {
        output::failed(self.named_checks().map(|(name, holds, _)| (name, holds)))
    }

    /// `count` divided by the number of transactions.
    pub(crate) fn per_transaction(&self, count: u64) -> f64 {
        count as f64 / f64::from(self.0.options.transactions.max(1))
    }

    /// The lead of the page, and of the text.
    pub(crate) fn lead(&self) -> String {
        let Measured { options, cores, .. } = &self.0;
        format!(
            "{} in a block, with the proof size after each; {}; medians of {}",
            counted(options.transactions as u64, "transaction"),
            counted(*cores as u64, "core"),
            counted(options.rounds as u64, "round")
        )
    }

    fn blocks(&self) -> Table<10> {
        let mut table = Table::new([
            "<workload",
            "cost us",
            "workers",
            "<mode",
            "ms",
            "times as fast",
            "bytes/tx",
            "allocs/tx",
            "executions/tx",
            "validations/tx",
        ]);
        for row in &self.0.rows {
            let speedup = self.0.speedup(row);
            table.row([
                row.workload.name().to_owned(),
                row.cost_us.to_string(),
                row.workers.to_string(),
                row.mode.name().to_owned(),
                format!("{:.2}", row.ms),
                or_dash(speedup.map(|speedup| format!("{speedup:.2}"))),
                format!("{:.0}", self.per_transaction(row.bytes)),
                format!("{:.1}", self.per_transaction(row.allocations)),
                format!("{:.2}", row.executions_per_tx),
                format!("{:.2}", row.validations_per_tx),
            ]);
        }
        table
    }

    fn shapes(&self) -> Table<5> {
        let mut table = Table::new(["<workload", "<store", "ms", "bytes/tx", "allocs/tx"]);
        for row in &self.0.shapes {
            table.row([
                row.workload.name().to_owned(),
                row.shape.name().to_owned(),
                format!("{:.2}", row.ms),
                format!("{:.0}", self.per_transaction(row.bytes)),
                format!("{:.1}", self.per_transaction(row.allocations)),
            ]);
        }
        table
    }

    fn model(&self) -> Table<3> {
        let mut table = Table::new(["<workload", "cost us", "<times as fast, by workers"]);
        for row in &self.0.model {
            let curve = row
                .curve
                .iter()
                .map(|point| format!("{}: {:.2}", point.workers, point.speedup));
            table.row([
                row.workload.name().to_owned(),
                row.cost_us.to_string(),
                curve.collect::<Vec<_>>().join("  "),
            ]);
        }
        table
    }

    fn targets(&self) -> Table<5> {
        let mut table = Table::new(["<", "<target", "<workload", "found", "<limit"]);
        for target in &self.0.targets {
            let met = if target.met { "met" } else { "missed" };
            table.row([
                met.to_owned(),
                target.name.clone(),
                target.workload.name().to_owned(),
                format!("{:.2}", target.found),
                limit(target),
            ]);
        }
        table
    }
}

/// The limit of a target in words.
pub(crate) fn limit(target: &Target) -> String {
    let bound = match target.bound {
        Bound::AtMost => "at most",
        Bound::AtLeast => "at least",
    };
    format!("{bound} {}", target.limit)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\n{}\n", self.lead(), self.blocks())?;
        for mode in MODES {
            writeln!(f, "{:<10}  {}", mode.name(), meaning(mode))?;
        }
        writeln!(
            f,
            "\nMulti-version stores alone, on one thread\n\n{}",
            self.shapes()
        )?;
        if !self.0.model.is_empty() {
            let note = MODEL_NOTE.replace(". It", ".\nIt");
            writeln!(f, "\nA model: {note}\n\n{}", self.model())?;
        }
        if !self.0.targets.is_empty() {
            writeln!(
                f,
                "\nTargets, which are those of blocks of 10,000 transactions\n\n{}",
                self.targets()
            )?;
        }
        for (name, holds, about) in self.named_checks() {
            write!(f, "\n{}{name}: {about}", verdict(holds))?;
        }
        Ok(())
    }
}
