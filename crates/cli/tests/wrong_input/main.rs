//! What the program says to wrong input: each case of `cases.rs` is run, and is a row of
//! `docs/wrong-input.md`. This writes the page anew:
//!
//! ```text
//! UPDATE=1 cargo test -p povmeter-cli --features wasm --test wrong_input
//! ```

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod cases;
mod files;
mod run;

use cases::{Case, SECTIONS};
use files::Files;
use run::{run, Refusal};
use std::{fmt::Write, fs, path::Path};

/// Fewer cases would not cover all commands and options.
const LEAST: usize = 80;

const HEAD: &str = "\
# Wrong input

What the program says to wrong options, files and surroundings, with the exit code: 1 for what it finds in files
and on the machine, 2 for wrong usage. A message says what was expected and what was found; a line below it, after
the dash here, says what to do. Nothing has been done then: no file is changed, and no work has begun.

The tests run each of these commands and compare it with this page (`crates/cli/tests/wrong_input`). Names of files
say what is in them. Messages of the operating system are those of Linux.
";

#[test]
fn the_page_says_what_the_program_says() {
    let files = Files::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wrong-input.md");
    let (mut text, mut count, mut wrong) = (HEAD.to_owned(), 0, Vec::new());
    for (title, cases) in SECTIONS {
        let _ = write!(
            text,
            "\n## {title}\n\n| command | code | message |\n|---|--:|---|\n"
        );
        for case in cases.iter().filter(|case| case.is_here()) {
            let before = files.listing();
            let refusal = run(case, &files);
            wrong.extend(problems(case, &refusal));
            let after = files.listing();
            if before != after {
                wrong.push(format!(
                    "{}: files changed: {before:?} {after:?}",
                    case.command
                ));
            }
            let _ = writeln!(text, "{}", row(case, &refusal));
            count += 1;
        }
    }
    // Without the executor some cases are missing.
    if cfg!(feature = "wasm") && std::env::var_os("UPDATE").is_some() {
        fs::write(&page, &text).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= LEAST, "{count} cases");
    let found = fs::read_to_string(&page).unwrap_or_default();
    let missing = text.lines().filter(|line| !found.contains(line));
    let missing: Vec<_> = missing.collect();
    assert!(
        missing.is_empty() && (text == found || !cfg!(feature = "wasm")),
        "docs/wrong-input.md is not what the program says, for example:\n{}\nWrite it anew:\n  \
         UPDATE=1 cargo test -p povmeter-cli --features wasm --test wrong_input",
        missing.join("\n")
    );
}

/// What is wrong with the answer to a case.
fn problems(case: &Case, refusal: &Refusal) -> Vec<String> {
    let Refusal {
        code,
        printed,
        message,
        help,
    } = refusal;
    let mut problems = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            problems.push(format!(
                "{}: {what}: {code:?} {message} {help:?}",
                case.command
            ));
        }
    };
    expect(matches!(code, Some(1 | 2)), "expected exit code 1 or 2");
    expect(printed.is_empty(), "expected nothing on standard output");
    expect(!message.contains("panicked"), "expected no panic");
    expect(message.starts_with("error: "), "expected an error");
    expect(*code != Some(1) || help.is_some(), "expected help");
    problems
}

fn row(case: &Case, refusal: &Refusal) -> String {
    let mut message = refusal.message.trim_start_matches("error: ").to_owned();
    if let Some(help) = &refusal.help {
        let _ = write!(message, " — {help}");
    }
    let code = refusal
        .code
        .map_or_else(|| "-".to_owned(), |code| code.to_string());
    format!(
        "| `{}` | {code} | {} |",
        case.shown(),
        // Escape only the characters that have a meaning in a table.
        message
            .replace('|', "\\|")
            .replace('<', "&lt;")
            .replace('*', "\\*")
    )
}
