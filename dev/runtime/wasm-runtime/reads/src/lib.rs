//! A parachain's runtime with povmeter's `validate_block`, and the sizes of stock nodes.
#![no_std]

povmeter_validate_block::register_validate_block! {
    Runtime = povmeter_dev_parachain_runtime::runtime::Runtime,
    BlockExecutor = povmeter_dev_parachain_runtime::seal::BlockExecutor,
    Sizes = povmeter_validate_block::Reads,
}
