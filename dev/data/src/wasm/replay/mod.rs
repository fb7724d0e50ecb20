//! The replay of real blocks on the chain's own runtime.
//!
//! ```text
//! for each block, on the state after the one before it:
//!     execute it as a whole, as an importer does             root of the header, proof
//!     initialize, apply each extrinsic, finalize             same header; estimate
//!     execute it from the compact proof alone                same root, sizes and proof
//!     execute it from the proof on sp-state-machine          same root
//!     execute it on sp-state-machine                         same recorded nodes and sizes
//!     commit it
//! ```

mod attempt;
mod by_design;
mod checks;
mod error;
mod replayed;
mod replayer;
mod sizes;

pub use error::{QuestionsAsked, ReplayError};
pub use replayed::{BlockTimes, Check, ReplayAttribution, ReplayedBlock, ReplayedExtrinsic};
pub use replayer::{ParentState, Replayer};
pub use sizes::{ReplaySizes, SizeRecord, SizeRecordError};

use crate::{chain_spec::ChainSpec, real_blocks::RealBlock, real_blocks::RealBlocks};
use povmeter::{NodeChange, NodeHash, Root, RootUpdate};
use povmeter_dev_runtime::{commit_state, Built, SharedNodes};
use povmeter_store::{MemoryStore, NodeStore};
use sp_core::storage::StateVersion;
use std::vec;

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

/// An iterator that replays the blocks of a file. It also holds the state between them.
pub struct Replay {
    blocks: vec::IntoIter<RealBlock>,
    version: StateVersion,
    store: MemoryStore,
    replayer: Replayer,
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
            replayer: Replayer::new(options),
        })
    }

    /// Returns the root of the state that the next block starts from.
    pub fn root(&self) -> Root {
        self.store.root()
    }

    /// Returns the state that the next block starts from.
    pub fn parent(&self) -> ParentState {
        ParentState {
            version: Some(self.version),
            ..ParentState::new(SharedNodes::new(self.store.clone()), self.store.root())
        }
    }

    /// Makes the runtimes get `sizes` in place of the bytes read.
    #[must_use]
    pub fn with_sizes(self, sizes: ReplaySizes) -> Self {
        let replayer = self.replayer.with_sizes(sizes);
        Self { replayer, ..self }
    }

    fn replay(&mut self, block: &RealBlock) -> Result<ReplayedBlock, ReplayError> {
        let number = block.header.number;
        let parent = self.parent();
        let (replayed, built) = self.replayer.run(&parent, block)?;
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

/// Returns the root update of a built block.
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
