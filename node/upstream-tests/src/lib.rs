//! The tests of `sc-client-db`, taken from the registry's copy when this crate is built, and run on the
//! `sp-state-machine` that the workspace has: the original, or, with a patch, povmeter's.
//!
//! - `tests/memory.rs`: as they are, on databases in memory;
//! - `tests/parity_db.rs`: with parity-db in a temporary folder in place of the database in memory.
//!
//! What is changed and left out, and why, stands in `build.rs`.
