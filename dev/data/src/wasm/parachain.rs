//! Blocks of a parachain whose runtime asks for the proof size.
//!
//! The chain is the [`Plan`] of transfers with its runtime in wasm. The extension
//! `StorageWeightReclaim` asks for the size before and after each extrinsic and writes the difference
//! into the state. So the state root depends on the sizes: a node with others gets another root.

use super::{author::author, ChainError};
use crate::{
    chain_spec::ChainSpec, real_blocks::RealBlock, real_blocks::RealBlocks, real_blocks::RealHeader,
};
use codec::DecodeAll;
use povmeter::Root;
use povmeter_dev_runtime::{
    commit_state, wasm::WasmRuntime, Built, Entries, Estimates, Peer, Plan, PovmeterBlock,
    SharedNodes,
};
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::SizeSource;
use sp_core::{
    storage::{well_known_keys::CODE, StateVersion},
    H256,
};
use sp_runtime::{ConsensusEngineId, DigestItem};
use std::{collections::BTreeMap, path::PathBuf};

/// Id of digest items that hold storage calls; `wasm-runtime` of `povmeter-dev-runtime` defines their
/// form.
pub const STEPS_ENGINE: ConsensusEngineId = *b"STEP";

/// State version of the runtime in wasm.
const VERSION: StateVersion = StateVersion::V1;

/// A parent state, and the plan and runtime for blocks on it.
pub struct Parachain {
    plan: Plan,
    state: ChainSpec,
    runtime: WasmRuntime,
    store: MemoryStore,
}

/// The node that authors a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParachainAuthor {
    /// A node with sp-state-machine: the runtime gets the recorded size.
    Stock,
    /// A node with povmeter: the runtime gets these sizes.
    Povmeter(SizeSource),
}

impl Parachain {
    /// Makes the chain of `plan`, which must be of state version 1, and adds the child tries
    /// `children` to its state.
    ///
    /// # Errors
    /// [`ChainError::State`] if the state could not be made.
    pub fn new(plan: Plan, children: BTreeMap<Vec<u8>, Entries>) -> Result<Self, ChainError> {
        let mut top = plan.genesis().top.clone();
        top.insert(CODE.to_vec(), WasmRuntime::workload_code().to_vec());
        let mut store = MemoryStore::new();
        commit_state(&mut store, &top, &children, VERSION, None)?;
        let state = ChainSpec {
            name: None,
            id: None,
            top,
            children,
        };
        Ok(Self {
            plan,
            state,
            runtime: WasmRuntime::workload(),
            store,
        })
    }

    /// Returns the state before the block.
    pub fn state(&self) -> &ChainSpec {
        &self.state
    }

    /// Returns the root of the state before the block.
    pub fn root(&self) -> Root {
        self.store.root()
    }

    /// Returns the block of the plan's transfers that `author` makes with `digest` in the header, and
    /// the built block with the proof sizes that the runtime got.
    ///
    /// # Errors
    /// [`ChainError`] if the author fails.
    pub fn block(
        &self,
        author: ParachainAuthor,
        digest: Vec<DigestItem>,
    ) -> Result<(RealBlocks, Built), ChainError> {
        let body = self.plan.encoded();
        // Removes the length prefix, because the author adds it.
        let body = body.map(|extrinsic| Vec::<u8>::decode_all(&mut extrinsic.as_slice()));
        let body = body.collect::<Result<Vec<_>, _>>()?;
        let mut header = self.plan.header().clone();
        header.digest.logs.extend(digest);
        let (header, built) = self.built(author, &header, &body)?;
        let block = RealBlock {
            hash: header.hash(),
            header,
            body,
        };
        let blocks = RealBlocks {
            name: "parachain".to_owned(),
            state_path: PathBuf::new(),
            state_version: VERSION,
            blocks: vec![block],
        };
        Ok((blocks, built))
    }

    fn built(
        &self,
        by: ParachainAuthor,
        header: &RealHeader,
        body: &[Vec<u8>],
    ) -> Result<(RealHeader, Built), ChainError> {
        let nodes = SharedNodes::new(self.store.clone());
        let root = self.root();
        match by {
            ParachainAuthor::Stock => {
                let peer = Peer::new(nodes.parent(H256(root.into())), VERSION);
                author(peer.block_recording_sizes(), &self.runtime, header, body)
            }
            ParachainAuthor::Povmeter(sizes) => {
                let block = PovmeterBlock::on(nodes, root, VERSION, Estimates::Nowhere, sizes);
                author(block, &self.runtime, header, body)
            }
        }
    }
}
