//! What a node may choose, by one call when it starts.
//!
//! ```
//! use sp_state_machine::povmeter::{configure, ProofSizes, Settings};
//!
//! configure(Settings {
//!     sizes: ProofSizes::Estimate,
//!     carry_bytes: 256 << 20,
//! })?;
//! # Ok::<(), sp_state_machine::povmeter::AlreadyConfigured>(())
//! ```

use ::povmeter::BlockPool;
use std::sync::{Arc, OnceLock};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where proof sizes come from.
    pub sizes: ProofSizes,
    /// Bytes of memory for decoded trie nodes that blocks leave to the next ones; 0, the default, for none.
    ///
    /// Used for states whose backend has a trie cache, that is, for those of the node's databases. As with that
    /// cache, a node that is there is not asked of the database, so its absence there is not noticed. All
    /// databases of the process share the memory: what a root commits to is the same in each.
    pub carry_bytes: usize,
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

/// The choices, and the memory that goes from block to block.
struct Chosen {
    settings: Settings,
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
            plain,
            carrying,
        }
    }
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();

fn chosen() -> &'static Chosen {
    CHOSEN.get_or_init(|| Chosen::new(Settings::default()))
}

/// The memory for a block; what it loads is carried on if its state is the database's.
pub(crate) fn pool(is_cached: bool) -> Arc<BlockPool> {
    let Chosen {
        plain, carrying, ..
    } = chosen();
    if is_cached { carrying } else { plain }.clone()
}
