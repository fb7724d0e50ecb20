//! The accounts of a development chain: keys that follow from their index.

use povmeter_node_runtime::AccountId;
use sp_core::{ed25519, Pair};
use sp_io::hashing::blake2_256;

/// The key of account `index`. Account 0 has the sudo key.
///
/// The keys are ed25519 because its signatures are the same each time, so that the same calls make the same
/// blocks.
pub(crate) fn key(index: u32) -> ed25519::Pair {
    let seed = [b"povmeter-node account".as_slice(), &index.to_le_bytes()].concat();
    ed25519::Pair::from_seed(&blake2_256(&seed))
}

/// The id of account `index`.
pub(crate) fn id(index: u32) -> AccountId {
    key(index).public().into()
}

/// The ids of the first `count` accounts.
pub(crate) fn ids(count: u32) -> Vec<AccountId> {
    (0..count).map(id).collect()
}
