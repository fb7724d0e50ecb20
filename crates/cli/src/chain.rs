//! `povmeter chain`: blocks on top of each other, committed and pruned as in a node.

use crate::{
    chain_report::{ChainChecks, ChainOptions, ChainReport, ChainRow},
    checks::expect_none_refused,
    engine::{DiskStore, Engine},
    error::CliError,
    options::{PlanArgs, SignaturesArg, UsedOptions},
    output::finish,
    progress,
    report::{self, ReportArgs},
    resident,
    runtime_form::RuntimeArg,
    scratch::ScratchFolder,
    whole_number::whole,
};
use clap::Args;
use povmeter::{BlockPool, Bytes, NodeBatch, NodeHash, NodePrefix, NodeSource, SourceError};
use povmeter_dev_oracle::on_one_thread;
use povmeter_dev_runtime::{
    build_block, BlockOutcome, Chain, Estimates, Plan, PlanError, PovmeterBlock, SealedUpdate,
};
use povmeter_store::verify;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc,
    },
    time::Instant,
};

/// How many blocks to build, and what to keep of them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  povmeter chain --accounts 1000000 --transfers 1000
  povmeter chain --blocks 20 --carry 0      every block loads all of its nodes
  povmeter chain --db state                 a store to keep, for povmeter db")]
pub(crate) struct ChainArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// How extrinsics are signed: sr25519, or free, so that no signature is verified
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, default_value_t = SignaturesArg::Free)]
    signatures: SignaturesArg,
    /// Blocks to build
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = whole::<u32>(1..=100_000))]
    blocks: u32,
    /// States to keep; older ones are pruned
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = whole::<u32>(2..=100_000))]
    keep: u32,
    /// MiB of loaded nodes that one block leaves to the next
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = whole::<u32>(0..=1_048_576))]
    carry: u32,
    /// Where the states are stored: parity-db or, with the feature `rocksdb`, rocksdb
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true, default_value_t = Engine::ParityDb)]
    state: Engine,
    /// Folder for a new store, instead of a temporary one
    #[arg(long, value_name = "PATH")]
    db: Option<PathBuf>,
    /// Print JSON, with every block
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// A store that counts the nodes that blocks ask it for.
struct Counting {
    store: Box<dyn DiskStore>,
    asked: AtomicU64,
}

impl NodeSource for Counting {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        self.asked.fetch_add(1, Relaxed);
        self.store.node(hash, prefix)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        self.asked.fetch_add(batch.open().len() as u64, Relaxed);
        self.store.nodes(batch);
    }
}

/// Prints the report on the chain.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed first.
pub(crate) fn run(args: &ChainArgs) -> Result<(), CliError> {
    on_one_thread()?;
    args.state.expect_built(false)?;
    args.plan.expect_room()?;
    args.report.expect_outside(args.db.as_deref())?;
    let page = args.report.open(&report::CHAIN_CHARTS)?;
    let folder = match &args.db {
        Some(_) => None,
        None => Some(ScratchFolder::new().map_err(CliError::temporary_folder)?),
    };
    let path = match (&args.db, &folder) {
        (Some(path), _) => path.as_path(),
        (None, Some(folder)) => folder.path(),
        (None, None) => Path::new("."),
    };
    let report = build(args, path)?;
    finish(&report, args.json, report.failed(), || {
        report::write(page, || report.page())
    })
}

/// A chain under construction.
struct Run<'a> {
    args: &'a ChainArgs,
    path: &'a Path,
    store: Arc<Counting>,
    pool: Arc<BlockPool>,
}

fn build(args: &ChainArgs, path: &Path) -> Result<ChainReport, CliError> {
    let accounts = args.plan.accounts;
    let what = format!("creating a state of {accounts} accounts");
    let (mut chain, mut plan, store) = progress::during(what, || {
        let chain = Chain::new(args.plan.options(args.signatures), args.blocks);
        let (chain, plan) = chain.map_err(|error| match error {
            PlanError::TooManyTransfers {
                accounts,
                most,
                found,
            } => CliError::TooManyInChain {
                accounts,
                most,
                found,
                blocks: args.blocks,
            },
            error => error.into(),
        })?;
        let store = args.state.make(path, &plan)?;
        // Closing waits until the engine has written the state. Otherwise a commit of one of the first blocks
        // would wait for the engine.
        drop(store);
        let store = args.state.store(path, CliError::Open)?;
        Ok::<_, CliError>((chain, plan, store))
    })?;
    let most = (args.carry as usize) << 20;
    let mut run = Run {
        args,
        path,
        store: Arc::new(Counting {
            store,
            asked: AtomicU64::new(0),
        }),
        pool: Arc::new(BlockPool::carrying(most)),
    };
    let bar = progress::bar(args.blocks, "building blocks");
    let mut rows = Vec::new();
    let mut again_same = true;
    for number in 1..=args.blocks {
        let (row, outcome) = run.block(number, &plan)?;
        rows.push(row);
        if number == args.blocks {
            again_same = run.is_same_again(&plan, &outcome)?;
        }
        plan = chain.next(outcome.header);
        bar.step();
    }
    drop(bar);
    let carried_within = run.pool.carried_bytes() <= most;
    let verified = run.verify()?;
    let options = ChainOptions {
        block: UsedOptions::new(
            &args.plan,
            args.signatures,
            args.state.state(),
            RuntimeArg::Native,
        ),
        blocks: args.blocks,
        keep: args.keep,
        carry_mib: args.carry,
    };
    let checks = ChainChecks {
        again_same,
        carried_within,
        verified,
    };
    Ok(ChainReport::new(options, rows, checks))
}

impl Run<'_> {
    /// Builds the block of `plan`, commits it, and prunes the oldest state if the store keeps too many.
    fn block(&mut self, number: u32, plan: &Plan) -> Result<(ChainRow, BlockOutcome), CliError> {
        self.store.asked.store(0, Relaxed);
        let sealed = SealedUpdate::default();
        let begun = Instant::now();
        let (pool, store) = (Arc::clone(&self.pool), Arc::clone(&self.store));
        let block = PovmeterBlock::pooled(pool, store, plan, Estimates::Everywhere);
        let begin = begun.elapsed();
        let outcome = build_block(block.keeping_update(&sealed), plan, |_| {});
        let outcome = outcome.map_err(CliError::build("povmeter"))?;
        expect_none_refused(outcome.refused.len(), plan.extrinsics().len())?;
        let asked = self.store.asked.load(Relaxed);
        let update = sealed.take().ok_or(CliError::NoUpdate)?;

        // No block is open, so nothing else holds the store.
        let store = Arc::get_mut(&mut self.store).ok_or(CliError::NoUpdate)?;
        let store = &mut store.store;
        let (begun, parent) = (Instant::now(), store.states().newest().id);
        store.keep(parent, &update)?;
        let commit = begun.elapsed();
        let begun = Instant::now();
        if store.states().len() > self.args.keep as usize {
            let oldest_kept = store.states().iter().nth(1).map(|state| state.id);
            oldest_kept.map(|state| store.prune(state)).transpose()?;
        }
        let prune = begun.elapsed();
        let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let row = ChainRow {
            number,
            block_ms: millis(begin + outcome.phases.total().wall),
            commit_ms: millis(commit),
            prune_ms: millis(prune),
            nodes_asked: asked,
            proof_bytes: outcome.sizes.recorded,
            carried_bytes: self.pool.carried_bytes() as u64,
            resident_bytes: resident::bytes(),
            disk_bytes: folder_bytes(self.path),
        };
        Ok((row, outcome))
    }

    /// Whether the last block has the same estimates, root and proof sizes on a pool that carries nothing.
    fn is_same_again(&self, plan: &Plan, outcome: &BlockOutcome) -> Result<bool, CliError> {
        let store = Arc::clone(&self.store);
        let again = PovmeterBlock::new(store, plan, Estimates::Everywhere);
        let again = build_block(again, plan, |_| {}).map_err(CliError::build("povmeter"))?;
        Ok(again.boundaries == outcome.boundaries
            && again.built.root == outcome.built.root
            && again.sizes == outcome.sizes)
    }

    /// Whether the store is intact.
    fn verify(&mut self) -> Result<bool, CliError> {
        let store = Arc::get_mut(&mut self.store).ok_or(CliError::NoUpdate)?;
        let report = progress::during("checking the store", || {
            verify(&mut *store.store, &mut |_| {})
        })?;
        Ok(report.is_clean())
    }
}

/// Returns the bytes of the files in `folder`, or zero if the folder can't be read.
fn folder_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}
