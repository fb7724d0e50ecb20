//! Cores that a parachain's author chooses after the block was built: candidates of the third version.

use cumulus_primitives_core::{relay_chain::Slot, SignedSchedulingInfo, VerifySchedulingSignature};
use frame_support::storage::unhashed;

/// The key of the state whose value is the accepted signature.
const SIGNATURE: &[u8] = b":scheduler";

/// Accepts the signature that the state holds, in even slots.
pub struct Verifier;

impl VerifySchedulingSignature for Verifier {
    const V3_SCHEDULING_ENABLED: bool = true;

    fn verify(signed_info: &SignedSchedulingInfo, relay_slot: Slot) -> bool {
        let expected = unhashed::get_raw(SIGNATURE).unwrap_or_default();
        signed_info.signature[..] == expected[..] && *relay_slot % 2 == 0
    }
}
