//! What a node on povmeter chooses. A node on sp-state-machine has nothing to choose.

use crate::cli::Command;
use std::fmt;

/// Makes the choices of the process for `command`, before its first block.
#[cfg(feature = "povmeter")]
pub(crate) fn choose(command: &Command) {
    use crate::cli::ProofSizesOption;
    use sp_state_machine::povmeter::{configure, ProofSizes, Settings};
    let (trie_cache, sizes) = match command {
        Command::Run(options) => (options.chain.trie_cache, ProofSizesOption::Upstream),
        Command::ExportBlocks(options) => (options.chain.trie_cache, ProofSizesOption::Upstream),
        Command::ImportBlocks(options) => (options.chain.trie_cache, ProofSizesOption::Upstream),
        Command::Verify(options) => (options.chain.trie_cache, ProofSizesOption::Upstream),
        Command::Info(options) => (options.chain.trie_cache, ProofSizesOption::Upstream),
        Command::Measure(command) => (command.options.trie_cache, command.proof_sizes),
        // They open no chain.
        Command::Load(_) | Command::Rpc(_) | Command::Upgrade(_) | Command::Compare(_) => return,
    };
    configure(Settings {
        sizes: match sizes {
            ProofSizesOption::Upstream => ProofSizes::Upstream,
            ProofSizesOption::Estimate => ProofSizes::Estimate,
        },
        cache_bytes: (trie_cache as usize) << 20,
        ..Settings::default()
    })
    .expect("the first call of this process");
}

/// Does nothing, because sp-state-machine has no choices.
#[cfg(not(feature = "povmeter"))]
pub(crate) fn choose(_: &Command) {}

/// The sizes in MiB of the caches that a chain has.
#[derive(Clone, Copy)]
pub(crate) struct CacheSizes {
    /// The client's, of trie nodes and values.
    pub(crate) trie: u32,
    /// povmeter's, of trie nodes, which blocks use instead; `None` on sp-state-machine.
    pub(crate) povmeter: Option<usize>,
}

impl CacheSizes {
    /// The sizes for a client whose trie cache has `trie` MiB.
    pub(crate) fn of(trie: u32) -> Self {
        #[cfg(feature = "povmeter")]
        let povmeter = Some(sp_state_machine::povmeter::settings().cache_bytes >> 20);
        #[cfg(not(feature = "povmeter"))]
        let povmeter = None;
        Self { trie, povmeter }
    }
}

impl fmt::Display for CacheSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "caches: {} MiB of the client", self.trie)?;
        match self.povmeter {
            Some(povmeter) => write!(f, ", {povmeter} MiB of povmeter"),
            None => Ok(()),
        }
    }
}
