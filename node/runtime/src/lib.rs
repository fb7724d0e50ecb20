//! The FRAME runtime of `povmeter-node`: balances, fees, a sudo key, and child tries.
//!
//! The source is compiled three times: natively, for the types of its extrinsics and the storage of its
//! genesis; to wasm, which is the code that the node executes; and to wasm as the previous release, from
//! which a chain can be upgraded.
#![cfg_attr(not(feature = "std"), no_std)]
// The macros generate public items without docs, and casts.
#![allow(missing_docs, unreachable_pub, clippy::cast_possible_truncation)]

extern crate alloc;

mod ask_proof_size;
mod child_tries;
#[cfg(feature = "std")]
mod genesis;

#[cfg(feature = "std")]
pub use genesis::{genesis, Release};

use alloc::{borrow::Cow, vec, vec::Vec};
use frame_support::{
    derive_impl,
    genesis_builder_helper::{build_state, get_preset},
    parameter_types,
    traits::{ConstU32, ConstU64, ConstU8, VariantCountOf},
    weights::{
        constants::{RocksDbWeight, WEIGHT_REF_TIME_PER_SECOND},
        IdentityFee, Weight,
    },
};
use pallet_transaction_payment::{ConstFeeMultiplier, FungibleAdapter, Multiplier};
use sp_core::OpaqueMetadata;
use sp_runtime::{
    generic,
    traits::{BlakeTwo256, Block as BlockT, IdentifyAccount, One, Verify},
    transaction_validity::{TransactionSource, TransactionValidity},
    ApplyExtrinsicResult, ExtrinsicInclusionMode, MultiAddress, MultiSignature, Perbill,
};
use sp_version::RuntimeVersion;

/// The types of a block as the node handles them: it does not look into extrinsics.
pub mod opaque {
    /// A block whose extrinsics are bytes.
    pub type Block = sp_runtime::generic::Block<super::Header, sp_runtime::OpaqueExtrinsic>;
}

/// The signature of an extrinsic.
pub type Signature = MultiSignature;
/// The account id: that of the key that signs.
pub type AccountId = <<Signature as Verify>::Signer as IdentifyAccount>::AccountId;
/// The unit of balances.
pub type Balance = u128;
/// The number of an account's extrinsics.
pub type Nonce = u32;
/// The number of a block.
pub type BlockNumber = u32;
/// A hash of keys, nodes and headers.
pub type Hash = sp_core::H256;
/// The form of account ids in extrinsics.
pub type Address = MultiAddress<AccountId, ()>;
/// The header of a block.
pub type Header = generic::Header<BlockNumber, BlakeTwo256>;
/// A block.
pub type Block = generic::Block<Header, UncheckedExtrinsic>;
/// An inherent or a signed extrinsic.
pub type UncheckedExtrinsic =
    generic::UncheckedExtrinsic<Address, RuntimeCall, Signature, Extensions>;
/// What is signed: the call, the extensions, and the data that they imply.
pub type SignedPayload = generic::SignedPayload<RuntimeCall, Extensions>;
/// The extensions of a signed extrinsic.
pub type Extensions = (
    frame_system::CheckNonZeroSender<Runtime>,
    frame_system::CheckSpecVersion<Runtime>,
    frame_system::CheckTxVersion<Runtime>,
    frame_system::CheckGenesis<Runtime>,
    frame_system::CheckEra<Runtime>,
    frame_system::CheckNonce<Runtime>,
    frame_system::CheckWeight<Runtime>,
    pallet_transaction_payment::ChargeTransactionPayment<Runtime>,
    AskProofSize,
);
/// Calls on balances.
pub type BalancesCall = pallet_balances::Call<Runtime>;
/// Calls of the system.
pub type SystemCall = frame_system::Call<Runtime>;
/// Calls of the sudo key.
pub type SudoCall = pallet_sudo::Call<Runtime>;
/// Calls on child tries.
pub type ChildTriesCall = child_tries::Call<Runtime>;
pub use ask_proof_size::AskProofSize;
pub use child_tries::LastProofSize;

type Executive = frame_executive::Executive<
    Runtime,
    Block,
    frame_system::ChainContext<Runtime>,
    Runtime,
    AllPalletsWithSystem,
>;

/// The least balance that keeps an account alive.
pub const EXISTENTIAL_DEPOSIT: Balance = 1_000_000;
/// Milliseconds between two blocks.
pub const BLOCK_TIME: u64 = 6_000;
/// The most weight of a block: ten times the 2 s and 6.4 times the 10 MiB of a parachain, so that
/// tens of thousands of transfers fit. It does not change the weight of an extrinsic.
const MAX_BLOCK_WEIGHT: Weight =
    Weight::from_parts(20 * WEIGHT_REF_TIME_PER_SECOND, 64 * 1024 * 1024);
/// The most bytes that the extrinsics of a block may have together.
const MAX_BLOCK_LENGTH: u32 = 64 * 1024 * 1024;
/// The part of a block that normal extrinsics may fill.
const NORMAL_RATIO: Perbill = Perbill::from_percent(75);

/// The version of the release that is compiled. The previous one keeps its state in version 0, so that an
/// upgrade also moves a chain from version 0 to version 1.
pub const VERSION: RuntimeVersion = RuntimeVersion {
    spec_name: Cow::Borrowed("povmeter-node"),
    impl_name: Cow::Borrowed("povmeter-node"),
    authoring_version: 1,
    spec_version: if cfg!(feature = "previous") { 1 } else { 2 },
    impl_version: 1,
    apis: RUNTIME_API_VERSIONS,
    transaction_version: 1,
    system_version: if cfg!(feature = "previous") { 0 } else { 1 },
};

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
    pub type Sudo = pallet_sudo::Pallet<Runtime>;

    #[runtime::pallet_index(5)]
    pub type ChildTries = crate::child_tries::Pallet<Runtime>;
}

parameter_types! {
    pub const BlockHashCount: BlockNumber = 256;
    pub const ExistentialDeposit: Balance = EXISTENTIAL_DEPOSIT;
    pub const Version: RuntimeVersion = VERSION;
    pub BlockWeights: frame_system::limits::BlockWeights =
        frame_system::limits::BlockWeights::with_sensible_defaults(MAX_BLOCK_WEIGHT, NORMAL_RATIO);
    pub BlockLength: frame_system::limits::BlockLength =
        frame_system::limits::BlockLength::builder()
            .max_length(MAX_BLOCK_LENGTH)
            .modify_max_length_for_class(frame_support::dispatch::DispatchClass::Normal, |length| {
                *length = NORMAL_RATIO * MAX_BLOCK_LENGTH;
            })
            .build();
    pub FeeMultiplier: Multiplier = Multiplier::one();
}

#[derive_impl(frame_system::config_preludes::SolochainDefaultConfig)]
impl frame_system::Config for Runtime {
    type AccountData = pallet_balances::AccountData<Balance>;
    type AccountId = AccountId;
    type Block = Block;
    type BlockHashCount = BlockHashCount;
    type BlockLength = BlockLength;
    type BlockWeights = BlockWeights;
    type DbWeight = RocksDbWeight;
    type ExtensionsWeightInfo = frame_system::SubstrateExtensionsWeight<Runtime>;
    type Hash = Hash;
    type MaxConsumers = ConstU32<16>;
    type Nonce = Nonce;
    type SystemWeightInfo = frame_system::weights::SubstrateWeight<Runtime>;
    type Version = Version;
}

impl pallet_timestamp::Config for Runtime {
    type MinimumPeriod = ConstU64<{ BLOCK_TIME / 2 }>;
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
    type FeeMultiplierUpdate = ConstFeeMultiplier<FeeMultiplier>;
    type LengthToFee = IdentityFee<Balance>;
    type OnChargeTransaction = FungibleAdapter<Balances, ()>;
    type OperationalFeeMultiplier = ConstU8<5>;
    type RuntimeEvent = RuntimeEvent;
    type WeightInfo = pallet_transaction_payment::weights::SubstrateWeight<Runtime>;
    type WeightToFee = IdentityFee<Balance>;
}

impl pallet_sudo::Config for Runtime {
    type RuntimeCall = RuntimeCall;
    type RuntimeEvent = RuntimeEvent;
    type WeightInfo = pallet_sudo::weights::SubstrateWeight<Runtime>;
}

impl child_tries::Config for Runtime {}

sp_api::impl_runtime_apis! {
    impl sp_api::Core<Block> for Runtime {
        fn version() -> RuntimeVersion {
            VERSION
        }

        fn execute_block(block: <Block as BlockT>::LazyBlock) {
            Executive::execute_block(block);
        }

        fn initialize_block(header: &<Block as BlockT>::Header) -> ExtrinsicInclusionMode {
            Executive::initialize_block(header)
        }
    }

    impl sp_api::Metadata<Block> for Runtime {
        fn metadata() -> OpaqueMetadata {
            OpaqueMetadata::new(Runtime::metadata().into())
        }

        fn metadata_at_version(version: u32) -> Option<OpaqueMetadata> {
            Runtime::metadata_at_version(version)
        }

        fn metadata_versions() -> Vec<u32> {
            Runtime::metadata_versions()
        }
    }

    impl sp_block_builder::BlockBuilder<Block> for Runtime {
        fn apply_extrinsic(extrinsic: <Block as BlockT>::Extrinsic) -> ApplyExtrinsicResult {
            Executive::apply_extrinsic(extrinsic)
        }

        fn finalize_block() -> <Block as BlockT>::Header {
            Executive::finalize_block()
        }

        fn inherent_extrinsics(data: sp_inherents::InherentData) -> Vec<<Block as BlockT>::Extrinsic> {
            data.create_extrinsics()
        }

        fn check_inherents(
            block: <Block as BlockT>::LazyBlock,
            data: sp_inherents::InherentData,
        ) -> sp_inherents::CheckInherentsResult {
            data.check_extrinsics(&block)
        }
    }

    impl sp_transaction_pool::runtime_api::TaggedTransactionQueue<Block> for Runtime {
        fn validate_transaction(
            source: TransactionSource,
            tx: <Block as BlockT>::Extrinsic,
            block_hash: <Block as BlockT>::Hash,
        ) -> TransactionValidity {
            Executive::validate_transaction(source, tx, block_hash)
        }
    }

    impl frame_system_rpc_runtime_api::AccountNonceApi<Block, AccountId, Nonce> for Runtime {
        fn account_nonce(account: AccountId) -> Nonce {
            System::account_nonce(account)
        }
    }

    // There are no sessions, but the RPC interface of authors needs this API.
    impl sp_session::SessionKeys<Block> for Runtime {
        fn generate_session_keys(
            _owner: Vec<u8>,
            _seed: Option<Vec<u8>>,
        ) -> sp_session::OpaqueGeneratedSessionKeys {
            sp_session::OpaqueGeneratedSessionKeys { keys: Vec::new(), proof: Vec::new() }
        }

        fn decode_session_keys(
            _encoded: Vec<u8>,
        ) -> Option<Vec<(Vec<u8>, sp_core::crypto::KeyTypeId)>> {
            Some(Vec::new())
        }
    }

    impl sp_genesis_builder::GenesisBuilder<Block> for Runtime {
        fn build_state(config: Vec<u8>) -> sp_genesis_builder::Result {
            build_state::<RuntimeGenesisConfig>(config)
        }

        fn get_preset(id: &Option<sp_genesis_builder::PresetId>) -> Option<Vec<u8>> {
            get_preset::<RuntimeGenesisConfig>(id, |_| None)
        }

        fn preset_names() -> Vec<sp_genesis_builder::PresetId> {
            vec![]
        }
    }
}
