//! The hash function of the state that a blob can validate.

use sp_runtime::traits::BlakeTwo256;

/// The hash function of block headers, which is also that of the state: only Blake2b-256.
///
/// A blob for another function would compile and refuse each PoV.
#[diagnostic::on_unimplemented(
    message = "expected headers hashed by `BlakeTwo256`, found `{Self}`",
    label = "the runtime's `Header` has another hasher",
    note = "povmeter computes state roots with Blake2b-256 only; keep the `register_validate_block` of \
            `cumulus-pallet-parachain-system`"
)]
pub trait StateHasher {}

impl StateHasher for BlakeTwo256 {}
