//! Errors of a replay.

use povmeter::{BlockError, ProofError};
use povmeter_dev_runtime::{HostError, RuntimeError, StateError};
use povmeter_store::StoreError;
use sp_core::H256;
use std::fmt;

/// Why a replay stopped at a block, or after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The state before the first block could not be committed.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no runtime in the state.
    #[error("block {number}: expected a runtime under `:code`, found none")]
    NoCode {
        /// Number of the block.
        number: u32,
    },
    /// The published header differs from the computed one.
    #[error("block {number}: expected {part} {expected}, found {found}{}", after(*.asked))]
    Header {
        /// Number of the block.
        number: u32,
        /// The part that differs.
        part: &'static str,
        /// The questions that the runtime asked before.
        asked: Option<QuestionsAsked>,
        /// The published value.
        expected: String,
        /// The computed value.
        found: String,
    },
    /// The runtime failed.
    #[error("block {number}: the runtime failed{}", after(*.asked))]
    Runtime {
        /// Number of the block.
        number: u32,
        /// The questions that the runtime asked before.
        asked: Option<QuestionsAsked>,
        /// Error of the runtime.
        source: RuntimeError,
    },
    /// A host failed.
    #[error("block {number}: the host failed")]
    Host {
        /// Number of the block.
        number: u32,
        /// Error of the host.
        source: HostError,
    },
    /// The record of proof sizes lacks a block.
    #[error("block {number} ({hash:?}): expected its proof sizes in the record, found none")]
    NoSizes {
        /// Number of the block.
        number: u32,
        /// Hash of the block.
        hash: H256,
    },
    /// The options ask for estimates from sp-state-machine, which makes none.
    #[error("expected the bytes read or a record as the proof sizes of sp-state-machine, found estimates")]
    NoEstimates,
    /// The parent state of a block cannot be read.
    #[error("block {number}: the parent state cannot be read")]
    Block {
        /// Number of the block.
        number: u32,
        /// Why it cannot be read.
        source: BlockError,
    },
    /// The proof of a block is not valid.
    #[error("block {number}: the proof of the block is not valid")]
    Proof {
        /// Number of the block.
        number: u32,
        /// Why it is not valid.
        source: ProofError,
    },
    /// The state after a block cannot be committed.
    #[error("block {number}: the state after the block cannot be committed")]
    Store {
        /// Number of the block.
        number: u32,
        /// Error of the store.
        source: StoreError,
    },
}

/// The questions for the proof size that a runtime asked before a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionsAsked {
    /// Number of questions.
    pub questions: usize,
    /// Name of the sizes that the runtime got.
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

/// Returns the end of a message: the questions, because the sizes may be the cause of the failure.
fn after(asked: Option<QuestionsAsked>) -> String {
    asked.map_or_else(String::new, |asked| format!(", {asked}"))
}
