//! A small Substrate node for tests and measurements of state machines.
//!
//! It is made of published crates alone, and has no network: nodes exchange blocks as files. A patch of
//! `sp-state-machine` in Cargo's settings puts another state machine under the same source.

mod accounts;
mod blocks_file;
mod chain;
mod cli;
mod compare;
mod database;
mod error;
mod extrinsics;
mod faults;
mod load;
mod measure;
mod node_client;
mod output;
mod rpc;
mod service;
mod settings;
mod signatures;
mod verify;

use clap::Parser;
use cli::{Command, Options};
use error::Error;
use sc_tracing::logging::LoggerBuilder;
use std::{
    io::{self, Write},
    panic::{catch_unwind, AssertUnwindSafe},
    process::ExitCode,
    time::Duration,
};
use tokio::runtime::{Builder, Handle};

/// How long tasks have to end after the command.
const SHUTDOWN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let options = Options::parse();
    faults::keep_panics();
    match execute(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where nobody reads it, the exit code says enough.
            let _ = writeln!(io::stderr(), "error: {error}");
            error.exit_code()
        }
    }
}

fn execute(options: Options) -> Result<(), Error> {
    let logger = LoggerBuilder::new(options.log).init();
    logger.map_err(|error| sc_service::Error::Other(error.to_string()))?;
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::Path {
            path: "threads".into(),
            source,
        })?;
    let handle = runtime.handle().clone();
    let result = catch_unwind(AssertUnwindSafe(|| command(options.command, handle)));
    runtime.shutdown_timeout(SHUTDOWN);
    // A fault of the database is the cause of whatever error the command returns.
    if let Some(fault) = faults::first_fault() {
        return Err(Error::Database(fault));
    }
    result.unwrap_or_else(|_| {
        let cause = faults::first_panic().unwrap_or("no message");
        Err(Error::GaveUp(cause.to_owned()))
    })
}

fn command(command: Command, handle: Handle) -> Result<(), Error> {
    settings::choose(&command);
    match command {
        Command::Run(options) => handle.block_on(service::run(&options, handle.clone())),
        Command::ExportBlocks(options) => blocks_file::export(&options, handle),
        Command::ImportBlocks(options) => blocks_file::import(&options, handle),
        Command::Verify(options) => verify::verify(options, handle),
        Command::Info(options) => verify::info(&options, handle),
        Command::Load(options) => handle.block_on(load::load(&options)),
        Command::Rpc(options) => handle.block_on(node_client::print_call(&options)),
        Command::Upgrade(options) => handle.block_on(load::upgrade(&options)),
        Command::Measure(command) => measure::measure(&command, handle),
        Command::Compare(options) => compare::compare(&options),
    }
}
