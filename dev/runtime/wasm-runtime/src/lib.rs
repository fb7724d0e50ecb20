//! The FRAME runtime of `povmeter-dev-runtime` behind the entry points that a node calls.
//!
//! The runtime is the source file of the native one, with state version 1. Another package compiles this
//! source with the feature `parachain`, and further packages add a `validate_block` to that one.
#![no_std]

extern crate alloc;

#[path = "../../src/runtime.rs"]
#[allow(dead_code, missing_docs)]
pub mod runtime;

#[cfg(feature = "parachain")]
mod messages;
#[cfg(feature = "parachain")]
mod parachain;
#[cfg(feature = "scheduling")]
mod scheduling;
#[cfg(feature = "parachain")]
pub mod seal;
mod steps;
#[cfg_attr(feature = "parachain", allow(dead_code))]
mod validator;

use alloc::vec::Vec;
use frame_support::traits::Get;
use runtime::{Block, Executive, Extrinsic, Header, Runtime, Version};
use sp_runtime::{ApplyExtrinsicResult, ExtrinsicInclusionMode};
use sp_version::RuntimeVersion;

#[cfg(not(feature = "parachain"))]
use {
    alloc::string::String,
    cumulus_primitives_proof_size_hostfunction::storage_proof_size as first_version,
    povmeter_proof_size::storage_proof_size as second_version,
    validator::{Outcome, Step},
};

#[cfg(not(feature = "parachain"))]
sp_api::decl_runtime_apis! {
    /// Calls for tests.
    pub trait Checks {
        /// Returns the proof sizes of both versions of the host function after a write.
        fn proof_sizes(key: Vec<u8>) -> (u64, u64);

        /// Returns the result of a block on a validator without an operating system.
        fn validate(
            root: [u8; 32],
            proof: Vec<u8>,
            state_version: u8,
            steps: Vec<Step>,
        ) -> Result<Outcome, String>;
    }
}

sp_api::impl_runtime_apis! {
    impl sp_api::Core<Block> for Runtime {
        fn version() -> RuntimeVersion {
            RuntimeVersion { apis: RUNTIME_API_VERSIONS, ..Version::get() }
        }

        fn execute_block(block: <Block as sp_runtime::traits::Block>::LazyBlock) {
            #[cfg(not(feature = "parachain"))]
            Executive::execute_block(block);
            #[cfg(feature = "parachain")]
            <seal::BlockExecutor as frame_support::traits::ExecuteBlock<Block>>::execute_block(block);
        }

        fn initialize_block(header: &Header) -> ExtrinsicInclusionMode {
            Executive::initialize_block(header)
        }
    }

    impl sp_block_builder::BlockBuilder<Block> for Runtime {
        fn apply_extrinsic(extrinsic: Extrinsic) -> ApplyExtrinsicResult {
            Executive::apply_extrinsic(extrinsic)
        }

        fn finalize_block() -> Header {
            Executive::finalize_block()
        }

        #[cfg(not(feature = "parachain"))]
        fn inherent_extrinsics(_data: sp_inherents::InherentData) -> Vec<Extrinsic> {
            Vec::new()
        }

        #[cfg(feature = "parachain")]
        fn inherent_extrinsics(data: sp_inherents::InherentData) -> Vec<Extrinsic> {
            runtime::inherents(&data)
        }

        fn check_inherents(
            _block: <Block as sp_runtime::traits::Block>::LazyBlock,
            _data: sp_inherents::InherentData,
        ) -> sp_inherents::CheckInherentsResult {
            sp_inherents::CheckInherentsResult::new()
        }
    }

    #[cfg(not(feature = "parachain"))]
    impl crate::Checks<Block> for Runtime {
        fn proof_sizes(key: Vec<u8>) -> (u64, u64) {
            frame_support::storage::unhashed::put_raw(&key, &[1; 40]);
            (
                first_version::storage_proof_size(),
                second_version::storage_proof_size(),
            )
        }

        fn validate(
            root: [u8; 32],
            proof: Vec<u8>,
            state_version: u8,
            steps: Vec<Step>,
        ) -> Result<Outcome, String> {
            validator::validate(root, &proof, state_version, &steps)
        }
    }
}
