//! Writes the bytes of a proof as folded stacks and as a flame graph.

use crate::error::CliError;
use inferno::flamegraph::{
    self,
    color::{BackgroundColor, BasicPalette, Color, PaletteMap},
    Options, Palette,
};
use povmeter_attribution::ByteTally;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Checks that the folder of the file at `path` exists.
///
/// # Errors
/// [`CliError::WriteFile`] if it does not.
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

/// Draws the folded stacks of `tally` as a flame graph.
///
/// # Errors
/// [`CliError::WriteFile`].
pub(crate) fn write_flamegraph(path: &Path, tally: &ByteTally) -> Result<(), CliError> {
    draw(tally, Script::Inside)
        .and_then(|svg| fs::write(path, svg))
        .map_err(failed(path.to_owned()))
}

/// The flame graph of `tally` as a part of a page, without a script.
pub(crate) fn picture(tally: &ByteTally) -> Option<String> {
    let svg = draw(tally, Script::None).ok()?;
    let svg = String::from_utf8(svg).ok()?;
    // Drop the declaration, because the page has its own.
    let svg = &svg[svg.find("<svg")?..];
    // Drop the script element, which remains without its code.
    let Some((before, rest)) = svg.split_once("<script") else {
        return Some(svg.to_owned());
    };
    let (_, after) = rest.split_once("</script>")?;
    Some(format!("{before}{after}"))
}

/// Whether a flame graph holds the script that zooms and searches it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Inside,
    None,
}

fn draw(tally: &ByteTally, script: Script) -> io::Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = format!("Storage proof: {} bytes", tally.total.bytes);
    options.subtitle = Some(format!(
        "{} nodes, by pallet, item and cause",
        tally.total.nodes
    ));
    options.count_name = "bytes".to_owned();
    options.name_type = String::new();
    let mut of_causes = cause_colors();
    options.palette_map = Some(&mut of_causes);
    options.colors = Palette::Basic(BasicPalette::Aqua);
    options.bgcolors = Some(BackgroundColor::Grey);
    // Equal bytes make an equal flame graph.
    options.deterministic = true;
    options.no_javascript = script == Script::None;
    let folded = tally.folded();
    let mut svg = Vec::new();
    if folded.is_empty() {
        // An empty proof is no error, so draw a placeholder.
        flamegraph::from_lines(&mut options, ["(nothing) 1"], &mut svg)?;
    } else {
        let lines = folded.iter().map(String::as_str);
        flamegraph::from_lines(&mut options, lines, &mut svg)?;
    }
    Ok(svg)
}

/// Each cause has a colour of its own; pallets and items share a palette.
fn cause_colors() -> PaletteMap {
    let mut colors = PaletteMap::default();
    for (cause, [r, g, b]) in [
        ("read", [0x8f, 0xb8, 0xf0]),
        ("root", [0xf5, 0xb6, 0x6b]),
        ("sibling", [0xef, 0x8a, 0x80]),
        ("value", [0x9a, 0xd1, 0x8b]),
        ("shared", [0xc9, 0xc9, 0xc9]),
    ] {
        colors.insert(cause, Color { r, g, b });
    }
    colors
}

fn failed(path: PathBuf) -> impl FnOnce(io::Error) -> CliError {
    move |source| CliError::WriteFile { path, source }
}
