//! Flamegraphs of folded stacks.

use crate::{error::ToolError, Verdict};
use clap::Args;
use inferno::{
    differential,
    flamegraph::{
        self,
        color::{BackgroundColor, BasicPalette, PaletteMap},
        Options, Palette,
    },
};
use std::{collections::BTreeSet, fs, path::PathBuf};

/// What to draw, and how.
#[derive(Args)]
pub(crate) struct DrawArgs {
    /// Folded stacks
    folded: PathBuf,
    /// Folded stacks from before: frames that are a larger part of the block now are red, smaller ones blue
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// The file for the picture
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// The line above the picture
    #[arg(long, default_value = "")]
    title: String,
    /// The line below that
    #[arg(long, allow_hyphen_values = true)]
    subtitle: Option<String>,
    /// For a page: no script inside, and no frame of less than half a percent
    #[arg(long)]
    small: bool,
}

/// Colours of frames, with the beginnings of crate names that have them. The first match counts.
const COLOURS: [(&str, &[&str]); 5] = [
    // The code that prepares and drives the block is around everything, but hardly takes time itself.
    (GREY, &["povmeter_dev_", "povmeter_workload"]),
    ("rgb(120,190,120)", &["povmeter"]),
    (
        "rgb(240,150,90)",
        &[
            "sp_state_machine",
            "sp_trie",
            "trie_db",
            "memory_db",
            "hash_db",
            "trie_root",
        ],
    ),
    (
        "rgb(150,180,225)",
        &[
            "frame_",
            "pallet_",
            "cumulus_",
            "sp_io",
            "sp_runtime",
            "sp_externalities",
        ],
    ),
    (GREY, &[""]),
];
const GREY: &str = "rgb(205,205,205)";

/// The lines with frames as `Type::function (crate)`, because a narrow box shows only the beginning.
fn labelled(folded: &str) -> String {
    let label = |frame: &str| match frame.split_once("::") {
        Some((owner, rest)) => format!("{rest} ({owner})"),
        None => frame.to_owned(),
    };
    let line = |line: &str| {
        let (stack, samples) = line.rsplit_once(' ').unwrap_or((line, "0"));
        let stack: Vec<String> = stack.split(';').map(label).collect();
        format!("{} {samples}\n", stack.join(";"))
    };
    folded.lines().map(line).collect()
}

/// The colour of each frame in `labelled` stacks.
fn colours(labelled: &str) -> Result<PaletteMap, ToolError> {
    let stacks = labelled.lines().filter_map(|line| line.rsplit_once(' '));
    let frames: BTreeSet<&str> = stacks
        .flat_map(|(stack, _)| stack.split(';'))
        .chain(["all"])
        .collect();
    let mut text = String::new();
    for frame in frames {
        let owner = frame.rsplit_once(" (").map_or("", |(_, owner)| owner);
        let of = |(_, crates): &&(&str, &[&str])| crates.iter().any(|one| owner.starts_with(one));
        if let Some((colour, _)) = COLOURS.iter().find(of) {
            text.push_str(&format!("{frame}->{colour}\n"));
        }
    }
    PaletteMap::from_reader(&mut text.as_bytes()).map_err(ToolError::Draw)
}

/// Draws folded stacks.
///
/// # Errors
/// A [`ToolError`] if a file can't be read or written, or there is nothing to draw.
pub(crate) fn run(args: &DrawArgs) -> Result<Verdict, ToolError> {
    let read = |path: &PathBuf| {
        let folded = fs::read_to_string(path).map_err(ToolError::file(path));
        folded.map(|folded| labelled(&folded))
    };
    let after = read(&args.folded)?;
    let mut options = Options::default();
    options.title.clone_from(&args.title);
    options.subtitle.clone_from(&args.subtitle);
    options.count_name = "samples".to_owned();
    options.bgcolors = Some(BackgroundColor::Flat((255, 255, 255).into()));
    options.deterministic = true;
    if args.small {
        options.no_javascript = true;
        options.image_width = Some(1200);
        options.min_width = 0.5;
    }
    let (lines, mut palette) = match &args.against {
        Some(before) => {
            let before = read(before)?;
            let mut lines = Vec::new();
            // Unchanged frames are white, so the background is grey.
            options.bgcolors = Some(BackgroundColor::Flat((225, 225, 225).into()));
            // Normalize, because two runs have different numbers of samples.
            let both = differential::Options {
                normalize: true,
                ..Default::default()
            };
            differential::from_readers(both, before.as_bytes(), after.as_bytes(), &mut lines)
                .map_err(ToolError::Draw)?;
            (String::from_utf8_lossy(&lines).into_owned(), None)
        }
        None => {
            let palette = colours(&after)?;
            (after, Some(palette))
        }
    };
    options.colors = Palette::Basic(BasicPalette::Hot);
    options.palette_map = palette.as_mut();
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut picture).map_err(ToolError::Draw)?;
    fs::write(&args.output, picture).map_err(ToolError::file(&args.output))?;
    Ok(Verdict::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_colour_of_their_owner() {
        let stacks = labelled("extrinsics;povmeter_overlay::Overlay::set;malloc 3");
        assert_eq!(
            stacks,
            "extrinsics;Overlay::set (povmeter_overlay);malloc 3\n"
        );
        let map = colours(&stacks).unwrap();
        let colour = |frame| {
            let colour = map.get(frame).unwrap();
            (colour.r, colour.g, colour.b)
        };
        assert_eq!(colour("Overlay::set (povmeter_overlay)"), (120, 190, 120));
        assert_eq!(colour("malloc"), (205, 205, 205));
        assert_eq!(colour("all"), (205, 205, 205));
    }
}
