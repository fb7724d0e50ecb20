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
    nodes::AtHand,
};
use ::povmeter::{BlockPool, Root, SealedBlock};
use std::sync::{Arc, OnceLock};

pub use povmeter_node_cache::CacheCounters;
/// Both versions of the proof-size function, for the node's executor. The second version is answered only to the host
/// functions of this very crate: a node that takes `povmeter-proof-size` from elsewhere has two, and the greatest
/// number would be returned.
pub use povmeter_proof_size::storage_proof_size;

/// The proof sizes that a runtime gets from the extension that the node registers. The second version of the host
/// function returns the recorded bytes and what the root computation adds, whatever is chosen here.
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
    /// For a node that imports blocks of [`Self::Estimate`] without a recorder: its extension answers from
    /// the author's record, and nothing is estimated.
    Replay,
}

/// The choices of a node.
///
/// The caches serve states whose backend has a trie cache, that is, states of the node's databases. As with
/// that cache, a cached trie node is not read from the database, so it is not noticed if the database lacks
/// it. All databases of the process share the caches, because a trie node is identified by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where proof sizes come from.
    pub sizes: ProofSizes,
    /// Bytes of memory for encoded trie nodes that blocks, forks and calls share; 0 for none. The new nodes
    /// of finished blocks enter it when a block is built on these. Until then they take at most half as much memory more.
    ///
    /// Blocks do not use the node's own trie cache, so it can be as small as its options allow. Reads outside
    /// of blocks, such as those by RPC, still use it.
    pub cache_bytes: usize,
    /// Bytes of memory for decoded trie nodes that a block leaves to the next one; 0, the default, for none.
    pub carry_bytes: usize,
}

/// The default of [`Settings::cache_bytes`]: the default size of the trie cache of Substrate's client.
/// The operating system provides the memory as the cache fills.
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

/// The counters of the node cache, for the node's metrics; `None` if there is no cache.
pub fn cache_counters() -> Option<CacheCounters> {
    chosen().cache.as_ref().map(Cache::counters)
}

/// The choices, and the memory that goes from block to block.
struct Chosen {
    settings: Settings,
    cache: Option<Cache>,
    plain: Arc<BlockPool>,
    carrying: Arc<BlockPool>,
}

impl Chosen {
    fn new(settings: Settings) -> Self {
        let plain = Arc::new(BlockPool::new());
        let carrying = match settings.carry_bytes {
            0 => plain.clone(),
            bytes => Arc::new(BlockPool::carrying(bytes)),
        };
        Self {
            settings,
            cache: Cache::new(settings.cache_bytes),
            plain,
            carrying,
        }
    }
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();

fn chosen() -> &'static Chosen {
    CHOSEN.get_or_init(|| Chosen::new(Settings::default()))
}

/// The memory and the source of a block. `is_cached` tells whether its state is one of the node's databases.
pub(crate) fn start_block(is_cached: bool, parent: Root) -> (Arc<BlockPool>, Source) {
    let chosen = chosen();
    match &chosen.cache {
        _ if !is_cached => (chosen.plain.clone(), Source::Plain(AtHand)),
        None => (chosen.carrying.clone(), Source::Plain(AtHand)),
        Some(cache) => (chosen.carrying.clone(), cache.source(parent)),
    }
}

/// Recycles the memory of a block whose results were handed out, and gives its update to the cache.
pub(crate) fn finish_block(is_cached: bool, sealed: SealedBlock) {
    let chosen = chosen();
    if !is_cached {
        return chosen.plain.recycle(sealed);
    }
    if let Some(cache) = &chosen.cache {
        cache.finished(sealed.update());
    }
    chosen.carrying.recycle(sealed);
}
