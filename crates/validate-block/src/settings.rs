//! The settings of `register_validate_block`.

use povmeter::Hashing;

/// The sizes that the first version of the proof-size function returns: [`Reads`] or [`Estimate`].
pub trait SizeRule {
    /// Whether the size includes what the storage root needs.
    const WITH_ROOT: bool;
}

/// Sizes of what was read, as stock nodes answer.
#[derive(Clone, Copy, Debug)]
pub enum Reads {}

/// Sizes that include what the storage root needs.
#[derive(Clone, Copy, Debug)]
pub enum Estimate {}

impl SizeRule for Reads {
    const WITH_ROOT: bool = false;
}

impl SizeRule for Estimate {
    const WITH_ROOT: bool = true;
}

/// What computes the hashes of nodes: [`Host`] or [`Wasm`].
pub trait HashRule {
    /// The hashing.
    fn hashing() -> Hashing;
}

/// The host function `blake2_256`.
#[derive(Clone, Copy, Debug)]
pub enum Host {}

/// Code in the blob.
#[derive(Clone, Copy, Debug)]
pub enum Wasm {}

impl HashRule for Host {
    fn hashing() -> Hashing {
        Hashing::with_function(sp_io::hashing::blake2_256)
    }
}

impl HashRule for Wasm {
    fn hashing() -> Hashing {
        Hashing::best()
    }
}
