//! Real chain states and real blocks, and what their publishers say of them.
//!
//! One program, because each that is linked with a runtime takes half a minute to build.

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
