//! Runs the test vectors of docs/proof-size.md on the core alone: no FRAME, no sp-* crate, no C code.
//!
//! So they run wherever the core does, and build in seconds. Above all they run on 32-bit machines,
//! because validators run in wasm of 32 bits. The numbers in the file come from a 64-bit build, which
//! the oracle compares with sp-state-machine. [`digest`] compares more than a file could hold: the
//! results of some hundred random blocks, as one hash.
//!
//! An [`Op`] is one call on a block and an [`Answer`] its result. Vectors, the oracle's random blocks and the
//! recorded blocks of `dev/data` consist of them.

mod answer;
mod format;
mod hex;
mod op;
mod random;
mod real_block;
mod run;

pub use answer::{ask, Answer};
pub use format::{
    AccountingName, FormatError, Pairs, Part, Sealed, Sizes, Step, UnknownVersion, Vector,
    VectorFile,
};
pub use hex::Hex;
pub use op::{Op, TrieName};
pub use random::{digest, random_calls};
pub use real_block::{RealBlock, RealBlockError, RealOutcome};
pub use run::{run, VectorError};
