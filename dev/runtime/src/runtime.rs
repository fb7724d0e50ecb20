//! A FRAME runtime run natively: balances, timestamp, fees and the reclaim of proof weight.
//!
//! Pallets, weights and transaction extensions are those of a parachain. Three differences make a
//! block depend on its [`Plan`](crate::Plan) alone:
//! - [`Signature`] has a variant that costs nothing to check;
//! - the limits on weight and length are far above a parachain's (see [`MAX_BLOCK_WEIGHT`]);
//! - the state version is chosen per block, by [`with_state_version`].
//!
//! The same file is also compiled to wasm, without std, where the state version is 1. With the feature
//! `parachain`, which only the build for wasm has, it is the runtime of a parachain.

// The macros generate public items without docs, and casts.
#![allow(missing_docs, unreachable_pub, clippy::cast_possible_truncation)]

use alloc::borrow::Cow;
#[cfg(not(feature = "std"))]
use alloc::vec::Vec;
use codec::{Decode, DecodeWithMemTracking, Encode};
use frame_support::{
    derive_impl, parameter_types,
    traits::{ConstU32, ConstU64, ConstU8, Get, VariantCountOf},
    weights::{
        constants::{RocksDbWeight, WEIGHT_REF_TIME_PER_SECOND},
        IdentityFee, Weight,
    },
};
use pallet_transaction_payment::{FungibleAdapter, Multiplier, TargetedFeeAdjustment};
use scale_info::TypeInfo;
use sp_core::{crypto::AccountId32, sr25519, storage::StateVersion, H256};
use sp_runtime::{
    generic,
    traits::{BlakeTwo256, Lazy, Verify},
    MultiAddress, MultiSigner, Perbill, Perquintill,
};
use sp_version::RuntimeVersion;

/// The account id of senders and receivers.
pub type AccountId = AccountId32;
/// The unit of balances.
pub type Balance = u128;
/// The form of account ids in extrinsics.
pub type Address = MultiAddress<AccountId, ()>;
/// The hash of keys, nodes and headers.
pub type Hashing = BlakeTwo256;
/// The header of a block.
pub type Header = generic::Header<u32, Hashing>;
/// A block of this runtime.
pub type Block = generic::Block<Header, Extrinsic>;
/// An inherent or a signed extrinsic.
pub type Extrinsic = generic::UncheckedExtrinsic<Address, RuntimeCall, Signature, Extensions>;
/// The signed data: the call, the extensions and the data that they imply.
pub type SignedPayload = generic::SignedPayload<RuntimeCall, Extensions>;
/// The extensions of a signed extrinsic; the outermost reclaims proof weight.
pub type Extensions = cumulus_pallet_weight_reclaim::StorageWeightReclaim<Runtime, InnerExtensions>;
/// The extensions inside the one that reclaims.
pub type InnerExtensions = (
    frame_system::CheckNonZeroSender<Runtime>,
    frame_system::CheckSpecVersion<Runtime>,
    frame_system::CheckTxVersion<Runtime>,
    frame_system::CheckGenesis<Runtime>,
    frame_system::CheckEra<Runtime>,
    frame_system::CheckNonce<Runtime>,
    frame_system::CheckWeight<Runtime>,
    pallet_transaction_payment::ChargeTransactionPayment<Runtime>,
);
/// Calls of the system.
pub type SystemCall = frame_system::Call<Runtime>;
/// Calls on balances.
pub type BalancesCall = pallet_balances::Call<Runtime>;
/// The entry points: `initialize_block`, `apply_extrinsic`, `finalize_block`.
pub type Executive = frame_executive::Executive<
    Runtime,
    Block,
    frame_system::ChainContext<Runtime>,
    Runtime,
    AllPalletsWithSystem,
>;

/// The version that extrinsics are signed for.
pub const SPEC_VERSION: u32 = 1;
/// The version of the extrinsic format that extrinsics are signed for.
pub const TRANSACTION_VERSION: u32 = 1;
/// The least balance that keeps an account alive.
pub const EXISTENTIAL_DEPOSIT: Balance = 1_000_000;
/// The most weight of a block: ten times the 2 s and 6.4 times the 10 MiB of a parachain, so that
/// tens of thousands of transfers fit. It does not change the weight of an extrinsic.
pub const MAX_BLOCK_WEIGHT: Weight =
    Weight::from_parts(20 * WEIGHT_REF_TIME_PER_SECOND, 64 * 1024 * 1024);
/// The most bytes that the extrinsics of a block may have together.
pub const MAX_BLOCK_LENGTH: u32 = 64 * 1024 * 1024;
/// The part of a block that normal extrinsics may fill.
const NORMAL_RATIO: Perbill = Perbill::from_percent(75);

/// The signature of the sender.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode, DecodeWithMemTracking, TypeInfo)]
pub enum Signature {
    /// Always valid, and free to check. It has the length of the other variant, so that extrinsics
    /// have one length.
    Free([u8; 64]),
    /// Valid if it was made with the sr25519 key that is the account id.
    Sr25519(sr25519::Signature),
}

impl Verify for Signature {
    type Signer = MultiSigner;

    fn verify<L: Lazy<[u8]>>(&self, message: L, signer: &AccountId) -> bool {
        match self {
            Self::Free(_) => true,
            Self::Sr25519(signature) => {
                let public: [u8; 32] = *signer.as_ref();
                signature.verify(message, &public.into())
            }
        }
    }
}

#[cfg(feature = "std")]
mod version_of_thread {
    use sp_core::storage::StateVersion;
    use std::cell::Cell;

    thread_local! {
        static STATE_VERSION: Cell<StateVersion> = const { Cell::new(StateVersion::V1) };
    }

    /// Returns the result of `f`, run with `version` as the state version of this thread's runtime.
    ///
    /// The runtime tells its host the version for the storage root. Here that is a value of the
    /// thread, not of the type, so that one runtime serves both versions. Outside `f` it is V1. The
    /// old version is restored after `f`, also if `f` panics.
    pub fn with_state_version<R>(version: StateVersion, f: impl FnOnce() -> R) -> R {
        struct Restore(StateVersion);
        impl Drop for Restore {
            fn drop(&mut self) {
                STATE_VERSION.set(self.0);
            }
        }
        let _restore = Restore(STATE_VERSION.replace(version));
        f()
    }

    pub(super) fn state_version() -> StateVersion {
        STATE_VERSION.get()
    }
}

#[cfg(feature = "std")]
use version_of_thread::state_version;
#[cfg(feature = "std")]
pub use version_of_thread::with_state_version;

/// The work before the inherents: in wasm, the steps that a test puts into the header.
#[cfg(feature = "std")]
type BeforeInherents = ();
#[cfg(not(feature = "std"))]
type BeforeInherents = crate::steps::StepsOfDigest;

/// The work after the inherents: in a parachain, the messages that a test puts into the header.
#[cfg(not(feature = "parachain"))]
type AfterInherents = ();
#[cfg(feature = "parachain")]
type AfterInherents = crate::messages::MessagesOfDigest;

/// Handles new code of the runtime: a parachain's relay chain has to accept it first.
#[cfg(not(feature = "parachain"))]
type SetCode = ();
#[cfg(feature = "parachain")]
type SetCode = cumulus_pallet_parachain_system::ParachainSetCode<Runtime>;

#[cfg(not(feature = "std"))]
fn state_version() -> StateVersion {
    StateVersion::V1
}

/// The runtime's version, which contains the state version of the thread.
pub struct Version;

impl Get<RuntimeVersion> for Version {
    fn get() -> RuntimeVersion {
        RuntimeVersion {
            spec_name: Cow::Borrowed("povmeter-workload"),
            impl_name: Cow::Borrowed("povmeter-workload"),
            authoring_version: 1,
            spec_version: SPEC_VERSION,
            impl_version: 1,
            apis: Cow::Borrowed(&[]),
            transaction_version: TRANSACTION_VERSION,
            system_version: match state_version() {
                StateVersion::V0 => 0,
                StateVersion::V1 => 1,
            },
        }
    }
}

#[cfg(not(feature = "parachain"))]
#[frame_support::runtime]
mod pallets {
    #[runtime::runtime]
    #[runtime::derive(
        RuntimeCall,
        RuntimeEvent,
        RuntimeError,
        RuntimeOrigin,
        RuntimeFreezeReason,
        RuntimeHoldReason,
        RuntimeSlashReason,
        RuntimeLockId,
        RuntimeTask,
        RuntimeViewFunction
    )]
    pub struct Runtime;

    #[runtime::pallet_index(0)]
    pub type System = frame_system::Pallet<Runtime>;

    #[runtime::pallet_index(1)]
    pub type Timestamp = pallet_timestamp::Pallet<Runtime>;

    #[runtime::pallet_index(2)]
    pub type Balances = pallet_balances::Pallet<Runtime>;

    #[runtime::pallet_index(3)]
    pub type TransactionPayment = pallet_transaction_payment::Pallet<Runtime>;

    #[runtime::pallet_index(4)]
    pub type WeightReclaim = cumulus_pallet_weight_reclaim::Pallet<Runtime>;

    #[runtime::pallet_index(5)]
    pub type Utility = pallet_utility::Pallet<Runtime>;
}

// The list is here twice because the macro drops the `cfg` of a pallet.
#[cfg(feature = "parachain")]
#[frame_support::runtime]
mod pallets {
    #[runtime::runtime]
    #[runtime::derive(
        RuntimeCall,
        RuntimeEvent,
        RuntimeError,
        RuntimeOrigin,
        RuntimeFreezeReason,
        RuntimeHoldReason,
        RuntimeSlashReason,
        RuntimeLockId,
        RuntimeTask,
        RuntimeViewFunction
    )]
    pub struct Runtime;

    #[runtime::pallet_index(0)]
    pub type System = frame_system::Pallet<Runtime>;

    #[runtime::pallet_index(1)]
    pub type Timestamp = pallet_timestamp::Pallet<Runtime>;

    #[runtime::pallet_index(2)]
    pub type Balances = pallet_balances::Pallet<Runtime>;

    #[runtime::pallet_index(3)]
    pub type TransactionPayment = pallet_transaction_payment::Pallet<Runtime>;

    #[runtime::pallet_index(4)]
    pub type WeightReclaim = cumulus_pallet_weight_reclaim::Pallet<Runtime>;

    #[runtime::pallet_index(5)]
    pub type Utility = pallet_utility::Pallet<Runtime>;

    #[runtime::pallet_index(6)]
    pub type ParachainSystem = cumulus_pallet_parachain_system::Pallet<Runtime>;
}

/// Returns the inherents that the pallets of a parachain create from `data`.
#[cfg(feature = "parachain")]
pub fn inherents(data: &sp_inherents::InherentData) -> Vec<Extrinsic> {
    data.create_extrinsics()
}

parameter_types! {
    pub const BlockHashCount: u32 = 4096;
    pub const ExistentialDeposit: Balance = EXISTENTIAL_DEPOSIT;
    pub BlockWeights: frame_system::limits::BlockWeights =
        frame_system::limits::BlockWeights::with_sensible_defaults(MAX_BLOCK_WEIGHT, NORMAL_RATIO);
    pub BlockLength: frame_system::limits::BlockLength =
        frame_system::limits::BlockLength::builder()
            .max_length(MAX_BLOCK_LENGTH)
            .modify_max_length_for_class(frame_support::dispatch::DispatchClass::Normal, |length| {
                *length = NORMAL_RATIO * MAX_BLOCK_LENGTH;
            })
            .build();
    pub const TargetBlockFullness: Perquintill = Perquintill::from_percent(25);
    pub AdjustmentVariable: Multiplier = Multiplier::from_rational(75, 1_000_000);
    pub MinimumMultiplier: Multiplier = Multiplier::from_rational(1, 10u128);
    pub MaximumMultiplier: Multiplier = Multiplier::from_u32(1_000);
}

#[derive_impl(frame_system::config_preludes::ParaChainDefaultConfig)]
impl frame_system::Config for Runtime {
    type AccountData = pallet_balances::AccountData<Balance>;
    type AccountId = AccountId;
    type Block = Block;
    type BlockHashCount = BlockHashCount;
    type BlockLength = BlockLength;
    type BlockWeights = BlockWeights;
    type DbWeight = RocksDbWeight;
    type ExtensionsWeightInfo = frame_system::SubstrateExtensionsWeight<Runtime>;
    type Hash = H256;
    type Hashing = Hashing;
    type MaxConsumers = ConstU32<16>;
    type Nonce = u32;
    type OnSetCode = SetCode;
    type PostInherents = AfterInherents;
    type PreInherents = BeforeInherents;
    type SystemWeightInfo = frame_system::weights::SubstrateWeight<Runtime>;
    type Version = Version;
}

impl pallet_timestamp::Config for Runtime {
    type MinimumPeriod = ConstU64<3_000>;
    type Moment = u64;
    type OnTimestampSet = ();
    type WeightInfo = pallet_timestamp::weights::SubstrateWeight<Runtime>;
}

#[derive_impl(pallet_balances::config_preludes::TestDefaultConfig)]
impl pallet_balances::Config for Runtime {
    type AccountStore = System;
    type Balance = Balance;
    type ExistentialDeposit = ExistentialDeposit;
    type FreezeIdentifier = RuntimeFreezeReason;
    type MaxFreezes = VariantCountOf<RuntimeFreezeReason>;
    type MaxLocks = ConstU32<50>;
    type MaxReserves = ConstU32<50>;
    type ReserveIdentifier = [u8; 8];
    type WeightInfo = pallet_balances::weights::SubstrateWeight<Runtime>;
}

impl pallet_transaction_payment::Config for Runtime {
    type FeeMultiplierUpdate = TargetedFeeAdjustment<
        Self,
        TargetBlockFullness,
        AdjustmentVariable,
        MinimumMultiplier,
        MaximumMultiplier,
    >;
    type LengthToFee = IdentityFee<Balance>;
    type OnChargeTransaction = FungibleAdapter<Balances, ()>;
    type OperationalFeeMultiplier = ConstU8<5>;
    type RuntimeEvent = RuntimeEvent;
    type WeightInfo = pallet_transaction_payment::weights::SubstrateWeight<Runtime>;
    type WeightToFee = IdentityFee<Balance>;
}

impl cumulus_pallet_weight_reclaim::Config for Runtime {
    type WeightInfo = ();
}

impl pallet_utility::Config for Runtime {
    type PalletsOrigin = OriginCaller;
    type RuntimeCall = RuntimeCall;
    type RuntimeEvent = RuntimeEvent;
    type WeightInfo = pallet_utility::weights::SubstrateWeight<Runtime>;
}
