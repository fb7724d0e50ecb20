//! Hashes as many inputs at once as `blake2b_simd` can: four with AVX2, two with SSE4.1.

use super::{hashing::HashMany, portable, NodeHash, HASH_LENGTH};
use arrayvec::ArrayVec;
use blake2b_simd::{
    many::{hash_many, HashManyJob},
    Params,
};

/// Inputs handed to `blake2b_simd` together. Their jobs lie on the stack, 128 bytes each.
const BATCH: usize = 64;

/// The `blake2b_simd` crate.
pub(super) struct Many;

impl HashMany for Many {
    fn hash_many<'a>(&self, mut inputs: impl Iterator<Item = &'a [u8]>, outputs: &mut [NodeHash]) {
        let mut params = Params::new();
        params.hash_length(HASH_LENGTH);
        for outputs in outputs.chunks_mut(BATCH) {
            let inputs = inputs.by_ref().take(outputs.len());
            if let [output] = outputs {
                // A single input is faster in plain Rust.
                inputs.for_each(|input| *output = portable::hash(input));
                continue;
            }
            let jobs = inputs.map(|input| HashManyJob::new(&params, input));
            let mut jobs: ArrayVec<_, BATCH> = jobs.collect();
            hash_many(&mut jobs);
            for (output, job) in outputs.iter_mut().zip(&jobs) {
                output.as_mut().copy_from_slice(job.to_hash().as_bytes());
            }
        }
    }
}
