//! `povmeter compare block`: strategies to know the proof size, measured side by side.

use crate::{
    cache,
    checks::same_block,
    compare_report::{CompareReport, Row},
    compare_root,
    compare_threads::Threads,
    contender::{Arena, Attempt, Contender},
    error::CliError,
    estimator,
    options::{PlanArgs, SignaturesArg, StateArg, UsedOptions},
    oracle::Oracle,
    output::finish,
    overlay, parallel,
    parent_state::ParentState,
    pool, progress,
    report::{self, ReportArgs},
    runtime_form::{RuntimeArg, RuntimeForm},
    spread::{median as middle, Spread},
    validation,
    whole_number::whole,
};
use clap::{Args, Subcommand, ValueEnum};
use povmeter::BlockPool;
use povmeter_dev_measure::Turns;
use povmeter_dev_oracle::on_one_thread;
use povmeter_dev_runtime::{build_block, BoundarySize, Peer, Phases, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What to compare.
#[derive(Subcommand, Debug)]
pub(crate) enum CompareCommand {
    /// Strategies to know the proof size after each extrinsic, beside sp-state-machine
    Block(CompareArgs),
    /// Estimates and their cost, beside what sp-state-machine reads for the same blocks
    Estimator(estimator::EstimatorArgs),
    /// Root updates and their cost, beside sp-state-machine's for the same changes
    Root(compare_root::RootArgs),
    /// The overlay beside sp-state-machine's, call by call
    Overlay(overlay::OverlayArgs),
    /// A block in fresh memory beside a block that reuses earlier blocks' memory
    Pool(pool::PoolArgs),
    /// Caches of trie nodes on the same accesses, with the same memory
    Cache(cache::CacheArgs),
    /// Blocks on several threads, beside one transaction after the other
    Parallel(parallel::ParallelArgs),
    /// A parachain's validate_block beside the stock one, as validators run them
    Validation(validation::ValidationArgs),
}

/// Which block to compare on, and how often.
#[derive(Args, Debug)]
#[command(after_help = "\
Ways, each explained below the result and in docs/performance.md:
  peer-none, none, root-each-tx, incremental, fake-hasher,
  each-key-once, forget, get-for-writes, povmeter-none, povmeter,
  upstream (polkadot-sdk pull request 10215, for issue 6020)

Examples:
  povmeter compare block                     in memory, no cache
  povmeter compare block --cache warm        both keep what was loaded
  povmeter compare block --state parity-db --call transfer_all
  povmeter compare block --workers 2 --signatures sr25519")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// How extrinsics are signed: sr25519, or free, so that no signature is verified
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, default_value_t = SignaturesArg::Free)]
    signatures: SignaturesArg,
    /// Parent state: memory, parity-db, or rocksdb with that feature
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true, default_value_t = StateArg::Memory)]
    state: StateArg,
    /// How the runtime is compiled: native, or, with the feature `wasm`, wasm or wasm-kept, whose
    /// instances are kept from call to call
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, default_value_t = RuntimeArg::Native)]
    runtime: RuntimeArg,
    /// Kept from earlier blocks by both: none, or warm, all that the block needs
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = CacheArg::None)]
    cache: CacheArg,
    /// Also execute the extrinsics on this many threads, such as 2,4
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = whole::<u16>(2..=1_024))]
    workers: Vec<u16>,
    /// Measured rounds after one warm-up; root-each-tx takes part in every tenth
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..=100_000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is kept from earlier blocks: sp-state-machine's trie cache, povmeter's loaded nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CacheArg {
    // Nothing.
    None,
    // All that the block needs, within the same number of bytes.
    Warm,
}

/// Blocks of each contender whose calls are timed one by one; a slow contender builds one.
const SHARES: usize = 5;

/// A slow contender takes part in one of this many rounds.
const SLOW_EVERY: u32 = 10;

/// Prints the report on the comparison.
///
/// # Errors
/// A [`CliError`]. If a check fails, the report is printed first.
pub(crate) fn run(command: &CompareCommand) -> Result<(), CliError> {
    on_one_thread()?;
    match command {
        CompareCommand::Block(args) => run_block(args),
        CompareCommand::Estimator(args) => estimator::run(args),
        CompareCommand::Root(args) => compare_root::run(args),
        CompareCommand::Overlay(args) => overlay::run(args),
        CompareCommand::Pool(args) => pool::run(args),
        CompareCommand::Cache(args) => cache::run(args),
        CompareCommand::Parallel(args) => parallel::run(args),
        CompareCommand::Validation(args) => validation::run(args),
    }
}

fn run_block(args: &CompareArgs) -> Result<(), CliError> {
    let stored = StateArg::in_folder(Some(args.state), None)?;
    args.plan.expect_room()?;
    let page = args.report.open(&report::COMPARE_CHARTS)?;
    let several = args.workers.iter().any(|&workers| workers > 1);
    let runtime = args.runtime.form(args.plan.state_version, several)?;
    let plan = args.plan.plan(args.signatures)?;
    let state = ParentState::open(&plan, stored, None)?;
    let report = compare(args, &plan, &state, &runtime)?;
    finish(&report, args.json, report.failed(), || {
        report::write(page, || report.page())
    })
}

fn compare(
    args: &CompareArgs,
    plan: &Plan,
    state: &ParentState,
    runtime: &RuntimeForm,
) -> Result<CompareReport, CliError> {
    let mut peer = state.peer(plan);
    let oracle = progress::during("computing true sizes with sp-state-machine", || {
        Oracle::ask(&peer, plan)
    })?;
    if args.cache == CacheArg::Warm {
        peer = peer.warmed(plan).map_err(CliError::build("peer-none"))?;
    }
    let arena = Arena {
        plan,
        state,
        peer: &peer,
        runtime,
        pool: Arc::new(match args.cache {
            CacheArg::None => BlockPool::new(),
            CacheArg::Warm => BlockPool::carrying(Peer::CACHE_BYTES),
        }),
    };
    let contenders = Contender::all();
    let mut threads = Threads::new(&arena, &args.workers)?;
    let blocks = builds(&contenders, args.rounds) + threads.blocks() * args.rounds as usize;
    let bar = progress::bar(blocks, "warming up");
    let mut warm_up = Vec::new();
    for &contender in &contenders {
        warm_up.push(arena.build(contender)?);
        bar.step();
    }
    let roots_equal = roots_equal(&arena, &contenders, &warm_up)?;
    let mut shares = vec![Vec::new(); contenders.len()];
    for turn in 0..SHARES {
        for (&contender, shares) in contenders.iter().zip(&mut shares) {
            if !contender.is_slow() || turn == 0 {
                shares.push(arena.share(contender)?);
                bar.step();
            }
        }
    }
    let mut spent = vec![Vec::new(); contenders.len()];
    let mut turns = Turns::of(contenders.len());
    for round in 0..args.rounds {
        bar.say(format!("round {} of {}", round + 1, args.rounds));
        for which in turns.next_round() {
            if contenders[which].is_slow() && round % SLOW_EVERY != 0 {
                continue;
            }
            let attempt = arena.build(contenders[which])?;
            spent[which].push(attempt.outcome.phases);
            bar.step();
        }
        threads.round(|| bar.step())?;
    }
    drop(bar);
    let peer_ms = median(&spent[0], |phases| phases.total().cpu);
    let threads = threads.finish(median(&spent[0], |phases| phases.total().wall));
    let rows = contenders
        .iter()
        .zip(&warm_up)
        .zip(spent.iter().zip(&shares));
    let rows = rows.map(|((contender, attempt), (spent, share))| Row {
        state_machine_percent: middle(share.iter().map(|share| share.percent)),
        root_ms: median(share, |share| share.root),
        ..row(*contender, attempt, spent, peer_ms, &oracle)
    });
    let options = UsedOptions::new(&args.plan, args.signatures, args.state, args.runtime);
    let rows: Vec<_> = rows.collect();
    Ok(CompareReport::new(
        options,
        args.cache,
        args.rounds,
        (rows, roots_equal),
        threads,
    ))
}

/// The number of blocks that are built, the warm-up included.
fn builds(contenders: &[Contender], rounds: u32) -> usize {
    let slow = contenders
        .iter()
        .filter(|contender| contender.is_slow())
        .count();
    let slow_rounds = rounds.div_ceil(SLOW_EVERY) as usize;
    let quick = contenders.len() - slow;
    // Warm-up, shares, and rounds.
    quick * (1 + SHARES + rounds as usize) + slow * (2 + slow_rounds)
}

/// Whether every contender built the peer's block. povmeter's runtime is told larger sizes and may act
/// on them, so povmeter's block is compared with a block of the peer whose runtime is told the same sizes.
fn roots_equal(
    arena: &Arena<'_>,
    contenders: &[Contender],
    attempts: &[Attempt],
) -> Result<bool, CliError> {
    let reference = &attempts[0].outcome.built;
    let mut equal = true;
    for (contender, attempt) in contenders.iter().zip(attempts) {
        let built = &attempt.outcome.built;
        equal &= match (contender, &built.told) {
            (Contender::Povmeter, Some(told)) => {
                let peer = build_block(arena.peer.block_told(told), arena.plan, |_| {});
                same_block(built, &peer.map_err(CliError::build("peer-none"))?.built)
            }
            _ => same_block(built, reference),
        };
    }
    Ok(equal)
}

/// The throughput of a block that takes `ms`, in percent of that of one that takes `peer_ms`. A clock with long ticks
/// says 0 for a short block.
fn percent_of(peer_ms: f64, ms: f64) -> f64 {
    // Divided first, because the quotient of equal times is exactly one.
    (peer_ms.max(1e-6) / ms.max(1e-6)) * 100.0
}

fn row(
    contender: Contender,
    attempt: &Attempt,
    spent: &[Phases],
    peer_ms: f64,
    oracle: &Oracle,
) -> Row {
    let outcome = &attempt.outcome;
    let last = outcome.boundaries.last().map(BoundarySize::total);
    let median_ms = median(spent, |phases| phases.total().cpu);
    // The inherent, and the signed ones, of which none was refused.
    let extrinsics = (outcome.applied + 1) as f64;
    Row {
        name: contender.name().to_owned(),
        median_ms,
        percent_of_peer_none: percent_of(peer_ms, median_ms),
        percent_spread: Spread::of(
            spent
                .iter()
                .map(|phases| percent_of(peer_ms, phases.total().cpu.as_secs_f64() * 1e3)),
        ),
        estimate_after_last: last,
        recorded: outcome.sizes.recorded,
        encoded: outcome.sizes.encoded,
        compact: outcome.sizes.compact,
        nodes: outcome.sizes.nodes,
        allocations_per_extrinsic: attempt.allocations_per_extrinsic,
        median_wall_ms: median(spent, |phases| phases.total().wall),
        per_extrinsic_us: median(spent, |phases| phases.extrinsics.cpu) * 1e3 / extrinsics,
        finalize_ms: median(spent, |phases| phases.finalize.cpu),
        root_ms: f64::NAN,
        state_machine_percent: f64::NAN,
        rounds: spent.len(),
        claims_complete: contender.claims_complete(),
        estimate_under_bytes: last.map(|last| oracle.lacks(last)),
    }
}

/// The median in milliseconds.
fn median<T>(spent: &[T], of: impl Fn(&T) -> std::time::Duration) -> f64 {
    middle(spent.iter().map(|spent| of(spent).as_secs_f64() * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use povmeter_dev_runtime::Spent;
    use std::time::Duration;

    #[test]
    fn medians() {
        let spent = |millis: &[u64]| -> Vec<Spent> {
            let spent = millis.iter().map(|millis| Spent {
                cpu: Duration::from_millis(*millis),
                wall: Duration::ZERO,
            });
            spent.collect()
        };
        let median = |millis| median(&spent(millis), |spent| spent.cpu);
        assert!((median(&[3, 1, 100]) - 3.0).abs() < 1e-9);
        assert!((median(&[4, 1, 100, 2]) - 3.0).abs() < 1e-9);
    }

    /// A clock with ticks of milliseconds says 0 for a short block.
    #[test]
    fn a_throughput_is_a_number_for_every_time() {
        let exactly = |peer: f64, ours: f64, percent: f64| {
            assert_eq!(percent_of(peer, ours).to_bits(), percent.to_bits());
        };
        exactly(0.1, 0.1, 100.0);
        exactly(0.0, 0.0, 100.0);
        exactly(8.0, 2.0, 400.0);
        for (peer, ours) in [(0.0, 5.0), (5.0, 0.0)] {
            let percent = percent_of(peer, ours);
            assert!(percent.is_finite() && percent > 0.0, "{percent}");
        }
    }

    #[test]
    fn slow_contenders_take_part_in_every_tenth_round() {
        let contenders = Contender::all();
        let quick = contenders.len() - 1;
        assert_eq!(builds(&contenders, 1), quick * (SHARES + 2) + 3);
        assert_eq!(builds(&contenders, 11), quick * (SHARES + 12) + 4);
    }

    #[test]
    fn the_help_names_every_way() {
        let command = CompareArgs::augment_args(clap::Command::new("block"));
        let help = command.get_after_help().unwrap().to_string();
        let (ways, _) = help.split_once("Examples").unwrap();
        let named: Vec<&str> = ways.split([' ', ',', '\n', ':']).collect();
        for contender in Contender::all() {
            assert!(named.contains(&contender.name()), "{}", contender.name());
        }
    }
}
