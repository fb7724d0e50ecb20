//! Names of the runtime's storage items.

use crate::runtime::AllPalletsWithSystem;
use frame_support::traits::StorageInfoTrait;
use povmeter_attribution::StorageName;

/// Returns the names of the [`runtime`](crate::runtime)'s storage items, taken from its pallets.
pub fn runtime_names() -> Vec<StorageName> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let infos = AllPalletsWithSystem::storage_info();
    let names = infos.into_iter().map(|info| {
        let (pallet, item) = (text(info.pallet_name), text(info.storage_name));
        StorageName::item(pallet, item)
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_names_its_items() {
        let names = runtime_names();
        for (pallet, item) in [
            ("System", "Account"),
            ("Balances", "TotalIssuance"),
            ("Timestamp", "Now"),
        ] {
            assert!(names.contains(&StorageName::item(pallet, item)), "{item}");
        }
    }
}
