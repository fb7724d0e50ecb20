//! Why two results can't be compared.

use super::kind::KINDS;
use povmeter_dev_data::FileError;
use serde_json::Value;
use serde_path_to_error::Segment;
use std::path::{Path, PathBuf};

/// Why two results can't be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DiffError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: expected a result in JSON, found: {source}", path.display())]
    NotJson {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "{}: expected a whole result, found the end of the file at line {line}, column {column}",
        path.display()
    )]
    CutOff {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    #[error(
        "{}: expected a result of povmeter, whose `what` is one of {}, found {found}",
        path.display(), kinds()
    )]
    NotOurs { path: PathBuf, found: String },
    #[error(
        "{}: expected version {expected} of `{what}` in `schema`, found {found}", path.display()
    )]
    Schema {
        path: PathBuf,
        what: &'static str,
        expected: u64,
        found: String,
    },
    #[error("{}: expected {expected} in `{field}`, found {found}", path.display())]
    Field {
        path: PathBuf,
        field: String,
        expected: String,
        found: String,
    },
    #[error("can't show a value of a result: {0}")]
    Value(#[from] serde_json::Error),
    #[error(
        "expected two results of one command, found one of `povmeter {a}` and one of `povmeter {b}`"
    )]
    DifferentCommands { a: &'static str, b: &'static str },
    #[error("expected two results with the same options, found different ones: {different}")]
    DifferentOptions { different: String },
    #[error(
        "expected numbers that both results have and that the limit applies to, found none: {measures}"
    )]
    NothingToJudge { measures: String },
}

/// The `what` of all results that can be compared.
fn kinds() -> String {
    let mut kinds: Vec<_> = KINDS.iter().map(|kind| kind.what).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}

impl DiffError {
    /// Makes the error of a field that is missing or holds something unexpected. The file at `path` holds
    /// `value`.
    pub(super) fn field(
        path: &Path,
        value: &Value,
        error: &serde_path_to_error::Error<serde_json::Error>,
    ) -> Self {
        let names = error.path().iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Map { key } => Some(key.clone()),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let mut names: Vec<_> = names.collect();
        let problem = Problem::of(&error.inner().to_string());
        let (expected, found) = match problem {
            Problem::Missing(name) => {
                names.push(name);
                ("a value".to_owned(), "nothing".to_owned())
            }
            Problem::Wrong(expected) => {
                let found = value.pointer(&format!("/{}", names.join("/")));
                (expected, described(found))
            }
            Problem::Other(message) => ("another value".to_owned(), message),
        };
        Self::Field {
            path: path.to_owned(),
            field: names.join("/"),
            expected,
            found,
        }
    }
}

/// Why serde refuses a value. Its errors are plain text, so this is parsed from the text.
enum Problem {
    /// The field of this name is missing.
    Missing(String),
    /// The value is not of this form, which was expected.
    Wrong(String),
    Other(String),
}

impl Problem {
    fn of(message: &str) -> Self {
        let missing = message.strip_prefix("missing field `");
        if let Some(name) = missing.and_then(|name| name.strip_suffix('`')) {
            return Self::Missing(name.to_owned());
        }
        let expected = match message.rsplit_once(", expected ") {
            Some((_, expected)) => expected,
            // The error of a whole number if serde_json has the feature `arbitrary_precision`.
            None if message == "invalid number" => "u64",
            None => return Self::Other(message.to_owned()),
        };
        let expected = match expected {
            "f64" => "a number of 0 or more",
            "u8" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
            "a boolean" => "true or false",
            "a sequence" => "a list",
            expected if expected.starts_with("struct ") => "an object",
            expected => expected,
        };
        Self::Wrong(expected.to_owned())
    }
}

/// Describes a value that was found; small values are shown in full.
pub(super) fn described(value: Option<&Value>) -> String {
    match value {
        None => "none".to_owned(),
        Some(Value::Object(_)) => "an object".to_owned(),
        Some(Value::Array(_)) => "a list".to_owned(),
        Some(Value::String(text)) if text.len() > 80 => "a long string".to_owned(),
        Some(value) => value.to_string(),
    }
}
