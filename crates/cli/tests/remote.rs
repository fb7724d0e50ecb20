//! Blocks of a running chain: replayed, recorded and tried, beside the same blocks from files.

#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used)]

#[path = "../../remote/tests/support/mod.rs"]
mod support;

use codec::Encode;
use povmeter::{NodeSource, Root};
use povmeter_dev_data::{
    expect_data, genesis_hash, wasm::relay_chain_block, ChainSpec, RealBlock, RealBlocks,
};
use povmeter_dev_runtime::commit_state;
use povmeter_remote::Recording;
use povmeter_store::{MemoryStore, NodeStore};
use serde_json::Value;
use sp_core::{Blake2Hasher, Hasher, H256};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use support::{FakeBlock, FakeNode, Fault};
use tempfile::TempDir;

/// What the program printed to stdout and to stderr, and its exit code.
fn povmeter(args: &[&str]) -> (String, String, Option<i32>) {
    let program = env!("CARGO_BIN_EXE_povmeter");
    let output = Command::new(program).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

#[track_caller]
fn report(args: &[&str]) -> Value {
    let (printed, errors, code) = povmeter(&[args, &["--json"]].concat());
    assert!(code == Some(0) && errors.is_empty(), "{args:?}: {errors}");
    fits_its_schema(args[0], &printed)
}

/// The result of `command`, which must match the schema in docs/schemas.
#[track_caller]
fn fits_its_schema(command: &str, printed: &str) -> Value {
    let report: Value = serde_json::from_str(printed).unwrap();
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let schema = fs::read(schemas.join(format!("{command}.json"))).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let wrong: Vec<String> = validator
        .iter_errors(&report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{command}: {}", wrong.join("\n"));
    report
}

#[track_caller]
fn refused(args: &[&str]) -> String {
    let (printed, errors, code) = povmeter(args);
    assert!(
        code == Some(1) && printed.is_empty(),
        "{args:?}: {code:?}, {printed}"
    );
    assert!(!errors.contains("thread '"), "{errors}");
    errors
}

/// The file of the recorded block in the repository.
fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kusama-1.povmeter")
}

fn block(block: &RealBlock) -> FakeBlock {
    let header = &block.header;
    FakeBlock {
        parent: header.parent_hash.0,
        number: header.number,
        state_root: header.state_root.0,
        extrinsics_root: header.extrinsics_root.0,
        logs: header.digest.logs.iter().map(Encode::encode).collect(),
        body: block.body.clone(),
    }
}

/// A chain of two blocks: a genesis block with the state `root`, and `first`.
fn chain(
    root: Root,
    first: &RealBlock,
    nodes: impl NodeSource + Send + Sync + 'static,
) -> FakeNode {
    assert_eq!(genesis_hash(H256(root.into())), first.header.parent_hash);
    FakeNode::new(vec![genesis(root), block(first)], nodes)
}

/// The genesis block with the state `root`.
fn genesis(root: Root) -> FakeBlock {
    FakeBlock {
        parent: [0; 32],
        number: 0,
        state_root: root.into(),
        extrinsics_root: Blake2Hasher::hash(&[0]).0,
        logs: Vec::new(),
        body: Vec::new(),
    }
}

/// A node that serves the block in the repository.
fn recorded_chain() -> (FakeNode, Recording) {
    let recording = Recording::read(&recorded()).unwrap();
    let first = RealBlock::from_header(&recording.header, recording.body.clone()).unwrap();
    (
        chain(recording.parent_root, &first, recording.source()),
        recording,
    )
}

/// A node that serves the whole state of a file of blocks, and its first block.
fn whole_chain(file: &RealBlocks, state: &ChainSpec) -> FakeNode {
    let mut store = MemoryStore::new();
    let version = file.state_version;
    commit_state(&mut store, &state.top, &state.children, version, None).unwrap();
    chain(store.root(), &file.blocks[0], store)
}

/// The report without what differs from run to run and from place to place.
fn same_part(mut report: Value) -> Value {
    report.as_object_mut().unwrap().remove("name");
    report["blocks"].as_array_mut().unwrap().truncate(1);
    for block in report["blocks"].as_array_mut().unwrap() {
        let block = block.as_object_mut().unwrap();
        block.remove("whole_ms");
        block.remove("steps_ms");
    }
    report
}

/// The options for a node, with a cache of its own.
struct Options {
    url: String,
    cache: TempDir,
    rpc: &'static str,
}

impl Options {
    fn new(node: &FakeNode) -> Self {
        Self {
            url: node.url(),
            cache: tempfile::tempdir().unwrap(),
            // An answer is expected in time, even from a process that gets no processor for a while.
            rpc: "timeout=60,attempts=1",
        }
    }

    fn args<'a>(&'a self, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let cache = self.cache.path().to_str().unwrap();
        let own = [
            command, "--url", &self.url, "--cache", cache, "--rpc", self.rpc,
        ];
        [&own[..], more].concat()
    }
}

const MODES: [&[&str]; 4] = [&[], &["--lockstep"], &["--peer"], &["--attribute"]];

#[test]
fn a_block_by_url_is_the_block_from_its_file() {
    let (node, recording) = recorded_chain();
    let options = Options::new(&node);
    let file = recorded();
    let file = file.to_str().unwrap();
    for mode in MODES {
        let expected = report(&[&["replay", file][..], mode].concat());
        let found = report(&options.args("replay", &[&["--block", "1"][..], mode].concat()));
        assert_eq!(same_part(found), same_part(expected), "{mode:?}");
    }
    let hash = format!("0x{}", hex::encode(recording.hash()));
    let by_hash = report(&options.args("replay", &["--block", &hash]));
    assert_eq!(by_hash["blocks"][0]["hash"], hash);
    let (text, _, _) = povmeter(&["replay", file]);
    assert!(
        text.contains("kusama") && !text.contains("FAILED"),
        "{text}"
    );
}

#[test]
fn a_recorded_block_needs_no_node() {
    let (node, recording) = recorded_chain();
    let options = Options::new(&node);
    let file = options.cache.path().join("block.povmeter");
    let path = file.to_str().unwrap();
    let written = report(&options.args("record", &["--block", "1", path]));
    assert_eq!(written["number"], 1);
    assert_eq!(written["file_bytes"], fs::metadata(&file).unwrap().len());
    let again = Recording::read(&file).unwrap();
    assert_eq!(again.nodes, recording.nodes);
    assert_eq!(again.hash(), recording.hash());
    drop(node);
    let expected = same_part(report(&["replay", recorded().to_str().unwrap()]));
    assert_eq!(same_part(report(&["replay", path])), expected);
    let page = options.cache.path().join("page");
    let page = page.to_str().unwrap();
    let (_, said, code) = povmeter(&["replay", path, "--report", page, "--attribute"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn damaged_recordings_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.povmeter");
    let good = fs::read(recorded()).unwrap();
    let replay = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        refused(&["replay", path.to_str().unwrap()])
    };
    let cut = replay(&good[..good.len() / 2]);
    assert!(
        cut.contains("expected a whole recording, found damage"),
        "{cut}"
    );
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    let changed = replay(&changed);
    assert!(changed.contains("bad.povmeter: expected"), "{changed}");
    let mut other = good.clone();
    other[7] = 9;
    let other = replay(&other);
    assert!(other.contains("version 1, found version 9"), "{other}");
    let foreign = replay(b"PK\x03\x04 something else");
    assert!(foreign.contains("expected a file of blocks"), "{foreign}");
    // A node is missing.
    let mut fewer = Recording::from_bytes(&good).unwrap();
    fewer.nodes.retain(|node| node.len() > 400_000);
    assert_eq!(fewer.nodes.len(), 1);
    let fewer = replay(&fewer.to_bytes().unwrap());
    assert!(fewer.contains("in the recording, which has"), "{fewer}");
}

#[test]
fn a_bad_node_is_named_with_what_it_did() {
    let (node, _) = recorded_chain();
    for (fault, part) in [
        (Fault::WrongNodes, "found none with this hash"),
        (Fault::MissingNodes, "found none with this hash"),
        (Fault::CutOff, "expected a JSON-RPC response"),
        (
            Fault::Silent,
            "expected an answer to state_getReadProof within 3 s, found none in 1 attempts",
        ),
        (
            Fault::Refuses(
                4003,
                "Client error: UnknownBlock: State already discarded for 0x1",
            ),
            "does not have it",
        ),
        (
            Fault::Refuses(-32000, "Client error: State already discarded"),
            "does not have it",
        ),
        (Fault::OtherHeader, "another hasher"),
    ] {
        node.fail(fault.clone());
        let mut options = Options::new(&node);
        if fault == Fault::Silent {
            // Long enough for the answers before the one that is missing.
            options.rpc = "timeout=3,attempts=1";
        }
        for mode in [&[][..], &["--peer"], &["--lockstep"]] {
            let message = refused(&options.args("replay", &[&["--block", "1"][..], mode].concat()));
            assert!(message.contains(part), "{fault:?}: {message}");
        }
    }
    node.fail(Fault::None);
    let options = Options::new(&node);
    let message = refused(&options.args("replay", &["--block", "7"]));
    assert!(message.contains(&beyond(7)), "{message}");
    let cache = options.cache.path().to_str().unwrap();
    let closed = [
        "--url",
        "ws://127.0.0.1:1",
        "--cache",
        cache,
        "--rpc",
        "attempts=1",
    ];
    let message = refused(&[&["replay"][..], &closed].concat());
    assert!(
        message.contains("expected a node that accepts WebSocket connections"),
        "{message}"
    );
}

/// What a node of one block says of another one.
fn beyond(block: u64) -> String {
    format!("expected block {block}, found that the chain's best block is 1, so block {block} does not exist yet")
}

#[test]
fn blocks_before_a_missing_one_are_reported() {
    let (node, _) = recorded_chain();
    let options = Options::new(&node);
    let rows = options.cache.path().join("rows");
    let range = ["--blocks", "1..3"];
    let scan = [&range[..], &[rows.to_str().unwrap()]].concat();
    let commands = [
        ("replay", &range[..], "1 block on povmeter"),
        ("scan", &scan, "blocks 1 to 3: 1 added, 0 were there"),
        // It goes on where it ended.
        ("scan", &scan, "blocks 1 to 3: 0 added, 1 were there"),
    ];
    for (command, args, part) in commands {
        let args = options.args(command, args);
        let (printed, errors, code) = povmeter(&args);
        assert_eq!(code, Some(1), "{printed}");
        assert!(printed.contains(part), "{printed}");
        assert!(printed.contains("\nFAILED "), "{printed}");
        assert!(errors.contains(&beyond(2)), "{errors}");
        let (printed, _, code) = povmeter(&[&args[..], &["--json"]].concat());
        let report = fits_its_schema(command, &printed);
        assert_eq!((code, &report["error"]), (Some(1), &beyond(2).into()));
    }
    // Tables are for whole parts.
    assert!(rows.join("blocks-1-of-1.jsonl").exists());
    assert!(!rows.join("blocks-1-of-1.parquet").exists());
}

#[test]
fn a_scan_writes_rows_and_goes_on_where_it_ended() {
    let (node, _) = recorded_chain();
    let options = Options::new(&node);
    let rows = options.cache.path().join("rows");
    let folder = rows.to_str().unwrap();
    let range = ["--blocks", "1..1", "--shard", "1/1", folder];
    let scan = || report(&options.args("scan", &range));
    let read = |kind: &str| {
        let text = fs::read_to_string(rows.join(format!("{kind}-1-of-1.jsonl"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    };
    let first = scan();
    for table in ["blocks_table", "items_table"] {
        let path = Path::new(first[table].as_str().unwrap());
        let table = fs::read(path).unwrap();
        assert!(
            table.starts_with(b"PAR1") && table.ends_with(b"PAR1"),
            "{path:?}"
        );
    }
    assert_eq!((&first["added"], &first["before"]), (&1.into(), &0.into()));
    let (blocks, items) = (read("blocks"), read("items"));
    let replayed = report(&["replay", "--attribute", recorded().to_str().unwrap()]);
    let replayed = &replayed["blocks"][0];
    assert_eq!(blocks.len(), 1);
    for field in [
        "hash",
        "state_root",
        "recorded",
        "encoded",
        "compact",
        "nodes",
    ] {
        assert_eq!(blocks[0][field], replayed[field], "{field}");
    }
    assert_eq!(blocks[0]["failed"], serde_json::json!([]));
    let pov = &replayed["pov"];
    for (field, of) in [("pov", "total"), ("pov_compressed", "compressed")] {
        assert_eq!(blocks[0][field], pov[of], "{field}");
    }
    assert!(
        blocks[0]["timestamp_ms"].as_u64() > Some(1_500_000_000_000),
        "{blocks:?}"
    );
    let sum: u64 = items.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), replayed["recorded"].as_u64());
    assert_eq!(
        items.len(),
        replayed["attribution"]["by_item"].as_array().unwrap().len()
    );
    let again = scan();
    assert_eq!((&again["added"], &again["before"]), (&0.into(), &1.into()));
    // Killed before the row of the block was written.
    fs::write(rows.join("blocks-1-of-1.jsonl"), "{\"block\":").unwrap();
    assert_eq!(scan()["added"], 1);
    assert_eq!(read("items"), items);
    // A part without blocks, and files of another range.
    let halves = options.cache.path().join("halves");
    let halves = halves.to_str().unwrap();
    let none = options.args("scan", &["--blocks", "1..1", "--shard", "1/2", halves]);
    assert!(report(&none)["first"].is_null());
    let other = refused(&options.args("scan", &["--blocks", "2..3", folder]));
    assert!(
        other.contains("expected rows of blocks 2 to 3, found that of block 1"),
        "{other}"
    );
}

#[test]
fn a_scan_without_a_row_leaves_nothing_behind() {
    let (node, _) = recorded_chain();
    let options = Options::new(&node);
    let rows = options.cache.path().join("rows");
    let folder = rows.to_str().unwrap();
    node.fail(Fault::MissingNodes);
    refused(&scan(&options, folder));
    assert!(!rows.exists());
    drop(node);
    refused(&scan(&options, folder));
    assert!(!rows.exists());
    // What was there before stays.
    fs::create_dir(&rows).unwrap();
    fs::write(rows.join("items-1-of-1.jsonl"), "").unwrap();
    refused(&scan(&options, folder));
    assert!(rows.join("items-1-of-1.jsonl").exists());
    assert!(!rows.join("blocks-1-of-1.jsonl").exists());
}

/// A node with a cache, the folder of a scan of its block, and the path of the rows of blocks.
fn scanned() -> (FakeNode, Options, PathBuf) {
    let (node, _) = recorded_chain();
    let options = Options::new(&node);
    let folder = options.cache.path().join("rows");
    report(&scan(&options, folder.to_str().unwrap()));
    (node, options, folder.join("blocks-1-of-1.jsonl"))
}

fn scan<'a>(options: &'a Options, folder: &'a str) -> Vec<&'a str> {
    options.args("scan", &["--blocks", "1..1", folder])
}

/// Changes a field of the row in a file of one row.
fn change_row(path: &Path, field: &str, value: Value) -> String {
    let mut row: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    row[field] = value;
    let text = format!("{row}\n");
    fs::write(path, &text).unwrap();
    text
}

#[test]
fn a_scan_that_goes_on_reports_checks_that_failed_before() {
    let (_node, options, blocks) = scanned();
    change_row(&blocks, "failed", serde_json::json!(["estimate complete"]));
    let folder = blocks.parent().unwrap().to_str().unwrap();
    let (text, errors, code) = povmeter(&scan(&options, folder));
    assert_eq!(code, Some(1), "{errors}");
    assert!(text.contains("0 added, 1 were there"), "{text}");
    assert!(text.contains("FAILED a check of block 1"), "{text}");
    assert!(errors.contains("found failed ones: block 1"), "{errors}");
    let (printed, _, code) = povmeter(&[&scan(&options, folder)[..], &["--json"]].concat());
    assert_eq!(code, Some(1));
    let report = fits_its_schema("scan", &printed);
    assert_eq!(report["failed"], serde_json::json!([]));
    assert_eq!(report["failed_before"], serde_json::json!([1]));
}

#[test]
fn a_scan_goes_on_only_with_rows_of_its_chain_that_no_other_scan_writes() {
    let (_node, options, blocks) = scanned();
    let folder = blocks.parent().unwrap().to_str().unwrap();
    let file = fs::File::open(&blocks).unwrap();
    fs4::fs_std::FileExt::lock_exclusive(&file).unwrap();
    let message = refused(&scan(&options, folder));
    assert!(
        message.contains("found another scan that has them open")
            && message.contains("wait until the other scan is done"),
        "{message}"
    );
    // Closing it is not enough: a child that another test starts at this moment has a copy of it until it executes the
    // program.
    fs4::fs_std::FileExt::unlock(&file).unwrap();
    let found = format!("0x{}", "5a".repeat(32));
    let row = change_row(&blocks, "hash", found.clone().into());
    let message = refused(&scan(&options, folder));
    let expected = Recording::read(&recorded()).unwrap().hash();
    let expected = format!(
        "expected rows of the node's chain, whose block 1 is 0x{}, found a row of {found}",
        hex::encode(expected)
    );
    assert!(
        message.contains(&expected) && message.contains("name another folder"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(&blocks).unwrap(), row);
}

/// Then the blocks before it are of a fork that the chain has left meanwhile.
#[test]
fn a_block_with_another_parent_than_the_row_before_ends_a_scan() {
    let recording = Recording::read(&recorded()).unwrap();
    let first = RealBlock::from_header(&recording.header, recording.body.clone()).unwrap();
    let node = chain(recording.parent_root, &first, recording.source());
    let first = block(&first);
    // The state after it is one that the node has.
    let fork = FakeBlock {
        state_root: recording.parent_root.into(),
        logs: Vec::new(),
        ..first.clone()
    };
    let second = FakeBlock {
        parent: fork.hash(),
        number: 2,
        ..first.clone()
    };
    let genesis = genesis(recording.parent_root);
    node.serve(vec![
        genesis.clone(),
        first.clone(),
        fork.clone(),
        second.clone(),
    ]);
    let options = Options::new(&node);
    let rows = options.cache.path().join("rows");
    let read = || fs::read_to_string(rows.join("blocks-1-of-1.jsonl")).unwrap();
    let args = options.args("scan", &["--blocks", "1..2", rows.to_str().unwrap()]);
    let mut kept = Vec::new();
    for added in ["1 added, 0 were there", "0 added, 1 were there"] {
        let (printed, errors, code) = povmeter(&args);
        assert_eq!(code, Some(1), "{printed}");
        assert!(printed.contains(added), "{printed}");
        let hash = |block: &FakeBlock| format!("0x{}", hex::encode(block.hash()));
        let expected = format!(
            "expected block 2 to be a child of {}, the block in the row before it, found one with the parent {}",
            hash(&first),
            hash(&fork)
        );
        assert!(errors.contains(&expected), "{errors}");
        assert!(errors.contains("run it again"), "{errors}");
        kept.push(read());
    }
    assert_eq!(kept[0].lines().count(), 1);
    assert_eq!(kept[0], kept[1]);
    // The fork has become the chain: nothing of the other one is left to go on from.
    node.serve(vec![genesis, fork, second]);
    // The other cache has the hash of block 1 as that of a final block.
    let options = Options::new(&node);
    let args = options.args("scan", &["--blocks", "1..2", rows.to_str().unwrap()]);
    assert!(refused(&args).contains("expected rows of the node's chain"));
    assert_eq!(read(), kept[0]);
}

/// The names of the files in `folder`, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_block_whose_items_do_not_add_up_is_scanned_again() {
    let (_node, options, blocks) = scanned();
    let folder = blocks.parent().unwrap();
    let [items, table] =
        ["jsonl", "parquet"].map(|kind| folder.join(format!("items-1-of-1.{kind}")));
    let read = || fs::read_to_string(&items).unwrap();
    let (rows, columns) = (read(), fs::read(&table).unwrap());
    let row: Value = serde_json::from_slice(&fs::read(&blocks).unwrap()).unwrap();
    let recorded = row["recorded"].as_u64().unwrap();
    let half: String = rows
        .lines()
        .step_by(2)
        .map(|row| format!("{row}\n"))
        .collect();
    let damages: [(&str, &dyn Fn()); 4] = [
        ("found none;", &|| fs::write(&items, "").unwrap()),
        ("found none;", &|| fs::remove_file(&items).unwrap()),
        ("found rows of ", &|| fs::write(&items, &half).unwrap()),
        ("found rows of ", &|| {
            change_row(&blocks, "recorded", (recorded + 1).into());
        }),
    ];
    for (why, damage) in damages {
        damage();
        let (text, errors, code) = povmeter(&scan(&options, folder.to_str().unwrap()));
        assert_eq!(code, Some(0), "{errors}");
        assert!(text.contains("1 added, 0 were there"), "{text}");
        assert!(
            errors.starts_with("note: ")
                && errors.contains("items-1-of-1.jsonl: expected rows of block 1 that add up to")
                && errors.contains(why)
                && errors.contains("scanning again from block 1"),
            "{errors}"
        );
        assert_eq!(read(), rows);
        assert_eq!(fs::read(&table).unwrap(), columns);
    }
    let again = report(&scan(&options, folder.to_str().unwrap()));
    assert_eq!((&again["added"], &again["before"]), (&0.into(), &1.into()));
}

#[test]
fn rows_of_another_chain_are_not_cut_off() {
    let (_node, options, blocks) = scanned();
    let row = change_row(&blocks, "hash", format!("0x{}", "5a".repeat(32)).into());
    let folder = blocks.parent().unwrap();
    fs::write(folder.join("items-1-of-1.jsonl"), "").unwrap();
    let message = refused(&scan(&options, folder.to_str().unwrap()));
    assert!(
        message.contains("expected rows of the node's chain"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(&blocks).unwrap(), row);
}

#[test]
fn a_scan_replaces_only_its_own_tables() {
    let (node, _) = recorded_chain();
    let options = Options::new(&node);
    let rows = options.cache.path().join("rows");
    fs::create_dir(&rows).unwrap();
    let folder = rows.to_str().unwrap();
    for name in ["blocks-1-of-1.parquet", "items-1-of-1.parquet"] {
        let table = rows.join(name);
        fs::write(&table, "my data").unwrap();
        let message = refused(&scan(&options, folder));
        assert!(
            message.contains(&format!("{name}: expected no file for"))
                && message.contains("found another")
                && message.contains("name another folder"),
            "{message}"
        );
        assert_eq!(fs::read_to_string(&table).unwrap(), "my data");
        assert_eq!(names(&rows), [name]);
        assert_eq!(node.requests(), 0);
        fs::remove_file(&table).unwrap();
    }
    // An empty file, as `mktemp` makes it.
    fs::write(rows.join("blocks-1-of-1.parquet"), "").unwrap();
    report(&scan(&options, folder));
    report(&scan(&options, folder));
}

#[test]
fn a_folder_holds_the_rows_of_one_number_of_parts() {
    let (node, options, blocks) = scanned();
    let folder = blocks.parent().unwrap();
    let before = names(folder);
    let requests = node.requests();
    let path = folder.to_str().unwrap();
    let other = options.args("scan", &["--blocks", "1..1", "--shard", "1/2", path]);
    for kind in ["jsonl", "parquet"] {
        let message = refused(&other);
        let expected = format!(
            "blocks-1-of-1.{kind}: expected only files of `--shard I/2` in the folder, found one of `--shard 1/1`"
        );
        assert!(
            message.contains(&expected) && message.contains("name another folder"),
            "{message}"
        );
        for name in names(folder).iter().filter(|name| name.ends_with("jsonl")) {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
    assert_eq!(before.len(), 4);
    assert_eq!(
        names(folder),
        ["blocks-1-of-1.parquet", "items-1-of-1.parquet"]
    );
    assert_eq!(node.requests(), requests);
}

#[test]
fn a_block_that_can_not_be_executed_as_published_is_recorded() {
    let recording = Recording::read(&recorded()).unwrap();
    let first = RealBlock::from_header(&recording.header, recording.body.clone()).unwrap();
    let mut other = block(&first);
    other.state_root[0] ^= 1;
    let genesis = FakeBlock {
        parent: [0; 32],
        number: 0,
        state_root: recording.parent_root.into(),
        extrinsics_root: Blake2Hasher::hash(&[0]).0,
        logs: Vec::new(),
        body: Vec::new(),
    };
    let node = FakeNode::new(vec![genesis, other], recording.source());
    let options = Options::new(&node);
    let file = options.cache.path().join("block.povmeter");
    let path = file.to_str().unwrap();
    let record = options.args("record", &["--block", "1", path, "--json"]);
    let (printed, errors, code) = povmeter(&record);
    assert_eq!(code, Some(1), "{errors}");
    let written = fits_its_schema("record", &printed);
    let error = written["error"].as_str().unwrap();
    // The runtime compares the root itself.
    let start = "block 1: the runtime failed";
    assert!(error.starts_with(start), "{error}");
    // JSON escapes the lines of the backtrace, and nothing else does.
    assert!(error.contains('\n') && !error.contains("\\n"), "{error}");
    assert!(errors.contains(start), "{errors}");
    assert_eq!(written["file_bytes"], fs::metadata(&file).unwrap().len());
    // Without the node, each way to execute it shows the same.
    drop(node);
    for mode in MODES {
        let message = refused(&[&["replay", path][..], mode].concat());
        assert!(message.contains(start), "{mode:?}: {message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_recording_that_can_not_be_written_is_no_result() {
    let (node, _) = recorded_chain();
    let options = Options::new(&node);
    let message = refused(&options.args("record", &["--block", "1", "/dev/full"]));
    assert!(
        message.contains("error: /dev/full: can't write the recording: No space left"),
        "{message}"
    );
    assert!(
        message.contains("\nhelp: free space on the disk"),
        "{message}"
    );
}

#[test]
fn a_block_whose_nodes_are_missing_is_not_recorded() {
    let (node, _) = recorded_chain();
    node.fail(Fault::MissingNodes);
    let options = Options::new(&node);
    let file = options.cache.path().join("block.povmeter");
    let message = refused(&options.args("record", &["--block", "1", file.to_str().unwrap()]));
    assert!(message.contains("found none with this hash"), "{message}");
    assert!(!file.exists());
}

/// The block of the chain `name` and its state, from the real data.
fn real(name: &str) -> (PathBuf, RealBlocks, ChainSpec) {
    let path = expect_data().join(format!("blocks/{name}.json"));
    let file = RealBlocks::read(&path).unwrap();
    let state = file.read_state().unwrap();
    (path, file, state)
}

#[test]
#[ignore = "needs the real chain data"]
fn blocks_of_public_chains_by_url_are_those_of_their_files() {
    for name in ["westend-1-64", "polkadot-1", "kusama-1"] {
        let (path, mut file, state) = real(name);
        file.blocks.truncate(1);
        let node = whole_chain(&file, &state);
        let options = Options::new(&node);
        let path = path.to_str().unwrap();
        for mode in [&[][..], &["--lockstep"]] {
            let mut expected = report(&[&["replay", path][..], mode].concat());
            // These checks count all blocks of the file.
            expected.as_object_mut().unwrap().remove("checks");
            let mut found =
                report(&options.args("replay", &[&["--block", "1"][..], mode].concat()));
            let held = found.as_object_mut().unwrap().remove("checks").unwrap();
            let mut held = held.as_array().unwrap().iter();
            assert!(held.all(|check| check["holds"] == 1), "{name}");
            assert_eq!(same_part(found), same_part(expected), "{name}, {mode:?}");
        }
        // The second replay asks for the hash of the genesis block, and reads all else in the cache.
        let asked = node.requests();
        assert!(asked > 5, "{asked}");
        report(&options.args("replay", &["--block", "1"]));
        assert_eq!(node.requests(), asked + 1, "{name}");
    }
}

/// Set `POVMETER_WRITE` to write the file.
#[test]
#[ignore = "needs the real chain data"]
fn the_block_in_the_repository_is_the_published_one() {
    let (path, ..) = real("kusama-1");
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("kusama-1.povmeter");
    let args = [
        "record",
        "--from",
        path.to_str().unwrap(),
        written.to_str().unwrap(),
    ];
    report(&args);
    if std::env::var_os("POVMETER_WRITE").is_some() {
        fs::copy(&written, recorded()).unwrap();
    }
    assert!(
        fs::read(written).unwrap() == fs::read(recorded()).unwrap(),
        "the file is another"
    );
}

#[test]
#[ignore = "needs the real chain data"]
fn an_extrinsic_is_tried_on_a_chain() {
    let spec = ChainSpec::read(&expect_data().join("chain-specs/paseo.json.gz")).unwrap();
    let (file, state) = relay_chain_block(spec, 2, 1).unwrap();
    let node = whole_chain(&file, &state);
    let options = Options::new(&node);
    // The inherents come first.
    let transfers = &file.blocks[0].body[2..];
    let extrinsic = hex::encode(&transfers[0]);
    let genesis = format!("{:?}", file.blocks[0].header.parent_hash);
    let dry = |extrinsic: &str, more: &[&str]| {
        let args = [&["--block", &genesis, "--extrinsic", extrinsic][..], more].concat();
        let args = options
            .args("dry-run", &args)
            .iter()
            .map(|arg| (*arg).to_owned())
            .collect::<Vec<_>>();
        povmeter(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let page = options.cache.path().join("page");
    let report_to = ["--report", page.to_str().unwrap()];
    let (printed, errors, code) = dry(
        &extrinsic,
        &[&["--json", "--pov-limit", "5MiB"], &report_to[..]].concat(),
    );
    assert_eq!(code, Some(0), "{errors}");
    let html = fs::read_to_string(page.join("index.html")).unwrap();
    for part in ["What it would add", "within the limit of", "System.Account"] {
        assert!(html.contains(part), "no {part:?}");
    }
    assert!(page.join("added.svg").exists());
    let report = fits_its_schema("dry-run", &printed);
    assert_eq!(
        (&report["outcome"], &report["item"]),
        (&"succeeded".into(), &"extrinsic".into())
    );
    let fits = &report["pov_limit"]["fits"];
    assert_eq!((fits, &report["number"]), (&true.into(), &1.into()));
    let pov = |block: &str, field: &str| report[block]["pov"][field].as_i64().unwrap();
    assert_eq!(pov("without", "extrinsics"), 1);
    assert_eq!(pov("with", "compact_proof"), report["with"]["compact"]);
    let added = pov("with", "total") - pov("without", "total");
    assert_eq!(report["added"]["pov"], added);
    let number = |part: &str, field: &str| report[part][field].as_i64().unwrap();
    for field in ["recorded", "encoded", "compact", "nodes"] {
        assert_eq!(
            number("added", field),
            number("with", field) - number("without", field)
        );
        assert!(number("added", field) > 0, "{report}");
    }
    assert_eq!(
        number("added", "recorded"),
        number("attribution", "recorded")
    );
    assert!(number("added", "weight_ref_time") > 100_000_000, "{report}");
    let items = report["attribution"]["by_item"].as_array().unwrap();
    assert!(
        items.iter().any(|item| item["name"] == "System.Account"),
        "{report}"
    );
    // A PoV above the limit, a transaction with a wrong signature, and bytes that are no transaction.
    let (text, errors, code) = dry(&extrinsic, &["--pov-limit", "100"]);
    assert!(
        code == Some(3) && text.contains("the PoV is larger"),
        "{text}{errors}"
    );
    let mut wrong = transfers[0].clone();
    let signature = 1 + 1 + 32 + 1;
    wrong[signature] ^= 1;
    let (_, errors, code) = dry(&hex::encode(wrong), &[]);
    assert!(code == Some(1) && errors.contains("BadProof"), "{errors}");
    let (_, errors, code) = dry("84ff", &[]);
    assert!(code == Some(1) && errors.contains("runtime"), "{errors}");
    // The same runtime has no migrations.
    let code_file = options.cache.path().join("code.wasm");
    fs::write(&code_file, &state.top[&b":code"[..]]).unwrap();
    let args = [
        "--block",
        &genesis,
        "--runtime",
        code_file.to_str().unwrap(),
    ];
    let message = refused(&options.args("dry-run", &args));
    assert!(message.contains("a higher spec version"), "{message}");
}

#[test]
#[ignore = "needs the real chain data"]
fn a_runtime_is_tried_in_place_of_a_recorded_block() {
    let folder = tempfile::tempdir().unwrap();
    let other = ChainSpec::read(&expect_data().join("chain-specs/paseo.json.gz")).unwrap();
    let code = folder.path().join("other.wasm");
    fs::write(&code, &other.top[&b":code"[..]]).unwrap();
    // The migrations of a much newer runtime read nodes that the recording does not have.
    let file = recorded();
    let args = [
        "dry-run",
        file.to_str().unwrap(),
        "--runtime",
        code.to_str().unwrap(),
    ];
    let message = refused(&args);
    assert!(
        message.contains("in the recording, which has") || message.contains("runtime failed"),
        "{message}"
    );
}
