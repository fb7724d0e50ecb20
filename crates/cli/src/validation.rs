//! `povmeter compare validation`: a parachain's `validate_block`, the stock one beside povmeter's.

use crate::{
    counted::counted,
    error::CliError,
    output::{self, verdict, CommandResult},
    report::ReportArgs,
    table::Table,
    whole_number::whole,
};
use clap::Args;
use povmeter_dev_validation::{ValidationReport, ValidationRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What to validate, and how often.
#[derive(Args, Debug)]
#[command(after_help = "\
Needs a program built with the feature `wasm`. Blobs run as validators of the
relay chain run them.

Examples:
  povmeter compare validation
  povmeter compare validation --accounts 10000 --rounds 5 --report validation")]
pub(crate) struct ValidationArgs {
    /// Accounts in the parent states of plain transfers, one case each
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000],
        value_parser = whole::<u32>(2..=u64::from(u32::MAX)))]
    accounts: Vec<u32>,
    /// Accounts in the parent states of the other cases
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = whole::<u32>(2..=u64::from(u32::MAX)))]
    usual_accounts: u32,
    /// Transfers of a block
    #[arg(long, value_name = "N", default_value_t = 544, value_parser = whole::<u32>(16..=u64::from(u32::MAX)))]
    transfers: u32,
    /// Measured rounds after one warm-up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole::<u32>(1..=100_000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

// Without a doc comment, so that the schema is that of the type inside, with its description.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Report(pub(crate) ValidationReport);

impl CommandResult for Report {
    const COMMAND: &'static str = "compare validation";
    const WHAT: &'static str = "validation";
    const SCHEMA: u64 = 1;
}

/// Prints the report on validations.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed before.
#[cfg(feature = "wasm")]
pub(crate) fn run(args: &ValidationArgs) -> Result<(), CliError> {
    let most = args.accounts.iter().copied().max().unwrap_or(0);
    let accounts = most.max(args.usual_accounts);
    crate::options::expect_room_for(accounts, args.transfers)?;
    let page = args.report.open(&crate::report::VALIDATION_CHARTS)?;
    let options = povmeter_dev_validation::MeasureOptions {
        rounds: args.rounds,
        accounts: args.accounts.clone(),
        usual_accounts: args.usual_accounts,
        transfers: args.transfers,
    };
    let bar = crate::progress::bar(options.cases(), "validating blocks");
    let measured = povmeter_dev_validation::measure(&options, || bar.step());
    drop(bar);
    let report = Report(measured?);
    output::finish(&report, args.json, report.failed(), || {
        crate::report::write(page, || report.page())
    })
}

/// Refuses to validate, because this program can't run wasm.
///
/// # Errors
/// Always [`CliError::NoWasm`].
#[cfg(not(feature = "wasm"))]
pub(crate) fn run(args: &ValidationArgs) -> Result<(), CliError> {
    let ValidationArgs {
        accounts: _,
        usual_accounts: _,
        transfers: _,
        rounds: _,
        json: _,
        report: _,
    } = args;
    Err(CliError::NoWasm)
}

#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
impl Report {
    /// The checks, whether they hold, and what they compare.
    pub(crate) fn named_checks(&self) -> [(&'static str, bool, &'static str); 2] {
        let ValidationReport {
            same_results,
            roles,
            ..
        } = self.0;
        [
            (
                "same results",
                same_results,
                "both give the same result, byte for byte",
            ),
            (
                "roles agree",
                roles,
                "blocks with other sizes are valid under their rule, and refused by the stock function",
            ),
        ]
    }

    /// The names of the checks that failed.
    fn failed(&self) -> Vec<String> {
        output::failed(self.named_checks().map(|(name, holds, _)| (name, holds)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ValidationReport {
            rounds,
            stock_blob_bytes,
            ours_blob_bytes,
            rows,
            ..
        } = &self.0;
        writeln!(
            f,
            "validate_block, processor time of a call in a new instance, medians of {}\n\
             blobs: stock {stock_blob_bytes} B, povmeter {ours_blob_bytes} B\n",
            counted(*rounds as u64, "round")
        )?;
        let mut table = Table::new([
            "<",
            "accounts",
            "blocks",
            "PoV bytes",
            "stock ms",
            "povmeter ms",
            "ratio",
            "with root ms",
            "stock pages",
            "pages",
        ]);
        for row in rows {
            let ValidationRow {
                case,
                accounts,
                blocks,
                pov_bytes,
                stock_ms,
                ours_ms,
                ratio,
                with_root_ms,
                stock_pages,
                ours_pages,
                ..
            } = row;
            table.row([
                case.clone(),
                accounts.to_string(),
                blocks.to_string(),
                pov_bytes.to_string(),
                format!("{stock_ms:.1}"),
                format!("{ours_ms:.1}"),
                format!("{ratio:.2}"),
                format!("{with_root_ms:.1}"),
                stock_pages.to_string(),
                ours_pages.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        for (name, holds, about) in self.named_checks() {
            write!(f, "\n{}{name}: {about}", verdict(holds))?;
        }
        Ok(())
    }
}
