//! How long a node takes to build and to import blocks, without the pool, the interface and signing.
//!
//! The same program compiled with another state machine prints the same hashes and other times.

use crate::{
    blocks_file::import_block,
    chain::Chain,
    cli::{ChainOptions, MeasureCommand, MeasureOptions},
    error::Error,
    extrinsics::{SignedFor, Workload},
    output::print_line,
    service::time_of_block,
    settings::CacheSizes,
};
use codec::{Decode, Encode};
use cpu_time::ThreadTime;
use povmeter_node_runtime::{opaque::Block, Hash, LastProofSize, Runtime, VERSION};
use sc_block_builder::BlockBuilderBuilder;
use sc_client_api::StorageProvider;
use sc_consensus::{
    BlockImport, BlockImportParams, ForkChoiceStrategy, ImportResult, StateAction, StorageChanges,
};
use serde::{Deserialize, Serialize};
use sp_api::{ProofRecorder, ProvideRuntimeApi, StorageProof};
use sp_blockchain::HeaderBackend;
use sp_consensus::BlockOrigin;
use sp_core::storage::StorageKey;
use sp_externalities::Extensions;
use sp_inherents::{InherentData, InherentDataProvider};
use sp_runtime::{
    traits::{Block as _, Header as _},
    transaction_validity::TransactionSource,
    OpaqueExtrinsic,
};
use sp_transaction_pool::runtime_api::TaggedTransactionQueue;
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// What was measured.
#[derive(Serialize, Deserialize)]
pub(crate) struct Measurement {
    what: String,
    schema: u32,
    accounts: u32,
    transfers: u32,
    child_writes: u32,
    /// The size of the trie cache of each client.
    trie_cache_mib: u32,
    /// The size of povmeter's cache for each client; `None` on sp-state-machine.
    povmeter_cache_mib: Option<usize>,
    signature_cache_mib: u32,
    best_block: u32,
    pub(crate) best_hash: Hash,
    state_root: Hash,
    pub(crate) blocks: Vec<BlockTimes>,
}

/// The times of a block.
#[derive(Serialize, Deserialize)]
pub(crate) struct BlockTimes {
    extrinsics: usize,
    hash: Hash,
    /// The proof size at the end of the block, as the runtime got it.
    reported_bytes: u64,
    /// The encoded nodes of the storage proof.
    proof_bytes: usize,
    /// From the parent's state to the block with its state root and proof.
    pub(crate) build_ms: f64,
    /// Processor time of the thread that builds.
    pub(crate) build_cpu_ms: f64,
    /// From then until the database has the changes.
    pub(crate) author_commit_ms: f64,
    /// On another node: execution, comparison, and commit.
    pub(crate) import_ms: f64,
    /// Processor time of the thread that imports.
    pub(crate) import_cpu_ms: f64,
}

/// Builds blocks on one chain, imports them into another, and prints the times.
///
/// # Errors
/// Those of the chains.
pub(crate) fn measure(command: &MeasureCommand, handle: Handle) -> Result<(), Error> {
    let options = &command.options;
    let folder = tempfile::tempdir().map_err(|source| Error::Path {
        path: std::env::temp_dir(),
        source,
    })?;
    let author = open(options, &folder.path().join("author"), handle.clone())?;
    let importer = open(options, &folder.path().join("importer"), handle.clone())?;
    let signed_for = SignedFor {
        genesis: author.client.info().genesis_hash,
        spec_version: VERSION.spec_version,
        transaction_version: VERSION.transaction_version,
    };
    let mut workload = Workload::new(options.accounts);
    let mut blocks = Vec::new();
    for _ in 0..options.blocks {
        let transfers = (0..options.transfers).map(|_| workload.transfer(signed_for));
        let mut extrinsics: Vec<_> = transfers.collect();
        extrinsics.extend((0..options.child_writes).map(|_| workload.child_write(signed_for)));
        blocks.push(handle.block_on(one_block(&author, &importer, extrinsics))?);
    }
    let info = author.client.info();
    let header = author.client.expect_header(info.best_hash)?;
    let caches = CacheSizes::of(options.trie_cache);
    let measurement = Measurement {
        what: "node-blocks".to_owned(),
        schema: 1,
        accounts: options.accounts,
        transfers: options.transfers,
        child_writes: options.child_writes,
        trie_cache_mib: caches.trie,
        povmeter_cache_mib: caches.povmeter,
        signature_cache_mib: options.signature_cache,
        best_block: info.best_number,
        best_hash: info.best_hash,
        state_root: *header.state_root(),
        blocks,
    };
    print(&measurement, options.json)
}

fn open(options: &MeasureOptions, folder: &Path, handle: Handle) -> Result<Chain, Error> {
    let options = ChainOptions {
        base_path: folder.to_owned(),
        accounts: Some(options.accounts),
        runtime: None,
        state_pruning: None,
        trie_cache: options.trie_cache,
        signature_cache: options.signature_cache,
        check_nodes: false,
    };
    Chain::open_or_begin(&options, handle)
}

async fn one_block(
    author: &Chain,
    importer: &Chain,
    extrinsics: Vec<OpaqueExtrinsic>,
) -> Result<BlockTimes, Error> {
    let parent = author.client.info();
    let number = parent.best_number + 1;
    let count = extrinsics.len();
    let inherents = inherents(number).await?;
    for chain in [author, importer] {
        check_as_pool(chain, &extrinsics)?;
    }

    let (started, started_cpu) = (Instant::now(), ThreadTime::now());
    let (block, changes, proof) = build(author, inherents, extrinsics)?;
    let (built, built_cpu) = (started.elapsed(), started_cpu.elapsed());

    let (header, body) = block.clone().deconstruct();
    let hash = header.hash();
    let mut parameters = BlockImportParams::new(BlockOrigin::Own, header);
    parameters.body = Some(body);
    parameters.fork_choice = Some(ForkChoiceStrategy::LongestChain);
    parameters.state_action = StateAction::ApplyChanges(changes);
    let started = Instant::now();
    let imported = author.client.import_block(parameters).await;
    let committed = started.elapsed();
    match imported {
        Ok(ImportResult::Imported(_)) => {}
        other => {
            return Err(Error::Import {
                number,
                hash,
                reason: format!("{other:?}"),
            })
        }
    }

    // `block_on` polls the future on one thread, so the time of this thread counts.
    let (started, started_cpu) = (Instant::now(), ThreadTime::now());
    import_block(importer, block).await?;
    let (imported, imported_cpu) = (started.elapsed(), started_cpu.elapsed());
    Ok(BlockTimes {
        extrinsics: count,
        hash,
        reported_bytes: reported_bytes(author, hash)?,
        proof_bytes: proof.encoded_size(),
        build_ms: milliseconds(built),
        build_cpu_ms: milliseconds(built_cpu),
        author_commit_ms: milliseconds(committed),
        import_ms: milliseconds(imported),
        import_cpu_ms: milliseconds(imported_cpu),
    })
}

/// Asks the runtime of `chain` whether `extrinsics` are valid, as the pool of a node does when it gets them. Does nothing
/// if the chain does not remember signatures.
fn check_as_pool(chain: &Chain, extrinsics: &[OpaqueExtrinsic]) -> Result<(), Error> {
    if !chain.signatures.are_remembered() {
        return Ok(());
    }
    let best = chain.client.info().best_hash;
    for extrinsic in extrinsics {
        let runtime = chain.client.runtime_api();
        let source = TransactionSource::External;
        // Only the check of the signature matters here. The block finds out whether the extrinsic is valid.
        let checked = runtime.validate_transaction(best, source, extrinsic.clone(), best);
        let _ = checked.map_err(sp_blockchain::Error::from)?;
    }
    Ok(())
}

/// The proof size that the runtime put into the state of block `hash`.
fn reported_bytes(chain: &Chain, hash: Hash) -> Result<u64, Error> {
    let key = StorageKey(LastProofSize::<Runtime>::hashed_key().to_vec());
    let value = chain.client.storage(hash, &key)?;
    let number = chain.client.number(hash)?.unwrap_or_default();
    let missing = |reason: String| Error::State { number, reason };
    let value = value.ok_or_else(|| missing("no proof size".to_owned()))?;
    u64::decode(&mut value.0.as_slice()).map_err(|error| missing(error.to_string()))
}

async fn inherents(number: u32) -> Result<InherentData, Error> {
    let time = sp_timestamp::InherentDataProvider::new(time_of_block(number, 0).into());
    time.create_inherent_data()
        .await
        .map_err(|error| Error::Genesis(error.to_string()))
}

fn build(
    author: &Chain,
    inherents: InherentData,
    extrinsics: Vec<OpaqueExtrinsic>,
) -> Result<(Block, StorageChanges<Block>, StorageProof), Error> {
    let recorder = ProofRecorder::<Block>::default();
    let mut extensions = Extensions::default();
    extensions.register(ProofSizeExt::new(recorder.clone()));
    let parent = author.client.info();
    let mut builder = BlockBuilderBuilder::new(&*author.client)
        .on_parent_block(parent.best_hash)
        .with_parent_block_number(parent.best_number)
        .with_proof_recorder(Some(recorder.clone()))
        .with_extra_extensions(extensions)
        .build()?;
    for inherent in builder.create_inherents(inherents)? {
        builder.push(inherent)?;
    }
    for extrinsic in extrinsics {
        builder.push(extrinsic)?;
    }
    let (block, changes) = builder.build()?.into_inner();
    Ok((
        block,
        StorageChanges::Changes(changes),
        recorder.drain_storage_proof(),
    ))
}

fn print(measurement: &Measurement, json: bool) -> Result<(), Error> {
    if json {
        let text = serde_json::to_string_pretty(measurement).expect("numbers and texts");
        return print_line(text);
    }
    let heads = [
        "block",
        "extrinsics",
        "reported, B",
        "proof, B",
        "build, ms",
        "of it cpu",
        "commit, ms",
        "import, ms",
        "of it cpu",
    ];
    let caches = CacheSizes {
        trie: measurement.trie_cache_mib,
        povmeter: measurement.povmeter_cache_mib,
    };
    print_line(caches)?;
    print_line(row(heads.map(str::to_owned)))?;
    for (number, block) in (1..).zip(&measurement.blocks) {
        print_line(row([
            format!("{number}"),
            block.extrinsics.to_string(),
            block.reported_bytes.to_string(),
            block.proof_bytes.to_string(),
            format!("{:.1}", block.build_ms),
            format!("{:.1}", block.build_cpu_ms),
            format!("{:.1}", block.author_commit_ms),
            format!("{:.1}", block.import_ms),
            format!("{:.1}", block.import_cpu_ms),
        ]))?;
    }
    let median =
        |of: fn(&BlockTimes) -> f64| format!("{:.1}", median(measurement.blocks.iter().map(of)));
    print_line(row([
        "median".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        median(|block| block.build_ms),
        median(|block| block.build_cpu_ms),
        median(|block| block.author_commit_ms),
        median(|block| block.import_ms),
        median(|block| block.import_cpu_ms),
    ]))?;
    print_line(format_args!(
        "best {} {:?} state {:?}",
        measurement.best_block, measurement.best_hash, measurement.state_root
    ))
}

/// A row of the table.
fn row(cells: [String; 9]) -> String {
    let widths = [6, 10, 12, 10, 10, 10, 10, 10, 10];
    let cells = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:>width$}"));
    cells.collect::<Vec<_>>().join(" ")
}

/// The median; 0 if there are no values.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    let last = values.len().saturating_sub(1);
    f64::midpoint(at(last / 2), at(last.div_ceil(2)))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
