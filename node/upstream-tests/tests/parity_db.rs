//! Tests of sc-client-db, on parity-db.
#![allow(warnings, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/parity_db.rs"));
