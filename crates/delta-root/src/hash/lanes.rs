//! Inputs of different lengths on lanes that work in step.
//!
//! ```text
//! repeat:
//!     each lane without work takes the next input
//!     no lane has work: done
//!     compress one block of each lane's input
//!     each lane whose input has ended hands out its hash
//! ```
//! So lanes are idle only at the end, when no input is left for those that finish first.
//!
//! Blake2b is [RFC 7693](https://www.rfc-editor.org/rfc/rfc7693).

use super::{NodeHash, HASH_LENGTH};

/// Inputs compressed at once.
pub(super) const LANES: usize = 8;
/// Bytes of one input that are compressed at once.
pub(super) const BLOCK: usize = 128;

/// A 64-bit word of each lane.
pub(super) type Words = [u64; LANES];

/// The initialization vector.
pub(super) const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// The order of the message's words in each round; the last two rounds repeat the first two.
pub(super) const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The first word of an unkeyed Blake2b state with 32 bytes of output.
const FIRST_WORD: u64 = IV[0] ^ 0x0101_0000 ^ HASH_LENGTH as u64;

/// What a lane compresses next.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// At most [`BLOCK`] bytes; zeros follow them.
    pub(super) bytes: &'a [u8],
    /// Bytes of the input up to the end of this block.
    pub(super) count: u64,
    /// All ones in the last block of an input, else zero.
    pub(super) last: u64,
}

/// The states of all lanes, word by word.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct States(pub(super) [Words; 8]);

impl States {
    fn start(&mut self, lane: usize) {
        for (words, iv) in self.0.iter_mut().zip(IV) {
            words[lane] = iv;
        }
        self.0[0][lane] = FIRST_WORD;
    }

    fn hash(&self, lane: usize) -> NodeHash {
        let mut out = [0; HASH_LENGTH];
        for (bytes, words) in out.chunks_exact_mut(8).zip(&self.0) {
            bytes.copy_from_slice(&words[lane].to_le_bytes());
        }
        NodeHash::from(out)
    }
}

static NOTHING: [u8; BLOCK] = [0; BLOCK];

/// The input that a lane works on.
#[derive(Clone, Copy)]
struct Lane<'a> {
    /// The bytes that are not compressed yet.
    rest: &'a [u8],
    /// Bytes compressed.
    count: u64,
    /// Index of the output, `None` for a lane without work.
    output: Option<usize>,
}

impl<'a> Lane<'a> {
    /// A lane without work. It has an address to read from, because it reads all the same.
    const IDLE: Self = Self {
        rest: NOTHING.split_at(0).0,
        count: 0,
        output: None,
    };

    fn next_block(&mut self) -> Block<'a> {
        let (bytes, rest) = self.rest.split_at(self.rest.len().min(BLOCK));
        self.rest = rest;
        self.count += bytes.len() as u64;
        let last = if rest.is_empty() { u64::MAX } else { 0 };
        Block {
            bytes,
            count: self.count,
            last,
        }
    }
}

/// Puts the hash of each input into `outputs`, in order, until either of them ends. `compress`
/// compresses one block of each lane into the lane's state.
pub(super) fn hash_in_lanes<'a>(
    inputs: impl Iterator<Item = &'a [u8]>,
    outputs: &mut [NodeHash],
    compress: impl Fn(&mut States, &[Block<'a>; LANES]),
) {
    let mut inputs = inputs.take(outputs.len()).enumerate();
    let mut lanes = [Lane::IDLE; LANES];
    let mut states = States::default();
    loop {
        for (index, lane) in lanes.iter_mut().enumerate() {
            if lane.output.is_none() {
                let Some((output, rest)) = inputs.next() else {
                    break;
                };
                let (count, output) = (0, Some(output));
                *lane = Lane {
                    rest,
                    count,
                    output,
                };
                states.start(index);
            }
        }
        if lanes.iter().all(|lane| lane.output.is_none()) {
            return;
        }
        let blocks = lanes.each_mut().map(Lane::next_block);
        compress(&mut states, &blocks);
        for (index, lane) in lanes.iter_mut().enumerate() {
            if lane.rest.is_empty() {
                if let Some(output) = lane.output.take() {
                    outputs[output] = states.hash(index);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Blake2b256;
    use alloc::{vec, vec::Vec};

    /// Compresses lane after lane, in plain Rust.
    fn compress(states: &mut States, blocks: &[Block<'_>; LANES]) {
        for (lane, block) in blocks.iter().enumerate() {
            let mut bytes = [0; BLOCK];
            bytes[..block.bytes.len()].copy_from_slice(block.bytes);
            let word = |at: usize| u64::from_le_bytes(bytes[8 * at..][..8].try_into().unwrap());
            let mut v = [0; 16];
            for at in 0..8 {
                (v[at], v[at + 8]) = (states.0[at][lane], IV[at]);
            }
            v[12] ^= block.count;
            v[14] ^= block.last;
            for round in 0..12 {
                let order = SIGMA[round % 10];
                for line in 0..8 {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|row| match line {
                        0..4 => 4 * row + line,
                        _ => 4 * row + (line + row) % 4,
                    });
                    for (half, [first, second]) in [[32, 24], [16, 63]].into_iter().enumerate() {
                        let more = word(order[2 * line + half]);
                        v[a] = v[a].wrapping_add(v[b]).wrapping_add(more);
                        v[d] = (v[d] ^ v[a]).rotate_right(first);
                        v[c] = v[c].wrapping_add(v[d]);
                        v[b] = (v[b] ^ v[c]).rotate_right(second);
                    }
                }
            }
            for at in 0..8 {
                states.0[at][lane] ^= v[at] ^ v[at + 8];
            }
        }
    }

    #[test]
    fn lanes_take_the_next_input_when_theirs_ends() {
        for count in [0, 1, 7, 8, 9, 40] {
            let inputs: Vec<_> = (0..count).map(|n: usize| vec![7; n * 77 % 530]).collect();
            let mut outputs = vec![NodeHash::default(); inputs.len()];
            let calls = core::cell::Cell::new(0);
            let compress = |states: &mut States, blocks: &[Block<'_>; LANES]| {
                calls.set(calls.get() + 1);
                compress(states, blocks);
            };
            hash_in_lanes(inputs.iter().map(Vec::as_slice), &mut outputs, compress);
            for (input, output) in inputs.iter().zip(outputs) {
                assert_eq!(output, Blake2b256::hash(input), "{} bytes", input.len());
            }
            let blocks = inputs
                .iter()
                .map(|input| input.len().div_ceil(BLOCK).max(1));
            // All lanes are full except at the last inputs.
            assert!(
                calls.get() <= blocks.sum::<usize>() / LANES + 5,
                "{count} inputs"
            );
        }
    }
}
