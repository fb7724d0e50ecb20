//! Runtimes in wasm, run by wasmtime as nodes run them, and blocks of real chains.
//!
//! Behind the feature `wasm`, because it compiles an optimizing compiler for wasm.

mod author;
mod chain;
mod metadata;
mod old_metadata;
mod parachain;
mod replay;

pub use author::RefusedExtrinsic;
pub use chain::{relay_chain_block, ChainError};
pub use metadata::storage_names;
pub use parachain::{Parachain, ParachainAuthor, STEPS_ENGINE};
pub use replay::{
    BlockTimes, Check, QuestionsAsked, Replay, ReplayAttribution, ReplayError, ReplayMode,
    ReplayOptions, ReplaySizes, ReplayedBlock, ReplayedExtrinsic, SizeRecord, SizeRecordError,
};
