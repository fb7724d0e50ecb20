//! The workload's FRAME runtime behind the entry points that a node calls.
//!
//! The runtime itself is the source file that the native one is compiled from. State version 1.
#![no_std]

extern crate alloc;

#[path = "../../src/runtime.rs"]
#[allow(dead_code)]
mod runtime;

use alloc::vec::Vec;
use frame_support::traits::Get;
use runtime::{Block, Executive, Extrinsic, Header, Runtime, Version};
use sp_runtime::{ApplyExtrinsicResult, ExtrinsicInclusionMode};
use sp_version::RuntimeVersion;

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
}
