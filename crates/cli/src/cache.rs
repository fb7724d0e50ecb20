//! `povmeter compare cache`: caches of trie nodes on the same accesses, with the same memory.

use crate::{
    error::CliError,
    memory::expect_room,
    options::KEY_BYTES,
    output::{self, finish, verdict, CommandResult},
    progress,
    report::{self, ReportArgs},
    table::{or_dash, Table},
    whole_number::whole,
};
use clap::{Args, ValueEnum};
use povmeter_dev_allocations::live_bytes;
use povmeter_dev_cache::{measure_caches, Access, CacheOptions, CacheReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The state, the loads, and the memory of the caches.
#[derive(Args, Debug)]
#[command(after_help = "\
Takes about half an hour on two cores with the default options.

Example: one load, one size of cache
  povmeter compare cache --access zipf --writes 100 --bytes 5")]
pub(crate) struct CacheArgs {
    /// Accounts in the state
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = whole::<u32>(1..=u64::from(u32::MAX)))]
    accounts: u32,
    /// Blocks of each load; hits are counted in the second half
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = whole::<u32>(2..=1_000_000))]
    blocks: u32,
    /// Accounts that a block touches
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = whole::<u32>(1..=u64::from(u32::MAX)))]
    touched: u32,
    /// Seed for accounts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// How accounts are drawn: uniform, zipf, active-set
    #[arg(long, value_enum, value_name = "HOW,..", hide_possible_values = true, value_delimiter = ',',
        default_values_t = [AccessArg::Uniform, AccessArg::Zipf, AccessArg::ActiveSet])]
    access: Vec<AccessArg>,
    /// Accounts that are written, in percent of those touched
    #[arg(long, value_name = "PERCENT,..", value_delimiter = ',', default_values_t = [20, 50, 100],
        value_parser = whole::<u8>(0..=100))]
    writes: Vec<u8>,
    /// Memory of a cache, in percent of the state's bytes
    #[arg(long, value_name = "PERCENT,..", value_delimiter = ',', default_values_t = [1, 5, 20, 40],
        value_parser = whole::<u16>(1..=1_000))]
    bytes: Vec<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// How accounts are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AccessArg {
    Uniform,
    Zipf,
    ActiveSet,
}

impl fmt::Display for AccessArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::ActiveSet => "active-set",
        })
    }
}

impl From<AccessArg> for Access {
    fn from(access: AccessArg) -> Self {
        match access {
            AccessArg::Uniform => Self::Uniform,
            AccessArg::Zipf => Self::Zipf,
            AccessArg::ActiveSet => Self::ActiveSet,
        }
    }
}

// No doc comment, so that the schema takes its description from the type inside.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Report(pub(crate) CacheReport);

impl CommandResult for Report {
    const COMMAND: &'static str = "compare cache";
    const WHAT: &'static str = "cache";
    const SCHEMA: u64 = 1;
    const IF_FAILED: &'static str =
        "report the command and its output, because a cache of povmeter should be neither wrong nor worse than others";
}

impl CacheArgs {
    /// Checks that the memory is enough for the state and the accesses of a load.
    fn expect_room(&self) -> Result<(), CliError> {
        let Self {
            accounts,
            blocks,
            touched,
            ..
        } = *self;
        let what = format!("{accounts} accounts and {blocks} blocks that touch {touched} each");
        let touched = u64::from(blocks) * u64::from(touched.min(accounts));
        let state = u64::from(accounts) * KEY_BYTES;
        expect_room(
            &what,
            state.saturating_add(touched.saturating_mul(TOUCHED_BYTES)),
        )
    }
}

/// The least bytes of memory for an account that a block touches: the recorded nodes on its path.
const TOUCHED_BYTES: u64 = 800;

/// What a cache lacks that is not judged.
const LARGE: &str = "was large enough, 256 KiB; raise `--accounts` or `--bytes`";

/// Prints the report on caches.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed first.
pub(crate) fn run(args: &CacheArgs) -> Result<(), CliError> {
    args.expect_room()?;
    let page = args.report.open(&report::CACHE_CHARTS)?;
    let options = CacheOptions {
        accounts: args.accounts as usize,
        blocks: args.blocks as usize,
        touched: args.touched as usize,
        seed: args.seed,
        accesses: args.access.iter().map(|&access| access.into()).collect(),
        write_shares: args.writes.clone(),
        bytes_percents: args.bytes.clone(),
    };
    let bar = std::cell::OnceCell::new();
    let measured = measure_caches(&options, &live_bytes, &mut |part, parts, what| {
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

impl Report {
    /// The checks, whether they hold, and what they say.
    pub(crate) fn named_checks(&self) -> [(&'static str, bool, String); 3] {
        let report = &self.0;
        [
            (
                "no stale reads",
                report.no_stale_reads(),
                "no cache returned the bytes of another node".to_owned(),
            ),
            (
                "most hits",
                report.leads(),
                match report.least_lead_points {
                    Some(lead) => format!(
                        "povmeter's hits are at most 1 point below the best; the least lead is {lead:.1} points"
                    ),
                    None => format!("not judged, because no cache {LARGE}"),
                },
            ),
            (
                "little memory",
                report.is_lean(),
                match report.most_memory_ratio {
                    Some(ratio) => format!(
                        "a full cache takes at most 1.5 times the bytes and hashes of its nodes; at most {ratio:.2}"
                    ),
                    None => format!("not judged, because no full cache {LARGE}"),
                },
            ),
        ]
    }

    /// The names of the checks that failed.
    fn failed(&self) -> Vec<String> {
        let checks = self.named_checks();
        output::failed(checks.each_ref().map(|(name, holds, _)| (*name, *holds)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CacheReport {
            options,
            state_nodes,
            state_bytes,
            rows,
            least_fifo_ratio,
            ..
        } = &self.0;
        writeln!(
            f,
            "{} accounts: {state_nodes} nodes, {state_bytes} bytes; {} blocks that touch {} accounts each\n",
            options.accounts, options.blocks, options.touched
        )?;
        let mut table = Table::new([
            "<access",
            "writes %",
            "bytes %",
            "<policy",
            "<by",
            "hits %",
            "leaves %",
            "entries",
            "bytes/entry",
            "ratio",
            "ns",
            "ns, 2 threads",
        ])
        .keyed_by(5);
        for row in rows {
            table.row([
                row.access.name().to_owned(),
                row.write_share.to_string(),
                row.bytes_percent.to_string(),
                row.policy.clone(),
                row.keying.name().to_owned(),
                format!("{:.1}", row.hit_percent),
                format!("{:.1}", row.leaf_hit_percent),
                row.entries.to_string(),
                or_dash(row.bytes_per_node().map(|bytes| format!("{bytes:.0}"))),
                or_dash(row.ratio_of_nodes().map(|ratio| format!("{ratio:.2}"))),
                format!("{:.0}", row.ns),
                format!("{:.0}", row.ns_two_threads),
            ]);
        }
        write!(
            f,
            "{table}\n\npovmeter's hits are at least {least_fifo_ratio:.2} times those of the ring by hash"
        )?;
        for (name, holds, about) in self.named_checks() {
            write!(f, "\n{}{name}: {about}", verdict(holds))?;
        }
        Ok(())
    }
}
