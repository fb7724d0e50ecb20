//! Prints results, as text or as JSON for other programs.

use crate::error::CliError;
use serde::Serialize;
use std::fmt;

/// The first fields of a result in JSON. `docs/json.md` lists all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Heading {
    /// What the result is about.
    pub(crate) what: &'static str,
    /// Version of the fields. It changes if a field is removed or changes its meaning, not if one is
    /// added.
    pub(crate) schema: u64,
}

impl Heading {
    const fn first(what: &'static str) -> Self {
        Self { what, schema: 1 }
    }

    pub(crate) const BLOCK: Self = Self::first("block");
    pub(crate) const REPLAY: Self = Self::first("replay");
    /// `compare block`: the same `what` as `block`, told apart by its `rows`.
    pub(crate) const COMPARE: Self = Self::first("block");
    pub(crate) const ESTIMATOR: Self = Self::first("estimator");
    pub(crate) const ROOT: Self = Self::first("root");
    pub(crate) const OVERLAY: Self = Self::first("overlay");
    pub(crate) const POOL: Self = Self::first("pool");
    pub(crate) const GENESIS: Self = Self::first("genesis");
    pub(crate) const DIFF: Self = Self::first("diff");
}

/// `report` as text or as JSON.
///
/// # Errors
/// [`CliError::ChecksFailed`] with the same text, if checks have `failed`.
pub(crate) fn printed<R: Serialize + fmt::Display>(
    report: &R,
    json: bool,
    failed: Vec<&'static str>,
) -> Result<String, CliError> {
    let report = if json {
        serde_json::to_string_pretty(report)?
    } else {
        report.to_string()
    };
    if failed.is_empty() {
        Ok(report)
    } else {
        Err(CliError::ChecksFailed { failed, report })
    }
}

/// The names of the checks that failed.
pub(crate) fn failed<const N: usize>(checks: [(&'static str, bool); N]) -> Vec<&'static str> {
    let failed = checks.into_iter().filter(|(_, holds)| !holds);
    failed.map(|(name, _)| name).collect()
}

/// The first word of a check's line.
pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds {
        "ok     "
    } else {
        "FAILED "
    }
}
