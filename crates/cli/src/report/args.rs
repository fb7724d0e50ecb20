//! Options of all commands that can write a page.

use super::{ReportError, ReportFolder};
use crate::{
    error::CliError,
    output_file::{expect_distinct, place},
};
use clap::Args;
use std::path::{Path, PathBuf};

/// Whether a page is wanted, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Also write a page with charts into this folder: index.html, for any browser
    #[arg(long = "report", value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl ReportArgs {
    /// The folder for the page and its `charts`, if a page is wanted. Call this before any work.
    ///
    /// # Errors
    /// A [`ReportError`] if the folder can't be used, or holds files of these names that no report wrote.
    pub(crate) fn open(&self, charts: &[&str]) -> Result<Option<ReportFolder>, ReportError> {
        let folder = self.folder.as_deref();
        folder
            .map(|folder| ReportFolder::open(folder, charts))
            .transpose()
    }

    /// Checks that the folder is not that of the state at `db`, nor in it: a folder of a state holds nothing else.
    ///
    /// # Errors
    /// [`ReportError::InState`] if it is.
    pub(crate) fn expect_outside(&self, db: Option<&Path>) -> Result<(), ReportError> {
        let (Some(report), Some(state)) = (&self.folder, db) else {
            return Ok(());
        };
        match place(report).starts_with(place(state)) {
            true => Err(ReportError::InState {
                path: report.clone(),
                state: state.to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Opens the folder for a command that also reads or writes `files`, each named by an option. All files
    /// must differ from each other and from the page and its charts.
    ///
    /// # Errors
    /// A [`CliError`] if the folder can't be used, or two files are the same.
    pub(crate) fn open_beside<'a>(
        &self,
        charts: &[&str],
        files: impl Iterator<Item = (&'static str, &'a Path)>,
    ) -> Result<Option<ReportFolder>, CliError> {
        let folder = self.open(charts)?;
        let pages = folder.as_ref().map(|folder| folder.files(charts));
        let mut all: Vec<(&'static str, &Path)> = files.collect();
        let pages = pages.iter().flatten();
        all.extend(pages.map(|page| ("--report", page.as_path())));
        expect_distinct(&all)?;
        Ok(folder)
    }
}
