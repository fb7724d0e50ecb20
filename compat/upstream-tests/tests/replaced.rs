//! Upstream's tests of the modules that this project has code for, inside these modules.
#![allow(warnings, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/replaced.rs"));
