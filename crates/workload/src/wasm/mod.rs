//! Runtimes in wasm, run by wasmtime as nodes run them, and blocks of real chains.
//!
//! With the feature `wasm`, which compiles an optimizing compiler for wasm.

mod replay;
mod runtime;

pub use replay::{
    BlockTimes, Check, Replay, ReplayError, ReplayMode, ReplayOptions, ReplayedBlock,
};
pub use runtime::{HostFunctions, WasmRuntime};
