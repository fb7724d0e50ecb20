//! The attribution that the program reports: each breakdown adds up to the byte.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
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
fn printed(args: &[&str]) -> String {
    let (printed, errors, done) = povmeter(args);
    assert!(done && errors.is_empty(), "{args:?}: {errors}");
    printed
}

#[track_caller]
fn error(args: &[&str]) -> String {
    let (printed, errors, done) = povmeter(args);
    assert!(!done && printed.is_empty(), "{printed}");
    assert!(!errors.contains("thread '"), "{errors}");
    errors
}

const SMALL: [&str; 9] = [
    "block",
    "--accounts",
    "100",
    "--transfers",
    "10",
    "--state",
    "memory",
    "--signatures",
    "free",
];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

const CAUSES: [&str; 5] = ["read", "root", "sibling", "value", "shared"];

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// The sum of all `causes`.
fn of_causes(causes: &Value) -> u64 {
    CAUSES.iter().map(|cause| number(&causes[cause])).sum()
}

/// Checks that each breakdown adds up to `recorded`, and the causes of each row to its bytes.
#[track_caller]
fn assert_adds_up(proof: &Value) {
    let recorded = number(&proof["recorded"]);
    let attribution = &proof["attribution"];
    assert_eq!(number(&attribution["recorded"]), recorded);
    assert_eq!(of_causes(&attribution["by_cause"]), recorded);
    for breakdown in ["by_extrinsic", "by_item"] {
        let rows = attribution[breakdown].as_array().unwrap();
        let sum = |what: &str| rows.iter().map(|row| number(&row[what])).sum::<u64>();
        assert_eq!(sum("bytes"), recorded, "{breakdown}");
        assert_eq!(sum("nodes"), number(&proof["nodes"]), "{breakdown}");
        for cause in CAUSES {
            let whole = number(&attribution["by_cause"][cause]);
            assert_eq!(sum(cause), whole, "{breakdown}, {cause}");
        }
        for row in rows {
            assert_eq!(of_causes(row), number(&row["bytes"]), "{row}");
        }
    }
    let overhead = &attribution["overhead"];
    let encoded = recorded + number(&overhead["list_prefix"]);
    assert_eq!(encoded, number(&proof["encoded"]));
    let saved = number(&overhead["compact_saves"]);
    assert_eq!(encoded - saved, number(&proof["compact"]));
}

fn item<'a>(attribution: &'a Value, name: &str) -> Option<&'a Value> {
    let rows = attribution["by_item"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name)
}

#[test]
fn every_byte_of_transfers_has_an_owner() {
    for call in ["transfer_keep_alive", "transfer_all"] {
        let args = "block --attribute --json --state memory --signatures free --call";
        let args: Vec<_> = args.split(' ').chain([call]).collect();
        let report: Value = serde_json::from_str(&printed(&args)).unwrap();
        let proof = &report["proof_bytes"];
        assert_adds_up(proof);
        let attribution = &proof["attribution"];
        let parts = attribution["by_extrinsic"].as_array().unwrap();
        // If nothing is deleted, an extrinsic's bytes are what the estimate grows by. The first
        // transfer is left out, because it deletes: a node that is merged belongs to it and to the
        // deletions before it.
        if call == "transfer_keep_alive" {
            let totals = report["estimates"].as_array().unwrap().iter();
            let totals: Vec<_> = totals.map(|size| number(&size["total"])).collect();
            for row in parts.iter().filter(|row| row["phase"] == "extrinsic") {
                let index = usize::try_from(number(&row["index"])).unwrap();
                if index > 1 {
                    assert_eq!(number(&row["bytes"]), totals[index] - totals[index - 1]);
                }
            }
        }
        assert_eq!(parts[0]["phase"], "initialize");
        assert!(number(&item(attribution, "System.Account").unwrap()["read"]) > 50_000);
        // A deleted account leaves siblings that are merged.
        let siblings = number(&attribution["by_cause"]["sibling"]);
        assert_eq!(siblings > 0, call == "transfer_all", "{siblings}");
        let checks = report["checks"].as_array().unwrap();
        let check = checks
            .iter()
            .find(|check| check["name"] == "attribution adds up");
        assert_eq!(check.unwrap()["holds"], true);
    }
}

#[test]
fn the_attribution_is_brief_unless_it_is_asked_for_and_can_be_left_out() {
    let none = small(&["--json", "--no-attribute"]);
    let report: Value = serde_json::from_str(&printed(&none)).unwrap();
    assert!(report["proof_bytes"]["attribution"].is_null());
    assert_eq!(report["checks"].as_array().unwrap().len(), 5);
    // The JSON has the whole attribution with and without the option.
    let [brief, asked] = [&["--json"][..], &["--json", "--attribute"]].map(|more| {
        let report: Value = serde_json::from_str(&printed(&small(more))).unwrap();
        report["proof_bytes"]["attribution"].clone()
    });
    assert_eq!(brief, asked);
    let text = printed(&small(&[]));
    for part in [
        "--attribute shows all tables",
        "item (5 of ",
        "an extrinsic has ",
    ] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert!(!text.contains("first needed by"), "{text}");
}

#[test]
fn shared_bytes_are_divided_and_have_a_depth() {
    let report: Value = serde_json::from_str(&printed(&small(&["--json"]))).unwrap();
    let proof = &report["proof_bytes"];
    let attribution = &proof["attribution"];
    let sum = |rows: &str, what: &str| -> u64 {
        let rows = attribution[rows].as_array().unwrap();
        rows.iter().map(|row| number(&row[what])).sum()
    };
    let recorded = number(&proof["recorded"]);
    assert_eq!(sum("by_extrinsic", "divided"), recorded);
    assert_eq!(sum("by_depth", "bytes"), recorded);
    assert_eq!(sum("by_depth", "nodes"), number(&proof["nodes"]));
    let shared = number(&attribution["by_cause"]["shared"]);
    assert_eq!(sum("by_depth", "shared"), shared);
    // Each part of the block needs the root.
    let parts = attribution["by_extrinsic"].as_array().unwrap().len();
    assert_eq!(attribution["by_depth"][0]["needed_by"], parts as f64);
    assert_eq!(attribution["by_depth"][0]["nodes"], 1);
}

#[test]
fn tables_of_so_many_rows() {
    let text = printed(&small(&["--attribute"]));
    for part in [
        "bytes recorded",
        "cause ",
        "item (",
        "System.Account",
        "first needed by extrinsic (",
        "  divided",
        "nodes above it",
        "initialize",
        "ok     attribution adds up",
    ] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    // `--top` alone asks for the attribution, too.
    let text = printed(&small(&["--top", "2"]));
    assert!(text.contains("item (2 of "), "{text}");
    assert!(text.contains(" more  "), "{text}");
}

#[test]
fn names_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.txt");
    let path = file.to_str().unwrap();
    // The prefix of System.Account.
    let prefix = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9";
    fs::write(&file, format!("# mine\n{prefix} My.Accounts\n")).unwrap();
    let args = small(&["--json", "--names", path]);
    let report: Value = serde_json::from_str(&printed(&args)).unwrap();
    let attribution = &report["proof_bytes"]["attribution"];
    assert!(item(attribution, "My.Accounts").is_some());
    assert!(item(attribution, "System.Account").is_none());

    fs::write(&file, "System\nSystem;Account").unwrap();
    let message = error(&args);
    assert!(
        message.contains("names.txt: line 2: expected `Pallet`"),
        "{message}"
    );
    let missing = error(&small(&["--names", "none.txt"]));
    assert!(missing.contains("none.txt"), "{missing}");
}

#[test]
fn stacks_and_a_picture_of_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (folded, svg) = (path("a.folded"), path("a.svg"));
    let args = small(&["--json", "--folded", &folded, "--flamegraph", &svg]);
    let report: Value = serde_json::from_str(&printed(&args)).unwrap();
    assert_adds_up(&report["proof_bytes"]);
    let recorded = number(&report["proof_bytes"]["recorded"]);
    let stacks = fs::read_to_string(&folded).unwrap();
    let bytes = stacks.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let sum: u64 = bytes.map(|bytes| bytes.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, recorded);
    assert!(stacks.contains("System;Account;read "), "{stacks}");
    let picture = fs::read_to_string(&svg).unwrap();
    assert!(picture.contains("<svg") && picture.contains(&format!("{recorded} bytes")));
    printed(&args);
    assert_eq!(fs::read_to_string(&svg).unwrap(), picture);

    // The error comes before anything is built.
    let nowhere = path("none/a.svg");
    let message = error(&small(&["--flamegraph", &nowhere]));
    assert!(message.contains("a folder that exists"), "{message}");
}
