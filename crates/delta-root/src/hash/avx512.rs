//! Blake2b's compression of eight blocks at once, one in each 64-bit lane of AVX-512.
//!
//! Unsafe for the loads and stores of 512-bit registers, and for the one call from code that is
//! compiled for every processor. Tests compare the hash of each lane with the portable hash.
#![allow(unsafe_code)]
// The build script leaves this module out where the compiler is too old for it.
#![allow(clippy::incompatible_msrv)]

use super::{
    hashing::HashMany,
    lanes::{hash_in_lanes, Block, States, Words, BLOCK, IV, LANES, SIGMA},
    many::Many,
    NodeHash,
};
use core::arch::x86_64::{
    __m512i, __mmask64, _mm512_add_epi64, _mm512_loadu_si512, _mm512_maskz_loadu_epi8,
    _mm512_ror_epi64, _mm512_set1_epi64, _mm512_shuffle_i64x2, _mm512_storeu_si512,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

/// Hashes eight inputs at once. A value exists only where the processor supports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

impl Avx512 {
    /// Returns `None` if the processor or the operating system does not support AVX-512.
    pub(super) fn detect() -> Option<Self> {
        let can = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        can.then_some(Self(()))
    }
}

/// The most inputs that are faster in fewer lanes.
const FEW: usize = LANES / 2;
/// From this many inputs on, a remainder of any size is hashed in the lanes with the other inputs.
const MANY: usize = 2 * LANES;

impl HashMany for Avx512 {
    fn hash_many<'a>(&self, mut inputs: impl Iterator<Item = &'a [u8]>, outputs: &mut [NodeHash]) {
        let over = outputs.len() % LANES;
        let apart = if outputs.len() < MANY && over <= FEW {
            over
        } else {
            0
        };
        let (in_lanes, apart) = outputs.split_at_mut(outputs.len() - apart);
        hash_in_lanes(inputs.by_ref(), in_lanes, |states, blocks| {
            // SAFETY: `self` was made by `detect`, so the processor has what `compress` is compiled
            // for.
            unsafe { compress(states, blocks) }
        });
        Many.hash_many(inputs, apart);
    }
}

#[target_feature(enable = "avx512f")]
fn load(words: &Words) -> __m512i {
    // SAFETY: reads the 64 bytes of `words`, at any alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn store(words: &mut Words, register: __m512i) {
    // SAFETY: writes the 64 bytes of `words`, at any alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), register) }
}

/// Loads 64 bytes of `bytes` from `start` on, with zeros after the end of `bytes`.
#[target_feature(enable = "avx512f,avx512bw")]
fn load_bytes(bytes: &[u8], start: usize) -> __m512i {
    let length = bytes.len().saturating_sub(start).min(64);
    // A masked load of no byte is slow at an address that is not mapped.
    let (mask, start): (__mmask64, usize) = match length {
        0 => (0, 0),
        _ => (u64::MAX >> (64 - length), start),
    };
    // SAFETY: the mask has a bit for each of the `length` bytes from `start` on, all in `bytes`.
    // Bytes without a bit are not accessed.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().wrapping_add(start).cast()) }
}

/// Transposes eight rows of eight words.
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512i; 8]) -> [__m512i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // Pairs of 128 bits: words 0, 2, 4, 6 of two rows, and words 1, 3, 5, 7.
    let (ab0, ab1) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (cd0, cd1) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    let (ef0, ef1) = (_mm512_unpacklo_epi64(e, f), _mm512_unpackhi_epi64(e, f));
    let (gh0, gh1) = (_mm512_unpacklo_epi64(g, h), _mm512_unpackhi_epi64(g, h));
    let [c0, c2, c4, c6] = transpose_pairs([ab0, cd0, ef0, gh0]);
    let [c1, c3, c5, c7] = transpose_pairs([ab1, cd1, ef1, gh1]);
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// Transposes four rows of four pairs of words.
#[target_feature(enable = "avx512f")]
fn transpose_pairs([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let (ab0, ab1) = (
        _mm512_shuffle_i64x2::<EVEN>(a, b),
        _mm512_shuffle_i64x2::<ODD>(a, b),
    );
    let (cd0, cd1) = (
        _mm512_shuffle_i64x2::<EVEN>(c, d),
        _mm512_shuffle_i64x2::<ODD>(c, d),
    );
    [
        _mm512_shuffle_i64x2::<EVEN>(ab0, cd0),
        _mm512_shuffle_i64x2::<EVEN>(ab1, cd1),
        _mm512_shuffle_i64x2::<ODD>(ab0, cd0),
        _mm512_shuffle_i64x2::<ODD>(ab1, cd1),
    ]
}

/// The working vector.
type Vector = [__m512i; 16];

/// Compresses one block of each lane into the lane's state.
#[target_feature(enable = "avx512f,avx512bw")]
fn compress(states: &mut States, blocks: &[Block<'_>; LANES]) {
    let [low, high] = [0, BLOCK / 2].map(|start| {
        let mut rows = [_mm512_set1_epi64(0); LANES];
        for (row, block) in rows.iter_mut().zip(blocks) {
            *row = load_bytes(block.bytes, start);
        }
        transpose(rows)
    });
    let mut message = [_mm512_set1_epi64(0); 16];
    message[..8].copy_from_slice(&low);
    message[8..].copy_from_slice(&high);

    let mut vector = [_mm512_set1_epi64(0); 16];
    for (register, words) in vector.iter_mut().zip(&states.0) {
        *register = load(words);
    }
    for (register, word) in vector[8..].iter_mut().zip(IV) {
        *register = _mm512_set1_epi64(word.cast_signed());
    }
    vector[12] = _mm512_xor_si512(vector[12], load(&blocks.map(|block| block.count)));
    vector[14] = _mm512_xor_si512(vector[14], load(&blocks.map(|block| block.last)));
    round::<0>(&mut vector, &message);
    round::<1>(&mut vector, &message);
    round::<2>(&mut vector, &message);
    round::<3>(&mut vector, &message);
    round::<4>(&mut vector, &message);
    round::<5>(&mut vector, &message);
    round::<6>(&mut vector, &message);
    round::<7>(&mut vector, &message);
    round::<8>(&mut vector, &message);
    round::<9>(&mut vector, &message);
    round::<10>(&mut vector, &message);
    round::<11>(&mut vector, &message);
    for (index, words) in states.0.iter_mut().enumerate() {
        let both = _mm512_xor_si512(vector[index], vector[index + 8]);
        store(words, _mm512_xor_si512(load(words), both));
    }
}

/// Half a round on four lines of the vector that do not depend on each other: each step goes over all
/// four. `$first` and `$second` are the places of a line's message words.
macro_rules! half_round {
    ($vector:ident, $message:ident, $($a:literal $b:literal $c:literal $d:literal, $first:expr, $second:expr;)*) => {
        $($vector[$a] = _mm512_add_epi64($vector[$a], $vector[$b]);)*
        $($vector[$a] = _mm512_add_epi64($vector[$a], $message[$first]);)*
        $($vector[$d] = _mm512_ror_epi64::<32>(_mm512_xor_si512($vector[$d], $vector[$a]));)*
        $($vector[$c] = _mm512_add_epi64($vector[$c], $vector[$d]);)*
        $($vector[$b] = _mm512_ror_epi64::<24>(_mm512_xor_si512($vector[$b], $vector[$c]));)*
        $($vector[$a] = _mm512_add_epi64($vector[$a], $vector[$b]);)*
        $($vector[$a] = _mm512_add_epi64($vector[$a], $message[$second]);)*
        $($vector[$d] = _mm512_ror_epi64::<16>(_mm512_xor_si512($vector[$d], $vector[$a]));)*
        $($vector[$c] = _mm512_add_epi64($vector[$c], $vector[$d]);)*
        $($vector[$b] = _mm512_ror_epi64::<63>(_mm512_xor_si512($vector[$b], $vector[$c]));)*
    };
}

/// One round: the columns, then the diagonals. The round is a constant, so all indices are, too, and
/// everything stays in registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn round<const ROUND: usize>(vector: &mut Vector, message: &Vector) {
    let order = SIGMA[ROUND % SIGMA.len()];
    half_round! {
        vector, message,
        0 4 8 12, order[0], order[1];
        1 5 9 13, order[2], order[3];
        2 6 10 14, order[4], order[5];
        3 7 11 15, order[6], order[7];
    }
    half_round! {
        vector, message,
        0 5 10 15, order[8], order[9];
        1 6 11 12, order[10], order[11];
        2 7 8 13, order[12], order[13];
        3 4 9 14, order[14], order[15];
    }
}
