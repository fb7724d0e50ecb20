//! Prints results, as text or as JSON for other programs.

use crate::{advice::DISAGREE, error::CliError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sp_core::H256;
use std::{
    fmt,
    io::{self, Write},
};

/// A result of a command. `docs/json.md` lists the fields of all results.
pub(crate) trait CommandResult: Serialize {
    /// The command that prints it, without `povmeter`.
    const COMMAND: &'static str;
    /// The field `what`: what the result is about.
    const WHAT: &'static str;
    /// The field `schema`: the version of the fields. It changes if a field is removed or changes its meaning,
    /// not if a field is added.
    const SCHEMA: u64;
    /// What the user can do if a check fails.
    const IF_FAILED: &'static str = DISAGREE;
}

/// A result as it is printed in JSON, after the fields that begin every result. The schema takes its
/// description from the result.
#[derive(Serialize, JsonSchema)]
#[schemars(title = format!("povmeter {} --json", R::COMMAND), description = "")]
pub(crate) struct Printed<'a, R: CommandResult> {
    /// What the result is about.
    #[schemars(extend("const" = R::WHAT))]
    what: &'static str,
    /// Version of this form.
    #[schemars(extend("const" = R::SCHEMA))]
    schema: u64,
    #[serde(flatten)]
    report: &'a R,
}

/// A hash in a result: 32 bytes in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = "^0x[0-9a-f]{64}$"))]
pub(crate) struct HexHash(String);

impl HexHash {
    /// The first digits, for a table.
    #[cfg(feature = "wasm")]
    pub(crate) fn start(&self) -> &str {
        self.0.get(..10).unwrap_or_default()
    }
}

impl From<H256> for HexHash {
    fn from(hash: H256) -> Self {
        // `{}` would shorten it.
        Self(format!("{hash:?}"))
    }
}

impl fmt::Display for HexHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `report` as JSON.
///
/// # Errors
/// An error of `serde_json` if a field can't be written.
pub(crate) fn json<R: CommandResult>(report: &R) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&Printed {
        what: R::WHAT,
        schema: R::SCHEMA,
        report,
    })
}

/// Prints `report` as text or as JSON, then writes its `files`, so that the result is not lost if a file
/// can't be written. The files are written even if the result can't be printed.
///
/// # Errors
/// [`CliError::Output`] if `report` can't be printed, the error of `files`, or [`CliError::ChecksFailed`] if
/// checks have `failed`. Of several errors this is the last; those before it are shown.
pub(crate) fn finish<R: CommandResult + fmt::Display>(
    report: &R,
    as_json: bool,
    failed: Vec<String>,
    files: impl FnOnce() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let shown = match as_json {
        true => json(report)?,
        false => report.to_string(),
    };
    let printed = print(&shown);
    let written = files();
    // Failed checks are the worst error, so they come last.
    all_done([printed, written, checked::<R>(failed)])
}

/// Checks that no check of a result has `failed`.
///
/// # Errors
/// [`CliError::ChecksFailed`] if one has.
pub(crate) fn checked<R: CommandResult>(failed: Vec<String>) -> Result<(), CliError> {
    let advice = R::IF_FAILED;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(CliError::ChecksFailed { failed, advice }),
    }
}

/// Shows all errors of `done` but the last, so that none is lost.
///
/// # Errors
/// The last error of `done`.
pub(crate) fn all_done(
    done: impl IntoIterator<Item = Result<(), CliError>>,
) -> Result<(), CliError> {
    let mut last = Ok(());
    for error in done.into_iter().filter_map(Result::err) {
        if let Err(earlier) = std::mem::replace(&mut last, Err(error)) {
            earlier.show();
        }
    }
    last
}

/// Prints `report` as text or as JSON.
///
/// # Errors
/// Those of [`finish`].
pub(crate) fn printed<R: CommandResult + fmt::Display>(
    report: &R,
    as_json: bool,
    failed: Vec<String>,
) -> Result<(), CliError> {
    finish(report, as_json, failed, || Ok(()))
}

/// Prints a result. A closed pipe is no error, because readers such as `head` stop early. A result that
/// can't be written, for example to a full disk, goes to standard error.
///
/// # Errors
/// [`CliError::Output`] if the result can't be written.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    print_by(text, || {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush())
    })
}

/// Does the same as [`print`] with a `text` that `write` writes, for example in colours.
///
/// # Errors
/// Those of [`print`].
pub(crate) fn print_by(text: &str, write: impl FnOnce() -> io::Result<()>) -> Result<(), CliError> {
    match write() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            tell(text);
            Err(CliError::Output(error))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error. Nothing can tell that it failed, and no result may be lost because standard
/// error is closed or full, so errors are ignored. (`eprintln!` panics on them.)
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// The names of the checks that failed.
pub(crate) fn failed<'n>(checks: impl IntoIterator<Item = (&'n str, bool)>) -> Vec<String> {
    let failed = checks.into_iter().filter(|(_, holds)| !holds);
    failed.map(|(name, _)| name.to_owned()).collect()
}

/// The first word of a check's line.
pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds {
        "ok     "
    } else {
        "FAILED "
    }
}
