//! A running node: the pool of transactions, an author, and the interface.

use crate::{
    chain::{Chain, Client},
    cli::{PoolKind, RunOptions, Seal},
    error::Error,
    faults::{fault, first_panic},
    output::print_line,
    rpc::{Interface, Pool},
    settings::CacheSizes,
};
use futures::{
    channel::{mpsc, oneshot},
    future, stream, FutureExt, StreamExt,
};
use povmeter_node_runtime::{Hash, BLOCK_TIME};
use sc_basic_authorship::ProposerFactory;
use sc_client_api::{Backend as _, BlockchainEvents};
use sc_consensus::LongestChain;
use sc_consensus_manual_seal::{
    run_manual_seal, EngineCommand, Error as SealError, ManualSealParams,
};
use sc_service::SpawnTaskHandle;
use sc_transaction_pool::{
    notification_future, Builder, TransactionPoolOptions, TransactionPoolType,
};
use sc_transaction_pool_api::TransactionPool;
use sp_blockchain::{Backend as _, HeaderBackend};
use sp_timestamp::InherentDataProvider;
use std::{error::Error as StdError, sync::Arc, time::Duration};
use tokio::{runtime::Handle, signal, time::interval};

/// The most transactions that wait for a block.
const POOL_TRANSACTIONS: usize = 100_000;
/// The most bytes of these transactions.
const POOL_BYTES: usize = 256 << 20;
/// The time between two looks at the pool.
const INTERVAL: Duration = Duration::from_millis(100);
/// When block 1 would have been made, in milliseconds since 1970. Times follow from numbers, so that the
/// same transactions make the same blocks on every node.
const FIRST_BLOCK: u64 = 1_700_000_000_000;

/// Runs a node until it is interrupted.
///
/// # Errors
/// Those of the chain, and the failure that ends the node before an interrupt.
pub(crate) async fn run(options: &RunOptions, handle: Handle) -> Result<(), Error> {
    let mut chain = Chain::open_or_begin(&options.chain, handle)?;
    let pool = start_pool(&chain, options.pool);
    let (engine, commands) = mpsc::channel(1_000);
    start_author(&chain, &pool, options.seal, commands);
    if let Some(lag) = options.finality_lag {
        start_finality(&chain, lag);
    }
    let interface = Interface {
        client: chain.client.clone(),
        pool,
        engine,
        spawner: Arc::new(chain.tasks.spawn_handle()),
    };
    print_line(CacheSizes::of(options.chain.trie_cache))?;
    let server = interface.listen(options.rpc_port).await?;
    for address in server.listen_addrs() {
        print_line(format_args!("listening on {address}"))?;
    }
    tokio::select! {
        interrupt = interrupted() => interrupt?,
        fault = fault() => return Err(Error::Database(fault)),
        ended = chain.tasks.future() => ended.map_err(|error| {
            Error::Stopped(first_panic().map_or_else(|| error.to_string(), str::to_owned))
        })?,
    }
    print_line(format_args!(
        "stopping at block {}",
        chain.client.info().best_number
    ))?;
    print_line(&chain.signatures)
}

/// Waits for a signal to interrupt or to terminate the program.
pub(crate) async fn interrupted() -> Result<(), Error> {
    let no_signals = |source| Error::Path {
        path: "signals".into(),
        source,
    };
    #[cfg(unix)]
    {
        let mut terminate =
            signal::unix::signal(signal::unix::SignalKind::terminate()).map_err(no_signals)?;
        tokio::select! {
            result = signal::ctrl_c() => result.map_err(no_signals),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    signal::ctrl_c().await.map_err(no_signals)
}

fn start_pool(chain: &Chain, kind: PoolKind) -> Arc<Pool> {
    let options = TransactionPoolOptions::new_with_params(
        POOL_TRANSACTIONS,
        POOL_BYTES,
        None,
        match kind {
            PoolKind::SingleState => TransactionPoolType::SingleState,
            PoolKind::ForkAware => TransactionPoolType::ForkAware,
        },
        true,
        false,
    );
    let every_block = options.use_all_block_notifications();
    let pool = Builder::new(
        chain.tasks.spawn_essential_handle(),
        chain.client.clone(),
        true.into(),
    )
    .with_options(options)
    .build();
    let pool = Arc::new(pool);
    chain.tasks.spawn_handle().spawn(
        "txpool-notifications",
        Some("transaction-pool"),
        notification_future(chain.client.clone(), pool.clone(), every_block),
    );
    pool
}

fn start_author(
    chain: &Chain,
    pool: &Arc<Pool>,
    seal: Seal,
    commands: mpsc::Receiver<EngineCommand<Hash>>,
) {
    let spawner = chain.tasks.spawn_handle();
    let env = ProposerFactory::new(
        spawner.clone(),
        chain.client.clone(),
        pool.clone(),
        None,
        None,
    );
    let instant = match seal {
        Seal::Instant => seal_waiting(pool, &spawner).boxed(),
        Seal::Manual => stream::pending().boxed(),
    };
    let (client, backend) = (chain.client.clone(), chain.backend.clone());
    let author = run_manual_seal(ManualSealParams {
        block_import: client.clone(),
        env,
        client: client.clone(),
        pool: pool.clone(),
        commands_stream: stream::select(commands, instant),
        select_chain: LongestChain::new(backend.clone()),
        consensus_data_provider: None,
        create_inherent_data_providers: move |parent, ()| {
            future::ready(timestamp(&client, &backend, parent))
        },
    });
    chain
        .tasks
        .spawn_essential_handle()
        .spawn_blocking("author", None, author);
}

/// Commands to make a block whenever transactions wait: when one enters the pool, and at intervals, because a
/// transaction that enters while a block is made may be in the pool too late for its own command.
fn seal_waiting(
    pool: &Arc<Pool>,
    spawner: &SpawnTaskHandle,
) -> impl futures::Stream<Item = EngineCommand<Hash>> + Send {
    let spawner = spawner.clone();
    let entered = pool.import_notification_stream().map(|_| ());
    let intervals = stream::unfold(interval(INTERVAL), |mut interval| async {
        interval.tick().await;
        Some(((), interval))
    });
    let pool = pool.clone();
    let waiting = move |(): &()| future::ready(pool.status().ready > 0);
    let wishes = stream::select(entered, intervals).filter(waiting);
    wishes.map(move |()| {
        let (sender, result) = oneshot::channel();
        let report = result.map(|result| match result {
            // An earlier block took the transactions, or the node stops.
            Ok(Ok(_) | Err(SealError::EmptyTransactionPool)) | Err(_) => {}
            Ok(Err(error)) => log::error!("no block was made: {error}"),
        });
        spawner.spawn("author-results", None, report);
        EngineCommand::SealNewBlock {
            create_empty: false,
            finalize: false,
            parent_hash: None,
            sender: Some(sender),
        }
    })
}

/// The time of the next block on `parent`. Its milliseconds count the blocks that are already on `parent`, so
/// that two blocks on one parent differ even if they have the same transactions.
fn timestamp(
    client: &Client,
    backend: &crate::chain::Backend,
    parent: Hash,
) -> Result<InherentDataProvider, Box<dyn StdError + Send + Sync>> {
    let number = client.number(parent)?.unwrap_or_default();
    let siblings = backend.blockchain().children(parent)?.len();
    Ok(InherentDataProvider::new(
        time_of_block(number + 1, siblings).into(),
    ))
}

/// The time of block `number`, if it has this many older siblings.
pub(crate) fn time_of_block(number: u32, siblings: usize) -> u64 {
    FIRST_BLOCK + u64::from(number) * BLOCK_TIME + siblings as u64
}

/// Finalizes the block that is `lag` blocks below each new best block.
fn start_finality(chain: &Chain, lag: u32) {
    let client = chain.client.clone();
    let finality = client
        .import_notification_stream()
        .for_each(move |imported| {
            if imported.is_new_best {
                if let Err(error) = Chain::finalize_below(&client, imported.hash, lag) {
                    log::error!("nothing is finalized below {}: {error}", imported.hash);
                }
            }
            future::ready(())
        });
    chain
        .tasks
        .spawn_essential_handle()
        .spawn_blocking("finality", None, finality);
}
