//! `povmeter compare root`: root updates against sp-state-machine's, and what they cost.

use crate::{
    compare_root_report::{Checks, Failed, KnownFailed, OfVersion, RootReport},
    error::{chain, CliError},
    options::{expect_room_for_keys, MOST_KEYS},
    output::finish,
    progress,
    report::{self, ReportArgs},
    whole_number::whole,
};
use clap::Args;
use povmeter_dev_allocations::allocated;
use povmeter_dev_data::data_dir;
use povmeter_dev_measure::{measure_roots, RootSpeedOptions, RootSpeedReport};
use povmeter_dev_oracle::{run_roots, KnownState, RootCounts, RootMode, RootTally, SPLIT_FROM};
use sp_core::storage::StateVersion;
use std::path::Path;

/// How many updates to compare, and which.
#[derive(Args, Debug)]
#[command(after_help = "\
Also compares the real states in the folder that POVMETER_DATA names, if it is set.

Example: fewer random blocks, and one small state to measure on
  povmeter compare root --cases 2000 --keys 10000")]
pub(crate) struct RootArgs {
    /// Random blocks of each state version, compared in every mode
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = whole::<u64>(1..=1_000_000_000))]
    cases: u64,
    /// Measured rounds after one warm-up
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = whole::<u32>(1..=100_000))]
    rounds: u32,
    /// Accounts in the parent states that are measured
    #[arg(long, value_name = "N,..", value_delimiter = ',',
        value_parser = whole::<usize>(u64::from(RootSpeedOptions::LEAST_KEYS)..=MOST_KEYS),
        default_values_t = [10_000, 1_000_000])]
    keys: Vec<usize>,
    /// Fewest changes for which a measured update uses several threads
    #[arg(long, value_name = "N", default_value_t = SPLIT_FROM, value_parser = whole::<usize>(0..=MOST_KEYS))]
    split_from: usize,
    /// Seed for blocks and keys
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// Most failed updates that are listed.
const FAILURES_SHOWN: usize = 10;

/// Prints the report on root updates.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed first.
pub(crate) fn run(args: &RootArgs) -> Result<(), CliError> {
    expect_room_for_keys(&args.keys)?;
    let page = args.report.open(&report::ROOT_CHARTS)?;
    // Read before the work, so that a wrong POVMETER_DATA costs no time.
    let data = data_dir()?;
    let mut missing = Vec::new();
    let modes = RootMode::all(|unsupported| missing.push(unsupported.0.name().to_owned()))?;
    let bar = progress::bar(args.cases, "random blocks");
    let tally = run_roots(args.seed, args.cases, &modes, || bar.step());
    drop(bar);
    let (known_states, known_failures) = known_states(data.as_deref(), &modes)?;
    let options = RootSpeedOptions {
        keys: args.keys.clone(),
        rounds: args.rounds as usize,
        seed: args.seed,
        ..RootSpeedOptions::default()
    };
    let steps = options.keys.len() * (1 + options.changes.len());
    let bar = progress::bar(steps, "");
    let measured = RootMode::for_speed(args.split_from, |_| {})?;
    let speed = measure_roots(
        &options,
        &measured,
        || allocated().calls,
        |what| bar.next(what),
    )?;
    let RootSpeedReport { rows, hashing } = speed;
    drop(bar);
    let report = RootReport {
        cases: args.cases,
        seed: args.seed,
        modes: modes.iter().map(|mode| mode.name.to_owned()).collect(),
        missing,
        checks: Checks {
            updates_differ: tally.failures.len(),
            known_states_differ: known_failures.len(),
        },
        versions: [
            of_version(0, &tally.version_0),
            of_version(1, &tally.version_1),
        ],
        known_states,
        failures: failures(&tally),
        known_failures,
        rounds: options.rounds,
        rows,
        hashing,
    };
    finish(&report, args.json, report.checks.failed(), || {
        report::write(page, || report.page())
    })
}

/// Compares the real states in the folder `data`, if there is one. Returns their number and the failures.
fn known_states(
    data: Option<&Path>,
    modes: &[RootMode],
) -> Result<(usize, Vec<KnownFailed>), CliError> {
    let Some(data) = data else {
        return Ok((0, Vec::new()));
    };
    let states = progress::during("reading real states", || KnownState::read_all(data))?;
    let bar = progress::bar(states.len(), "real states");
    let failed = states.iter().filter_map(|state| {
        bar.step();
        let mismatch = state.compare(modes).err()?;
        Some(KnownFailed {
            state: state.name.clone(),
            mismatch: chain(&mismatch),
        })
    });
    Ok((states.len(), failed.collect()))
}

fn of_version(state_version: u8, counts: &RootCounts) -> OfVersion {
    let RootCounts {
        cases,
        changes,
        inserted,
        removed,
    } = *counts;
    OfVersion {
        state_version,
        blocks: cases,
        changes,
        inserted,
        removed,
    }
}

fn failures(tally: &RootTally) -> Vec<Failed> {
    let failures = tally.failures.iter().take(FAILURES_SHOWN);
    failures
        .map(|failure| Failed {
            flavour: failure.flavour.name().to_owned(),
            seed: failure.seed,
            state_version: match failure.version {
                StateVersion::V0 => 0,
                StateVersion::V1 => 1,
            },
            mismatch: chain(&failure.mismatch),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use povmeter::NodeHash;
    use povmeter_dev_allocations::calls_of;

    #[test]
    fn hashing_allocates_nothing() {
        let bytes = [7; 600];
        for mode in RootMode::of_one_thread(|_| {}) {
            for count in [1, 2, 7, 8, 11, 200] {
                let mut hashes = vec![NodeHash::default(); count];
                let inputs = (0..count).map(|at| &bytes[..at * 37 % 600]);
                let calls = calls_of(|| mode.hashing().hash_all(inputs, &mut hashes));
                assert_eq!(calls, 0, "{} of {count}", mode.name);
            }
        }
    }
}
