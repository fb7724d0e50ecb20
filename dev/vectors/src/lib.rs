//! Runs the test vectors of docs/proof-size.md on the core alone: no FRAME, nothing of sp-*, nothing of C.
//!
//! So they run wherever the core does, and build in seconds: on machines with addresses of 32 bits above
//! all, as validators in wasm have them. The numbers in the file are told by a 64-bit build that the
//! oracle holds to sp-state-machine; equal numbers here are the comparison. [`digest`] compares more than
//! a file would hold: all that some hundred random blocks tell, as one hash.

mod random;
mod real_block;
mod vector;

pub use random::digest;
pub use real_block::{RealBlock, RealBlockError, RealOutcome};
pub use vector::{run, VectorError, VectorFile};
