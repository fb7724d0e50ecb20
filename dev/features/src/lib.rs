//! Nothing but dependencies: see Cargo.toml.
//!
//! Cargo adds the features of development dependencies only when it builds tests. Some of them reach
//! crates below the FRAME runtime, so without this crate `cargo build --workspace` and
//! `cargo test --workspace` would each compile the runtime.
