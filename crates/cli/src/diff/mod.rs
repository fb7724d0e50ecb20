//! `povmeter diff`: two results side by side.
//!
//! ```text
//! read A and B       into the types that the commands print; `kinds` says which fields count
//! options            must be equal, unless the user allows differences
//! numbers            by row and field: the largest change first, then what only one result has
//! limits             a judged number that is worse by more than its limit fails
//! checks             a check that holds in A and fails in B fails
//! ```

mod change;
mod error;
mod kind;
mod kinds;
mod measure;
mod parts;
mod report;
mod result;

pub(crate) use error::DiffError;
pub(crate) use report::DiffReport;

use crate::{error::CliError, output};
use change::{Compared, Limits};
use clap::Args;
use result::RunResult;
use std::path::{Path, PathBuf};

/// The results to compare, and the limits.
#[derive(Args, Debug)]
#[command(after_help = "\
Compares the `--json` results of block, chain, replay, genesis and compare.
Exit codes: 0 no number is worse than its limit, 1 an error, 2 wrong usage, 3 a
number is worse, or a check (`--pov-limit` is one) that holds in A fails in B.
Numbers to which no limit applies, such as rows of sp-state-machine, are marked
`not judged`. Proofs and allocations are exact; only the compressed size of a
block that is signed anew may be worse by 0.2 % more than the limit, because
signatures are random. Times are judged by the ratio to sp-state-machine if
there is one, and only if the rounds of both results lie apart; a time measured
once may be worse by 20 % more than the limit.

Example: the effect of a change on a block, in CI
  povmeter block --json > base.json
  povmeter block --json > new.json        # with the change
  povmeter diff base.json new.json --fail-above-proof 0 --fail-above-time 10")]
pub(crate) struct DiffArgs {
    /// The result before, as `--json` prints it
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The result after
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Exit with code 3 if any judged number is worse by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// The same for bytes and nodes of proofs
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above_proof: Option<f64>,
    /// The same for allocations and memory
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above_allocations: Option<f64>,
    /// The same for times
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above_time: Option<f64>,
    /// Compare results even if commands or options differ
    #[arg(long)]
    allow_different: bool,
    /// Print every changed number, not only the largest changes
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
    let number = number.filter(|percent| percent.is_finite() && *percent >= 0.0);
    number.ok_or_else(|| "expected a number of percent, 0 or more, as in 2.5".to_owned())
}

/// Prints the report on two results.
///
/// # Errors
/// A [`CliError`] if the files hold no results to compare, or a limit has no number to judge;
/// [`CliError::Regressed`] if a number of B is worse than its limit allows, or a check that holds in A fails in B.
pub(crate) fn run(args: &DiffArgs) -> Result<(), CliError> {
    let own_limits = Limits {
        proof: args.fail_above_proof,
        allocations: args.fail_above_allocations,
        time: args.fail_above_time,
    };
    let paths = [args.a.as_path(), &args.b];
    let report = compare(paths, own_limits, args.fail_above, args.allow_different)?;
    let text = if args.json {
        output::json(&report)?
    } else {
        report.text(args.all)
    };
    let printed = output::print(&text);
    let what = report.regressed();
    let judged = match report.unjudged().join(", ") {
        measures if measures.is_empty() => Ok(()),
        measures => Err(DiffError::NothingToJudge { measures }.into()),
    };
    let regressed = match what.is_empty() {
        true => Ok(()),
        false => Err(CliError::Regressed { what }),
    };
    output::all_done([printed, judged, regressed])
}

fn compare(
    paths: [&Path; 2],
    own_limits: Limits,
    limit_of_all: Option<f64>,
    allow_different: bool,
) -> Result<DiffReport, DiffError> {
    let [a, b] = paths;
    let [a, b] = [RunResult::read(a)?, RunResult::read(b)?];
    let same_command = a.kind.command == b.kind.command;
    if !same_command && !allow_different {
        return Err(DiffError::DifferentCommands {
            a: a.kind.command,
            b: b.kind.command,
        });
    }
    let limits = own_limits.or(limit_of_all);
    let compared = Compared::new(&a.parts, &b.parts, &limits);
    let report = DiffReport::new(paths, [&a, &b], limits, own_limits, compared);
    match report.different_options() {
        different if !different.is_empty() && !allow_different => {
            Err(DiffError::DifferentOptions { different })
        }
        _ => Ok(report),
    }
}
