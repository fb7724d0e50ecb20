//! The program povmeter: builds blocks, compares ways to build them, computes genesis states.

mod advice;
mod allocations;
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
mod completions;
mod contender;
mod db;
mod db_report;
mod diff;
mod dry_run;
mod dry_run_report;
mod error;
mod estimator;
mod estimator_report;
mod genesis;
mod measuring;
mod options;
mod oracle;
#[cfg(feature = "wasm")]
mod origin;
mod output;
mod overlay;
mod parallel;
mod parent_state;
mod pool;
mod progress;
mod record;
mod remote_args;
mod replay;
mod replay_report;
#[cfg(feature = "wasm")]
mod replayed;
mod report;
mod resident;
mod runtime_form;
mod scan;
#[cfg(feature = "wasm")]
mod scan_rows;
#[cfg(test)]
mod schemas;
mod table;
mod validation;

use clap::{CommandFactory, Parser, Subcommand};
use error::CliError;
use std::{
    io::{self, Write},
    panic,
    process::ExitCode,
};

/// Knows the size of a block's storage proof after every transaction, the root included
#[derive(Parser)]
#[command(name = "povmeter", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  povmeter block                     one block: its time, its proof, its checks
  povmeter compare block             the same beside sp-state-machine
  povmeter block --json > a.json     for programs; docs/json.md lists the fields
  povmeter diff a.json b.json        what changed from one result to another

Exit codes: 0 success, 1 an error or a failed check, 2 wrong usage;
diff also exits with 3")]
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
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    leave_unreadable_state_to_errors();
    let done = match command {
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
    };
    match done.and_then(|text| write_out(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(report) = error.report() {
                // If this fails too, the error below says enough.
                let _ = write_out(report);
            }
            eprintln!("error: {}", error::chain(&error));
            if let Some(advice) = error.advice() {
                eprintln!("help: {advice}");
            }
            error.exit_code()
        }
    }
}

/// Prints a result. A closed pipe is no error, because readers such as `head` stop early.
fn write_out(text: &str) -> Result<(), CliError> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Hides the message of one kind of panic: the one by which a state machine leaves its runtime when
/// the parent state can't be read. The same reason is returned as an error.
fn leave_unreadable_state_to_errors() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<povmeter_substrate::FailedAccess>() {
            usual(info);
        }
    }));
}
