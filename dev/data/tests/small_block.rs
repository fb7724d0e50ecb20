//! The small block in `dev/vectors` is what a replay of the real one finds.

#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

use povmeter::{TrieId, Why};
use povmeter_dev_data::{expect_data, wasm::Replay, wasm::ReplayOptions, RealBlocks};
use serde_json::{json, Value};
use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/polkadot-1.json");

fn hex(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

/// Formats `file` with one line for each field and each element of a list.
fn lines(file: &Value) -> String {
    let mut text = "{\n".to_owned();
    let fields = file.as_object().unwrap();
    for (at, (name, value)) in fields.iter().enumerate() {
        let value = match value {
            Value::Array(list) => {
                let list: Vec<_> = list.iter().map(|item| format!("    {item}")).collect();
                format!("[\n{}\n  ]", list.join(",\n"))
            }
            other => other.to_string(),
        };
        let comma = if at + 1 < fields.len() { "," } else { "" };
        writeln!(text, "  \"{name}\": {value}{comma}").unwrap();
    }
    text.replace("\",\"", "\", \"")
        .replace("\",null", "\", null")
        + "}\n"
}

/// Writes the file first if `POVMETER_WRITE` is set.
#[test]
#[ignore = "needs the real chain data"]
fn the_small_block_is_what_a_replay_finds() {
    let file = RealBlocks::read(&expect_data().join("blocks/polkadot-1.json")).unwrap();
    let state = file.read_state().unwrap();
    let options = ReplayOptions {
        attribute: true,
        ..ReplayOptions::default()
    };
    let mut replay = Replay::new(file, &state, options).unwrap();
    let parent = replay.root();
    let block = replay.next().unwrap().unwrap();
    let attribution = block.attribution.as_ref().unwrap();
    let mut reads = BTreeSet::new();
    for entry in attribution.block.attribution().entries() {
        for want in entry.wants().filter(|want| want.why == Why::Read) {
            assert_eq!(want.trie, TrieId::Top);
            reads.insert(hex(want.key));
        }
    }
    let compact = block
        .proof
        .clone()
        .into_compact_proof::<sp_core::Blake2Hasher>(sp_core::H256(parent.into()));
    let changes = block.changes.iter();
    let changes = changes.map(|(key, value)| json!([hex(key), value.as_deref().map(hex)]));
    let found = json!({
        "chain": "polkadot",
        "number": block.number,
        "hash": format!("{:?}", block.hash),
        "version": 0,
        "parent_root": parent.to_string(),
        "root": format!("{:?}", block.state_root),
        "recorded_bytes": block.sizes.recorded,
        "compact_proof": hex(&codec::Encode::encode(&compact.unwrap())),
        "reads": reads,
        "changes": changes.collect::<Vec<_>>(),
    });
    let found = lines(&found);
    if std::env::var_os("POVMETER_WRITE").is_some() {
        fs::write(Path::new(FILE), &found).unwrap();
    }
    assert!(
        fs::read_to_string(FILE).unwrap() == found,
        "the file is another"
    );
}
