//! Results as they are printed: as text, or as JSON for other programs.

use crate::error::CliError;
use serde::Serialize;
use std::fmt;

/// What a result in JSON begins with. The fields of each are on the page `docs/json.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Heading {
    /// What the result is about.
    pub(crate) what: &'static str,
    /// Version of its form. A field that goes, or that means something else, makes it another one; a
    /// field that comes does not.
    pub(crate) schema: u64,
}

impl Heading {
    const fn first(what: &'static str) -> Self {
        Self { what, schema: 1 }
    }

    pub(crate) const BLOCK: Self = Self::first("block");
    pub(crate) const REPLAY: Self = Self::first("replay");
    /// `compare block`, which has the name of `block` for its subject, and rows.
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

/// The names of those checks that do not hold.
pub(crate) fn failed<const N: usize>(checks: [(&'static str, bool); N]) -> Vec<&'static str> {
    let failed = checks.into_iter().filter(|(_, holds)| !holds);
    failed.map(|(name, _)| name).collect()
}

/// The word that a line on a check begins with.
pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds {
        "ok     "
    } else {
        "FAILED "
    }
}
