//! The crate beside the original: tests that share one process. Those that choose settings, count allocations or read
//! the counters of caches have processes of their own.

#![allow(clippy::unwrap_used)]

mod auto_traits;
mod child_root_keys;
mod collected;
#[path = "../database/mod.rs"]
mod database;
mod essence;
mod reading;
mod recorders;
mod rooted_size;
mod roots;
mod runtime_code;
