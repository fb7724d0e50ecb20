//! Runs the test vectors of docs/proof-size.md on the core alone: no FRAME, no sp-* crate, no C code.
//!
//! So they run wherever the core does, and build in seconds. Above all they run on 32-bit machines,
//! because validators run in wasm of 32 bits. The numbers in the file come from a 64-bit build, which
//! the oracle compares with sp-state-machine. [`digest`] compares more than a file could hold: the
//! results of some hundred random blocks, as one hash.

mod format;
mod random;
mod real_block;
mod run;

pub use format::{
    AccountingName, FormatError, Hex, KeyValue, Keyed, Operation, Pairs, Part, Sealed, Sizes,
    Vector, VectorFile,
};
pub use random::digest;
pub use real_block::{RealBlock, RealBlockError, RealOutcome};
pub use run::{run, VectorError};
