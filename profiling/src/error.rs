//! Why a profile could not be read.

use std::{io, path::PathBuf};

/// Why a profile could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ToolError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the stacks can't be folded: {0}")]
    Fold(#[source] io::Error),
    #[error("the flamegraph can't be drawn: {0}")]
    Draw(#[source] io::Error),
    #[error("{}: expected {expected}, found {found}", path.display())]
    Content {
        path: PathBuf,
        expected: &'static str,
        found: String,
    },
    #[error("{}: {source}", path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{}: can't be started: {source}", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("{}: expected {expected}, found {found:?}; its own message is above", path.display())]
    Answer {
        path: PathBuf,
        expected: &'static str,
        found: String,
    },
    #[error("the result can't be written: {0}")]
    Output(#[from] io::Error),
}

impl ToolError {
    /// The error for a file that can't be read or written.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
