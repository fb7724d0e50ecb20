//! The folder of a report.

use super::{
    chart::{Chart, FILE_MARK},
    origin::Origin,
    page::{Page, PAGE_MARK},
};
use crate::{error::CliError, one_line::one_line, output::tell, output_file, scratch::EmptyFolder};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
};

const PAGE_FILE: &str = "index.html";

/// Why a page can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ReportError {
    /// The path is not a folder.
    #[error("{}: expected a folder for the report, or nothing, found a file", .0.display())]
    NotAFolder(PathBuf),
    /// The folder can't be created, or no file can be written to it.
    #[error(
        "{}: expected a folder for the report that can be written to, found: {source}",
        path.display()
    )]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The folder would be in that of a state.
    #[error("{}: expected a folder for the report outside of the state in {}, found one in it", path.display(), state.display())]
    InState { path: PathBuf, state: PathBuf },
    /// A file that no report wrote would be lost.
    #[error("{}: expected a file of an earlier report, or none, found another", .0.display())]
    NotOurs(PathBuf),
    /// A file can't be read or written.
    #[error("{}: can't write the report: {source}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A folder that a report can be written to.
#[derive(Debug)]
pub(crate) struct ReportFolder {
    path: PathBuf,
    /// Removes the folder if no report is written.
    _made: Option<EmptyFolder>,
}

impl ReportFolder {
    /// The folder at `path`, which is created if it is missing. It must hold no page and none of the
    /// `charts`, unless a report wrote them.
    ///
    /// # Errors
    /// A [`ReportError`]; then no file has been changed, and new folders are removed.
    pub(super) fn open(path: &Path, charts: &[&str]) -> Result<Self, ReportError> {
        let failed = |source| ReportError::Folder {
            path: path.to_owned(),
            source,
        };
        let made = match fs::metadata(path) {
            Ok(found) if found.is_dir() => None,
            Ok(_) => return Err(ReportError::NotAFolder(path.to_owned())),
            Err(_) => Some(EmptyFolder::new(path).map_err(failed)?),
        };
        let folder = Self {
            path: path.to_owned(),
            _made: made,
        };
        // This file is removed at once. It shows that files can be written.
        tempfile::tempfile_in(path).map_err(failed)?;
        folder.check(PAGE_FILE, PAGE_MARK)?;
        for chart in charts {
            folder.check(&format!("{chart}.svg"), FILE_MARK)?;
        }
        Ok(folder)
    }

    /// The files that a page with these charts has.
    pub(crate) fn files(&self, charts: &[&str]) -> Vec<PathBuf> {
        let charts = charts.iter().map(|chart| format!("{chart}.svg"));
        let names = [PAGE_FILE.to_owned()].into_iter().chain(charts);
        names.map(|name| self.path.join(name)).collect()
    }

    /// Writes the page and its charts, removes the other charts of an earlier page, and prints the path of the page.
    ///
    /// # Errors
    /// A [`ReportError`].
    pub(crate) fn write(self, page: &Page) -> Result<(), ReportError> {
        let html = page.html(&Origin::here());
        let mut files = vec![(PAGE_FILE.to_owned(), PAGE_MARK, html)];
        let charts = page.charts();
        files.extend(charts.map(|chart| {
            let name = format!("{}.svg", chart.name);
            (name, FILE_MARK, chart.file())
        }));
        // A file may have appeared since `open`.
        for (name, mark, _) in &files {
            self.check(name, mark)?;
        }
        let earlier = self.earlier_charts();
        for (name, _, content) in &files {
            let path = self.path.join(name);
            let written = output_file::replace(&path, content.as_bytes());
            written.map_err(|source| ReportError::File { path, source })?;
        }
        let is_written = |name: &String| files.iter().any(|(written, ..)| written == name);
        for name in earlier.iter().filter(|name| !is_written(name)) {
            let path = self.path.join(name);
            fs::remove_file(&path).map_err(|source| ReportError::File { path, source })?;
        }
        let page = self.path.join(PAGE_FILE).display().to_string();
        tell(&format!("report: {}", one_line(&page)));
        Ok(())
    }

    /// The files in the folder that hold charts of its page. A chart that the user has copied or renamed is none.
    fn earlier_charts(&self) -> Vec<String> {
        let page = fs::read_to_string(self.path.join(PAGE_FILE)).unwrap_or_default();
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let is_chart = |name: &String| {
            let chart = name.strip_suffix(".svg");
            chart.is_some_and(|chart| page.contains(&Chart::trace(chart)))
                && self.check(name, FILE_MARK).is_ok()
        };
        names.filter(is_chart).collect()
    }

    /// Checks that the file of this name may be written: there is none, or its beginning has the mark.
    fn check(&self, name: &str, mark: &str) -> Result<(), ReportError> {
        let path = self.path.join(name);
        let mut head = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(512).read_to_end(&mut head));
        match read {
            Ok(_) if String::from_utf8_lossy(&head).contains(mark) => {
                let writable = OpenOptions::new().append(true).open(&path);
                writable
                    .map(drop)
                    .map_err(|source| ReportError::File { path, source })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // A folder of this name can be opened but not read.
            Err(error) if error.kind() != io::ErrorKind::IsADirectory => Err(ReportError::File {
                path,
                source: error,
            }),
            _ => Err(ReportError::NotOurs(path)),
        }
    }
}

/// Writes the page, if one is wanted.
///
/// # Errors
/// [`CliError::Report`].
pub(crate) fn write(
    folder: Option<ReportFolder>,
    page: impl FnOnce() -> Page,
) -> Result<(), CliError> {
    match folder {
        Some(folder) => Ok(folder.write(&page())?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        bars::{Bars, Scale},
        chart::Drawing,
        page::Part,
    };

    #[test]
    fn a_folder_without_a_report_goes_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let report = ReportFolder::open(&path, &[]).unwrap();
        assert!(path.is_dir());
        drop(report);
        assert!(!path.exists());
        drop(ReportFolder::open(folder.path(), &[]).unwrap());
        assert!(folder.path().is_dir(), "was there before");
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let open = || ReportFolder::open(folder.path(), &["growth"]);
        let report = open().unwrap();
        report.write(&Page::new("first", "")).unwrap();
        // A file of a report may be replaced.
        open().unwrap().write(&Page::new("second", "")).unwrap();
        let page = folder.path().join("index.html");
        assert!(fs::read_to_string(&page).unwrap().contains("second"));

        fs::write(folder.path().join("growth.svg"), "<svg/>").unwrap();
        assert!(matches!(open(), Err(ReportError::NotOurs(path)) if path.ends_with("growth.svg")));
        fs::remove_file(folder.path().join("growth.svg")).unwrap();

        // A file that appeared since `open`.
        let report = open().unwrap();
        fs::write(&page, "dear diary").unwrap();
        let refused = report.write(&Page::new("third", ""));
        assert!(matches!(refused, Err(ReportError::NotOurs(_))));
        assert_eq!(fs::read_to_string(&page).unwrap(), "dear diary");

        fs::remove_file(&page).unwrap();
        fs::create_dir(&page).unwrap();
        assert!(matches!(open(), Err(ReportError::NotOurs(_))));
    }

    /// A chart of this name, without bars.
    fn chart_of(name: &str) -> Part {
        Part::Chart(Chart {
            name: name.to_owned(),
            title: String::new(),
            desc: String::new(),
            drawing: Drawing::Bars(Bars {
                groups: Vec::new(),
                scale: Scale::FromZero { compare_with: 1.0 },
                unit: "",
                keys: Vec::new(),
            }),
        })
    }

    #[test]
    fn charts_that_only_an_earlier_page_has_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |chart: Option<&str>| {
            let mut page = Page::new("page", "");
            page.section("charts", chart.map(chart_of).into_iter().collect());
            let report = ReportFolder::open(folder.path(), &[]).unwrap();
            report.write(&page).unwrap();
        };
        write(Some("growth"));
        let ours = fs::read_to_string(path("growth.svg")).unwrap();
        for copy in ["copy.svg", "growth.svg.bak"] {
            fs::write(path(copy), &ours).unwrap();
        }
        write(Some("time"));
        assert!(!path("growth.svg").exists());
        assert!(path("time.svg").exists());
        // The user has put an own file in place of a chart.
        fs::write(path("time.svg"), "<svg/>").unwrap();
        write(None);
        for kept in ["copy.svg", "growth.svg.bak", "time.svg"] {
            assert!(path(kept).exists(), "{kept}");
        }
        // Without the page nobody knows whose chart it is.
        write(Some("growth"));
        fs::remove_file(path("index.html")).unwrap();
        write(None);
        assert!(path("growth.svg").exists());
    }

    #[test]
    fn what_is_no_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let open = |path: &Path| ReportFolder::open(path, &[]);
        assert!(matches!(open(&file), Err(ReportError::NotAFolder(_))));
        let below = open(&file.join("below"));
        assert!(matches!(below, Err(ReportError::Folder { .. })));
    }
}
