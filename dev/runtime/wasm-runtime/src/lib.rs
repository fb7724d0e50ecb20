//! The FRAME runtime of `povmeter-dev-runtime` behind the entry points that a node calls.
//!
//! The runtime is the source file of the native one, with state version 1.
#![no_std]

extern crate alloc;

#[path = "../../src/runtime.rs"]
#[allow(dead_code)]
mod runtime;

mod steps;
mod validator;

use alloc::{string::String, vec::Vec};
use cumulus_primitives_proof_size_hostfunction::storage_proof_size as first_version;
use frame_support::traits::Get;
use povmeter_proof_size::storage_proof_size as second_version;
use runtime::{Block, Executive, Extrinsic, Header, Runtime, Version};
use sp_runtime::{ApplyExtrinsicResult, ExtrinsicInclusionMode};
use sp_version::RuntimeVersion;
use validator::{Outcome, Step};

sp_api::decl_runtime_apis! {
    /// Calls for tests.
    pub trait Checks {
        /// The sizes that both versions of the host function return after a write.
        fn proof_sizes(key: Vec<u8>) -> (u64, u64);

        /// The result of a block on a validator without an operating system.
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
            Executive::execute_block(block)
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

        fn inherent_extrinsics(_data: sp_inherents::InherentData) -> Vec<Extrinsic> {
            Vec::new()
        }

        fn check_inherents(
            _block: <Block as sp_runtime::traits::Block>::LazyBlock,
            _data: sp_inherents::InherentData,
        ) -> sp_inherents::CheckInherentsResult {
            sp_inherents::CheckInherentsResult::new()
        }
    }

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
