//! One input after the other, in plain Rust.

use super::{hashing::HashMany, NodeHash};
use blake2::{
    digest::{consts::U32, Digest},
    Blake2b,
};

/// The `blake2` crate. It uses only instructions that every processor has.
pub(super) struct Portable;

/// Hash of one input.
pub(super) fn hash(input: &[u8]) -> NodeHash {
    NodeHash::from(<[u8; 32]>::from(Blake2b::<U32>::digest(input)))
}

impl HashMany for Portable {
    fn hash_many<'a>(&self, inputs: impl Iterator<Item = &'a [u8]>, outputs: &mut [NodeHash]) {
        for (output, input) in outputs.iter_mut().zip(inputs) {
            *output = hash(input);
        }
    }
}
