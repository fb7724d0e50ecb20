//! Runs the program on a case.

use crate::{cases::Case, files::Files};
use std::process::Command;

/// What the program answered.
pub(crate) struct Refusal {
    pub(crate) code: Option<i32>,
    pub(crate) printed: String,
    /// The error, in one line.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: Option<String>,
}

pub(crate) fn run(case: &Case, files: &Files) -> Refusal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_povmeter"));
    command.current_dir(files.path()).args(case.args());
    for variable in ["POVMETER_DATA", "TMPDIR", "COLUMNS", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command.envs(case.variables());
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let (message, help) = parts(&errors);
    Refusal {
        code: output.status.code(),
        printed: String::from_utf8(output.stdout).unwrap(),
        message,
        help,
    }
}

/// The error in one line, and the help. From clap's text it takes the part above the usage.
fn parts(errors: &str) -> (String, Option<String>) {
    let above = errors.split("\nUsage:").next().unwrap_or_default();
    let above = above
        .split("\nFor more information")
        .next()
        .unwrap_or_default();
    let (message, help) = match above.split_once("\nhelp: ") {
        Some((message, help)) => (message, Some(line(help))),
        None => match above.split_once("\n  tip: ") {
            Some((message, tip)) => (message, Some(line(tip))),
            None => (above, None),
        },
    };
    (neutral(&line(message)), help)
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The message without what differs from machine to machine: how much memory is free.
fn neutral(message: &str) -> String {
    match message.split_once(" free") {
        Some((before, after)) if before.contains("expected memory") => {
            let (before, _) = before.rsplit_once("found ").unwrap();
            format!("{before}found … free{after}")
        }
        _ => message.to_owned(),
    }
}
