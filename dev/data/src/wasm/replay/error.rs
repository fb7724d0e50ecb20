//! Why blocks can't be replayed.

use povmeter::{BlockError, ProofError};
use povmeter_dev_runtime::{HostError, RuntimeError, StateError};
use povmeter_store::StoreError;
use sp_core::H256;
use std::fmt;

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
    #[error("block {number}: expected {part} {expected}, found {found}{}", after(*.asked))]
    Header {
        /// Number of the block.
        number: u32,
        /// Which part of it.
        part: &'static str,
        /// The questions that the runtime asked before.
        asked: Option<QuestionsAsked>,
        /// As published.
        expected: String,
        /// As computed.
        found: String,
    },
    /// The runtime failed.
    #[error("block {number}: the runtime failed{}", after(*.asked))]
    Runtime {
        /// Number of the block.
        number: u32,
        /// The questions that the runtime asked before.
        asked: Option<QuestionsAsked>,
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
    /// A record of proof sizes lacks a block.
    #[error("block {number} ({hash:?}): expected its proof sizes in the record, found none")]
    NoSizes {
        /// Number of the block.
        number: u32,
        /// Hash of the block.
        hash: H256,
    },
    /// sp-state-machine alone has to tell estimates, which it does not make.
    #[error("expected the bytes read or a record as the proof sizes of sp-state-machine, found estimates")]
    NoEstimates,
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

/// What a runtime asked for before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionsAsked {
    /// How often it asked for the proof size.
    pub questions: usize,
    /// What it was told.
    pub told: &'static str,
}

impl fmt::Display for QuestionsAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { questions, told } = self;
        let times = if *questions == 1 { "time" } else { "times" };
        write!(
            f,
            "after it asked for the proof size {questions} {times} and was told {told}"
        )
    }
}

/// The end of a message: the questions, which may be the reason.
fn after(asked: Option<QuestionsAsked>) -> String {
    asked.map_or_else(String::new, |asked| format!(", {asked}"))
}
