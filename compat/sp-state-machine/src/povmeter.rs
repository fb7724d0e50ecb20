//! The settings of a node, made by one call when it starts.
//!
//! ```
//! use sp_state_machine::povmeter::{configure, ProofSizes, Settings};
//!
//! configure(Settings {
//!     sizes: ProofSizes::Estimate,
//!     cache_bytes: 512 << 20,
//!     ..Settings::default()
//! })?;
//! # Ok::<(), sp_state_machine::povmeter::AlreadyConfigured>(())
//! ```

use crate::{
    cache::{Cache, Source},
    database::{BlockMemory, Database, Databases},
    nodes::AtHand,
};
use ::povmeter::{BlockPool, Root, SealedBlock};
use std::sync::{Arc, OnceLock};

pub use povmeter_node_cache::CacheCounters;
/// Both versions of the proof-size function, for the node's executor. The second version is answered only to the host
/// functions of this very crate: a node that takes `povmeter-proof-size` from elsewhere has two, and the greatest
/// number would be returned.
pub use povmeter_proof_size::storage_proof_size;

/// The proof sizes that a runtime gets from the extension that the node registers. An extension that replays the
/// sizes of the author answers by its record, whatever is chosen here. The second version of the host function
/// returns the recorded bytes and what the root computation adds, whatever is chosen here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProofSizes {
    /// The recorded bytes, as with the original: a chain does not notice the difference, unless its runtime calls the
    /// second version of the host function, which adds to the proof what an estimate touches.
    #[default]
    Upstream,
    /// The recorded bytes and what the root computation adds. All authors and validators of the chain must
    /// choose it together. The node's recorder gets the nodes that an estimate touches, so that they are in
    /// the proof.
    Estimate,
}

/// The choices of a node.
///
/// Each database has its own caches, which are made with the first block on one of its states, and dropped some time
/// after the database is closed. They serve backends over the [`Storage`](crate::Storage) of a database that have a
/// trie cache. As with that cache, a cached trie node is not read from the database, so it is not noticed if the
/// database lacks it. Backends over other nodes, such as those of a proof, have no cache: a missing node is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where proof sizes come from.
    pub sizes: ProofSizes,
    /// Bytes of memory for each database, for encoded trie nodes that its blocks, forks and calls share; 0 for none.
    /// The new nodes of finished blocks enter when a block is built on these. Until then they take at most half as
    /// much memory more. A client that begins a chain keeps the state of block 0 apart until it is closed, like
    /// another database: two caches take twice the memory, and block 2 finds no nodes.
    ///
    /// Blocks do not use the node's own trie cache, so it can be as small as its options allow. Reads outside
    /// of blocks, such as those by RPC, still use it.
    pub cache_bytes: usize,
    /// Bytes of memory for each database, for decoded trie nodes that a block leaves to the next one; 0, the default,
    /// for none.
    pub carry_bytes: usize,
}

/// The default of [`Settings::cache_bytes`]: the default size of the trie cache of Substrate's client.
/// The operating system provides most of the memory as the cache fills.
pub const DEFAULT_CACHE_BYTES: usize = 64 << 20;

impl Default for Settings {
    fn default() -> Self {
        Self {
            sizes: ProofSizes::default(),
            cache_bytes: DEFAULT_CACHE_BYTES,
            carry_bytes: 0,
        }
    }
}

/// The process has made its choices, or has begun to execute blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the first call of this process, before its first block, found {found:?} in use")]
pub struct AlreadyConfigured {
    /// The choices in use.
    pub found: Settings,
}

/// Makes the choices of this process.
///
/// # Errors
/// [`AlreadyConfigured`] if other settings are in use.
pub fn configure(settings: Settings) -> Result<(), AlreadyConfigured> {
    let chosen = CHOSEN.get_or_init(|| Chosen::new(settings));
    if chosen.settings == settings {
        Ok(())
    } else {
        Err(AlreadyConfigured {
            found: chosen.settings,
        })
    }
}

/// The choices in use.
pub fn settings() -> Settings {
    chosen().settings
}

/// The counters of the node cache, for the node's metrics; `None` if the node has chosen that there is none. A
/// process with several databases gets the sums over their caches; what the caches of closed ones have counted stays
/// in the totals.
pub fn cache_counters() -> Option<CacheCounters> {
    let chosen = chosen();
    (chosen.settings.cache_bytes > 0).then(|| chosen.databases.counters())
}

/// The choices, and the memory that goes from block to block.
struct Chosen {
    settings: Settings,
    databases: Databases,
    /// Reused by blocks on all states that are in no database, and holds no nodes.
    plain: Arc<BlockPool>,
}

impl Chosen {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            databases: Databases::default(),
            plain: Arc::new(BlockPool::new()),
        }
    }

    /// The memory for blocks on the states of `database`.
    fn memory(&self, database: Option<Database>) -> BlockMemory {
        let Settings {
            cache_bytes,
            carry_bytes,
            ..
        } = self.settings;
        match database {
            Some(database) if cache_bytes > 0 || carry_bytes > 0 => {
                self.databases.memory_of(&database, || BlockMemory {
                    cache: Cache::new(cache_bytes).map(Arc::new),
                    pool: match carry_bytes {
                        0 => self.plain.clone(),
                        bytes => Arc::new(BlockPool::carrying(bytes)),
                    },
                })
            }
            _ => BlockMemory {
                cache: None,
                pool: self.plain.clone(),
            },
        }
    }
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();

fn chosen() -> &'static Chosen {
    CHOSEN.get_or_init(|| Chosen::new(Settings::default()))
}

/// The memory and the source of a block on a state of `database`; `None` if the state is in no database.
pub(crate) fn start_block(database: Option<Database>, parent: Root) -> (Arc<BlockPool>, Source) {
    let BlockMemory { cache, pool } = chosen().memory(database);
    match cache {
        None => (pool, Source::Plain(AtHand)),
        Some(cache) => (pool, cache.source(parent)),
    }
}

/// Recycles the memory of a block whose results were handed out, and gives its update to the cache of its database.
pub(crate) fn finish_block(database: Option<Database>, sealed: SealedBlock) {
    let BlockMemory { cache, pool } = chosen().memory(database);
    if let Some(cache) = cache {
        cache.finished(sealed.update());
    }
    pool.recycle(sealed);
}
