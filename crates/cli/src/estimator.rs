//! `povmeter compare estimator`: estimates against sp-state-machine's roots, and what they cost.

use crate::{
    error::{chain, CliError},
    estimator_report::{Checks, EstimatorReport, Failed, OfFlavour},
    options::{expect_room_for_keys, MOST_KEYS},
    output::finish,
    progress,
    report::{self, ReportArgs},
    whole_number::whole,
};
use clap::Args;
use povmeter_dev_allocations::allocated;
use povmeter_dev_measure::{measure, SpeedOptions, SpeedReport};
use povmeter_dev_oracle::{run_cases, Case, Flavour, MismatchKind, Tally};

/// How many blocks to compare, and which.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: 600 random blocks instead of 3,000, and one small state to measure on
  povmeter compare estimator --cases 200 --keys 10000")]
pub(crate) struct EstimatorArgs {
    /// Random blocks of each of three flavours, in both accountings
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = whole::<u64>(1..=1_000_000_000))]
    cases: u64,
    // At least 10,000, because the measured block of transfers needs as many.
    /// Accounts in the parent states that are measured, 10,000 or more
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = whole::<usize>(10_000..=MOST_KEYS),
        default_values_t = [10_000, 1_000_000])]
    keys: Vec<usize>,
    /// Seed for blocks and keys
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// Most failed blocks that are listed.
const FAILURES_SHOWN: usize = 10;

/// Prints the report on estimates.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed first.
pub(crate) fn run(args: &EstimatorArgs) -> Result<(), CliError> {
    expect_room_for_keys(&args.keys)?;
    let page = args.report.open(&report::ESTIMATOR_CHARTS)?;
    let bar = progress::bar(args.cases, "random blocks");
    let tally = run_cases(args.seed, args.cases, Case::random, |_| bar.step());
    drop(bar);
    let options = SpeedOptions {
        keys: args.keys.clone(),
        seed: args.seed,
        ..SpeedOptions::default()
    };
    let bar = progress::bar(3 * options.keys.len() + 1, "");
    let speed = measure(&options, || allocated().calls, |what| bar.next(what))?;
    let SpeedReport {
        rows,
        flatness,
        memory,
    } = speed;
    drop(bar);
    let report = EstimatorReport {
        cases: args.cases,
        seed: args.seed,
        checks: checks(&tally),
        flavours: Flavour::ALL.map(|flavour| of_flavour(&tally, flavour)),
        failures: failures(&tally),
        dirty_keys: options.dirty_keys,
        rounds: options.rounds,
        rows,
        flatness,
        memory,
    };
    finish(&report, args.json, report.checks.failed(), || {
        report::write(page, || report.page())
    })
}

fn checks(tally: &Tally) -> Checks {
    let total = tally.total();
    Checks {
        boundaries: total.boundaries,
        under: tally.count(MismatchKind::Under),
        over_bytes_percent: tally.of(Flavour::Mixed).over_bytes_percent(),
        over_nodes_percent: tally.of(Flavour::Adversarial).over_nodes_percent(),
        upstream_under: total.upstream_under,
        roles_differ: tally.count(MismatchKind::Roles),
        compact_differs: tally.count(MismatchKind::Compact),
        others_differ: tally.count(MismatchKind::Other),
    }
}

fn of_flavour(tally: &Tally, flavour: Flavour) -> OfFlavour {
    let report = tally.of(flavour);
    OfFlavour {
        flavour: flavour.name().to_owned(),
        blocks: report.blocks,
        boundaries: report.boundaries,
        over_bytes_percent: report.over_bytes_percent(),
        consensus_over_bytes_percent: tally.of_accounting(flavour, true).over_bytes_percent(),
        advisory_over_bytes_percent: tally.of_accounting(flavour, false).over_bytes_percent(),
        rule_over_bytes_percent: report.rule_over_bytes_percent(),
        over_nodes_percent: report.over_nodes_percent(),
        left_out: report.left_out,
        upstream_boundaries: report.upstream_boundaries,
        upstream_under: report.upstream_under,
        upstream_under_blocks: report.upstream_under_blocks,
    }
}

fn failures(tally: &Tally) -> Vec<Failed> {
    let failures = tally.failures().iter().take(FAILURES_SHOWN);
    failures
        .map(|failure| Failed {
            flavour: failure.case.flavour.name().to_owned(),
            seed: failure.case.seed,
            accounting: if failure.case.proven {
                "consensus".to_owned()
            } else {
                "advisory".to_owned()
            },
            mismatch: chain(&failure.mismatch),
        })
        .collect()
}
