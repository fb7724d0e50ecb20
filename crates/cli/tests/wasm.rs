//! Runtimes in wasm, as users run them.

#![allow(clippy::unwrap_used)]

use std::{fs, process::Command};

/// What the program printed to stdout and to stderr, and whether it succeeded.
fn povmeter(args: &[&str]) -> (String, String, bool) {
    let program = env!("CARGO_BIN_EXE_povmeter");
    let output = Command::new(program).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let done = output.status.success();
    (text(output.stdout), text(output.stderr), done)
}

#[track_caller]
fn error(args: &[&str]) -> String {
    let (printed, errors, done) = povmeter(args);
    assert!(!done && printed.is_empty(), "{printed}");
    assert!(!errors.contains("thread '"), "{errors}");
    errors
}

#[test]
fn files_that_are_no_blocks_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocks.json");
    let replay = |content: &str| {
        fs::write(&path, content).unwrap();
        error(&["replay", path.to_str().unwrap()])
    };
    assert!(replay("[]").contains("blocks.json: expected a file of blocks"));
    let empty = r#"{"name":"a","state":"s","state_version":"V1","blocks":[]}"#;
    assert!(replay(empty).contains("expected at least one block, found none"));
    let missing = error(&["replay", folder.path().join("none").to_str().unwrap()]);
    assert!(missing.contains("none"), "{missing}");
    let both = error(&["replay", "x", "--peer", "--lockstep"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[cfg(not(feature = "wasm"))]
#[test]
fn a_program_without_wasm_says_so() {
    let message = error(&["block", "--runtime", "wasm"]);
    assert!(message.contains("--features wasm"), "{message}");
}

#[cfg(not(feature = "wasm"))]
#[test]
#[ignore = "needs the real chain data"]
fn a_program_without_wasm_replays_nothing() {
    let path = povmeter_dev_data::expect_data().join("blocks/polkadot-1.json");
    let message = error(&["replay", path.to_str().unwrap()]);
    assert!(message.contains("--features wasm"), "{message}");
}

#[cfg(feature = "wasm")]
mod with_wasm {
    use super::*;
    use codec::Encode;
    use povmeter_dev_data::{
        expect_data,
        wasm::{Parachain, ParachainAuthor},
    };
    use povmeter_dev_runtime::{CallKind, Plan, PlanOptions};
    use povmeter_remote::Recording;
    use povmeter_substrate::SizeSource;
    use serde_json::{json, Map, Value};
    use std::{
        collections::BTreeMap,
        path::{Path, PathBuf},
    };

    #[track_caller]
    fn report(args: &[&str]) -> Value {
        let (printed, errors, done) = povmeter(args);
        assert!(done && errors.is_empty(), "{args:?}: {errors}");
        serde_json::from_str(&printed).unwrap()
    }

    fn replayed(file: &Path, more: &[&str]) -> Value {
        report(&[&["replay", "--json", file.to_str().unwrap()], more].concat())
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn real_blocks_in_each_mode() {
        let data = expect_data();
        let file = data.join("blocks/child-trie-read-basic.json");
        for (mode, on, checks) in [
            (&[][..], "povmeter", 9),
            (&["--every-node"], "povmeter", 10),
            (&["--lockstep"], "both in lockstep", 6),
            (&["--peer"], "sp-state-machine", 2),
        ] {
            let report = replayed(&file, mode);
            assert_eq!(report["on"], on);
            let block = &report["blocks"][0];
            assert_eq!(
                (&block["number"], &block["recorded"]),
                (&3.into(), &25_008.into())
            );
            assert_eq!(block["estimate_after_last"].is_null(), mode == ["--peer"]);
            let held = report["checks"].as_array().unwrap();
            assert_eq!(held.len(), checks, "{on}");
            assert!(held.iter().all(|check| check["holds"] == 1), "{report}");
        }
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn real_blocks_by_extrinsic_item_and_cause() {
        let data = expect_data();
        for (file, item) in [
            ("westend-1-64", "RandomnessCollectiveFlip.RandomMaterial"),
            ("polkadot-1", "Babe.Authorities"),
            ("kusama-1", "Babe.Authorities"),
            ("child-trie-create-one", "System.Account"),
            ("child-trie-read-basic", "Contracts.CodeStorage"),
        ] {
            let path = data.join(format!("blocks/{file}.json"));
            let folder = tempfile::tempdir().unwrap();
            let folded = folder.path().join("folded");
            let report = replayed(&path, &["--folded", folded.to_str().unwrap()]);
            let (mut all, mut named) = (0, false);
            for block in report["blocks"].as_array().unwrap() {
                let recorded = block["recorded"].as_u64().unwrap();
                let attribution = &block["attribution"];
                for breakdown in ["by_extrinsic", "by_item"] {
                    let rows = attribution[breakdown].as_array().unwrap().iter();
                    let sum: u64 = rows.map(|row| row["bytes"].as_u64().unwrap()).sum();
                    assert_eq!(sum, recorded, "{file}, {breakdown}");
                }
                let causes = attribution["by_cause"].as_object().unwrap().values();
                let sum: u64 = causes.map(|bytes| bytes.as_u64().unwrap()).sum();
                assert_eq!(sum, recorded, "{file}");
                let rows = attribution["by_item"].as_array().unwrap();
                named |= rows.iter().any(|row| row["name"] == item);
                all += recorded;
            }
            assert!(named, "{file}: expected {item} in one of the blocks");
            let stacks = fs::read_to_string(folded).unwrap();
            let bytes = stacks.lines().map(|line| line.rsplit_once(' ').unwrap().1);
            let sum: u64 = bytes.map(|bytes| bytes.parse::<u64>().unwrap()).sum();
            assert_eq!(sum, all, "{file}");
            let checks = report["checks"].as_array().unwrap();
            assert!(checks
                .iter()
                .any(|check| check["name"] == "attribution adds up"));
        }
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn a_page_of_real_blocks() {
        let data = expect_data();
        let folder = tempfile::tempdir().unwrap();
        let page = |file: &str, more: &[&str]| {
            let file = data.join("blocks").join(file);
            let files = [
                file.to_str().unwrap(),
                "--report",
                folder.path().to_str().unwrap(),
            ];
            let (_, said, done) = povmeter(&[&["replay"], &files[..], more].concat());
            assert!(done && said.starts_with("report: "), "{said}");
            fs::read_to_string(folder.path().join("index.html")).unwrap()
        };
        let html = page("child-trie-read-basic.json", &["--pov-limit", "20KiB"]);
        for part in [
            "25,008 B",
            "Block 3, extrinsic by extrinsic",
            "crossed at extrinsic",
            "limit of 20,480 B (20 KiB)",
        ] {
            assert!(html.contains(part), "{part}");
        }
        // sp-state-machine does not know the root's share.
        let html = page("child-trie-read-basic.json", &["--peer"]);
        assert!(html.contains("have been read") && !html.contains("the root’s share"));
        let html = page("westend-1-64.json", &[]);
        for part in [
            "largest proof",
            "block 64",
            "One of the blocks with the largest",
        ] {
            assert!(html.contains(part), "{part}");
        }
    }

    /// A block of a parachain made by `author`, in files of `folder`.
    fn parachain_block(folder: &Path, author: ParachainAuthor) -> PathBuf {
        let options = PlanOptions {
            accounts: 40,
            transfers: 8,
            // Deletes the sender, so that the root needs siblings.
            call: CallKind::TransferAll,
            ..PlanOptions::default()
        };
        let chain = Parachain::new(Plan::new(options).unwrap(), BTreeMap::new()).unwrap();
        let (blocks, _) = chain.block(author, Vec::new()).unwrap();
        let block = &blocks.blocks[0];
        let prefixed = |bytes: &[u8]| format!("0x{}", hex::encode(bytes));
        let top = chain.state().top.iter();
        let top = top.map(|(key, value)| (prefixed(key), Value::from(prefixed(value))));
        let state = json!({ "top": top.collect::<Map<_, _>>(), "childrenDefault": {} });
        fs::write(folder.join("state.json"), state.to_string()).unwrap();
        let file = json!({
            "name": "parachain",
            "state": "state.json",
            "state_version": "V1",
            "blocks": [{
                "number": 1,
                "hash": hex::encode(block.hash),
                "header": hex::encode(block.header.encode()),
                "body": block.body.iter().map(hex::encode).collect::<Vec<_>>(),
            }],
        });
        let path = folder.join("blocks.json");
        fs::write(&path, file.to_string()).unwrap();
        path
    }

    #[test]
    fn a_chain_with_the_proof_size_in_consensus() {
        let folder = tempfile::tempdir().unwrap();
        let in_folder = |name: &str| folder.path().join(name);
        let stock = parachain_block(folder.path(), ParachainAuthor::Stock);
        let record = in_folder("sizes.json");
        let write = ["--write-sizes", record.to_str().unwrap()];
        let report = replayed(&stock, &write);
        assert_eq!(report["sizes"], "reads");
        assert!(report["blocks"][0]["sizes_told"].as_u64().unwrap() >= 6);
        let report = replayed(&stock, &["--sizes", record.to_str().unwrap()]);
        assert_eq!(report["sizes"], "record");
        let (text, _, _) = povmeter(&["replay", stock.to_str().unwrap()]);
        assert!(
            text.contains("questions for the proof size, answered from: reads"),
            "{text}"
        );

        let refused = |sizes: &str| error(&["replay", stock.to_str().unwrap(), "--sizes", sizes]);
        let message = refused("estimate");
        for part in [
            "block 1: the runtime failed, after it asked for the proof size",
            "was told the estimate, which includes the root",
            "help: pass to `--sizes` what the block's author told the runtime",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let message = refused("nowhere.json");
        assert!(
            message.contains("nowhere.json: expected `reads`, `estimate` or a file of sizes"),
            "{message}"
        );
        // A record with a size too many, and one with a size too few.
        let whole: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        let sizes = whole["blocks"][0]["sizes"].as_array().unwrap();
        let more = [&sizes[..], &[9.into()]].concat();
        for (sizes, part) in [
            (&more[..], "questions for the proof size, found"),
            (&sizes[1..], "questions for the proof size, found one more"),
        ] {
            let mut record = whole.clone();
            record["blocks"][0]["sizes"] = sizes.into();
            let path = in_folder("other-count.json");
            fs::write(&path, record.to_string()).unwrap();
            let message = refused(path.to_str().unwrap());
            let advice = "help: pass to `--sizes` what the block's author told the runtime";
            assert!(message.contains(advice), "{message}");
            assert!(message.contains(part), "{message}");
        }
        let other = in_folder("other.json");
        fs::write(&other, r#"{"what":"proof-sizes","schema":1,"blocks":[]}"#).unwrap();
        let message = refused(other.to_str().unwrap());
        assert!(
            message.contains("expected its proof sizes in the record, found none"),
            "{message}"
        );
        let peer = [
            "replay",
            stock.to_str().unwrap(),
            "--peer",
            "--sizes",
            "estimate",
        ];
        assert!(error(&peer).contains("found `--sizes estimate`"));

        let estimate = ParachainAuthor::Povmeter(SizeSource::Estimate);
        let estimated = parachain_block(folder.path(), estimate);
        let report = replayed(&estimated, &["--sizes", "estimate"]);
        assert_eq!(report["sizes"], "estimate");
        let message = error(&["replay", estimated.to_str().unwrap()]);
        assert!(
            message.contains("was told the bytes read so far"),
            "{message}"
        );
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn a_block_on_another_state_is_an_error() {
        let data = expect_data();
        // Kusama's first block on Polkadot's genesis.
        let folder = tempfile::tempdir().unwrap();
        let block = fs::read_to_string(data.join("blocks/kusama-1.json")).unwrap();
        let spec = data.join("chain-specs/polkadot.json.gz");
        let block = block.replace("../chain-specs/kusama.json.gz", spec.to_str().unwrap());
        let path = folder.path().join("mixed.json");
        fs::write(&path, block).unwrap();
        for mode in ["--json", "--peer", "--lockstep"] {
            let message = error(&["replay", path.to_str().unwrap(), mode]);
            assert!(message.contains("block 1: the runtime failed"), "{message}");
        }
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn transfers_on_the_runtime_of_a_chain() {
        let data = expect_data();
        let spec = |name: &str| data.join(format!("chain-specs/{name}.json.gz"));
        let paseo = spec("paseo");
        let args = ["block", "--json", "--transfers", "5", "--chain-spec"];
        let paseo = report(&[&args[..], &[paseo.to_str().unwrap()]].concat());
        assert_eq!(paseo["blocks"][0]["extrinsics"], 7);
        // An old runtime, whose metadata is not supported.
        let westend = spec("westend");
        let message = error(&[&args[..], &[westend.to_str().unwrap()]].concat());
        assert!(message.contains("can't build the transfers"), "{message}");
        let both = error(&["block", "--chain-spec", "x", "--accounts", "3"]);
        assert!(both.contains("cannot be used with"), "{both}");
    }

    #[test]
    #[ignore = "takes long: it fills a block. Needs the real chain data"]
    fn takes_long_to_fill_a_block() {
        let paseo = expect_data().join("chain-specs/paseo.json.gz");
        let args = ["block", "--transfers", "6000", "--chain-spec"];
        let message = error(&[&args[..], &[paseo.to_str().unwrap()]].concat());
        let (error, help) = message.split_once('\n').unwrap();
        let full = "expected a block with room for all 6002 extrinsics, found it full at number";
        assert!(error.contains(full), "{message}");
        assert_eq!(help, "help: lower `--transfers`\n");
    }

    /// The recorded block. The file has the nodes of the state that this block reads, and no others.
    fn recording() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kusama-1.povmeter")
    }

    #[test]
    fn an_item_that_needs_more_than_a_recording_has() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fewer.povmeter");
        let mut fewer = Recording::from_bytes(&fs::read(recording()).unwrap()).unwrap();
        fewer.nodes.retain(|node| node.len() > 400_000);
        assert_eq!(fewer.nodes.len(), 1);
        fs::write(&file, fewer.to_bytes().unwrap()).unwrap();
        let args = ["dry-run", file.to_str().unwrap(), "--extrinsic", "0x0400"];
        let message = error(&args);
        let parts = [
            "in the recording, which has",
            "\nhelp: a recording holds only",
        ];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }

    /// A runtime of this name. It reads the key of one byte that is the encoded length of the name.
    fn frugal_runtime(spec_name: &str) -> Vec<u8> {
        // The state version and the transactions' follow the list of APIs.
        let fields = (spec_name, "impl", 1u32, 1_000_000u32, 1u32);
        let bytes = (fields, Vec::<([u8; 8], u32)>::new(), 1u32, 0u8).encode();
        let escaped = bytes.iter().map(|byte| format!("\\{byte:02x}"));
        let answer = (bytes.len() as u64) << 32;
        let module = format!(
            r#"(module
                (import "env" "memory" (memory 18))
                (import "env" "ext_storage_exists_version_1" (func $exists (param i64) (result i32)))
                (global (export "__heap_base") i32 (i32.const 65536))
                (data (i32.const 0) "{}")
                (func (export "Core_version") (param i32 i32) (result i64) (i64.const {answer}))
                (func (export "Core_initialize_block") (param i32 i32) (result i64)
                    (drop (call $exists (i64.const 0x100000000)))
                    (i64.const 0)))"#,
            escaped.collect::<String>()
        );
        wat::parse_str(module).unwrap()
    }

    #[test]
    fn a_runtime_that_the_chain_would_refuse() {
        let folder = tempfile::tempdir().unwrap();
        let code = folder.path().join("new.wasm");
        let (file, code_name) = (recording(), code.to_str().unwrap());
        let args = ["dry-run", file.to_str().unwrap(), "--runtime", code_name];
        for (name, accepted) in [("kusama", true), ("rococo", false)] {
            fs::write(&code, frugal_runtime(name)).unwrap();
            let (printed, errors, done) = povmeter(&args);
            assert_eq!(done, accepted, "{errors}");
            // It reads nothing that the chain's own runtime does not read.
            assert!(printed.contains("It needs no further node"), "{printed}");
            let line = match accepted {
                true => "ok     accepted by set_code: its spec name is `kusama`",
                false => {
                    "FAILED accepted by set_code: expected the spec name `kusama`, found `rococo`"
                }
            };
            assert!(printed.contains(line), "{printed}");
            let help = "help: build the runtime of this chain";
            assert_eq!(errors.contains(help), !accepted, "{errors}");
            let (json, ..) = povmeter(&[&args[..], &["--json"]].concat());
            let report: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(report["checks"][0]["holds"], accepted);
        }
    }

    #[test]
    fn the_same_block_as_natively() {
        let block = |runtime| {
            let args = ["block", "--json", "--accounts", "100", "--transfers", "10"];
            report(&[&args[..], &["--state", "memory", "--runtime", runtime]].concat())
        };
        let native = block("native");
        for (runtime, name) in [("wasm", "wasm"), ("wasm-kept", "wasm_kept")] {
            let wasm = block(runtime);
            for part in ["parent_root", "root", "estimates", "told", "proof_bytes"] {
                assert_eq!(native[part], wasm[part], "{part}");
            }
            assert_eq!(wasm["options"]["runtime"], name);
        }
        let old = error(&["block", "--runtime", "wasm", "--state-version", "0"]);
        assert!(old.contains("expected `--state-version 1`"), "{old}");
    }
}
