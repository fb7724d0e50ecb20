//! The program works wherever it is installed: it needs nothing of the folder in which it was built.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path, process::Command};

/// The folder of the repository.
fn root() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "a build for debugging has the paths of its sources"
)]
fn no_path_of_the_build_is_in_the_program() {
    let program = fs::read(env!("CARGO_BIN_EXE_povmeter")).unwrap();
    let root = format!("{}/", root());
    let places = program
        .windows(root.len())
        .enumerate()
        .filter(|(_, bytes)| *bytes == root.as_bytes());
    for (at, _) in places {
        let rest = &program[at..program.len().min(at + 200)];
        let end = rest.iter().position(|byte| {
            !(byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-'))
        });
        let path = String::from_utf8_lossy(&rest[..end.unwrap_or(rest.len())]);
        // Panic messages, also those in wasm runtimes, name source files, which the program never reads. The
        // text after the name is another one.
        let source = path.split_once(".rs").map(|(source, _)| source);
        assert!(
            source.is_some_and(|source| !source.contains("..")),
            "{path:?}"
        );
    }
    let data = b"../../../shared";
    assert!(!program.windows(data.len()).any(|bytes| bytes == data));
}

#[test]
fn the_program_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("povmeter");
    fs::copy(env!("CARGO_BIN_EXE_povmeter"), &program).unwrap();
    for (args, expected) in [
        ("--version", "povmeter "),
        (
            "block --accounts 50 --transfers 3",
            "ok     estimate complete",
        ),
        (
            "compare root --cases 1 --rounds 1 --keys 500",
            "no data real states agree",
        ),
        ("compare overlay --rounds 1 --only get", "get hit"),
        ("man man", ""),
    ] {
        let mut command = Command::new(&program);
        command
            .args(args.split(' '))
            .current_dir(folder.path())
            .env_clear();
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args}: {errors}");
        assert!(printed.contains(expected), "{args}: {printed}");
    }
    let page = fs::read_to_string(folder.path().join("man/povmeter-compare-block.1")).unwrap();
    assert!(
        page.contains(".TH povmeter") && page.contains("rounds"),
        "{page}"
    );
    // Again: its own pages may be replaced.
    let again = Command::new(&program)
        .args(["man", "man"])
        .current_dir(folder.path())
        .status();
    assert!(again.unwrap().success());
}
