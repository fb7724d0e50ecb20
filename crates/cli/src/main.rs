//! The program povmeter: builds blocks, compares ways to build them, computes genesis states.

mod allocations;
mod block;
mod block_report;
mod checks;
mod compare;
mod compare_report;
mod compare_root;
mod compare_root_report;
mod contender;
mod error;
mod estimator;
mod estimator_report;
mod genesis;
mod options;
mod oracle;
mod overlay;
mod parent_state;
mod pool;
mod progress;
mod replay;
#[cfg(feature = "wasm")]
mod replay_report;
mod runtime_form;

use clap::{Parser, Subcommand};
use error::CliError;
use povmeter_workload::oracle::on_one_thread;
use std::{
    io::{self, Write},
    panic,
    process::ExitCode,
};

/// A state machine for Substrate-style chains that knows the size of the storage proof after every
/// transaction.
#[derive(Parser)]
#[command(name = "povmeter", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build one block of balance transfers and check it
    Block(block::BlockArgs),
    /// Measure povmeter, the peer and other strategies side by side
    #[command(subcommand)]
    Compare(compare::CompareCommand),
    /// Execute recorded blocks of real chains again, with the chain's own runtime
    Replay(replay::ReplayArgs),
    /// Compute state root and genesis hash of a raw chain specification
    Genesis(genesis::GenesisArgs),
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    leave_unreadable_state_to_errors();
    let done = on_one_thread().map_err(CliError::from);
    let done = done.and_then(|()| match command {
        Command::Block(args) => block::run(&args),
        Command::Compare(command) => compare::run(&command),
        Command::Replay(args) => replay::run(&args),
        Command::Genesis(args) => genesis::run(&args),
    });
    match done.and_then(|text| write_out(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let CliError::ChecksFailed { report, .. } = &error {
                // Should this fail, too, the error below says enough.
                let _ = write_out(report);
            }
            eprintln!("error: {}", error::chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Prints a result. Whoever reads it may stop reading, as `head` does.
fn write_out(text: &str) -> Result<(), CliError> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// Keeps the message of one kind of panic to itself: the one by which a state machine leaves its
/// runtime when the parent state can't be read. The same reason comes as an error then.
fn leave_unreadable_state_to_errors() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        if !message.is_some_and(|message| message.starts_with("the state can't be accessed: ")) {
            usual(info);
        }
    }));
}
