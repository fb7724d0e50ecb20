//! Tests of sc-client-db, on databases in memory.
#![allow(warnings, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/memory.rs"));
