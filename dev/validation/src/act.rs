//! The acts of a block besides its extrinsics. The header tells them to the runtime.

use crate::Step;
use codec::Encode;
use sp_runtime::{ConsensusEngineId, DigestItem};

/// One act of a parachain. The encoding is that of `wasm-runtime/src/messages.rs` of
/// `povmeter-dev-runtime`.
// The derived code casts the numbers of variants.
#[allow(clippy::cast_possible_truncation)]
#[derive(Clone, Debug, PartialEq, Eq, Encode)]
pub enum Act {
    /// Sends a message to the relay chain.
    SendUp(Vec<u8>),
    /// Sends a message to another parachain.
    SendTo(u32, Vec<u8>),
    /// Schedules a new code of the runtime.
    Upgrade(Vec<u8>),
    /// Replaces the head data that the relay chain gets.
    Head(Vec<u8>),
    /// Asks for the proof size by the first version of the host function, and writes it at the key.
    Size(Vec<u8>),
    /// Asks for the proof size by the second version of the host function, and writes it at the key.
    RootedSize(Vec<u8>),
}

impl Act {
    const ENGINE: ConsensusEngineId = *b"ACTS";

    /// The digest item by which a block does `acts`.
    pub fn digest(acts: &[Self]) -> DigestItem {
        DigestItem::PreRuntime(Self::ENGINE, acts.encode())
    }
}

/// The digest item by which a block makes the storage calls `steps`, before its inherents.
pub(crate) fn digest_of(steps: &[Step]) -> DigestItem {
    DigestItem::PreRuntime(*b"STEP", steps.encode())
}
