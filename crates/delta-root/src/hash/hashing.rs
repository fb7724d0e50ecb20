//! The choice of the implementation that hashes.

#[cfg(has_avx512)]
use super::avx512::Avx512;
use super::{many::Many, portable, portable::Portable, NodeHash, HASH_LENGTH};
use core::fmt;

/// Computes Blake2b-256 of many inputs.
pub(super) trait HashMany {
    /// Puts the hash of each input into `outputs`, in order, until either of them ends.
    fn hash_many<'a>(&self, inputs: impl Iterator<Item = &'a [u8]>, outputs: &mut [NodeHash]);
}

/// A way to compute Blake2b-256 of several inputs. All of them give the same hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HashMode {
    /// One after the other, in plain Rust.
    Portable,
    /// `blake2b_simd`: four at once with AVX2, two with SSE4.1, else one. Without the feature `std`
    /// it uses the instructions that the crate is compiled for.
    Many,
    /// Eight at once with AVX-512. Needs the feature `std`, Rust 1.89 to compile with, and x86-64.
    Avx512,
    /// One after the other, by a function that the caller of [`Hashing::with_function`] hands in.
    Function,
}

/// A function that returns Blake2b-256 of its argument.
pub type HashFunction = fn(&[u8]) -> [u8; HASH_LENGTH];

impl HashMode {
    /// All modes that this crate implements, the slowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Many, Self::Avx512];

    /// The name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Many => "many",
            Self::Avx512 => "avx512",
            Self::Function => "function",
        }
    }
}

/// The processor, or this build, does not support the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a processor and a build that can hash in mode {}, found one that can't",
    .0.name()
)]
pub struct UnsupportedMode(pub HashMode);

/// Hashes the nodes of a root update.
///
/// ```
/// use povmeter_delta_root::{Blake2b256, HashMode, Hashing, NodeHash};
///
/// let mut hashes = [NodeHash::default(); 2];
/// Hashing::best().hash_all([&b"a"[..], b"b"], &mut hashes);
/// assert_eq!(hashes, [Blake2b256::hash(b"a"), Blake2b256::hash(b"b")]);
/// assert_eq!(Hashing::new(HashMode::Portable)?.mode(), HashMode::Portable);
/// # Ok::<(), povmeter_delta_root::UnsupportedMode>(())
/// ```
#[derive(Clone, Copy)]
pub struct Hashing(Engine);

#[derive(Clone, Copy)]
enum Engine {
    Portable,
    Many,
    #[cfg(has_avx512)]
    Avx512(Avx512),
    Function(HashFunction),
}

impl Hashing {
    /// Hashing in the fastest mode that the processor and this build support.
    pub fn best() -> Self {
        Self::new(HashMode::Avx512).unwrap_or(Self(Engine::Many))
    }

    /// Hashing by `function`. A validator in wasm lets its host hash, because that is faster. The roots are
    /// wrong if the function does not compute Blake2b-256.
    pub fn with_function(function: HashFunction) -> Self {
        Self(Engine::Function(function))
    }

    /// Hashing in the given mode.
    ///
    /// # Errors
    /// [`UnsupportedMode`] if the processor or this build does not support the mode, and for
    /// [`HashMode::Function`].
    pub fn new(mode: HashMode) -> Result<Self, UnsupportedMode> {
        let engine = match mode {
            HashMode::Portable => Some(Engine::Portable),
            HashMode::Many => Some(Engine::Many),
            #[cfg(has_avx512)]
            HashMode::Avx512 => Avx512::detect().map(Engine::Avx512),
            #[cfg(not(has_avx512))]
            HashMode::Avx512 => None,
            HashMode::Function => None,
        };
        engine.map(Self).ok_or(UnsupportedMode(mode))
    }

    /// The mode.
    pub fn mode(&self) -> HashMode {
        match self.0 {
            Engine::Portable => HashMode::Portable,
            Engine::Many => HashMode::Many,
            #[cfg(has_avx512)]
            Engine::Avx512(_) => HashMode::Avx512,
            Engine::Function(_) => HashMode::Function,
        }
    }

    /// The hash of `input`.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> NodeHash {
        match self.0 {
            Engine::Function(function) => NodeHash::from(function(input)),
            // A single input is faster in plain Rust.
            _ => portable::hash(input),
        }
    }

    /// Puts the hash of each input into `outputs`, in order, until either of them ends. Allocates nothing.
    pub fn hash_all<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a [u8]>,
        outputs: &mut [NodeHash],
    ) {
        let inputs = inputs.into_iter();
        match self.0 {
            Engine::Portable => Portable.hash_many(inputs, outputs),
            Engine::Many => Many.hash_many(inputs, outputs),
            #[cfg(has_avx512)]
            Engine::Avx512(lanes) => lanes.hash_many(inputs, outputs),
            Engine::Function(function) => {
                for (output, input) in outputs.iter_mut().zip(inputs) {
                    *output = NodeHash::from(function(input));
                }
            }
        }
    }
}

impl Default for Hashing {
    fn default() -> Self {
        Self::best()
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hashing").field(&self.mode()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{lanes::LANES, Blake2b256};
    use alloc::{vec, vec::Vec};
    use blake2::digest::{consts::U32, Digest};
    use rand::{rngs::SmallRng, Rng, RngCore, SeedableRng};
    use std::println;

    /// The modes of this machine.
    fn engines() -> Vec<Hashing> {
        let function: HashFunction = |input| *portable::hash(input).as_bytes();
        let engines = HashMode::ALL.map(Hashing::new).into_iter();
        engines
            .chain([Ok(Hashing::with_function(function))])
            .inspect(|engine| {
                if let Err(unsupported) = engine {
                    println!("skipped: {unsupported}");
                }
            })
            .filter_map(Result::ok)
            .collect()
    }

    fn random_bytes(dice: &mut SmallRng, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        dice.fill_bytes(&mut bytes);
        bytes
    }

    fn expected(input: &[u8]) -> NodeHash {
        let hash: [u8; 32] = blake2::Blake2b::<U32>::digest(input).into();
        hash.into()
    }

    #[track_caller]
    fn check(engine: Hashing, inputs: &[Vec<u8>]) {
        let mut outputs = vec![NodeHash::default(); inputs.len()];
        engine.hash_all(inputs.iter().map(Vec::as_slice), &mut outputs);
        for (input, output) in inputs.iter().zip(outputs) {
            let length = input.len();
            assert_eq!(output, expected(input), "{length} bytes by {engine:?}");
        }
    }

    #[test]
    fn all_lengths_on_all_lanes() {
        let mut dice = SmallRng::seed_from_u64(1);
        let inputs: Vec<_> = (0..=1100).map(|n| random_bytes(&mut dice, n)).collect();
        for engine in engines() {
            for input in &inputs {
                // In each lane, beside shorter and longer inputs.
                for lane in 0..LANES {
                    let mut mix = vec![vec![1; 40], vec![2; 300], vec![3; 128]];
                    mix.resize(LANES, vec![4; 5]);
                    mix[lane].clone_from(input);
                    check(engine, &mix);
                }
                check(engine, core::slice::from_ref(input));
            }
            check(engine, &inputs);
        }
    }

    #[test]
    fn mixed_lengths() {
        let mut dice = SmallRng::seed_from_u64(2);
        for round in 0..500 {
            let count = dice.random_range(0..if round % 10 == 0 { 200 } else { 20 });
            let inputs: Vec<_> = (0..count)
                .map(|_| {
                    let around_blocks = 128 * dice.random_range(0..9) + dice.random_range(0..3);
                    let length = match dice.random_range(0..3) {
                        0 => dice.random_range(0..130),
                        1 => dice.random_range(0..700),
                        _ => around_blocks - around_blocks.min(1),
                    };
                    random_bytes(&mut dice, length)
                })
                .collect();
            for engine in engines() {
                check(engine, &inputs);
            }
        }
    }

    #[test]
    fn as_many_as_there_are_of_both() {
        let inputs: [&[u8]; 3] = [b"a", b"b", b"c"];
        for engine in engines() {
            let mut two = [NodeHash::default(); 2];
            engine.hash_all(inputs, &mut two);
            assert_eq!(two, [Blake2b256::hash(b"a"), Blake2b256::hash(b"b")]);
            let mut four = [NodeHash::default(); 4];
            engine.hash_all(inputs, &mut four);
            assert_eq!(four[..3], inputs.map(Blake2b256::hash));
            assert_eq!(four[3], NodeHash::default());
            engine.hash_all([], &mut four);
        }
    }

    #[test]
    fn a_mode_that_is_missing_is_named() {
        let text = std::string::ToString::to_string(&UnsupportedMode(HashMode::Avx512));
        assert!(text.contains("mode avx512"), "{text}");
        for mode in engines().iter().map(Hashing::mode) {
            // A function has to be handed in.
            let expected = match mode {
                HashMode::Function => Err(UnsupportedMode(mode)),
                _ => Ok(mode),
            };
            assert_eq!(Hashing::new(mode).map(|engine| engine.mode()), expected);
        }
    }
}
