//! The runtime of a parachain that chooses its cores itself, with povmeter's `validate_block`, the sizes of
//! stock nodes, and hashes computed in the blob.
#![no_std]

povmeter_validate_block::register_validate_block! {
    Runtime = povmeter_dev_scheduling_runtime::runtime::Runtime,
    BlockExecutor = povmeter_dev_scheduling_runtime::seal::BlockExecutor,
    Sizes = povmeter_validate_block::Reads,
    Hash = povmeter_validate_block::Wasm,
}
