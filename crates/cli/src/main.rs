//! The program povmeter: builds, replays and explains blocks, measures povmeter beside sp-state-machine, and maintains
//! states on disk.

// `output::print` and `output::tell` print, and never panic.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod advice;
mod attribution;
mod attribution_files;
mod attribution_report;
mod block;
mod block_report;
mod cache;
mod chain;
mod chain_report;
mod checks;
mod compare;
mod compare_report;
mod compare_root;
mod compare_root_report;
mod compare_threads;
mod completions;
mod contender;
mod counted;
mod db;
mod db_report;
mod diff;
mod dry_run;
// Without the feature `wasm` the program has the options of all commands, to say what it lacks, but not the
// code that uses this module.
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
mod dry_run_report;
mod engine;
mod error;
mod estimator;
mod estimator_report;
mod genesis;
mod man;
mod memory;
mod one_line;
mod options;
mod oracle;
#[cfg(feature = "wasm")]
mod origin;
mod output;
mod output_file;
mod overlay;
mod parallel;
mod parent_state;
mod pool;
mod pov;
mod progress;
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
mod record;
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
mod remote_args;
mod replay;
mod replay_report;
#[cfg(feature = "wasm")]
mod replayed;
mod report;
mod resident;
mod runtime_form;
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
mod scan;
#[cfg(feature = "wasm")]
mod scan_files;
#[cfg(feature = "wasm")]
mod scan_folder;
#[cfg(feature = "wasm")]
mod scan_found;
#[cfg(feature = "wasm")]
mod scan_parquet;
#[cfg(feature = "wasm")]
mod scan_rows;
#[cfg(test)]
mod schemas;
mod scratch;
mod spread;
mod table;
mod validation;
mod whole_number;

use clap::{CommandFactory, Parser, Subcommand};
use error::CliError;
use povmeter_dev_allocations::Counting;
use std::{panic, process::ExitCode, sync::LazyLock};

/// Counts what threads allocate, for the commands that tell it.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The version. The build of a release adds its commit, which it passes in `POVMETER_COMMIT`.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    option_env!("POVMETER_COMMIT").map_or_else(
        || version.to_owned(),
        |commit| format!("{version} ({commit})"),
    )
});

/// Knows the size of a block's storage proof after every transaction, the root included
#[derive(Parser)]
#[command(name = "povmeter", version = VERSION.as_str(), max_term_width = 100)]
#[command(after_help = "\
Examples:
  povmeter block                     one block: its time, its proof, its checks
  povmeter compare block             the same beside sp-state-machine
  povmeter block --json > a.json     for programs; docs/json.md lists the fields
  povmeter diff a.json b.json        what changed from one result to another

Exit codes: 0 success, 1 an error or a failed check, 2 wrong usage, 3 a limit
was exceeded; 129, 130 and 143 ended by a signal")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build one block of balance transfers and check it
    Block(block::BlockArgs),
    /// Build many blocks on top of each other, commit and prune each
    Chain(chain::ChainArgs),
    /// Measure povmeter, sp-state-machine and other strategies side by side
    #[command(subcommand)]
    #[command(after_help = "\
Example: how fast blocks are built, beside sp-state-machine
  povmeter compare block")]
    Compare(compare::CompareCommand),
    /// Execute blocks of real chains again, with the chain's own runtime
    Replay(replay::ReplayArgs),
    /// Try an extrinsic or another runtime on a chain's state: what it adds to the proof
    DryRun(dry_run::DryRunArgs),
    /// Replay many blocks of a chain, and write rows for a database
    Scan(scan::ScanArgs),
    /// Write a block of a chain and all that it reads to one file
    Record(record::RecordArgs),
    /// Compute the state root and genesis hash of a raw chain specification
    Genesis(genesis::GenesisArgs),
    /// Check, count, prune or copy a state on disk
    #[command(subcommand)]
    #[command(after_help = "\
Example: whether a state on disk is intact
  povmeter db verify state")]
    Db(db::DbCommand),
    /// Compare two results: proof, allocations and time, the largest change first
    Diff(diff::DiffArgs),
    /// Print a script that completes commands and options in a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual's pages, one for each command, into a folder
    Man(man::ManArgs),
}

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(Cli { command }) => {
            leave_unreadable_state_to_errors();
            let done = scratch::clean_up_on_signals().map_err(CliError::Signals);
            done.and_then(|()| run(command))
        }
        // Wrong usage.
        Err(error) if error.use_stderr() => error.exit(),
        // `--help` or `--version`.
        Err(asked) => output::print_by(&asked.to_string(), || asked.print()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.show();
            error.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Block(args) => block::run(&args),
        Command::Chain(args) => chain::run(&args),
        Command::Compare(command) => compare::run(&command),
        Command::Replay(args) => replay::run(&args),
        Command::DryRun(args) => dry_run::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Genesis(args) => genesis::run(&args),
        Command::Db(command) => db::run(&command),
        Command::Diff(args) => diff::run(&args),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
    }
}

/// Hides the message of one kind of panic, with which a state machine leaves its runtime when the parent
/// state can't be read. The command returns the reason as an error.
fn leave_unreadable_state_to_errors() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<povmeter_substrate::FailedAccess>() {
            usual(info);
        }
    }));
}
