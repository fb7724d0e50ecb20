//! `povmeter compare estimator`: estimates against sp-state-machine's roots, and what they cost.

use crate::{
    allocations,
    error::{chain, CliError},
    estimator_report::{Checks, EstimatorReport, Failed, OfFlavour},
    progress,
};
use clap::Args;
use povmeter_workload::{
    oracle::{run_cases, Flavour, MismatchKind, Tally},
    speed::{measure, SpeedOptions},
};

/// How many blocks to compare, and which.
#[derive(Args, Debug)]
pub(crate) struct EstimatorArgs {
    /// Random blocks of each of the three flavours, each in both accountings
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    cases: u64,
    /// What blocks and keys are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Failed blocks that are reported one by one.
const FAILURES_SHOWN: usize = 10;

/// The report on estimates.
///
/// # Errors
/// A [`CliError`], among them the report if a check does not hold.
pub(crate) fn run(args: &EstimatorArgs) -> Result<String, CliError> {
    let bar = progress::bar(
        usize::try_from(args.cases).unwrap_or(usize::MAX),
        "random blocks",
    );
    let tally = run_cases(args.seed, args.cases, |_| bar.step());
    drop(bar);
    let options = SpeedOptions {
        seed: args.seed,
        ..SpeedOptions::default()
    };
    let bar = progress::bar(3 * options.keys.len() + 1, "");
    let speed = measure(&options, allocations::count, |what| {
        bar.say(what);
        bar.step();
    })?;
    drop(bar);
    let report = EstimatorReport {
        what: "estimator",
        cases: args.cases,
        seed: args.seed,
        checks: checks(&tally),
        flavours: Flavour::ALL.map(|flavour| of_flavour(&tally, flavour)),
        failures: failures(&tally),
        dirty_keys: options.dirty_keys,
        rounds: options.rounds,
        speed,
    };
    let failed = report.checks.failed();
    let text = if args.json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.to_string()
    };
    if failed.is_empty() {
        Ok(text)
    } else {
        Err(CliError::ChecksFailed {
            failed,
            report: text,
        })
    }
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
        flavour: name(flavour),
        blocks: report.blocks,
        boundaries: report.boundaries,
        over_bytes_percent: report.over_bytes_percent(),
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
            flavour: name(failure.case.flavour),
            seed: failure.case.seed,
            accounting: if failure.case.proven {
                "consensus"
            } else {
                "advisory"
            },
            mismatch: chain(&failure.mismatch),
        })
        .collect()
}

fn name(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Adversarial => "adversarial",
        Flavour::Mixed => "mixed",
        Flavour::DeleteHeavy => "delete_heavy",
    }
}
