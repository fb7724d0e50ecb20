//! Bytes of a proof as folded stacks, and drawn as a flame graph.

use crate::error::CliError;
use inferno::flamegraph::{
    self,
    color::{BackgroundColor, BasicPalette},
    Options, Palette,
};
use povmeter_workload::attribution::ByteTally;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Whether there is a folder for the file at `path`.
///
/// # Errors
/// [`CliError::WriteFile`] if there is none.
pub(crate) fn check_folder(path: &Path) -> Result<(), CliError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(failed(path.to_owned())(io::ErrorKind::NotFound.into()))
        }
        _ => Ok(()),
    }
}

/// Writes the folded stacks of `tally`.
///
/// # Errors
/// [`CliError::WriteFile`].
pub(crate) fn write_folded(path: &Path, tally: &ByteTally) -> Result<(), CliError> {
    let mut text = tally.folded().join("\n");
    text.push('\n');
    fs::write(path, text).map_err(failed(path.to_owned()))
}

/// Draws the folded stacks of `tally`.
///
/// # Errors
/// [`CliError::WriteFile`].
pub(crate) fn write_flamegraph(path: &Path, tally: &ByteTally) -> Result<(), CliError> {
    let mut options = Options::default();
    options.title = format!("Storage proof: {} bytes", tally.total.bytes);
    options.subtitle = Some(format!("{} nodes; pallet, item, cause", tally.total.nodes));
    options.count_name = "bytes".to_owned();
    options.name_type = String::new();
    options.colors = Palette::Basic(BasicPalette::Aqua);
    options.bgcolors = Some(BackgroundColor::Grey);
    // The same picture of the same bytes.
    options.deterministic = true;
    let folded = tally.folded();
    let mut svg = Vec::new();
    let drawn = if folded.is_empty() {
        // A block without a proof: there is nothing to draw, and that is no error.
        flamegraph::from_lines(&mut options, ["(nothing) 1"], &mut svg)
    } else {
        let lines = folded.iter().map(String::as_str);
        flamegraph::from_lines(&mut options, lines, &mut svg)
    };
    drawn
        .and_then(|()| fs::write(path, svg))
        .map_err(failed(path.to_owned()))
}

fn failed(path: PathBuf) -> impl FnOnce(io::Error) -> CliError {
    move |source| CliError::WriteFile { path, source }
}
