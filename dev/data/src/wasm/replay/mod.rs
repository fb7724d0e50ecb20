//! The replay of real blocks on the chain's own runtime.
//!
//! ```text
//! for each block, on the state after the one before it:
//!     execute it as a whole, as an importer does             root of the header, proof
//!     initialize, apply each extrinsic, finalize             the header, estimate
//!     execute it from the compact proof alone                same root, sizes and proof
//!     the same, on sp-state-machine
//!     execute it on sp-state-machine                         same recorded nodes and sizes
//!     commit it
//! ```

mod attempt;
mod by_design;
mod checks;
mod error;
mod replayed;
mod sizes;

pub use error::{QuestionsAsked, ReplayError};
pub use replayed::{BlockTimes, Check, ReplayAttribution, ReplayedBlock, ReplayedExtrinsic};
pub use sizes::{ReplaySizes, SizeRecord, SizeRecordError};

use super::storage_names;
use crate::{chain_spec::ChainSpec, real_blocks::RealBlock, real_blocks::RealBlocks};
use attempt::Attempt;
use codec::Decode;
use povmeter::{Block, NodeChange, NodeHash, Root, RootUpdate, TrieId};
use povmeter_dev_runtime::{commit_state, wasm::WasmRuntime, Built, Estimates, SharedNodes};
use povmeter_store::{MemoryStore, NodeStore};
use replayed::RuntimeNames;
use sp_core::storage::{
    well_known_keys::{CODE, HEAP_PAGES},
    StateVersion,
};
use std::{sync::Arc, vec};

/// The state machine that executes the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayMode {
    /// povmeter.
    #[default]
    Ours,
    /// sp-state-machine.
    Peer,
    /// Both, with every result compared.
    Lockstep,
}

/// Options of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The state machine that executes the blocks.
    pub mode: ReplayMode,
    /// Whether to try each proof without each of its nodes. Executes a block once per node.
    pub every_node: bool,
    /// Whether to attribute the bytes of each proof. Executes a block once more.
    pub attribute: bool,
    /// Whether to report each extrinsic. Executes a block once more.
    pub each_extrinsic: bool,
}

/// An iterator that replays the blocks of a file, and the state between them.
pub struct Replay {
    blocks: vec::IntoIter<RealBlock>,
    version: StateVersion,
    store: MemoryStore,
    runtime: WasmRuntime,
    /// Names of the runtime's storage items, once asked for.
    names: Option<RuntimeNames>,
    options: ReplayOptions,
    sizes: ReplaySizes,
}

impl Replay {
    /// Makes a replay of the blocks of `file`, the first on `state`.
    ///
    /// # Errors
    /// [`ReplayError::State`] if the state cannot be committed.
    pub fn new(
        file: RealBlocks,
        state: &ChainSpec,
        options: ReplayOptions,
    ) -> Result<Self, ReplayError> {
        let mut store = MemoryStore::new();
        let version = file.state_version;
        commit_state(&mut store, &state.top, &state.children, version, None)?;
        Ok(Self {
            blocks: file.blocks.into_iter(),
            version,
            store,
            runtime: WasmRuntime::new(Vec::new(), None),
            names: None,
            options,
            sizes: ReplaySizes::default(),
        })
    }

    /// The root of the state that the next block starts from.
    pub fn root(&self) -> Root {
        self.store.root()
    }

    /// Tells the runtimes these proof sizes in place of the bytes read.
    #[must_use]
    pub fn with_sizes(self, sizes: ReplaySizes) -> Self {
        Self { sizes, ..self }
    }

    /// Takes the runtime from the state.
    fn find_runtime(&mut self, number: u32) -> Result<(), ReplayError> {
        let mut state = Block::new(&self.store, self.store.root());
        let mut value = |key| {
            let value = state.get(TrieId::Top, key);
            let value = value.map_err(|source| ReplayError::Block { number, source })?;
            Ok::<_, ReplayError>(value.map(<[u8]>::to_vec))
        };
        let code = value(CODE)?.ok_or(ReplayError::NoCode { number })?;
        let pages = value(HEAP_PAGES)?.and_then(|pages| u64::decode(&mut pages.as_slice()).ok());
        let runtime = WasmRuntime::new(code, pages);
        if !runtime.is(&self.runtime) {
            self.names = None;
        }
        self.runtime = runtime;
        let prepared = self.runtime.prepare();
        prepared.map_err(|source| ReplayError::Runtime {
            number,
            asked: None,
            source,
        })
    }

    fn replay(&mut self, block: &RealBlock) -> Result<ReplayedBlock, ReplayError> {
        let number = block.header.number;
        if (self.options.mode, &self.sizes) == (ReplayMode::Peer, &ReplaySizes::Estimate) {
            return Err(ReplayError::NoEstimates);
        }
        self.find_runtime(number)?;
        let attempt = Attempt {
            block,
            number,
            version: self.version,
            nodes: SharedNodes::new(self.store.clone()),
            parent: self.store.root(),
            runtime: &self.runtime,
            sizes: self.sizes.source(number, block.hash)?,
            sizes_name: self.sizes.name(),
        };
        let (mut replayed, built) = match self.options.mode {
            ReplayMode::Ours => attempt.ours(self.options.every_node),
            ReplayMode::Peer => attempt.peer(),
            ReplayMode::Lockstep => attempt.lockstep(),
        }?;
        if self.options.attribute {
            let runtime = &self.runtime;
            let names = self
                .names
                .get_or_insert_with(|| Arc::new(storage_names(runtime)));
            let (block, check) = attempt.attributed(&built)?;
            replayed.checks.push(check);
            replayed.attribution = Some(ReplayAttribution {
                block,
                names: names.clone(),
            });
        }
        if self.options.each_extrinsic {
            replayed.steps = match self.options.mode {
                ReplayMode::Peer => attempt.each_extrinsic(attempt.peer_block(None)),
                ReplayMode::Ours | ReplayMode::Lockstep => {
                    let nodes = attempt.nodes.clone();
                    attempt.each_extrinsic(attempt.our_block(nodes, Estimates::Everywhere))
                }
            }?;
        }
        let update = update(self.store.root(), &built);
        let committed = self.store.commit(&update);
        committed.map_err(|source| ReplayError::Store { number, source })?;
        Ok(replayed)
    }
}

impl Iterator for Replay {
    type Item = Result<ReplayedBlock, ReplayError>;

    /// Replays the next block. Ends after an error.
    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next()?;
        let replayed = self.replay(&block);
        if replayed.is_err() {
            self.blocks = Vec::new().into_iter();
        }
        Some(replayed)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.blocks.size_hint()
    }
}

impl ExactSizeIterator for Replay {}

/// The root update of a built block.
fn update(parent: Root, built: &Built) -> RootUpdate {
    let nodes = built.update.nodes().iter().map(|change| {
        let (path, hash) = change.key.split_at(change.key.len().saturating_sub(32));
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hash);
        NodeChange {
            path,
            odd_nibble: None,
            hash: NodeHash::from(bytes),
            references: change.count,
            encoded: &change.node,
        }
    });
    RootUpdate {
        parent,
        root: Root::from(built.root.0),
        children: Vec::new(),
        nodes: nodes.collect(),
    }
}
