//! A parachain's runtime with the `validate_block` of cumulus-pallet-parachain-system.
#![no_std]

cumulus_pallet_parachain_system::register_validate_block! {
    Runtime = povmeter_dev_parachain_runtime::runtime::Runtime,
    BlockExecutor = povmeter_dev_parachain_runtime::seal::BlockExecutor,
}
