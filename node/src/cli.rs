//! The options of the program.

use crate::database::StatePruning;
use clap::{Args, Parser, Subcommand, ValueEnum};
use povmeter_node_runtime::{Hash, Release};
use std::{path::PathBuf, str::FromStr};

/// How many accounts a new chain has if no option says so.
pub(crate) const ACCOUNTS: u32 = 1_000;
/// The size of the cache of signatures in MiB if no option says so.
const SIGNATURE_CACHE: u32 = 16;
/// The most extrinsics of one kind in a block. There are two kinds, whose sum must be a `u32`.
const MOST_OF_KIND: i64 = (u32::MAX / 2) as i64;
/// The port of the interface if no option says so.
const PORT: u16 = 9944;

/// A small Substrate node for tests and measurements of state machines.
///
/// Exit codes: 0, success; 1, failure; 2, wrong options; 3, the database is missing or cannot be used; 4, a block or a state
/// is wrong; 5, a file of blocks is of no use.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
pub(crate) struct Options {
    /// What the log contains, such as `info` or `info,txpool=debug`
    #[arg(long, global = true, default_value = "warn")]
    pub(crate) log: String,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a node until it is interrupted
    Run(RunOptions),
    /// Write all blocks of a chain, forks included, to a file
    ExportBlocks(ExportOptions),
    /// Execute the blocks of a file, and add them to a chain
    ImportBlocks(ImportOptions),
    /// Check the whole state of a chain, and execute blocks again
    Verify(VerifyOptions),
    /// Print the best and the finalized block of a chain
    Info(InfoOptions),
    /// Sign extrinsics, send them to a running node, and wait until they are in blocks
    Load(LoadOptions),
    /// Call a method of a running node, and print its result
    Rpc(RpcOptions),
    /// Upgrade the runtime of a running node's chain to the present release
    Upgrade(UpgradeOptions),
    /// Build and import blocks without a network, and print how long that takes
    Measure(MeasureCommand),
    /// Measure this program and another one in turns, on the same blocks
    Compare(CompareOptions),
}

/// A chain in a folder.
#[derive(Args)]
pub(crate) struct ChainOptions {
    /// The folder of the chain. If it has none, `run` and `import-blocks` begin one, and other commands fail
    #[arg(long, value_name = "DIR")]
    pub(crate) base_path: PathBuf,
    /// How many accounts a new chain endows [default: 1000]
    #[arg(long, value_name = "N")]
    pub(crate) accounts: Option<u32>,
    /// The release of the runtime with which a new chain begins [default: present]
    #[arg(long)]
    pub(crate) runtime: Option<RuntimeRelease>,
    /// Keep the states of this many finalized blocks, or of all blocks (`archive`). A chain that prunes
    /// cannot become an archive, nor the other way round [default: 256 blocks, or all in a chain that began so]
    #[arg(long, value_name = "N|archive")]
    pub(crate) state_pruning: Option<StatePruning>,
    /// The size of the client's cache of trie nodes and values in MiB; 0 for none. On povmeter also that of its cache of
    /// trie nodes, which blocks use instead
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub(crate) trie_cache: u32,
    /// The size of the cache of checked signatures in MiB; 0 for none. The pool, the author and the importer share it, so
    /// that each signature is checked once
    #[arg(long, value_name = "MIB", default_value_t = SIGNATURE_CACHE)]
    pub(crate) signature_cache: u32,
    /// Hash every trie node that is read from the database
    #[arg(long)]
    pub(crate) check_nodes: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum RuntimeRelease {
    /// State version 0; can be upgraded to the present one
    Previous,
    /// State version 1
    #[default]
    Present,
}

impl From<RuntimeRelease> for Release {
    fn from(release: RuntimeRelease) -> Self {
        match release {
            RuntimeRelease::Previous => Self::Previous,
            RuntimeRelease::Present => Self::Present,
        }
    }
}

/// When a node makes a block.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Seal {
    /// When there are transactions, or on a call of `engine_createBlock`
    Instant,
    /// On a call of `engine_createBlock`
    Manual,
}

/// How transactions wait for a block.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolKind {
    /// By the state of the best block
    SingleState,
    /// By the state of each fork: a fork gets the transactions that only other forks have. Loses transactions
    /// if more than 128 blocks wait for finality
    ForkAware,
}

#[derive(Args)]
#[command(after_help = "Example: povmeter-node run --base-path chain --seal instant")]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) chain: ChainOptions,
    /// When to make a block
    #[arg(long, default_value = "instant")]
    pub(crate) seal: Seal,
    /// Finalize each block that is this far below the best one. States are pruned only below finalized
    /// blocks, and no fork can replace those [default: finalize on calls of `engine_finalizeBlock` only]
    #[arg(long, value_name = "BLOCKS")]
    pub(crate) finality_lag: Option<u32>,
    /// How transactions wait for a block
    #[arg(long, default_value = "single-state")]
    pub(crate) pool: PoolKind,
    /// The port of the interface on the loopback address; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub(crate) rpc_port: u16,
}

#[derive(Args)]
#[command(after_help = "Example: povmeter-node export-blocks --base-path chain blocks.scale")]
pub(crate) struct ExportOptions {
    #[command(flatten)]
    pub(crate) chain: ChainOptions,
    /// The file to write
    pub(crate) file: PathBuf,
}

#[derive(Args)]
#[command(after_help = "Example: povmeter-node import-blocks --base-path other blocks.scale")]
pub(crate) struct ImportOptions {
    #[command(flatten)]
    pub(crate) chain: ChainOptions,
    /// Finalize each block that is this far below the best one
    #[arg(long, value_name = "BLOCKS")]
    pub(crate) finality_lag: Option<u32>,
    /// The file to read
    pub(crate) file: PathBuf,
}

#[derive(Args)]
#[command(after_help = "Example: povmeter-node verify --base-path chain --execute 10")]
pub(crate) struct VerifyOptions {
    #[command(flatten)]
    pub(crate) chain: ChainOptions,
    /// Execute this many of the latest blocks again, or `all` whose parents' states are not pruned. Fewer blocks than this
    /// number are a failure
    #[arg(long, value_name = "BLOCKS|all", default_value = "0")]
    pub(crate) execute: Execute,
}

/// How many of the latest blocks are executed again.
#[derive(Clone, Copy)]
pub(crate) enum Execute {
    /// This many.
    Latest(u32),
    /// All whose parents' states are there.
    All,
}

impl FromStr for Execute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::All);
        }
        let blocks = text
            .parse()
            .map_err(|_| format!("expected `all` or a number of blocks, found `{text}`"))?;
        Ok(Self::Latest(blocks))
    }
}

#[derive(Args)]
pub(crate) struct InfoOptions {
    #[command(flatten)]
    pub(crate) chain: ChainOptions,
}

/// A running node.
#[derive(Args)]
pub(crate) struct NodeOptions {
    /// The port of the node's interface on the loopback address
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    pub(crate) rpc_port: u16,
}

#[derive(Args)]
#[command(after_help = "Example: povmeter-node load --transfers 100 --blocks 10 --create-blocks")]
pub(crate) struct LoadOptions {
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// Transfers in each block
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=MOST_OF_KIND))]
    pub(crate) transfers: u32,
    /// Writes to child tries in each block, of 16 entries each
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=MOST_OF_KIND))]
    pub(crate) child_writes: u32,
    /// How many blocks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) blocks: u32,
    /// How many accounts the chain has; the first half sends, the others receive
    #[arg(long, value_name = "N", default_value_t = ACCOUNTS)]
    pub(crate) accounts: u32,
    /// Tell the node to make each block. Without it the node makes them by itself (`--seal instant`)
    #[arg(long)]
    pub(crate) create_blocks: bool,
    /// Make the blocks of a fork on this block, one on top of the other
    #[arg(long, value_name = "HASH", requires = "create_blocks")]
    pub(crate) parent: Option<Hash>,
    /// How long to wait for a block
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) patience: u64,
}

#[derive(Args)]
#[command(after_help = "Example: povmeter-node rpc chain_getBlockHash '[0]'")]
pub(crate) struct RpcOptions {
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// The method
    pub(crate) method: String,
    /// Its parameters, as a JSON array
    #[arg(default_value = "[]")]
    pub(crate) parameters: String,
}

#[derive(Args)]
pub(crate) struct UpgradeOptions {
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// Tell the node to make the block
    #[arg(long)]
    pub(crate) create_blocks: bool,
    /// How long to wait for the block
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) patience: u64,
}

#[derive(Args)]
#[command(
    after_help = "Example: povmeter-node compare --other target/release/povmeter-node-on-povmeter --accounts 10000"
)]
pub(crate) struct CompareOptions {
    /// The other program: this node built with another state machine
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) other: PathBuf,
    /// How often each program is run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rounds: u16,
    #[command(flatten)]
    pub(crate) measure: MeasureOptions,
}

#[derive(Args)]
#[command(
    after_help = "Example: povmeter-node measure --accounts 20000 --transfers 544 --blocks 20"
)]
pub(crate) struct MeasureCommand {
    #[command(flatten)]
    pub(crate) options: MeasureOptions,
    /// The proof sizes that the runtime gets
    #[cfg(feature = "povmeter")]
    #[arg(long, value_enum, value_name = "SIZES", default_value_t)]
    pub(crate) proof_sizes: ProofSizesOption,
}

#[derive(Args)]
pub(crate) struct MeasureOptions {
    /// Transfers in each block
    #[arg(long, value_name = "N", default_value_t = 544, value_parser = clap::value_parser!(u32).range(..=MOST_OF_KIND))]
    pub(crate) transfers: u32,
    /// Writes to child tries in each block, of 16 entries each
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=MOST_OF_KIND))]
    pub(crate) child_writes: u32,
    /// How many blocks
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) blocks: u32,
    /// How many accounts the chain has; the first half sends, the others receive
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) accounts: u32,
    /// The size of the client's cache of trie nodes and values in MiB; 0 for none. On povmeter also that of its cache of
    /// trie nodes, which blocks use instead
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub(crate) trie_cache: u32,
    /// The size of a chain's cache of checked signatures in MiB; 0 for none. With a cache, each chain checks the
    /// extrinsics before the block, as its pool would; that is not measured
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub(crate) signature_cache: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The proof sizes that a runtime gets.
#[cfg(feature = "povmeter")]
#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum ProofSizesOption {
    /// As sp-state-machine tells them
    #[default]
    Upstream,
    /// With what the root computation adds
    Estimate,
}
