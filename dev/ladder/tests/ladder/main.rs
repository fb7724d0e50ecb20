//! Tests of every strategy: on blocks of a runtime, and on states of a few keys.

#![allow(clippy::unwrap_used)]

mod blocks;
mod states;
