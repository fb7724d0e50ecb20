//! The program as users run it: its output, its exit codes, its files on disk.

#![allow(clippy::unwrap_used)]

use codec::Encode;
use povmeter_dev_data::expect_data;
use povmeter_store::{NodeStore, ParityDbStore};
use serde_json::Value;
use sp_crypto_hashing::blake2_64;
use std::{
    collections::BTreeMap,
    fmt::Debug,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{PoisonError, RwLock},
};

/// Written while this process has a store open, read while it starts a child. Until the child executes its program, it
/// has a copy of each open file, and so keeps the store of another test locked after that test has closed it.
static STARTING: RwLock<()> = RwLock::new(());

/// Runs the program.
fn povmeter(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_povmeter"));
    // The only comparison that needs the recorded block.
    if args.starts_with(&["compare", "pool"]) {
        command.env("POVMETER_DATA", expect_data());
    }
    command.args(args).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn().unwrap();
    drop(starting);
    child.wait_with_output().unwrap()
}

/// The root of the store that `open` opens.
#[track_caller]
fn root<S: NodeStore, E: Debug>(open: impl FnOnce() -> Result<S, E>) -> String {
    let _none_starts = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    // Closed before another child starts.
    let store = open().unwrap();
    store.root().to_string()
}

/// What the program printed; it must succeed.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = povmeter(args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {errors}");
    assert_eq!(errors, "", "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The error message of the program, which printed nothing else.
#[track_caller]
fn error(args: &[&str]) -> String {
    let output = povmeter(args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{args:?}: {errors}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{args:?}");
    assert!(!errors.contains("thread '"), "{errors}");
    errors
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

const SMALL: [&str; 4] = ["--accounts", "100", "--transfers", "10"];

fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [args, more].concat()
}

/// The files in a folder, with their content.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn a_block_as_json() {
    for more in [
        &["--state", "memory", "--state-version", "0"][..],
        &["--call", "transfer_all", "--signatures", "free"],
    ] {
        let text = printed(&with(&with(&["block", "--json"], &SMALL), more));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["what"], "block");
        assert_eq!(report["extrinsics"]["applied"], 10);
        // One after the inherent, one after each extrinsic.
        let estimates = report["estimates"].as_array().unwrap();
        assert_eq!(estimates.len(), 11);
        assert_eq!(estimates[10]["total"], report["proof_bytes"]["recorded"]);
        assert_eq!(report["told"].as_array().unwrap().len(), 20);
        let checks = report["checks"].as_array().unwrap();
        assert_eq!(checks.len(), 6);
        assert!(checks.iter().all(|check| check["holds"] == true), "{text}");
    }
}

#[test]
fn a_block_as_a_table() {
    let text = printed(&with(&["block", "--state", "memory"], &SMALL));
    let parts = [
        "10 transfer_keep_alive over 100 accounts, sr25519 signatures, state version 1 in memory",
        "final root               0x",
        "10 applied, 0 of them failed",
        "estimate after last",
        "proof recorded",
        "proof encoded",
        "proof compact",
        "proof nodes",
        "finalize with root",
        "ok     estimate complete",
        "ok     executes again from the compact proof alone",
    ];
    assert_has(&text, &parts);
    assert!(!text.contains('\x1b') && !text.contains("FAILED"), "{text}");
}

#[test]
fn a_state_on_disk_is_made_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let db = ["--db", path.to_str().unwrap()];
    let block = |more: &[&'static str]| with(&with(&with(&["block", "--json"], &SMALL), &db), more);
    let roots = [(); 2].map(|()| {
        let report: Value = serde_json::from_str(&printed(&block(&[]))).unwrap();
        assert_eq!(report["parent_root"], root(|| ParityDbStore::open(&path)));
        report["root"].as_str().unwrap().to_owned()
    });
    assert_eq!(roots[0], roots[1]);

    // Other options make another state, so the folder is refused.
    let before = root(|| ParityDbStore::open(&path));
    let message = error(&block(&["--seed", "2"]));
    let parts = [
        "expected the state with root 0x",
        "found the state with root",
    ];
    assert_has(&message, &parts);
    assert_has(&message, &[path.to_str().unwrap(), &before]);
    assert_eq!(root(|| ParityDbStore::open(&path)), before);
    printed(&block(&[]));
}

/// The option may be omitted for a folder that holds a state, and can't name another engine than the folder.
#[cfg(feature = "rocksdb")]
#[test]
fn a_folder_names_its_engine() {
    use povmeter_store::RocksDbStore;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let db = ["--db", path.to_str().unwrap()];
    let block = |more: &[&'static str]| with(&with(&with(&["block", "--json"], &SMALL), &db), more);
    let roots = [&["--state", "rocksdb"][..], &[]].map(|more| {
        let report: Value = serde_json::from_str(&printed(&block(more))).unwrap();
        assert_eq!(report["parent_root"], root(|| RocksDbStore::open(&path)));
        assert_eq!(report["options"]["state"], "rocksdb");
        report["root"].as_str().unwrap().to_owned()
    });
    assert_eq!(roots[0], roots[1]);
    let message = error(&block(&["--state", "parity-db"]));
    assert_has(&message, &["found a povmeter node store on rocksdb"]);

    let chain = folder.path().join("chain");
    let chain = chain.to_str().unwrap();
    let args = [
        "--state", "rocksdb", "--blocks", "3", "--keep", "2", "--db", chain,
    ];
    printed(&with(&with(&["chain"], &SMALL), &args));
    for path in [path.to_str().unwrap(), chain] {
        assert_has(&printed(&["db", "verify", path]), &["intact"]);
        assert_has(&printed(&["db", "stat", path]), &["kept states"]);
    }
    printed(&["db", "prune", chain, "--keep", "1"]);
    let copy = folder.path().join("copy");
    printed(&["db", "backup", chain, copy.to_str().unwrap()]);
    assert_eq!(
        root(|| RocksDbStore::open(&copy)),
        root(|| RocksDbStore::open(chain))
    );
}

/// A folder on RocksDB is left alone by a program without it, which says what to do.
#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_state_on_rocksdb_needs_the_feature() {
    let folder = tempfile::tempdir().unwrap();
    let marker = "povmeter node store, format 3\nengine rocksdb\nstate complete\n";
    fs::write(folder.path().join("povmeter-store"), marker).unwrap();
    let before = content(folder.path());
    let path = folder.path().to_str().unwrap();
    let to = folder.path().join("new");
    let to = to.to_str().unwrap();
    for args in [
        with(&["block", "--db", path], &SMALL),
        with(&["block", "--state", "rocksdb", "--db", to], &SMALL),
        with(&["chain", "--state", "rocksdb", "--db", to], &SMALL),
        with(&["compare", "block", "--state", "rocksdb"], &SMALL),
        vec!["db", "verify", path],
        vec!["db", "stat", path],
        vec!["db", "prune", path, "--keep", "1"],
        vec!["db", "backup", path, to],
    ] {
        let message = error(&args);
        let parts = [
            "the feature `rocksdb`",
            "help: install",
            "--features rocksdb",
        ];
        assert_has(&message, &parts);
        assert_eq!(content(folder.path()), before, "{args:?}");
    }
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letters.txt"), "dear").unwrap();
    let before = content(folder.path());
    let path = folder.path().to_str().unwrap();
    let message = error(&with(&["block", "--db", path], &SMALL));
    let parts = [
        "expected a povmeter node store",
        "found",
        "letters.txt",
        path,
    ];
    assert_has(&message, &parts);
    assert_eq!(content(folder.path()), before);

    let file = folder.path().join("letters.txt");
    let message = error(&with(&["block", "--db", file.to_str().unwrap()], &SMALL));
    assert_has(&message, &["not a folder"]);
    assert_eq!(content(folder.path()), before);
}

#[test]
fn impossible_options_leave_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let db = path.to_str().unwrap();
    let message = error(&["block", "--accounts", "1", "--db", db]);
    assert_has(
        &message,
        &["a transfer needs 2 accounts, but the plan has 1"],
    );
    let all = [
        "block",
        "--call",
        "transfer_all",
        "--accounts",
        "10",
        "--db",
        db,
    ];
    let message = error(&all);
    assert_has(&message, &["allow 5 transfers", "not 544"]);
    let message = error(&["block", "--state", "memory", "--db", db]);
    assert_has(&message, &["expected `--db` only with a state on disk"]);
    assert!(!path.exists());
    for args in [
        &["block", "--call", "transfer"][..],
        &["compare", "block", "--rounds", "0"],
        &["block", "--state-version", "2"],
        &["build"],
    ] {
        assert_has(&error(args), &["error: "]);
    }
}

/// The error of `command` with more transfers than fit.
#[track_caller]
fn error_of_a_full_block(command: &str, transfers: u32) -> String {
    let accounts = 2 * transfers;
    let args = format!("{command} --accounts {accounts} --transfers {transfers} --signatures free");
    let message = error(&args.split(' ').collect::<Vec<_>>());
    let room = format!("expected a block with room for all {transfers} extrinsics, found ");
    assert_has(&message, &[&room, "\nhelp: lower `--transfers`"]);
    message
}

/// More transfers than fit into a block of this runtime, which asks for the proof size to reclaim weight.
const TOO_MANY: u32 = 25_000;

#[test]
#[ignore = "takes a minute"]
fn a_block_that_is_too_full_is_an_error_takes_long() {
    error_of_a_full_block("block --state memory", TOO_MANY);
}

/// Numbers for each extrinsic would count those that are not in the block.
#[test]
fn a_block_that_is_too_full_is_not_measured() {
    for (command, transfers) in [
        ("compare block --rounds 1", TOO_MANY),
        // Some of its blocks reclaim no weight, so they have room for far fewer.
        ("compare block --rounds 1 --workers 2", 6_000),
        ("chain --blocks 1", TOO_MANY),
    ] {
        let message = error_of_a_full_block(command, transfers);
        assert_has(
            &message,
            &["because only a block with all extrinsics is measured"],
        );
    }
}

#[test]
fn a_damaged_database_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let args = with(&["block", "--db", path.to_str().unwrap()], &SMALL);
    printed(&args);
    // Flip bits all over the value tables, so that nodes are hit whichever file they are in.
    let tables = content(&path);
    let tables = tables
        .iter()
        .filter(|(name, _)| name.starts_with("table_00"));
    let mut damaged = 0;
    for (name, bytes) in tables {
        let mut bytes = bytes.clone();
        // The format's own header is at the start.
        for at in (1000..bytes.len()).step_by(211) {
            bytes[at] ^= 0x10;
            damaged += 1;
        }
        fs::write(path.join(name), bytes).unwrap();
    }
    assert!(damaged > 0);
    let message = error(&args);
    assert_has(
        &message,
        &["error: `povmeter` can't build the block", "node"],
    );
}

#[test]
fn a_comparison_as_json() {
    let args = ["compare", "block", "--rounds", "2", "--json"];
    for more in [
        &[][..],
        &["--cache", "warm", "--state", "parity-db"],
        &["--call", "transfer_all", "--signatures", "sr25519"],
    ] {
        let text = printed(&with(&with(&args, &SMALL), more));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["what"], "block");
        assert_eq!(report["rounds"], 2);
        assert_eq!(report["checks"]["roots_equal"], true);
        assert_eq!(report["checks"]["estimates_complete"], true);
        let rows = report["rows"].as_array().unwrap();
        let names: Vec<_> = rows
            .iter()
            .map(|row| row["name"].as_str().unwrap())
            .collect();
        let expected = [
            "peer-none",
            "none",
            "root-each-tx",
            "incremental",
            "fake-hasher",
            "each-key-once",
            "forget",
            "get-for-writes",
            "upstream",
            "povmeter-none",
            "povmeter",
        ];
        assert_eq!(names, expected);
        assert_eq!(rows[0]["percent_of_peer_none"], 100.0);
        for row in rows {
            for size in ["recorded", "encoded", "compact", "nodes"] {
                assert!(row[size].as_u64().unwrap() > 0, "{row}");
            }
            for number in [
                "median_ms",
                "percent_of_peer_none",
                "allocations_per_extrinsic",
            ] {
                assert!(row[number].as_f64().unwrap() > 0.0, "{row}");
            }
            let estimates = !row["name"].as_str().unwrap().ends_with("none");
            assert_eq!(row["estimate_after_last"].is_u64(), estimates, "{row}");
        }
        assert_eq!(rows[10]["estimate_under_bytes"], 0);
        assert_eq!(rows[10]["estimate_after_last"], rows[10]["recorded"]);
    }
}

#[test]
fn a_comparison_as_a_table() {
    let text = printed(&with(&["compare", "block", "--rounds", "1"], &SMALL));
    let parts = [
        "cpu ms",
        "peer-none",
        "povmeter",
        "ok     roots equal",
        "ok     estimates complete",
    ];
    assert_has(&text, &parts);
}

#[test]
fn the_overlay_as_json_and_as_a_table() {
    let args = [
        "compare", "overlay", "--rounds", "1", "--only", "get", "--json",
    ];
    let report: Value = serde_json::from_str(&printed(&args)).unwrap();
    assert_eq!(report["what"], "overlay");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        for number in ["peer_ns", "ours_ns", "ratio"] {
            assert!(row[number].as_f64().unwrap() > 0.0, "{row}");
        }
        assert_eq!(row["peer_allocations"], 0.0);
        assert_eq!(row["ours_allocations"], 0.0);
    }
    let bytes = |of: &str| report["memory"][of].as_f64().unwrap();
    assert!(bytes("ours_bytes_per_key") * 2.0 <= bytes("peer_bytes_per_key"));

    let text = printed(&["compare", "overlay", "--rounds", "1", "--only", "set"]);
    assert_has(
        &text,
        &["peer ns", "set new", "bytes in use per changed key"],
    );
}

#[test]
#[ignore = "needs the real chain data"]
fn pooled_blocks_as_json_and_as_a_table() {
    expect_data();
    let report: Value = serde_json::from_str(&printed(&["compare", "pool", "--json"])).unwrap();
    assert_eq!(report["what"], "pool");
    assert_eq!(report["same_block"], true);
    assert_eq!(report["same_sizes"], true);
    assert_eq!(report["extrinsics"], 544);
    assert_eq!(report["pooled"]["allocations_per_extrinsic"], 0.0);
    assert!(report["bytes_percent"].as_f64().unwrap() <= 10.0);
    let text = printed(&["compare", "pool"]);
    assert_has(
        &text,
        &[
            "fresh",
            "pooled",
            "nodes kept",
            "ok     same block",
            "ok     same sizes",
        ],
    );
}

const STATE: &str = r#"{"top": {"0x01": "0x02", "0x0102": "0x"},
    "childrenDefault": {"0x6368": {"0x05": "0x06"}}}"#;

#[test]
fn a_comparison_of_roots() {
    let args = "compare root --cases 5 --rounds 1 --keys 2000 --json";
    let report: Value =
        serde_json::from_str(&printed(&args.split(' ').collect::<Vec<_>>())).unwrap();
    for check in ["updates_differ", "known_states_differ"] {
        assert_eq!(report["checks"][check], 0, "{report}");
    }
    for version in report["versions"].as_array().unwrap() {
        assert_eq!(version["blocks"], 5);
    }
    let rows = report["rows"].as_array().unwrap();
    let modes = report["modes"].as_array().unwrap();
    // The threads that are measured depend on the number of cores.
    let name = |row: &&Value| row["mode"].as_str().unwrap().starts_with("threads_");
    let threads = rows.iter().filter(name).count();
    assert!(threads >= 3 && threads % 3 == 0, "{threads}");
    // For 10, 100 and 1,000 changes: peer_plain, peer_node, cold, and every mode but threads.
    assert_eq!(rows.len(), 3 * (2 + modes.len()) + threads);
    for row in rows {
        let names: Vec<_> = row.as_object().unwrap().keys().collect();
        let expected = "keys changes mode us ratio_to_peer_plain ratio_to_peer_node \
                        allocations_per_change";
        assert_eq!(names, expected.split(' ').collect::<Vec<_>>());
        assert!(row["us"].as_f64().unwrap() > 0.0, "{row}");
    }
    let text = printed(
        &"compare root --cases 2 --rounds 1 --keys 500"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    assert_has(
        &text,
        &["ok     updates agree", "peer_plain", "portable", "cold"],
    );
}

#[test]
fn the_genesis_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.json");
    let path = file.to_str().unwrap();
    fs::write(&file, STATE).unwrap();
    let text = printed(&["genesis", path]);
    assert_has(
        &text,
        &[
            "entries          2",
            "1 with 1 entry\n",
            "state version    1",
        ],
    );
    let report: Value = serde_json::from_str(&printed(&["genesis", path, "--json"])).unwrap();
    let root = report["state_root"].as_str().unwrap();
    assert_has(&text, &[root, report["genesis_hash"].as_str().unwrap()]);
    assert_eq!(printed(&["genesis", path, "--expect-root", root]), text);

    let other = format!("0x{}", "ab".repeat(32));
    let message = error(&["genesis", path, "--expect-root", &other]);
    assert_has(
        &message,
        &[&format!("expected a state with root {other}, found {root}")],
    );
    for (root, found) in [
        ("0xab", "found 2"),
        (&other.replace("ab", "xy"), "character"),
    ] {
        let message = error(&["genesis", path, "--expect-root", root]);
        assert_has(&message, &["expected 32 bytes", found]);
    }
}

/// A custom section of a wasm.
fn section(name: &str, content: &[u8]) -> Vec<u8> {
    let counted = |bytes: &[u8]| [&[u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let named = [&counted(name.as_bytes()), content].concat();
    [vec![0], counted(&named)].concat()
}

#[test]
fn the_runtime_tells_the_state_version() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.json");
    let path = file.to_str().unwrap();
    // The version of `Core` 4 has a state version at its end.
    let core = [&blake2_64(b"Core")[..], &4u32.to_le_bytes()].concat();
    let fields = ("spec", "impl", 1u32, 2u32, 3u32);
    let version = (fields, Vec::<([u8; 8], u32)>::new(), 4u32, 0u8).encode();
    let sections = |version: &[u8]| {
        let sections = [
            section("runtime_version", version),
            section("runtime_apis", &core),
        ];
        [b"\0asm\x01\0\0\0", &sections.concat()[..]].concat()
    };
    let code = sections(&version);
    for (code, parts) in [
        (
            &code[..],
            ["state version    0, as the runtime tells", "genesis hash"],
        ),
        (
            b"\0asm\x01\0\0\0",
            ["state version    0, assumed; if", "--state-version 1"],
        ),
        (
            &sections(&version[..9]),
            [
                "state version    1, assumed; if",
                "runtime          can't tell the state version; expected a runtime's version",
            ],
        ),
        (
            &code[..code.len() - 1],
            [
                "chain's: --state-version 0\n",
                "expected a whole section at byte",
            ],
        ),
    ] {
        let code = format!("0x{}", hex::encode(code));
        let state = format!(r#"{{"top": {{"0x{}": "{code}"}}}}"#, hex::encode(":code"));
        fs::write(&file, state).unwrap();
        assert_has(&printed(&["genesis", path]), &parts);
        let given = printed(&["genesis", path, "--state-version", "1"]);
        assert_has(&given, &["state version    1\n"]);
    }
}

#[test]
fn a_file_that_is_no_chain_specification() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spec.json");
    let path = file.to_str().unwrap();
    assert_has(&error(&["genesis", path]), &[path]);
    for (content, expected) in [
        ("dear", "expected JSON"),
        ("{}", "expected a `genesis` or a `top` field"),
        ("[1]", "expected a raw chain specification"),
        (r#"{"top": {"0x01": "0xzz"}}"#, "expected 0x"),
        (
            r#"{"genesis": {"runtimeGenesis": {}}}"#,
            "expected `genesis.raw`",
        ),
    ] {
        fs::write(&file, content).unwrap();
        assert_has(&error(&["genesis", path]), &[path, expected]);
    }
}

#[test]
#[ignore = "needs the real chain data"]
fn the_geneses_of_public_chains() {
    let data = expect_data();
    let rows = fs::read(data.join("genesis-roots.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&rows).unwrap();
    assert_eq!(rows.len(), 8);
    let mut told = 0;
    for row in rows {
        let field = |name: &str| row[name].as_str().unwrap();
        let file = data.join(format!("chain-specs/{}.json.gz", field("spec")));
        let version = field("state_version").trim_start_matches('V');
        let file = file.to_str().unwrap();
        let text = printed(&["genesis", file, "--state-version", version]);
        assert_has(&text, &[field("state_root"), field("genesis_hash")]);
        let report: Value = serde_json::from_str(&printed(&["genesis", file, "--json"])).unwrap();
        if report["state_version_from"] == "runtime" {
            told += 1;
        }
        assert_eq!(report["state_root"], row["state_root"]);
    }
    // The builds of the others are too old.
    assert_eq!(told, 3);
}

/// Each error has a `help:` line below it.
#[test]
fn errors_come_with_help() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.json");
    fs::write(&file, "{}").unwrap();
    let path = file.to_str().unwrap();
    for (command, help) in [
        ("block --accounts 1", "`--accounts`"),
        ("block --call transfer_all --accounts 10", "`--transfers`"),
        ("block --state memory --db x", "`--state parity-db`"),
        (
            &format!("block --db {path}"),
            "a folder that does not exist yet",
        ),
        (&format!("genesis {path}"), "raw chain specification"),
        ("genesis no-such-file", "the file exists"),
        (&format!("replay {path}"), "docs/integration.md"),
        ("compare overlay --rounds 1 --only no-such", "omit `--only`"),
        (&format!("diff {path} {path}"), "make one with"),
    ] {
        let message = error(&command.split(' ').collect::<Vec<_>>());
        let lines: Vec<_> = message.lines().collect();
        assert_eq!(lines.len(), 2, "{command}: {message}");
        assert!(lines[0].starts_with("error: "), "{command}: {message}");
        assert!(lines[1].starts_with("help: "), "{command}: {message}");
        assert_has(lines[1], &[help]);
    }
    let keys = error(&["compare", "root", "--keys", "5"]);
    assert_has(&keys, &["expected 100 or more"]);
    let keys = error(&["compare", "estimator", "--keys", "10000,9999"]);
    assert_has(&keys, &["expected 10000 or more"]);
}
