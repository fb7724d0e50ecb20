//! Real chain states and real blocks, checked against what the chains published.
//!
//! One program, because linking a runtime into each test program takes half a minute.

extern crate alloc;

#[cfg(feature = "wasm")]
#[path = "../../runtime/wasm-runtime/src/validator.rs"]
#[allow(dead_code, unreachable_pub, clippy::cast_possible_truncation)]
mod core_in_wasm;
mod genesis_roots;
mod recorded_trace;
mod replay;
mod replay_parachain;
mod small_block;
mod validator;
