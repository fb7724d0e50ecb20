//! Runtimes in wasm, run by wasmtime as nodes run them, and blocks of real chains.
//!
//! Behind the feature `wasm`, because it compiles an optimizing compiler for wasm.

mod applied;
mod author;
mod chain;
mod dry_run;
mod metadata;
mod old_metadata;
mod parachain;
mod replay;

pub use author::RefusedExtrinsic;
pub use chain::{relay_chain_block, ChainError};
pub use dry_run::{
    ConsumedWeight, DryRun, DryRunError, DryRunItem, DryRunOutcome, DryRunResult, PartialBlock,
};
pub use metadata::{runtime_version, storage_names};
pub use parachain::{Parachain, ParachainAuthor, STEPS_ENGINE};
pub use replay::{
    BlockTimes, Check, ParentState, QuestionsAsked, Replay, ReplayAttribution, ReplayError,
    ReplayMode, ReplayOptions, ReplaySizes, ReplayedBlock, ReplayedExtrinsic, Replayer, SizeRecord,
    SizeRecordError,
};
