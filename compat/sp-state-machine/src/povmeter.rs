//! What a node may choose, by one call when it starts.
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

/// The proof size that a runtime gets when it asks, through the extension that the node registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProofSizes {
    /// The recorded bytes, as with the original: a chain does not notice the difference.
    #[default]
    Upstream,
    /// With what the root computation adds. All authors and validators of the chain must choose it together.
    /// The node's recorder gets the nodes that an estimate touches, so that they are in the proof.
    Estimate,
    /// For a node that imports such blocks without a recorder: the extension that it registers answers from
    /// the author's record, and nothing is estimated.
    Replay,
}

/// The choices of a node.
///
/// The caches are used for states whose backend has a trie cache, that is, for those of the node's databases. As with
/// that cache, a node that is there is not asked of the database, so its absence there is not noticed. All databases of
/// the process share them: a node is told by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where proof sizes come from.
    pub sizes: ProofSizes,
    /// Bytes of memory for encoded trie nodes that blocks, forks and calls share; 0 for none.
    ///
    /// Blocks do not use the node's own trie cache, which can be made as small as its options allow. What does not go
    /// through a block, such as a question for a value by RPC, still uses it.
    pub cache_bytes: usize,
    /// Bytes of memory for decoded trie nodes that a block leaves to the next one; 0, the default, for none.
    pub carry_bytes: usize,
}

/// [`Settings::cache_bytes`] unless the node chooses: what Substrate's client gives its own trie cache by default.
/// The operating system provides the memory as it is filled.
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
/// [`AlreadyConfigured`] if others are in use.
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

/// What the cache of nodes holds and did so far, for the node's metrics; `None` if there is none.
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

/// The memory for a block, and its nodes: those of the backend at hand. `is_cached` tells whether it is one of the
/// node's databases.
pub(crate) fn start_block(is_cached: bool, parent: Root) -> (Arc<BlockPool>, Source) {
    let chosen = chosen();
    match &chosen.cache {
        _ if !is_cached => (chosen.plain.clone(), Source::Plain(AtHand)),
        None => (chosen.carrying.clone(), Source::Plain(AtHand)),
        Some(cache) => (chosen.carrying.clone(), cache.source(parent)),
    }
}

/// Takes the memory of a block whose results were handed out.
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
