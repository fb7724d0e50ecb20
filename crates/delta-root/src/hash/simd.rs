//! As many inputs at once as `blake2b_simd` can: four with AVX2, two with SSE4.1.

use super::{hashing::HashMany, NodeHash, HASH_LENGTH};
use blake2b_simd::{
    many::{hash_many, HashManyJob},
    Hash, Params,
};
use core::array::from_fn;

/// Inputs handed over together. Their jobs lie on the stack, 128 bytes each.
const BATCH: usize = 64;
/// As [`BATCH`], so that few inputs do not pay for many.
const SMALL_BATCH: usize = 8;

/// The `blake2b_simd` crate.
pub(super) struct Simd;

fn params() -> Params {
    let mut params = Params::new();
    params.hash_length(HASH_LENGTH);
    params
}

fn node_hash(hash: &Hash) -> NodeHash {
    let mut out = [0; HASH_LENGTH];
    out.copy_from_slice(hash.as_bytes());
    NodeHash(out)
}

/// Hash of one input.
pub(super) fn hash(input: &[u8]) -> NodeHash {
    node_hash(&params().hash(input))
}

impl HashMany for Simd {
    fn hash_many<'a>(&self, mut inputs: impl Iterator<Item = &'a [u8]>, outputs: &mut [NodeHash]) {
        for outputs in outputs.chunks_mut(BATCH) {
            if outputs.len() <= SMALL_BATCH {
                hash_batch::<SMALL_BATCH>(&mut inputs, outputs);
            } else {
                hash_batch::<BATCH>(&mut inputs, outputs);
            }
        }
    }
}

/// Hashes as many inputs as there are `outputs`, at most `N`.
fn hash_batch<'a, const N: usize>(
    inputs: &mut impl Iterator<Item = &'a [u8]>,
    outputs: &mut [NodeHash],
) {
    let params = params();
    let mut inputs = inputs.take(outputs.len());
    let mut count = 0;
    let mut jobs: [HashManyJob<'a>; N] = from_fn(|_| {
        let input = inputs.next();
        count += usize::from(input.is_some());
        HashManyJob::new(&params, input.unwrap_or_default())
    });
    let jobs = &mut jobs[..count];
    hash_many(jobs.iter_mut());
    for (output, job) in outputs.iter_mut().zip(&*jobs) {
        *output = node_hash(&job.to_hash());
    }
}
