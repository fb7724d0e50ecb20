//! The runtime of a parachain that chooses its cores itself, with the `validate_block` of cumulus-pallet-parachain-system.
#![no_std]

cumulus_pallet_parachain_system::register_validate_block! {
    Runtime = povmeter_dev_scheduling_runtime::runtime::Runtime,
    BlockExecutor = povmeter_dev_scheduling_runtime::seal::BlockExecutor,
}
