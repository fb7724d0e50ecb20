//! `povmeter db`: maintenance of a store on disk.

use crate::{
    db_report::{BackupReport, PruneReport, StatReport, VerifyReport},
    engine::{DiskStore, Engine},
    error::CliError,
    options::parse_root,
    output::{failed, printed},
    progress,
    whole_number::whole,
};
use clap::{Args, Subcommand};
use povmeter::Root;
use povmeter_store::{prune_to_last, prune_to_root, stat, verify, PruneError};
use std::{
    num::NonZeroUsize,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// What to do with a store.
#[derive(Subcommand, Debug)]
pub(crate) enum DbCommand {
    /// Check that every node of every kept state is there and intact, and counted right
    Verify(VerifyArgs),
    /// Print nodes, bytes, kept states and depth
    Stat(StatArgs),
    /// Drop old states with the nodes that only they have
    Prune(PruneArgs),
    /// Copy the store into a new folder
    Backup(BackupArgs),
}

/// Which store to check.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: exits with 1 if anything is wrong
  povmeter db verify state")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    store: StoreArgs,
}

/// Which store to count.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: how large a state is
  povmeter db stat state")]
pub(crate) struct StatArgs {
    #[command(flatten)]
    store: StoreArgs,
}

/// Which states to drop.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: the newest state, the 255 before it, and their forks stay
  povmeter db prune state --keep 256")]
#[group(id = "kept", required = true, multiple = false, args = ["keep", "to"])]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Keep the newest state, the N - 1 before it, and what is built on the oldest of them
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(u32::MAX)))]
    keep: Option<u32>,
    /// Keep the state with this root and what is built on it
    #[arg(long, value_name = "0xROOT", value_parser = parse_root)]
    to: Option<Root>,
}

/// Where to copy a store.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: a copy to go back to
  povmeter db backup state state-copy")]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Folder for the copy, absent or empty
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// The store of a command.
#[derive(Args, Debug)]
struct StoreArgs {
    /// Folder of the store, which no other program may have open
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the report of the command.
///
/// # Errors
/// A [`CliError`] if the store can't be opened, read or written, or is not intact.
pub(crate) fn run(command: &DbCommand) -> Result<(), CliError> {
    match command {
        DbCommand::Verify(args) => run_verify(&args.store),
        DbCommand::Stat(args) => run_stat(&args.store),
        DbCommand::Prune(args) => run_prune(args),
        DbCommand::Backup(args) => run_backup(args),
    }
}

fn run_verify(args: &StoreArgs) -> Result<(), CliError> {
    let mut store = open(&args.path)?;
    let counter = progress::counter("nodes verified");
    let found = verify(&mut *store, &mut |nodes| counter.at(nodes))?;
    drop(counter);
    let report = VerifyReport::of(&found);
    printed(&report, args.json, failed([("intact", found.is_clean())]))
}

fn run_stat(args: &StoreArgs) -> Result<(), CliError> {
    let mut store = open(&args.path)?;
    let counter = progress::counter("nodes counted");
    let found = stat(&mut *store, &mut |nodes| counter.at(nodes))?;
    drop(counter);
    printed(&StatReport::of(&found), args.json, Vec::new())
}

fn run_prune(args: &PruneArgs) -> Result<(), CliError> {
    let mut store = open(&args.store.path)?;
    let counter = progress::counter("states dropped");
    let mut step = |states| counter.at(states);
    let gone = match (args.to, args.keep) {
        (Some(root), _) => prune_to_root(&mut *store, root, &mut step)?,
        // Clap requires `--to` or `--keep`.
        (None, keep) => {
            let keep = keep.and_then(|keep| NonZeroUsize::new(keep as usize));
            let keep = keep.unwrap_or(NonZeroUsize::MAX);
            prune_to_last(&mut *store, keep, &mut step).map_err(PruneError::from)?
        }
    };
    // A look at the first node waits until all is on disk, and fails if it can't be.
    let on_disk = store.each_node(&mut |_| ControlFlow::Break(()));
    on_disk.map_err(PruneError::from)?;
    drop(counter);
    let report = PruneReport::of(&gone, store.states());
    printed(&report, args.store.json, Vec::new())
}

fn run_backup(args: &BackupArgs) -> Result<(), CliError> {
    let path = &args.store.path;
    let mut copied = 0;
    let counter = progress::counter("nodes copied");
    let mut step = |nodes| {
        copied = nodes;
        counter.at(nodes);
    };
    open(path)?.copy_to(&args.to, &mut step)?;
    drop(counter);
    printed(&BackupReport { nodes: copied }, args.store.json, Vec::new())
}

/// Opens the store in the folder `path`, whatever its engine.
fn open(path: &Path) -> Result<Box<dyn DiskStore>, CliError> {
    let engine = Engine::of(path).map_err(CliError::OpenStored)?;
    // Without a store here any engine fails, and its error says what the folder holds.
    let engine = engine.unwrap_or(Engine::ParityDb);
    engine.store(path, CliError::OpenStored)
}
