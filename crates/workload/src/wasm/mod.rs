//! Runtimes in wasm, run by wasmtime as nodes run them, and blocks of real chains.
//!
//! With the feature `wasm`, which compiles an optimizing compiler for wasm.

mod chain;
mod metadata;
mod old_metadata;
mod replay;
mod runtime;

pub use chain::{relay_chain_block, ChainError};
pub use replay::{
    BlockTimes, Check, Replay, ReplayAttribution, ReplayError, ReplayMode, ReplayOptions,
    ReplayedBlock, ReplayedExtrinsic,
};
pub use runtime::{HostFunctions, WasmRuntime};
