//! What must not be lost or left behind: results, files of others, temporary folders.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const SMALL: &str = "block --accounts 100 --transfers 5 --state memory";

fn command(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_povmeter"));
    command.args(args.split_whitespace());
    command
}

fn povmeter(args: &str) -> Output {
    command(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn a_file_that_can_not_be_written_costs_no_result() {
    for option in ["--folded", "--flamegraph"] {
        let output = povmeter(&format!("{SMALL} --json {option} /dev/full"));
        assert_eq!(output.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["what"], "block");
        let errors = text(&output.stderr);
        assert!(
            errors.contains("/dev/full: can't write the file"),
            "{errors}"
        );
        assert!(
            errors.contains("\nhelp: free space on the disk"),
            "{errors}"
        );
    }
}

#[test]
fn a_result_that_can_not_be_printed_is_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    let folded = folder.path().join("folded");
    let [page_name, folded_name] = [&page, &folded].map(|path| path.to_str().unwrap());
    let args = format!("{SMALL} --json --report {page_name} --folded {folded_name}");
    let output = command(&args).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    let end = errors.find("\n}\n").unwrap() + 2;
    let report: Value = serde_json::from_str(&errors[..end]).unwrap();
    assert_eq!(report["what"], "block");
    assert!(
        errors.contains("error: can't print the result: No space left"),
        "{errors}"
    );
    assert!(
        errors.contains("\nhelp: free space where standard output goes"),
        "{errors}"
    );
    // The files are there nevertheless.
    assert!(page.join("index.html").is_file() && folded.is_file());
}

#[test]
fn help_that_can_not_be_printed_is_an_error() {
    for args in ["--help", "--version", "block --help", "help diff"] {
        let output = command(args).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args}");
        let errors = text(&output.stderr);
        assert!(
            errors.contains("error: can't print the result: No space left"),
            "{errors}"
        );
        // The text is on standard error.
        let printed = povmeter(args);
        assert!(printed.status.success());
        assert!(errors.starts_with(text(&printed.stdout)), "{errors}");
    }
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = command(&format!("{SMALL} --json"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_full_standard_error_costs_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let [page, folded, flames] =
        ["page", "folded", "flames.svg"].map(|name| folder.path().join(name));
    let [page_name, folded_name, flames_name] =
        [&page, &folded, &flames].map(|path| path.to_str().unwrap());
    let args = format!(
        "{SMALL} --json --report {page_name} --folded {folded_name} --flamegraph {flames_name}"
    );
    let output = command(&args).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["what"], "block");
    for file in [page.join("index.html"), folded, flames] {
        assert!(file.is_file(), "{}", file.display());
    }
}

#[test]
fn a_standard_error_that_is_full_or_closed_changes_no_exit_code() {
    for (args, code) in [("genesis missing.json", 1), ("diff missing.json", 2)] {
        let output = command(args).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args}");
        let mut child = command(args).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{args}");
    }
    // A result that can be printed nowhere is an error all the same.
    let mut nowhere = command(&format!("{SMALL} --json"));
    let output = nowhere.stdout(full()).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn files_of_an_earlier_run_are_replaced_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let args = format!(
        "{SMALL} --folded {} --flamegraph {}",
        path("folded"),
        path("flames.svg")
    );
    for _ in 0..2 {
        let output = povmeter(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let svg = fs::read_to_string(path("flames.svg")).unwrap();
    assert!(
        svg.starts_with("<?xml") && svg.contains("Storage proof: "),
        "{svg}"
    );
    let folded = fs::read_to_string(path("folded")).unwrap();
    // A file of one kind is not replaced by one of the other.
    let swapped = format!(
        "{SMALL} --folded {} --flamegraph {}",
        path("flames.svg"),
        path("folded")
    );
    let output = povmeter(&swapped);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("or one that povmeter wrote for it, found another"));
    assert_eq!(fs::read_to_string(path("flames.svg")).unwrap(), svg);
    assert_eq!(fs::read_to_string(path("folded")).unwrap(), folded);
    assert_eq!(names(folder.path()).len(), 2);
}

/// Runs the program in `folder`, where no file may have more than `kib` KiB. Returns what was printed to stderr.
fn with_small_files(folder: &Path, kib: u64, args: &str) -> String {
    let program = env!("CARGO_BIN_EXE_povmeter");
    let script = format!("ulimit -f {kib}; {program} {args} >/dev/null");
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = text(&output.stderr).to_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    errors
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let args = format!("{SMALL} --json --flamegraph flames.svg");
    let errors = with_small_files(folder.path(), 4, &args);
    assert!(
        errors.contains("flames.svg: can't write the file"),
        "{errors}"
    );
    assert!(
        errors.contains("help: raise the limit on the size of files"),
        "{errors}"
    );
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn no_file_that_can_not_be_written_hides_another() {
    let output = povmeter(&format!(
        "{SMALL} --folded /dev/full --flamegraph /dev/full"
    ));
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for option in ["--folded", "--flamegraph"] {
        let error = format!("error: /dev/full: can't write the file for `{option}`");
        assert!(errors.contains(&error), "{errors}");
    }

    // The limit is too low for the page, and the stacks are written nevertheless.
    let folder = tempfile::tempdir().unwrap();
    let files = "--report page --folded stacks --flamegraph flames.svg";
    let errors = with_small_files(folder.path(), 16, &format!("{SMALL} {files}"));
    for error in [
        "index.html: can't write the report",
        "flames.svg: can't write the file",
    ] {
        assert!(errors.contains(error), "no {error:?} in: {errors}");
    }
    assert!(folder.path().join("stacks").is_file(), "{errors}");
}

#[test]
fn pages_of_the_manual_are_written_all_or_none() {
    let folder = tempfile::tempdir().unwrap();
    // Room for the first page, but not for the second, which is longer.
    let whole = tempfile::tempdir().unwrap();
    povmeter(&format!("man {}", whole.path().to_str().unwrap()));
    let length = |page: &str| fs::metadata(whole.path().join(page)).unwrap().len();
    let limit = length("povmeter.1").div_ceil(1024);
    assert!(length("povmeter-block.1") > 1024 * limit);
    let limited = |pages: &str| {
        let errors = with_small_files(folder.path(), limit, &format!("man {pages}"));
        assert!(errors.contains(": can't write the page: "), "{errors}");
    };
    limited("new");
    assert_eq!(names(folder.path()), Vec::<String>::new());
    // What was there before stays.
    let pages = folder.path().join("pages");
    fs::create_dir(&pages).unwrap();
    fs::write(pages.join("povmeter.1"), ".TH povmeter 1").unwrap();
    limited("pages");
    assert_eq!(names(&pages), ["povmeter.1"]);
}

/// Runs `script` on a disk without room for a database, where `$povmeter` is the program. Returns the exit code, what
/// was printed to stderr, and what is on the disk afterwards; `None` if the system does not let this test mount a disk.
fn on_a_full_disk(script: &str) -> Option<(i32, String, Vec<String>)> {
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=1m none $0 && cd $0 && echo mounted || exit";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "bash", "-c"])
        .arg(format!(
            "{mount}; {script} >/dev/null; code=$?; find . -mindepth 1; exit $code"
        ))
        .arg(folder.path())
        .env("povmeter", env!("CARGO_BIN_EXE_povmeter"))
        .output()
        .unwrap();
    let errors = text(&output.stderr).to_owned();
    let Some(left) = text(&output.stdout).strip_prefix("mounted\n") else {
        eprintln!("skipped, because no disk can be mounted: {errors}");
        return None;
    };
    let left = left.lines().map(str::to_owned).collect();
    Some((output.status.code().unwrap(), errors, left))
}

#[test]
fn a_full_disk_leaves_no_folder_for_a_state() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    let store = store.to_str().unwrap();
    let made = povmeter(&format!("block --accounts 50 --transfers 1 --db {store}"));
    assert!(made.status.success(), "{}", text(&made.stderr));
    for args in [
        "block --accounts 50 --transfers 1 --db new",
        "chain --accounts 50 --transfers 1 --blocks 1 --db new",
        &format!("db backup {store} new"),
    ] {
        let Some((code, errors, left)) = on_a_full_disk(&format!("$povmeter {args}")) else {
            return;
        };
        assert_eq!(code, 1, "{args}: {errors}");
        assert!(
            errors.contains("\nhelp: free space on the disk"),
            "{args}: {errors}"
        );
        assert_eq!(left, Vec::<String>::new(), "{args}: {errors}");
    }
    // A folder that was there before stays.
    let args = "block --accounts 50 --transfers 1 --db new";
    let kept = on_a_full_disk(&format!("mkdir new; $povmeter {args}"));
    let Some((code, errors, left)) = kept else {
        return;
    };
    assert_eq!((code, left), (1, vec!["./new".to_owned()]), "{errors}");
}

#[test]
fn a_copy_of_a_state_is_not_made_inside_it() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &str| {
        let output = command(args).current_dir(home.path()).output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let (code, errors) = run("block --accounts 50 --transfers 1 --db store");
    assert_eq!(code, Some(0), "{errors}");
    let before = names(&home.path().join("store"));
    std::os::unix::fs::symlink("store", home.path().join("link")).unwrap();
    for to in ["store/copy", "link/a/b", "./store/../store/copy"] {
        let (code, errors) = run(&format!("db backup store {to}"));
        assert_eq!(code, Some(1), "{to}: {errors}");
        let error =
            format!("error: can't copy the state: {to}: expected a folder outside of the store");
        assert!(errors.contains(&error), "{to}: {errors}");
        assert!(
            errors.contains("\nhelp: name a folder beside"),
            "{to}: {errors}"
        );
    }
    assert_eq!(names(&home.path().join("store")).len(), before.len());
    // A name that begins with that of the store is beside it.
    let (code, errors) = run("db backup store store-copy");
    assert_eq!(code, Some(0), "{errors}");
}

/// Starts the program with a folder for temporary files of its own, and waits until its database is there. `hang_up` is
/// the option of `env` for SIGHUP.
fn started(args: &str, temporary: &Path, hang_up: &str) -> Child {
    let mut child = Command::new("env")
        .args([hang_up, env!("CARGO_BIN_EXE_povmeter")])
        .args(args.split_whitespace())
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let database = || {
        let folder = names(temporary).pop()?;
        Some(temporary.join(folder).join("metadata")).filter(|file| file.is_file())
    };
    while database().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(120), "no database");
        thread::sleep(Duration::from_millis(20));
    }
    child
}

fn send(signal: &str, child: &Child) {
    let kill = Command::new("bash")
        .args(["-c", &format!("kill -{signal} {}", child.id())])
        .status();
    assert!(kill.unwrap().success());
}

/// As `nohup` starts it.
#[test]
fn a_run_that_ignores_the_end_of_its_terminal_goes_on() {
    let temporary = tempfile::tempdir().unwrap();
    let args = "chain --accounts 2000 --transfers 20 --blocks 100000";
    let mut child = started(args, temporary.path(), "--ignore-signal=HUP");
    send("HUP", &child);
    thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "ended by the signal");
    send("TERM", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", text(&output.stderr));
    assert_eq!(names(temporary.path()), Vec::<String>::new());
}

#[test]
fn signals_leave_nothing_behind() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for args in [
            "chain --accounts 2000 --transfers 20 --blocks 100000",
            "block --accounts 300000 --transfers 5",
        ] {
            let temporary = tempfile::tempdir().unwrap();
            let elsewhere = tempfile::tempdir().unwrap();
            let report: PathBuf = elsewhere.path().join("report");
            let args = format!("{args} --report {}", report.to_str().unwrap());
            let child = started(&args, temporary.path(), "--default-signal=HUP");
            send(signal, &child);
            let output = child.wait_with_output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{args}: {errors}");
            assert_eq!(
                names(temporary.path()),
                Vec::<String>::new(),
                "{args}: {errors}"
            );
            assert!(!report.exists(), "{args}");
        }
    }
}

#[test]
fn names_from_files_can_not_steer_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spec.json");
    let name = r"\u001b[31mred\nstate root       0x00\u202e";
    let spec = format!(r#"{{"name": "{name}", "genesis": {{"raw": {{"top": {{}}}}}}}}"#);
    fs::write(&path, spec).unwrap();
    let output = povmeter(&format!("genesis {}", path.to_str().unwrap()));
    let printed = text(&output.stdout);
    assert!(
        printed.starts_with("chain            \\u{1b}[31mred\\nstate root       0x00\\u{202e}\n"),
        "{printed:?}"
    );
    assert_eq!(printed.matches("\nstate root ").count(), 1);
    // Names in messages can not, either.
    let missing = folder.path().join("none\u{1b}[31m\n");
    let output = command("genesis").arg(missing).output().unwrap();
    let errors = text(&output.stderr);
    assert!(
        errors.contains("none\\u{1b}[31m\\n: expected a readable file"),
        "{errors:?}"
    );
    assert_eq!(errors.lines().count(), 2, "{errors:?}");
}

#[test]
fn tables_fit_the_terminal() {
    let output = command("compare block --accounts 50 --transfers 3 --rounds 1")
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let printed = text(&output.stdout);
    let table = printed.lines().filter(|line| line.starts_with("peer-none"));
    assert!(table.clone().count() > 1, "{printed}");
    for line in table {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
