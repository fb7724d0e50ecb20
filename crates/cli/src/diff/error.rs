//! Why two results can't be compared.

use super::shape::SHAPES;
use povmeter_dev_data::FileError;
use std::path::PathBuf;

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
        expected: &'static str,
        found: String,
    },
    #[error(
        "expected two results of one command, found one of `povmeter {a}` and one of `povmeter {b}`"
    )]
    DifferentCommands { a: &'static str, b: &'static str },
    #[error("expected two results with the same options, found different ones: {different}")]
    DifferentOptions { different: String },
}

/// The `what` of all results that can be compared.
fn kinds() -> String {
    let mut kinds: Vec<_> = SHAPES.iter().map(|shape| shape.heading.what).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}
