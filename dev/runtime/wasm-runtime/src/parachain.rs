//! The configuration of the pallet of a parachain.

use crate::{messages::Outbox, runtime::Runtime, runtime::RuntimeEvent};
use cumulus_pallet_parachain_system::{consensus_hook, AnyRelayNumber, Config};
use cumulus_primitives_core::ParaId;
use frame_support::{
    traits::{ConstU32, HandleMessage},
    weights::Weight,
    BoundedSlice,
};
use sp_core::parameter_types;

parameter_types! {
    pub const Id: ParaId = ParaId::new(2_000);
    pub const NoWeight: Weight = Weight::zero();
}

/// How many blocks may wait for the relay chain to include them. The blocks of one PoV all wait.
const UNINCLUDED: u32 = 64;

/// Accepts messages of the relay chain and drops them.
pub struct Downward;

impl HandleMessage for Downward {
    type MaxMessageLen = ConstU32<65_536>;

    fn handle_message(_: BoundedSlice<u8, Self::MaxMessageLen>) {}

    fn handle_messages<'a>(
        messages: impl Iterator<Item = BoundedSlice<'a, u8, Self::MaxMessageLen>>,
    ) {
        messages.for_each(Self::handle_message);
    }

    fn sweep_queue() {}
}

impl Config for Runtime {
    type CheckAssociatedRelayNumber = AnyRelayNumber;
    type ConsensusHook = consensus_hook::FixedCapacityUnincludedSegment<UNINCLUDED>;
    type DmpQueue = Downward;
    type OnSystemEvent = ();
    type OutboundXcmpMessageSource = Outbox;
    type RelayParentOffset = ConstU32<0>;
    type ReservedDmpWeight = NoWeight;
    type ReservedXcmpWeight = NoWeight;
    type RuntimeEvent = RuntimeEvent;
    #[cfg(not(feature = "scheduling"))]
    type SchedulingSignatureVerifier = ();
    #[cfg(feature = "scheduling")]
    type SchedulingSignatureVerifier = crate::scheduling::Verifier;
    type SelfParaId = Id;
    type WeightInfo = ();
    type XcmpMessageHandler = ();
}
