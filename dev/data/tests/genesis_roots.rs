//! povmeter computes the roots and hashes of public chains' genesis blocks.

#![allow(clippy::unwrap_used)]

use povmeter_dev_data::{expect_data, genesis_hash, ChainSpec};
use povmeter_dev_runtime::commit_state;
use povmeter_store::{MemoryStore, NodeStore};
use sp_core::{storage::StateVersion, H256};

#[derive(serde::Deserialize)]
struct Expected {
    spec: String,
    state_version: String,
    state_root: H256,
    genesis_hash: H256,
}

#[test]
#[ignore = "needs the real chain data"]
fn every_known_genesis() {
    let data = expect_data();
    let rows = std::fs::read(data.join("genesis-roots.json")).unwrap();
    let rows: Vec<Expected> = serde_json::from_slice(&rows).unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let spec = ChainSpec::read(&data.join(format!("chain-specs/{}.json.gz", row.spec)));
        let spec = spec.unwrap();
        let version = match row.state_version.as_str() {
            "V0" => StateVersion::V0,
            "V1" => StateVersion::V1,
            other => panic!("{other}"),
        };
        let expected = povmeter::Root::from(row.state_root.0);
        let mut store = MemoryStore::new();
        let root = commit_state(
            &mut store,
            &spec.top,
            &spec.children,
            version,
            Some(expected),
        );
        assert_eq!(root.unwrap(), expected, "{}", row.spec);
        assert_eq!(store.root(), expected, "{}", row.spec);
        assert_eq!(
            genesis_hash(row.state_root),
            row.genesis_hash,
            "{}",
            row.spec
        );
    }
}
