//! `povmeter diff`, as users and CI run it.

#![allow(clippy::unwrap_used)]

use serde_json::{json, Value};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

struct Ended {
    code: Option<i32>,
    printed: String,
    errors: String,
}

fn povmeter(args: &[&str]) -> Ended {
    let program = env!("CARGO_BIN_EXE_povmeter");
    let output = Command::new(program).args(args).output().unwrap();
    Ended {
        code: output.status.code(),
        printed: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A folder with the result of a small block in `a.json`.
struct Results(TempDir);

impl Results {
    fn new() -> Self {
        let results = Self(tempfile::tempdir().unwrap());
        results.make(
            "a.json",
            "block --accounts 100 --transfers 5 --state memory",
        );
        results
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make(&self, name: &str, command: &str) {
        let mut args: Vec<_> = command.split(' ').collect();
        args.push("--json");
        let made = povmeter(&args);
        assert_eq!(made.code, Some(0), "{}", made.errors);
        fs::write(self.path(name), made.printed).unwrap();
    }

    fn read(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Writes `b.json`: `a.json` as `change` leaves it.
    fn change(&self, change: impl FnOnce(&mut Value)) {
        self.change_of("a.json", change);
    }

    /// Writes `b.json`: the file `a` as `change` leaves it.
    fn change_of(&self, a: &str, change: impl FnOnce(&mut Value)) {
        let mut result = self.read(a);
        change(&mut result);
        fs::write(self.path("b.json"), result.to_string()).unwrap();
    }

    fn diff(&self, a: &str, b: &str, more: &[&str]) -> Ended {
        let [a, b] = [a, b].map(|name| self.path(name));
        let [a, b] = [&a, &b].map(|path: &PathBuf| Path::to_str(path).unwrap());
        povmeter(&[&["diff", a, b], more].concat())
    }
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[test]
fn a_result_is_the_same_as_itself() {
    let results = Results::new();
    let same = results.diff("a.json", "a.json", &["--fail-above", "0"]);
    assert_eq!((same.code, &*same.errors), (Some(0), ""));
    assert_has(
        &same.printed,
        &[
            "proof: all 27 numbers are the same",
            "time: all 10 numbers",
            "ok     worse by more than allowed: 0",
        ],
    );
}

#[test]
fn exit_codes_are_for_ci() {
    let results = Results::new();
    results.change(|result| {
        let recorded = result["proof_bytes"]["recorded"].as_u64().unwrap();
        result["proof_bytes"]["recorded"] = (recorded * 11 / 10).into();
        // Much slower beside sp-state-machine than before, in all rounds.
        let beside = &mut result["beside_peer"];
        let ratio = beside["ratio"].as_f64().unwrap() / 1000.0;
        beside["ratio"] = ratio.into();
        beside["ratio_spread"] = json!({"low": ratio * 0.9, "high": ratio * 1.1});
        result["phases"]["total"]["cpu_ms"] = 1e6.into();
        result["phases"]["total"]["wall_ms"] = 1e6.into();
    });
    // Without a limit nothing fails, and a better number never fails.
    let told = results.diff("a.json", "b.json", &[]);
    assert_eq!((told.code, &*told.errors), (Some(0), ""));
    assert_has(&told.printed, &["proof_bytes/recorded", "worse"]);
    let better = results.diff("b.json", "a.json", &["--fail-above", "0"]);
    assert_eq!(better.code, Some(0), "{}", better.errors);

    for (limits, code) in [
        (&["--fail-above-proof", "0"][..], 3),
        (&["--fail-above-proof", "5"], 3),
        (&["--fail-above-proof", "11"], 0),
        (&["--fail-above-time", "50"], 3),
        (
            &[
                "--fail-above",
                "5",
                "--fail-above-time",
                "1e9",
                "--fail-above-proof",
                "11%",
            ],
            0,
        ),
    ] {
        let judged = results.diff("a.json", "b.json", limits);
        assert_eq!(judged.code, Some(code), "{limits:?}: {}", judged.errors);
        assert_eq!(judged.errors.is_empty(), code == 0, "{}", judged.errors);
        assert!(judged
            .printed
            .contains(if code == 0 { "ok     " } else { "FAILED " }));
    }
    let failed = results.diff("a.json", "b.json", &["--fail-above", "5"]);
    let named = ["beside_peer/ratio", "proof_bytes/recorded"];
    assert_has(&failed.errors, &named);
    // Times of one machine are shown but not judged.
    assert!(!failed.errors.contains("_ms"), "{}", failed.errors);

    for wrong in ["-1", "much", "NaN", "inf"] {
        let usage = results.diff("a.json", "b.json", &[&format!("--fail-above={wrong}")]);
        assert_eq!(usage.code, Some(2), "{wrong}");
        assert_has(&usage.errors, &["expected a number of percent"]);
    }
}

/// A size of one extrinsic, or one that the runtime got, is judged by a sum.
#[test]
fn every_size_of_a_block_counts() {
    let results = Results::new();
    for (list, field, named) in [
        ("estimates", Some("total"), "estimates: total sum"),
        ("told", None, "told: sum"),
    ] {
        results.change(|result| {
            let size = &mut result[list][1];
            let size = match field {
                Some(field) => &mut size[field],
                None => size,
            };
            *size = (size.as_u64().unwrap() + 1).into();
        });
        let judged = results.diff("a.json", "b.json", &["--fail-above-proof", "0"]);
        assert_eq!(judged.code, Some(3), "{}", judged.printed);
        assert_has(&judged.errors, &[named]);
    }
    // Sums of more and of fewer sizes are not comparable.
    results.change(|result| {
        result["told"].as_array_mut().unwrap().pop();
        result["growth_bytes"]["max"] = 1_000_000.into();
    });
    let shown = results.diff("b.json", "a.json", &["--fail-above-proof", "0"]);
    assert_eq!(shown.code, Some(0), "{}", shown.errors);
    assert_has(
        &shown.printed,
        &["told: count: ", "growth_bytes/max: 1000000 in A"],
    );
    let line = shown
        .printed
        .lines()
        .find(|line| line.contains("told: sum"));
    assert_has(line.unwrap(), &["worse, not judged"]);
    // No sum of numbers in a file overflows.
    results.change(|result| {
        for at in [0, 1] {
            result["told"][at] = u64::MAX.into();
            result["estimates"][at]["total"] = u64::MAX.into();
        }
    });
    let judged = results.diff("a.json", "b.json", &["--fail-above-proof", "0"]);
    assert_eq!(judged.code, Some(3), "{}", judged.errors);
    assert_has(&judged.errors, &["estimates: total sum", "told: sum"]);
}

#[test]
fn the_proofs_of_a_chain_are_judged() {
    let results = Results(tempfile::tempdir().unwrap());
    let command = "chain --accounts 100 --transfers 5 --blocks 3 --keep 2";
    results.make("a.json", command);
    results.make("again.json", command);
    let again = results.diff("a.json", "again.json", &["--fail-above-proof", "0"]);
    assert_eq!(again.code, Some(0), "{}", again.printed);
    results.change(|result| {
        let last = &mut result["rows"][2];
        for field in ["proof_bytes", "disk_bytes"] {
            last[field] = (last[field].as_u64().unwrap() + 1).into();
        }
    });
    let judged = results.diff("a.json", "b.json", &["--fail-above", "0"]);
    assert_eq!(judged.code, Some(3), "{}", judged.printed);
    assert_has(&judged.errors, &["found total: proof_bytes\n"]);
    let disk = "last block: disk_bytes";
    let line = judged.printed.lines().find(|line| line.contains(disk));
    assert_has(line.unwrap(), &["worse, not judged"]);
}

/// What the bytes of a proof belong to has no limit of its own, and says so.
#[test]
fn numbers_that_are_not_judged_are_marked() {
    let results = Results::new();
    results.change(|result| {
        let item = &mut result["proof_bytes"]["attribution"]["by_item"][0];
        item["bytes"] = (item["bytes"].as_u64().unwrap() * 2).into();
    });
    let told = results.diff("a.json", "b.json", &[]);
    assert!(!told.printed.contains("not judged"), "{}", told.printed);
    let limits = ["--fail-above", "0"];
    let judged = results.diff("a.json", "b.json", &limits);
    assert_eq!(judged.code, Some(0), "{}", judged.errors);
    assert_has(&judged.printed, &["worse, not judged"]);
    let json = results.diff("a.json", "b.json", &[&limits[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(&json.printed).unwrap();
    let change = &report["changes"][0];
    assert_eq!(
        (&change["judged"], &change["worse"]),
        (&false.into(), &true.into())
    );
}

/// Six runs of one program on a busy machine, as results of its blocks: none is worse than another.
#[test]
fn one_program_measured_twice_is_not_worse() {
    let results = Results::new();
    let runs = [
        (2.41, 2.30, 2.55),
        (2.05, 1.80, 2.35),
        (2.38, 2.31, 2.44),
        (2.62, 2.33, 2.90),
        (1.99, 1.62, 2.40),
        (2.44, 2.35, 2.52),
    ];
    for (at, (ratio, low, high)) in runs.into_iter().enumerate() {
        results.change(|result| {
            result["beside_peer"]["ratio"] = ratio.into();
            result["beside_peer"]["ratio_spread"] = json!({"low": low, "high": high});
            result["phases"]["total"]["cpu_ms"] = (10.0 * at as f64).into();
        });
        fs::copy(
            results.path("b.json"),
            results.path(&format!("run-{at}.json")),
        )
        .unwrap();
    }
    for a in 0..runs.len() {
        for b in 0..runs.len() {
            let [a, b] = [a, b].map(|at| format!("run-{at}.json"));
            let judged = results.diff(&a, &b, &["--fail-above-time", "10"]);
            assert_eq!(judged.code, Some(0), "{a} {b}: {}", judged.printed);
        }
    }
    let noise = results.diff("run-0.json", "run-1.json", &["--fail-above-time", "10"]);
    assert_has(
        &noise.printed,
        &["worse, may be noise", "times that may be noise: 1; repeat"],
    );
    // Really slower: the ranges of the rounds do not overlap.
    results.change(|result| {
        result["beside_peer"]["ratio"] = 1.9.into();
        result["beside_peer"]["ratio_spread"] = json!({"low": 1.8, "high": 2.0});
    });
    let slower = results.diff("run-0.json", "b.json", &["--fail-above-time", "10"]);
    assert_eq!(slower.code, Some(3), "{}", slower.printed);
}

/// Signatures are random, and so the compressed size of a block that is signed anew.
#[test]
fn a_compressed_size_is_judged_beyond_its_noise() {
    let results = Results::new();
    results.make(
        "free.json",
        "block --accounts 100 --transfers 5 --state memory --signatures free",
    );
    for (a, code_of_a_byte) in [("a.json", 0), ("free.json", 3)] {
        let bytes = results.read(a)["pov"]["compressed"].as_u64().unwrap();
        for (found, code) in [(bytes + 1, code_of_a_byte), (bytes + bytes / 100, 3)] {
            results.change_of(a, |result| result["pov"]["compressed"] = found.into());
            let judged = results.diff(a, "b.json", &["--fail-above-proof", "0"]);
            assert_eq!(judged.code, Some(code), "{a}: {}", judged.printed);
            let verdict = match code {
                0 => "may be noise",
                _ => "TOO MUCH",
            };
            assert_has(&judged.printed, &["pov/compressed", verdict]);
        }
    }
}

#[test]
fn a_lower_limit_is_no_regression() {
    let results = Results::new();
    let block = "block --accounts 100 --transfers 5 --state memory --signatures free --pov-limit";
    results.make("a.json", &format!("{block} 1MiB"));
    for (limit, code) in [(1_000, 0), (1 << 21, 3)] {
        results.change_of("a.json", |result| {
            result["pov_limit"]["limit"] = limit.into();
            result["pov_limit"]["fits"] = false.into();
        });
        let compared = results.diff("a.json", "b.json", &["--fail-above", "0"]);
        assert_eq!(compared.code, Some(code), "{}", compared.printed);
        let limits = format!("pov_limit/limit: 1048576 in A, {limit} in B");
        assert_has(&compared.printed, &[&limits]);
    }
}

#[test]
fn a_check_that_no_longer_holds_fails() {
    let results = Results::new();
    results.make(
        "a.json",
        "block --accounts 100 --transfers 5 --state memory --pov-limit 1MiB",
    );
    let name = results.read("a.json")["checks"][0]["name"].clone();
    let check = name.as_str().unwrap();
    let field = format!("checks {check}: holds: true in A, false in B");
    for (failing, change, listed) in [
        (
            check,
            (|result| result["checks"][0]["holds"] = false.into()) as fn(&mut Value),
            &*field,
        ),
        (
            "pov_limit/fits",
            |result| result["pov_limit"]["fits"] = false.into(),
            "pov_limit/fits: true in A, false in B",
        ),
    ] {
        results.change(change);
        let failed = results.diff("a.json", "b.json", &[]);
        assert_eq!(failed.code, Some(3), "{}", failed.printed);
        let verdict = format!("FAILED holds in A, fails in B: {failing}");
        assert_has(&failed.printed, &[&verdict, listed]);
        assert_has(&failed.errors, &[&format!("the failed check `{failing}`")]);
        let json = results.diff("a.json", "b.json", &["--json"]);
        let report: Value = serde_json::from_str(&json.printed).unwrap();
        assert_eq!(report["now_failing"], json!([failing]));
        // What fails in both, or holds again, is not worse.
        for a in ["a.json", "b.json"] {
            let same = results.diff("b.json", a, &["--fail-above-proof", "0"]);
            assert_eq!(same.code, Some(0), "{}", same.errors);
        }
    }
}

#[test]
fn other_options_are_an_error_unless_allowed() {
    let results = Results::new();
    results.make(
        "b.json",
        "block --accounts 100 --transfers 6 --state memory",
    );
    let refused = results.diff("a.json", "b.json", &[]);
    assert_eq!((refused.code, &*refused.printed), (Some(1), ""));
    assert_has(
        &refused.errors,
        &["transfers: 5 in A, 6 in B", "\nhelp: ", "--allow-different"],
    );
    let allowed = results.diff("a.json", "b.json", &["--allow-different", "--json"]);
    assert_eq!(allowed.code, Some(0), "{}", allowed.errors);
    let report: Value = serde_json::from_str(&allowed.printed).unwrap();
    assert_eq!(report["different_options"][0]["name"], "transfers");
    let facts = report["different_facts"].as_array().unwrap();
    let named = |name: &str| facts.iter().any(|fact| fact["name"] == name);
    assert!(named("root") && named("extrinsics/applied") && !named("extrinsics/failed"));
}

#[test]
fn another_command_is_an_error_unless_allowed() {
    let results = Results::new();
    fs::write(results.path("state.json"), r#"{"top": {"0x01": "0x02"}}"#).unwrap();
    let state = results.path("state.json");
    results.make("b.json", &format!("genesis {}", state.to_str().unwrap()));
    let refused = results.diff("a.json", "b.json", &[]);
    assert_eq!(refused.code, Some(1));
    assert_has(
        &refused.errors,
        &[
            "one of `povmeter block` and one of `povmeter genesis`",
            "--allow-different",
        ],
    );
    let allowed = results.diff("a.json", "b.json", &["--allow-different"]);
    assert_eq!(allowed.code, Some(0));
    assert_has(&allowed.printed, &["only in A", "no numbers in common"]);
    // A limit that judges nothing must not look like a pass.
    let limits = ["--allow-different", "--fail-above", "0"];
    let judged = results.diff("a.json", "b.json", &limits);
    assert_eq!(judged.code, Some(1));
    let all = "no numbers to judge: proof, allocations, time\n";
    assert_has(&judged.printed, &[all]);
    assert_has(
        &judged.errors,
        &["numbers that both results have", "\nhelp: "],
    );
}

/// A limit on all measures judges those that there are. One of a measure's own must have something to judge.
#[test]
fn a_limit_that_judges_nothing_is_an_error() {
    let results = Results::new();
    let command = "compare overlay --rounds 1 --only get";
    results.make("one.json", command);
    results.make("two.json", command);
    let all = ["--fail-above", "1e9"];
    assert_eq!(results.diff("one.json", "two.json", &all).code, Some(0));
    let proofs = ["--fail-above", "1e9", "--fail-above-proof", "0"];
    let judged = results.diff("one.json", "two.json", &proofs);
    assert_eq!(judged.code, Some(1));
    assert_has(&judged.printed, &["FAILED no numbers to judge: proof\n"]);
    assert_has(&judged.errors, &["found none: proof\n"]);
    // Times of a cache are shown, and never judged.
    let command =
        "compare cache --accounts 500 --blocks 4 --touched 20 --access zipf --writes 50 --bytes 200";
    results.make("one.json", command);
    let judged = results.diff("one.json", "one.json", &["--fail-above-time", "0"]);
    assert_eq!(judged.code, Some(1));
    assert_has(&judged.printed, &["FAILED no numbers to judge: time\n"]);
    assert!(!judged.printed.contains("ok "), "{}", judged.printed);
}

#[test]
fn every_kind_of_result_can_be_compared() {
    let results = Results::new();
    for command in [
        "compare block --accounts 50 --transfers 3 --rounds 1",
        "compare root --cases 1 --rounds 1 --keys 500",
        "compare overlay --rounds 1 --only get",
        "compare cache --accounts 500 --blocks 4 --touched 20 --access zipf --writes 50 --bytes 200",
        "compare parallel --transactions 40 --workload worst --cost-us 0 --workers 2 --rounds 1",
    ] {
        results.make("one.json", command);
        results.make("two.json", command);
        let has_proofs = command.starts_with("compare block");
        let limits: &[&str] = if has_proofs { &["--fail-above-proof", "0"] } else { &[] };
        let compared = results.diff("one.json", "two.json", limits);
        assert_eq!(compared.code, Some(0), "{command}: {}", compared.errors);
        assert_has(&compared.printed, &["time: ", "numbers changed"]);
        assert!(
            !compared.printed.contains("only in"),
            "{}",
            compared.printed
        );
    }
}

/// The times with a limit in results of `command`, as docs/json.md lists them.
fn listed_times(command: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, table) = page.split_once("| times with a limit |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let row = table.lines().find_map(|line| {
        let row = line.strip_prefix(&format!("| `{command}` | "))?;
        row.split(" | ").next()
    });
    // `rows[].ratio` on the page is `ratio` of some row, and `a.b` is `a/b`.
    let fields = row.unwrap_or_default().split(", ").map(|field| {
        let field = field.trim_matches('`').replace('.', "/");
        field.rsplit("[]/").next().unwrap().to_owned()
    });
    fields.filter(|field| !field.is_empty()).collect()
}

/// Replaces every number with a fraction, so that times and ratios become `by`.
fn set_fractions(value: &mut Value, by: f64) {
    match value {
        Value::Number(number) if number.is_f64() => *value = by.into(),
        Value::Array(list) => list.iter_mut().for_each(|value| set_fractions(value, by)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|value| set_fractions(value, by)),
        _ => (),
    }
}

#[test]
fn the_page_lists_the_times_that_have_a_limit() {
    let results = Results(tempfile::tempdir().unwrap());
    let mut commands = vec![
        ("block", "--accounts 100 --transfers 5 --state memory"),
        ("chain", "--accounts 100 --transfers 5 --blocks 3 --keep 2"),
        (
            "compare block",
            "--accounts 50 --transfers 3 --rounds 1 --workers 2",
        ),
        ("compare estimator", "--cases 1 --keys 10000"),
        ("compare root", "--cases 1 --rounds 1 --keys 500"),
        ("compare overlay", "--rounds 1 --only get"),
        (
            "compare cache",
            "--accounts 500 --blocks 4 --touched 20 --access zipf --writes 50 --bytes 200",
        ),
        (
            "compare parallel",
            "--transactions 40 --workload worst --cost-us 0 --workers 2 --rounds 1",
        ),
    ];
    if cfg!(feature = "wasm") {
        commands.push((
            "compare validation",
            "--accounts 100 --usual-accounts 100 --transfers 24 --rounds 1",
        ));
    }
    for (command, options) in commands {
        results.make("a.json", &format!("{command} {options}"));
        let made = fs::read(results.path("a.json")).unwrap();
        for (name, by) in [("low.json", 1.0), ("high.json", 1000.0)] {
            let mut result: Value = serde_json::from_slice(&made).unwrap();
            set_fractions(&mut result, by);
            fs::write(results.path(name), result.to_string()).unwrap();
        }
        let mut judged = BTreeSet::new();
        for [a, b] in [["low.json", "high.json"], ["high.json", "low.json"]] {
            let diff = results.diff(a, b, &["--fail-above-time", "0", "--json"]);
            let report: Value = serde_json::from_str(&diff.printed).unwrap();
            assert_eq!(report["only_in_a"], json!([]), "{command}");
            let changes = report["changes"].as_array().unwrap();
            let worse = changes.iter().filter(|change| change["regressed"] == true);
            judged.extend(worse.map(|change| change["field"].as_str().unwrap().to_owned()));
        }
        assert_eq!(judged, listed_times(command), "{command}");
    }
}

#[test]
fn few_changes_are_shown_unless_all_are_asked_for() {
    let results = Results::new();
    results.change(|result| {
        for phase in result["phases"].as_object_mut().unwrap().values_mut() {
            phase["cpu_ms"] = 1e3.into();
        }
    });
    let lines = |more: &[&str]| {
        results
            .diff("a.json", "b.json", more)
            .printed
            .lines()
            .count()
    };
    assert_eq!(lines(&[]), lines(&["--all"]));
    results.make(
        "one.json",
        "compare block --accounts 50 --transfers 3 --rounds 1",
    );
    results.make(
        "two.json",
        "compare block --accounts 50 --transfers 3 --rounds 1",
    );
    let short = results.diff("one.json", "two.json", &[]).printed;
    assert_has(&short, &["smaller changes; --all shows them"]);
    let long = results.diff("one.json", "two.json", &["--all"]).printed;
    assert!(long.lines().count() > short.lines().count());
}

#[test]
fn files_that_are_no_results_are_errors() {
    let results = Results::new();
    let whole = fs::read_to_string(results.path("a.json")).unwrap();
    let table = povmeter(&[
        "block",
        "--accounts",
        "10",
        "--transfers",
        "1",
        "--state",
        "memory",
    ]);
    for (content, parts) in [
        (
            table.printed.as_str(),
            ["expected a result in JSON", "help: make one with"],
        ),
        (
            &whole[..whole.len() / 2],
            ["expected a whole result", "help: make the file again"],
        ),
        (
            r#"{"top": {}}"#,
            ["expected a result of povmeter", "help: make one with"],
        ),
        (
            &whole.replace("\"schema\": 1", "\"schema\": 9"),
            ["expected version 1 of `block`", "help: "],
        ),
        (
            &whole.replace("\"list_prefix\":", "\"prefix\":"),
            [
                "expected a value in `proof_bytes/attribution/overhead/list_prefix`",
                "help: ",
            ],
        ),
    ] {
        fs::write(results.path("b.json"), content).unwrap();
        for (a, b) in [("a.json", "b.json"), ("b.json", "a.json")] {
            let refused = results.diff(a, b, &["--allow-different"]);
            assert_eq!((refused.code, &*refused.printed), (Some(1), ""));
            assert_has(&refused.errors, &parts);
            assert_has(&refused.errors, &["b.json"]);
        }
    }
    let missing = results.diff("a.json", "none.json", &[]);
    assert_eq!(missing.code, Some(1));
    assert_has(
        &missing.errors,
        &["none.json: expected a readable file", "help: "],
    );
}
