//! The replay of one block on any source of its parent state.

use super::{
    attempt::Attempt, replayed::RuntimeNames, ReplayAttribution, ReplayError, ReplayMode,
    ReplayOptions, ReplaySizes, ReplayedBlock,
};
use crate::{
    real_blocks::RealBlock,
    wasm::{runtime_version, storage_names},
};
use codec::Decode;
use povmeter::{Block, Root, TrieId};
use povmeter_dev_runtime::{wasm::WasmRuntime, Built, Estimates, KeyHints, SharedNodes};
use sp_core::storage::{
    well_known_keys::{CODE, HEAP_PAGES},
    StateVersion,
};
use std::sync::Arc;

/// The state that a block starts from.
#[derive(Clone)]
pub struct ParentState {
    /// Its nodes.
    pub nodes: SharedNodes,
    /// Its root.
    pub root: Root,
    /// The state version of the runtime; `None` to ask the runtime.
    pub version: Option<StateVersion>,
    /// A function that gets each key that the block uses before the block uses it. It costs one more
    /// execution of the block, before all others.
    pub hints: Option<KeyHints>,
}

impl ParentState {
    /// Returns the state with this root, whose nodes are in `nodes`.
    pub fn new(nodes: SharedNodes, root: Root) -> Self {
        Self {
            nodes,
            root,
            version: None,
            hints: None,
        }
    }

    /// Returns the runtime in the state. `number` is that of the block, for messages.
    ///
    /// # Errors
    /// [`ReplayError::NoCode`] if there is none; [`ReplayError::Block`] if the state cannot be
    /// read.
    pub fn runtime(&self, number: u32) -> Result<WasmRuntime, ReplayError> {
        let mut state = Block::new(&self.nodes, self.root);
        let mut value = |key| {
            let value = state.get(TrieId::Top, key);
            let value = value.map_err(|source| ReplayError::Block { number, source })?;
            Ok::<_, ReplayError>(value.map(<[u8]>::to_vec))
        };
        let code = value(CODE)?.ok_or(ReplayError::NoCode { number })?;
        let pages = value(HEAP_PAGES)?.and_then(|pages| u64::decode(&mut pages.as_slice()).ok());
        Ok(WasmRuntime::new(code, pages))
    }
}

/// Replays single blocks, each on its parent state.
pub struct Replayer {
    runtime: WasmRuntime,
    /// Names of the runtime's storage items, once asked for.
    names: Option<RuntimeNames>,
    options: ReplayOptions,
    sizes: ReplaySizes,
}

impl Replayer {
    /// Makes a replayer with these options.
    pub fn new(options: ReplayOptions) -> Self {
        Self {
            runtime: WasmRuntime::new(Vec::new(), None),
            names: None,
            options,
            sizes: ReplaySizes::default(),
        }
    }

    /// Makes the runtimes get `sizes` in place of the bytes read.
    #[must_use]
    pub fn with_sizes(self, sizes: ReplaySizes) -> Self {
        Self { sizes, ..self }
    }

    /// Replays `block` on `parent`.
    ///
    /// # Errors
    /// [`ReplayError`] if the state cannot be read, the runtime fails, the header differs, a record
    /// of sizes lacks the block, or the peer is to estimate.
    pub fn replay(
        &mut self,
        parent: &ParentState,
        block: &RealBlock,
    ) -> Result<ReplayedBlock, ReplayError> {
        self.run(parent, block).map(|(replayed, _)| replayed)
    }

    /// Gets the runtime from the state, and compiles it.
    fn find_runtime(&mut self, parent: &ParentState, number: u32) -> Result<(), ReplayError> {
        let runtime = parent.runtime(number)?;
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

    pub(super) fn run(
        &mut self,
        parent: &ParentState,
        block: &RealBlock,
    ) -> Result<(ReplayedBlock, Built), ReplayError> {
        let number = block.header.number;
        if (self.options.mode, &self.sizes) == (ReplayMode::Peer, &ReplaySizes::Estimate) {
            return Err(ReplayError::NoEstimates);
        }
        self.find_runtime(parent, number)?;
        let version = match parent.version {
            Some(version) => version,
            None => {
                let version = runtime_version(&self.runtime);
                let version = version.map_err(|source| ReplayError::Runtime {
                    number,
                    asked: None,
                    source,
                })?;
                version.state_version()
            }
        };
        let attempt = Attempt {
            block,
            number,
            version,
            nodes: parent.nodes.clone(),
            parent: parent.root,
            runtime: &self.runtime,
            sizes: self.sizes.source(number, block.hash)?,
            sizes_name: self.sizes.name(),
        };
        if let Some(hints) = &parent.hints {
            attempt.telling_keys(hints)?;
        }
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
        Ok((replayed, built))
    }
}
