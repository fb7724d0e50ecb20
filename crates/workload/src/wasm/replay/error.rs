//! Why blocks can't be replayed.

use crate::{entry::RuntimeError, host::HostError, povmeter_host::StateError};
use povmeter::{BlockError, ProofError};
use povmeter_store::StoreError;

/// Why a block can't be replayed, or not the one after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The state before the first block can't be had.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no runtime in the state.
    #[error("block {number}: expected a runtime under `:code`, found none")]
    NoCode {
        /// Number of the block.
        number: u32,
    },
    /// The header is not what came out.
    #[error("block {number}: expected {part} {expected}, found {found}")]
    Header {
        /// Number of the block.
        number: u32,
        /// Which part of it.
        part: &'static str,
        /// As published.
        expected: String,
        /// As computed.
        found: String,
    },
    /// The runtime failed.
    #[error("block {number}: the runtime failed")]
    Runtime {
        /// Number of the block.
        number: u32,
        /// How.
        source: RuntimeError,
    },
    /// A host failed.
    #[error("block {number}: the host failed")]
    Host {
        /// Number of the block.
        number: u32,
        /// How.
        source: HostError,
    },
    /// The state below a block can't be read.
    #[error("block {number}: the state can't be read")]
    Block {
        /// Number of the block.
        number: u32,
        /// Why not.
        source: BlockError,
    },
    /// A proof is none.
    #[error("block {number}: the proof that was made is none")]
    Proof {
        /// Number of the block.
        number: u32,
        /// Why not.
        source: ProofError,
    },
    /// The state after a block can't be kept.
    #[error("block {number}: the state can't be kept")]
    Store {
        /// Number of the block.
        number: u32,
        /// Why not.
        source: StoreError,
    },
}
