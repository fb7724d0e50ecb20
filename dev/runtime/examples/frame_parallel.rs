//! Measures a FRAME block with its extrinsics in order and on several threads.
//!
//! ```sh
//! cargo run --release -p povmeter-dev-runtime --example frame_parallel -- 544 31
//! ```
//! The numbers are those of the transfers and of the rounds. A word after them, such as `native`, selects the
//! rows whose names contain it. The environment variable `ONLY` selects ways, such as `in order;2 workers`.
//! Blocks of all ways take turns, so that a change of the machine's speed affects all of them; medians are
//! printed. A parallel block gets the experience of the previous block of its way. Each block is compared
//! with the block of the first way in its round.

use povmeter::{Accounting, Advisory, BlockPool, Consensus};
use povmeter_dev_runtime::{
    commit_parent, execute_plan, runtime_rules, EntryPoints, Execution, Native, Plan, PlanOptions,
    Signatures,
};
use povmeter_parallel::{Parallel, Strategy};
use povmeter_store::MemoryStore;
use povmeter_substrate::{SizeSource, StorageRules};
use rand::{rngs::SmallRng, seq::SliceRandom, SeedableRng};
use std::{error::Error, num::NonZeroUsize, sync::Arc, time::Duration};

/// A way to execute the block, with its measurements.
struct Way<'r> {
    name: &'static str,
    execution: Execution<'r>,
    extrinsics: Vec<Duration>,
    blocks: Vec<Duration>,
    ahead: u64,
    resumed: u64,
    speculations: u64,
}

fn ways(rules: &StorageRules) -> Result<Vec<Way<'_>>, Box<dyn Error>> {
    let workers = |count| Ok::<_, Box<dyn Error>>(Parallel::new(NonZeroUsize::try_from(count)?));
    let always = |count| Ok::<_, Box<dyn Error>>(workers(count)?.with_strategy(Strategy::Always));
    let mut ways = vec![("in order", Execution::InOrder)];
    ways.push(("1 worker", Execution::Parallel(workers(1)?, rules)));
    ways.push(("1 worker, always", Execution::Parallel(always(1)?, rules)));
    let each_ahead = workers(1)?.with_strategy(Strategy::EachAhead);
    ways.push((
        "1 worker, each ahead",
        Execution::Parallel(each_ahead, rules),
    ));
    ways.push(("2 workers", Execution::Parallel(workers(2)?, rules)));
    ways.push(("2 workers, always", Execution::Parallel(always(2)?, rules)));
    let prepared = workers(2)?.with_strategy(Strategy::Prepare);
    ways.push((
        "2 workers, signatures ahead",
        Execution::Parallel(prepared, rules),
    ));
    if std::thread::available_parallelism()?.get() >= 4 {
        ways.push(("4 workers", Execution::Parallel(workers(4)?, rules)));
        ways.push(("4 workers, always", Execution::Parallel(always(4)?, rules)));
    }
    if std::thread::available_parallelism()?.get() >= 8 {
        ways.push(("8 workers, always", Execution::Parallel(always(8)?, rules)));
    }
    let way = |(name, execution)| Way {
        name,
        execution,
        extrinsics: Vec::new(),
        blocks: Vec::new(),
        ahead: 0,
        resumed: 0,
        speculations: 0,
    };
    Ok(ways.into_iter().map(way).collect())
}

fn median_ms(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    let last = times.len() - 1;
    (times[last / 2] + times[last.div_ceil(2)]).as_secs_f64() * 1e3 / 2.0
}

fn measure<A: Accounting>(
    runtime: &(impl EntryPoints + Sync),
    plan: &Plan,
    sizes: &SizeSource,
    rounds: usize,
    what: &str,
) -> Result<(), Box<dyn Error>> {
    let mut store = MemoryStore::new();
    commit_parent(&mut store, plan)?;
    let rules = runtime_rules()?;
    let mut ways = ways(&rules)?;
    if let Ok(only) = std::env::var("ONLY") {
        ways.retain(|way| only.split(';').any(|name| way.name == name));
    }
    let pool = Arc::<BlockPool>::default();
    // Each round has an order of its own, because a block finds memory and caches as the one before it left them.
    let mut order: Vec<usize> = (0..ways.len()).collect();
    let mut rng = SmallRng::seed_from_u64(0);
    for _ in 0..rounds {
        let mut expected = None;
        order.shuffle(&mut rng);
        for &index in &order {
            let way = &mut ways[index];
            let pool = Arc::clone(&pool);
            let block =
                execute_plan::<_, A>(runtime, &store, plan, sizes.clone(), way.execution, pool)?;
            if let Execution::Parallel(parallel, rules) = way.execution {
                let parallel = parallel.with_experience(block.experience);
                way.execution = Execution::Parallel(parallel, rules);
            }
            way.extrinsics.push(block.extrinsics_took);
            way.blocks.push(block.took);
            if let Some(statistics) = block.statistics {
                (way.ahead, way.resumed) = (statistics.ahead, statistics.resumed);
                way.speculations = statistics.speculations;
                if std::env::var("DEBUG").is_ok() {
                    println!("{statistics:?}");
                }
            }
            match &expected {
                None => expected = Some(block),
                Some(expected) => assert!(block.is_same_as(expected), "{what}: another block"),
            }
        }
    }
    for way in &mut ways {
        println!(
            "| {what} | {} | {:.1} | {:.1} | {} | {} | {} |",
            way.name,
            median_ms(&mut way.extrinsics),
            median_ms(&mut way.blocks),
            way.ahead,
            way.resumed,
            way.speculations,
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(Ok(usual), |number| number.parse());
    let (transfers, rounds) = (number(544)?, usize::try_from(number(9)?)?);
    let only = arguments.next().unwrap_or_default();
    println!("| {transfers} transfers | | extrinsics, ms | block, ms | committed ahead | waited for their turn | executed ahead |");
    println!("|---|---|--:|--:|--:|--:|--:|");
    for (signatures, signed) in [(Signatures::Free, "free"), (Signatures::Sr25519, "sr25519")] {
        let plan = Plan::new(PlanOptions {
            transfers,
            signatures,
            accounts: transfers.saturating_mul(4).max(10_000),
            ..PlanOptions::default()
        })?;
        measure_runtime(
            &Native,
            (&plan, rounds),
            (&format!("native, {signed}"), &only),
        )?;
        #[cfg(feature = "wasm")]
        {
            let runtime = povmeter_dev_runtime::wasm::WasmRuntime::workload();
            let runtime = runtime.preparing_in_kept_instances()?;
            runtime.prepare()?;
            measure_runtime(
                &runtime,
                (&plan, rounds),
                (&format!("wasm, {signed}"), &only),
            )?;
            measure_runtime(
                &runtime.keeping_instances()?,
                (&plan, rounds),
                (&format!("wasm, instances kept, {signed}"), &only),
            )?;
        }
    }
    Ok(())
}

fn measure_runtime(
    runtime: &(impl EntryPoints + Sync),
    (plan, rounds): (&Plan, usize),
    (what, only): (&str, &str),
) -> Result<(), Box<dyn Error>> {
    let silent = format!("{what}, asks for no size");
    if silent.contains(only) {
        measure::<Advisory>(runtime, plan, &SizeSource::Unrecorded, rounds, &silent)?;
    }
    let asking = format!("{what}, asks for sizes");
    if asking.contains(only) {
        measure::<Consensus>(runtime, plan, &SizeSource::Estimate, rounds, &asking)?;
    }
    Ok(())
}
