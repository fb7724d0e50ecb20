//! Writes the bytes of a proof as folded stacks and as a flame graph.

use crate::{error::CliError, one_line::one_line, output_file::OutputFile};
#[cfg(feature = "flamegraph")]
use inferno::flamegraph::{
    self,
    color::{BackgroundColor, Color, PaletteMap},
    Options,
};
use povmeter_attribution::{ByteTally, CauseBytes};
use std::{io, path::Path};

/// The option that names the file of folded stacks.
pub(crate) const FOLDED: &str = "--folded";
/// The option that names the file of the flame graph.
pub(crate) const FLAMEGRAPH: &str = "--flamegraph";
/// The second line of each flame graph, which marks it as povmeter's.
const FLAMEGRAPH_MARK: &str = "<!-- povmeter: a flame graph of the bytes of a storage proof -->";

/// Opens the file at `path` for folded stacks.
///
/// # Errors
/// [`CliError::OutputFile`] if it can't be written, or holds anything but folded stacks.
pub(crate) fn open_folded(path: &Path) -> Result<OutputFile, CliError> {
    Ok(OutputFile::open(FOLDED, path, is_folded)?)
}

/// Whether each line but the last, which may be cut off, is a stack that ends with a cause, and a number. Stacks of other
/// programs end with a function.
fn is_folded(head: &str) -> bool {
    let whole = head.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut lines = whole.split('\n');
    lines.all(|line| {
        let stack = line.rsplit_once(' ');
        stack.is_some_and(|(stack, bytes)| {
            let found = stack.rsplit_once(';').map(|(_, cause)| cause);
            let mut causes = CauseBytes::default().by_cause().into_iter();
            causes.any(|(cause, _)| found == Some(cause)) && bytes.parse::<u64>().is_ok()
        })
    })
}

/// Opens the file at `path` for a flame graph.
///
/// # Errors
/// [`CliError::OutputFile`] if it can't be written, or holds anything but povmeter's flame graph.
/// [`CliError::NoFlamegraph`] if the program is built without the feature `flamegraph`.
pub(crate) fn open_flamegraph(path: &Path) -> Result<OutputFile, CliError> {
    if cfg!(not(feature = "flamegraph")) {
        return Err(CliError::NoFlamegraph);
    }
    let is_ours = |head: &str| head.contains(FLAMEGRAPH_MARK);
    Ok(OutputFile::open(FLAMEGRAPH, path, is_ours)?)
}

/// Writes the folded stacks of `tally`.
///
/// # Errors
/// [`CliError::OutputFile`] if the file can't be written.
pub(crate) fn write_folded(file: &OutputFile, tally: &ByteTally) -> Result<(), CliError> {
    // No line at all for an empty proof, so that the file is accepted when it is written again.
    let lines = folded(tally).into_iter();
    let text: String = lines.map(|line| line + "\n").collect();
    Ok(file.write(text.as_bytes())?)
}

/// The folded stacks of `tally`, with escapes for line breaks in names from a runtime's metadata.
fn folded(tally: &ByteTally) -> Vec<String> {
    let lines = tally.folded().into_iter();
    lines.map(|line| one_line(&line).into_owned()).collect()
}

/// Draws the folded stacks of `tally` as a flame graph.
///
/// # Errors
/// [`CliError::OutputFile`] if the file can't be written, [`CliError::Flamegraph`] if drawing fails.
pub(crate) fn write_flamegraph(file: &OutputFile, tally: &ByteTally) -> Result<(), CliError> {
    let svg = draw(tally, Script::Inside).map_err(CliError::Flamegraph)?;
    let svg = String::from_utf8_lossy(&svg);
    // The XML declaration must stay the first line.
    let (declaration, rest) = svg.split_once('\n').unwrap_or(("", &svg));
    Ok(file.write(format!("{declaration}\n{FLAMEGRAPH_MARK}\n{rest}").as_bytes())?)
}

/// The flame graph of `tally` as a part of a page, without a script; `None` if drawing fails.
pub(crate) fn picture(tally: &ByteTally) -> Option<String> {
    let svg = draw(tally, Script::None).ok()?;
    let svg = String::from_utf8(svg).ok()?;
    // Drop the declaration, because the page has its own.
    let svg = &svg[svg.find("<svg")?..];
    // Drop the call of the script; the script element, which is empty; the texts that only a script uses; and the
    // styles, which would apply to the whole page.
    let svg = svg.replacen(" onload=\"init(evt)\"", "", 1);
    let script = ("<script".to_owned(), "</script>");
    let style = ("<style".to_owned(), "</style>");
    let texts = ["search", "matched", "unzoom", "details"];
    let texts = texts.map(|id| (format!("<text id=\"{id}\""), "</text>"));
    let unused = [script, style].into_iter().chain(texts);
    unused.into_iter().try_fold(svg, |svg, (from, to)| {
        let Some((before, rest)) = svg.split_once(&from) else {
            return Some(svg);
        };
        let (_, after) = rest.split_once(to)?;
        Some(format!("{before}{after}"))
    })
}

/// Whether a flame graph holds the script that zooms and searches it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Inside,
    None,
}

/// Fails, because the program is built without the feature `flamegraph`.
#[cfg(not(feature = "flamegraph"))]
fn draw(_: &ByteTally, _: Script) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "flamegraph")]
fn draw(tally: &ByteTally, script: Script) -> io::Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = format!("Storage proof: {} bytes", tally.total.bytes);
    options.subtitle = Some(format!(
        "{} nodes, by pallet, item and cause",
        tally.total.nodes
    ));
    options.count_name = "bytes".to_owned();
    options.name_type = String::new();
    let folded = folded(tally);
    let mut colors = colors(&folded);
    options.palette_map = Some(&mut colors);
    options.bgcolors = Some(BackgroundColor::Grey);
    // Equal bytes make an equal flame graph.
    options.deterministic = true;
    options.no_javascript = script == Script::None;
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

/// The colours: one for each cause, and one for all pallets and items. Each has a contrast of at least 3 to a
/// light and to a dark background, and of at least 4.5 to the dark text on it.
#[cfg(feature = "flamegraph")]
fn colors(folded: &[String]) -> PaletteMap {
    let mut colors = PaletteMap::default();
    let frames = folded.iter().flat_map(|line| {
        line.rsplit_once(' ')
            .map_or("", |(stack, _)| stack)
            .split(';')
    });
    let teal = [0x3d, 0x95, 0x9b];
    // The bottom frame has no name.
    for name in frames.chain(["", "(nothing)"]) {
        insert(&mut colors, name, teal);
    }
    for (cause, color) in [
        ("read", [0x5a, 0x8f, 0xd0]),
        ("root", [0xbd, 0x7c, 0x18]),
        ("sibling", [0xd9, 0x6c, 0x62]),
        ("value", [0x58, 0x9a, 0x4a]),
        ("shared", [0x8a, 0x8f, 0x96]),
    ] {
        insert(&mut colors, cause, color);
    }
    colors
}

#[cfg(feature = "flamegraph")]
fn insert(colors: &mut PaletteMap, name: &str, [r, g, b]: [u8; 3]) {
    colors.insert(name, Color { r, g, b });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn folded_stacks_are_known_by_their_lines() {
        for (head, ours) in [
            ("System;Account;read 120\nBalances;root 5\n", true),
            // Cut off where the head ends.
            ("System;Account;read 120\nBala", true),
            ("main;run;step 120\n", false),
            ("dear diary\n", false),
            ("a;b x\n", false),
            ("System;Account 1\n\n", false),
            ("no line break 1", false),
        ] {
            assert_eq!(is_folded(head), ours, "{head:?}");
        }
    }

    #[cfg(feature = "flamegraph")]
    #[test]
    fn a_picture_has_nothing_of_a_script() {
        let picture = picture(&ByteTally::default()).unwrap();
        assert!(picture.starts_with("<svg"), "{picture}");
        for part in ["onload", "script", "init(", "<style", "onclick"] {
            assert!(!picture.contains(part), "{part} in {picture}");
        }
    }

    #[test]
    fn the_file_of_an_empty_proof_is_written_again() {
        let folder = crate::scratch::ScratchFolder::new().unwrap();
        let path = folder.path().join("stacks");
        for _ in 0..2 {
            let file = open_folded(&path).unwrap();
            write_folded(&file, &ByteTally::default()).unwrap();
        }
    }
}
