//! The host functions that blobs import.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use povmeter_dev_runtime::wasm::parachain;
use std::collections::BTreeSet;
use wasmparser::{Parser, Payload};

/// What the feature `transaction-index` replaces. One of the blobs has it, and so have all, because they are built
/// together.
const INDEX: [&str; 2] = [
    "ext_transaction_index_index_version_1",
    "ext_transaction_index_renew_version_1",
];

fn imports(blob: &[u8]) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for payload in Parser::new(0).parse_all(blob) {
        if let Payload::ImportSection(section) = payload.unwrap() {
            names.extend(section.into_iter().map(|import| import.unwrap().name));
        }
    }
    names
}

/// Nodes refuse a runtime that imports a function they lack, so povmeter's `validate_block` must need no other than the
/// stock one. These runtimes call the second version of the proof-size function themselves; without the feature for it,
/// povmeter's does not even know the crate that has it.
#[test]
fn the_stock_function_needs_the_same_host_functions() {
    for [stock, reads] in [
        [parachain::STOCK, parachain::READS],
        [parachain::STOCK_SCHEDULING, parachain::READS_SCHEDULING],
    ] {
        let (stock, reads) = (imports(stock), imports(reads));
        assert!(stock.contains("ext_storage_get_version_1"), "{stock:?}");
        let more: Vec<_> = reads.difference(&stock).collect();
        assert!(more.iter().all(|name| INDEX.contains(name)), "{more:?}");
    }
}
