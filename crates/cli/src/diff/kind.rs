//! The kinds of results that can be compared.

use super::{error::DiffError, parts::Parts};
use crate::{
    block_report::BlockReport, cache, chain_report::ChainReport, compare_report::CompareReport,
    compare_root_report::RootReport, estimator_report::EstimatorReport, genesis::Genesis,
    output::CommandResult, overlay, parallel, pool, replay_report::ReplayReport, validation,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// A result that can be compared with another one of its command.
pub(super) trait Comparable: CommandResult + DeserializeOwned {
    /// Whether the result has the field `rows`, which tells `compare block` from `block`.
    const HAS_ROWS: bool;

    /// Returns the parts of the result. Implementations name every field, so that a new field is not
    /// forgotten. They leave a field out if it follows from others, is about the peer alone, or is too much
    /// to list.
    ///
    /// # Errors
    /// An error of `serde_json` if a value can't be shown.
    fn parts(&self) -> Result<Parts, serde_json::Error>;
}

/// A kind of result.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The command that makes it, without `povmeter`.
    pub(crate) command: &'static str,
    pub(super) what: &'static str,
    pub(super) schema: u64,
    has_rows: bool,
    /// Reads the parts of a result of this kind; errors name the file.
    pub(super) read: fn(&Path, &Value) -> Result<Parts, DiffError>,
}

/// All kinds of results that can be compared.
pub(super) static KINDS: [Kind; 12] = [
    Kind::of::<BlockReport>(),
    Kind::of::<ChainReport>(),
    Kind::of::<ReplayReport>(),
    Kind::of::<CompareReport>(),
    Kind::of::<EstimatorReport>(),
    Kind::of::<RootReport>(),
    Kind::of::<overlay::Report>(),
    Kind::of::<pool::Report>(),
    Kind::of::<cache::Report>(),
    Kind::of::<parallel::Report>(),
    Kind::of::<validation::Report>(),
    Kind::of::<Genesis>(),
];

impl Kind {
    const fn of<R: Comparable>() -> Self {
        Self {
            command: R::COMMAND,
            what: R::WHAT,
            schema: R::SCHEMA,
            has_rows: R::HAS_ROWS,
            read: read::<R>,
        }
    }

    /// The kind of results with this `what`, with or without the field `rows`.
    pub(super) fn find(what: &Value, has_rows: bool) -> Option<&'static Self> {
        let mut kinds = KINDS.iter();
        kinds.find(|kind| what == kind.what && has_rows == kind.has_rows)
    }
}

fn read<R: Comparable>(path: &Path, value: &Value) -> Result<Parts, DiffError> {
    let result: R = serde_path_to_error::deserialize(value)
        .map_err(|error| DiffError::field(path, value, &error))?;
    Ok(result.parts()?)
}
