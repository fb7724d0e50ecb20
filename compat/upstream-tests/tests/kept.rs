//! Upstream's crate as it is, with its tests.
#![allow(warnings, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/kept.rs"));
