//! Checks the output of `--json` against the schemas in `docs/schemas`. A field that is added, removed
//! or changes its type fails here.

#![allow(clippy::unwrap_used)]

use jsonschema::Validator;
use povmeter_dev_data::expect_data;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn schema(name: &str) -> Value {
    let path = docs().join(format!("schemas/{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::meta::validate(schema).unwrap();
    jsonschema::draft202012::new(schema).unwrap()
}

/// What the program printed, which must match the schema `name`.
#[track_caller]
fn printed(name: &str, args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_povmeter"));
    // The only comparison that needs the recorded block.
    if args.starts_with(&["compare", "pool"]) {
        command.env("POVMETER_DATA", expect_data());
    }
    let program = command.args(args).arg("--json").output().unwrap();
    let errors = String::from_utf8(program.stderr).unwrap();
    assert!(program.status.success(), "{args:?}: {errors}");
    let report: Value = serde_json::from_slice(&program.stdout).unwrap();
    let validator = validator(&schema(name));
    let wrong = validator.iter_errors(&report);
    let wrong: Vec<_> = wrong
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{args:?}: {}", wrong.join("\n"));
    report
}

const SMALL: [&str; 6] = [
    "--accounts",
    "100",
    "--transfers",
    "10",
    "--state",
    "memory",
];

fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [args, more].concat()
}

#[test]
fn a_block() {
    let report = printed("block", &with(&["block", "--no-attribute"], &SMALL));
    assert!(report["proof_bytes"]["attribution"].is_null() && report["pov_limit"].is_null());
    let report = printed("block", &with(&["block", "--pov-limit", "10MiB"], &SMALL));
    assert!(report["proof_bytes"]["attribution"].is_object());
    assert_eq!(
        report["pov_limit"]["collator_limit"],
        10 * 1_024 * 1_024 * 85 / 100
    );
    let none = ["block", "--accounts", "100", "--transfers", "0"];
    let report = printed("block", &none);
    assert!(report["growth_bytes"].is_null());
}

#[test]
fn ways_to_build_a_block() {
    let args = with(
        &["compare", "block", "--rounds", "1", "--workers", "2"],
        &SMALL,
    );
    printed("compare-block", &args);
}

#[test]
fn a_chain() {
    let args = "chain --accounts 200 --transfers 10 --blocks 5 --keep 2";
    let report = printed("chain", &args.split(' ').collect::<Vec<_>>());
    assert_eq!(report["rows"].as_array().unwrap().len(), 5);
    assert!(report["rows"][4]["prune_ms"].as_f64().unwrap() > 0.0);
    // The first block loads what the others need, too.
    let asked = |row: usize| report["rows"][row]["nodes_asked"].as_u64().unwrap();
    assert!(asked(4) < asked(0), "{} and {}", asked(4), asked(0));
}

/// Each transfer empties its sender, so each block needs others.
#[test]
fn a_chain_of_deletions() {
    let args = "chain --call transfer_all --accounts 200 --transfers 20 --blocks 5";
    let report = printed("chain", &args.split(' ').collect::<Vec<_>>());
    let proof = |row: usize| report["rows"][row]["proof_bytes"].as_u64().unwrap();
    assert!(2 * proof(4) > proof(0), "{} and {}", proof(4), proof(0));
}

#[test]
fn estimates() {
    let args = "compare estimator --cases 1 --keys 10000";
    printed("compare-estimator", &args.split(' ').collect::<Vec<_>>());
}

#[test]
fn roots() {
    let args = "compare root --cases 1 --rounds 1 --keys 500";
    printed("compare-root", &args.split(' ').collect::<Vec<_>>());
}

#[test]
fn the_overlay() {
    let args = "compare overlay --rounds 1 --only get";
    printed("compare-overlay", &args.split(' ').collect::<Vec<_>>());
}

#[test]
fn caches() {
    let args = "compare cache --accounts 500 --blocks 4 --touched 20 --access zipf --writes 50 --bytes 200";
    let report = printed("compare-cache", &args.split(' ').collect::<Vec<_>>());
    assert_eq!(report["rows"].as_array().unwrap().len(), 15);
}

/// The columns that other programs read, and as many rows as asked for.
#[test]
fn blocks_in_parallel() {
    let args = "compare parallel --transactions 60 --cost-us 0,10 --workers 1,2 --rounds 1";
    let report = printed("compare-parallel", &args.split(' ').collect::<Vec<_>>());
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7 * 2 * 5);
    for row in rows {
        assert_eq!(row["same_as_sequential"], true, "{row}");
        assert!(row["ms"].as_f64().unwrap() > 0.0, "{row}");
        for count in ["bytes", "allocations"] {
            assert!(row[count].as_u64().unwrap() > 0, "{row}");
        }
    }
    assert_eq!(report["shapes"].as_array().unwrap().len(), 7 * 5);
    assert_eq!(report["model"].as_array().unwrap().len(), 7 * 2);
}

#[cfg(feature = "wasm")]
#[test]
fn validations() {
    let args = [
        "compare",
        "validation",
        "--accounts",
        "100",
        "--usual-accounts",
        "100",
    ];
    let args = with(&args, &["--transfers", "24", "--rounds", "1"]);
    let report = printed("compare-validation", &args);
    assert_eq!(report["rows"].as_array().unwrap().len(), 5);
}

#[test]
#[ignore = "needs the real chain data"]
fn pooled_blocks() {
    expect_data();
    printed("compare-pool", &["compare", "pool"]);
}

#[test]
fn a_genesis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    fs::write(&path, r#"{"top": {"0x01": "0x02"}}"#).unwrap();
    let report = printed("genesis", &["genesis", path.to_str().unwrap()]);
    assert!(report["name"].is_null());
}

#[test]
#[ignore = "needs the real chain data"]
fn the_genesis_of_a_chain() {
    let path = expect_data().join("chain-specs/paseo.json.gz");
    printed("genesis", &["genesis", path.to_str().unwrap()]);
}

#[test]
fn maintenance_of_a_state_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let [state, copy] = ["state", "copy"].map(|name| folder.path().join(name));
    let [state, copy] = [&state, &copy].map(|path| path.to_str().unwrap());
    let block = [
        "block",
        "--accounts",
        "100",
        "--transfers",
        "10",
        "--db",
        state,
    ];
    printed("block", &block);
    let verified = printed("db-verify", &["db", "verify", state]);
    assert_eq!(
        (&verified["intact"], &verified["states"]),
        (&true.into(), &1.into())
    );
    let stat = printed("db-stat", &["db", "stat", state]);
    assert_eq!(stat["nodes"], verified["nodes"]);
    let copied = printed("db-backup", &["db", "backup", state, copy]);
    assert_eq!(copied["nodes"], stat["nodes"]);
    assert_eq!(printed("db-stat", &["db", "stat", copy]), stat);
    let pruned = printed("db-prune", &["db", "prune", copy, "--keep", "1"]);
    assert_eq!(pruned["states"], stat["states"]);
}

#[test]
fn two_results() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, transfers: &str| {
        let path = folder.path().join(name);
        let args = ["block", "--accounts", "100", "--transfers", transfers];
        let report = printed("block", &with(&args, &["--state", "memory"]));
        fs::write(&path, report.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (a, b) = (file("a.json", "5"), file("b.json", "6"));
    let report = printed("diff", &["diff", &a, &b, "--allow-different"]);
    assert_eq!(report["different_options"][0]["name"], "transfers");
    printed("diff", &["diff", &a, &a, "--fail-above", "0"]);
}

#[cfg(feature = "wasm")]
#[test]
#[ignore = "needs the real chain data"]
fn blocks_of_a_chain() {
    let data = expect_data();
    let path = data.join("blocks/child-trie-read-basic.json");
    for more in [&[][..], &["--lockstep"], &["--peer"], &["--attribute"]] {
        let args = with(&["replay", path.to_str().unwrap()], more);
        printed("replay", &args);
    }
}

/// All objects in a schema.
fn objects<'a>(schema: &'a Value, found: &mut Vec<&'a serde_json::Map<String, Value>>) {
    match schema {
        Value::Object(fields) => {
            found.push(fields);
            fields.values().for_each(|value| objects(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| objects(value, found)),
        _ => {}
    }
}

fn schema_names() -> BTreeSet<String> {
    let files = fs::read_dir(docs().join("schemas")).unwrap();
    let names = files.map(|file| file.unwrap().path());
    names
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn schemas_are_strict_and_say_what_each_field_is() {
    assert_eq!(schema_names().len(), 20);
    for name in schema_names() {
        let schema = schema(&name);
        validator(&schema);
        let mut found = Vec::new();
        objects(&schema, &mut found);
        for object in found {
            let Some(Value::Object(properties)) = object.get("properties") else {
                continue;
            };
            assert_eq!(object["additionalProperties"], false, "{name}: {object:?}");
            for (field, value) in properties {
                let described = value.get("description").is_some() || value.get("$ref").is_some();
                assert!(described, "{name}: {field}");
            }
        }
    }
}

/// Each field is named in the part of `docs/json.md` on its output.
#[test]
fn the_page_names_every_field() {
    let page = fs::read_to_string(docs().join("json.md")).unwrap();
    for name in schema_names() {
        let link = format!("(schemas/{name}.json)");
        let part = page.split("\n## ").find(|part| part.contains(&link));
        let part = part.unwrap_or_else(|| panic!("no part with {link}"));
        // Fields that several outputs have are in a part of their own.
        let shared = page.split("\n## ").filter(|other| {
            let heading = other.lines().next().unwrap_or_default().to_lowercase();
            part.contains(&format!("(#{heading})"))
        });
        let part = [part].into_iter().chain(shared).collect::<String>();
        let schema = schema(&name);
        let mut found = Vec::new();
        objects(&schema, &mut found);
        let properties = found.iter().filter_map(|object| object.get("properties"));
        for field in properties.flat_map(|properties| properties.as_object().unwrap().keys()) {
            // Fields that begin all outputs are before the first part.
            let common = ["what", "schema"].contains(&field.as_str());
            let [alone, inside] = [format!("`{field}`"), format!(".{field}`")];
            let named = part.contains(&alone) || part.contains(&inside);
            assert!(common || named, "{name}: no {alone}");
        }
    }
}

/// Tests the test: a wrong output is refused.
#[test]
fn another_form_is_refused() {
    let mut report = printed("block", &with(&["block"], &SMALL));
    let validator = validator(&schema("block"));
    assert!(validator.is_valid(&report));
    report["proof_bytes"]["recorded"] = "many".into();
    assert!(!validator.is_valid(&report));
    report["proof_bytes"]["recorded"] = 5.into();
    report["proof_bytes"]["more"] = 5.into();
    assert!(!validator.is_valid(&report));
    report["proof_bytes"]
        .as_object_mut()
        .unwrap()
        .remove("more");
    assert!(validator.is_valid(&report));
    report.as_object_mut().unwrap().remove("root");
    assert!(!validator.is_valid(&report));
}
