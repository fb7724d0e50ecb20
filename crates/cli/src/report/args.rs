//! Options of all commands that can make a page.

use super::{bytes::ByteCount, ReportError, ReportFolder};
use clap::Args;
use std::path::PathBuf;

/// Whether a page is wanted, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Also write a page with charts into this folder: index.html, for any browser
    #[arg(long = "report", value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl ReportArgs {
    /// The folder for the page and the `charts`, if a page is wanted. To be called before any work.
    ///
    /// # Errors
    /// A [`ReportError`] if the folder can't be had, or holds files of these names that are not ours.
    pub(crate) fn open(&self, charts: &[&str]) -> Result<Option<ReportFolder>, ReportError> {
        let folder = self.folder.as_deref();
        folder
            .map(|folder| ReportFolder::open(folder, charts))
            .transpose()
    }
}

/// What the proof may have.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LimitArg {
    /// Limit on the proof, which the page shows the growth against: bytes, or with a suffix, as 5MiB
    #[arg(long, value_name = "BYTES", requires = "folder")]
    pov_limit: Option<ByteCount>,
}

impl LimitArg {
    /// The limit in bytes.
    pub(crate) fn bytes(self) -> Option<u64> {
        self.pov_limit.map(|limit| limit.0)
    }
}
