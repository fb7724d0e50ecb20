//! Stacks of perf, folded: one line per stack, from the phase of the block on.
//!
//! ```text
//! contains a phase                    kept, without the frames outside of the phase
//! begins where a thread begins        between blocks: counted, left out
//! neither                             broken: kept as [unknown]
//! ```

use crate::{error::ToolError, names, phase_of, Verdict, PHASES};
use clap::Args;
use inferno::collapse::{perf, Collapse};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufReader},
    path::PathBuf,
};

/// Where stacks come from and go to.
#[derive(Args)]
pub(crate) struct FoldArgs {
    /// What `perf script` printed
    stacks: PathBuf,
    /// The file for the folded stacks
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Share of unknown samples from which on the command ends with code 1, in percent
    #[arg(long, default_value_t = 2.0)]
    most_unknown: f64,
}

/// The name of a frame without a symbol.
const UNKNOWN: &str = "[unknown]";
/// Functions in which a thread begins.
const BEGINNINGS: [&str; 6] = [
    "_start",
    "main",
    "__libc_start_main",
    "__libc_start_call_main",
    "clone",
    "start_thread",
];

/// The samples of all stacks.
#[derive(Debug, Default)]
struct Folded {
    stacks: BTreeMap<String, u64>,
    between: u64,
    unknown: u64,
}

impl Folded {
    /// Adds `samples` samples of the stack `frames`, the outermost frame first.
    fn add(&mut self, frames: &[&str], samples: u64) {
        let marked = frames
            .iter()
            .enumerate()
            .find_map(|(at, frame)| Some((at, phase_of(frame)?)));
        let kept = match marked {
            Some((at, phase)) => {
                let inner = frames[at + 1..].iter().map(|frame| names::short(frame));
                let mut stack = vec![PHASES[phase].to_owned()];
                // Neighbours with the same short name are calls of one generic function.
                stack.extend(inner);
                stack.dedup();
                stack.join(";")
            }
            None if frames.iter().any(|frame| BEGINNINGS.contains(frame)) => {
                self.between += samples;
                return;
            }
            None => UNKNOWN.to_owned(),
        };
        if kept.contains(UNKNOWN) {
            self.unknown += samples;
        }
        *self.stacks.entry(kept).or_default() += samples;
    }

    fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// The kept samples with an unknown frame, in percent.
    fn unknown_percent(&self) -> f64 {
        self.unknown as f64 * 100.0 / self.samples().max(1) as f64
    }
}

/// The stacks in `folded` lines: frames joined by semicolons, the program first, and a count.
fn parse(folded: &str) -> Folded {
    let mut all = Folded::default();
    for line in folded.lines() {
        let Some((stack, samples)) = line.rsplit_once(' ') else {
            continue;
        };
        let frames: Vec<&str> = stack.split(';').skip(1).collect();
        all.add(&frames, samples.parse().unwrap_or(0));
    }
    all
}

/// Folds stacks, and says how much is unknown.
///
/// # Errors
/// A [`ToolError`] if a file can't be read or written, or there are no stacks of blocks.
pub(crate) fn run(args: &FoldArgs) -> Result<Verdict, ToolError> {
    let stacks = fs::File::open(&args.stacks).map_err(ToolError::file(&args.stacks))?;
    let mut lines = Vec::new();
    perf::Folder::default()
        .collapse(BufReader::new(stacks), &mut lines)
        .map_err(ToolError::Fold)?;
    let lines = String::from_utf8(lines)
        .map_err(|error| ToolError::Fold(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let folded = parse(&lines);
    let samples = folded.samples();
    if samples == 0 {
        return Err(ToolError::Content {
            path: args.stacks.clone(),
            expected: "stacks of blocks",
            found: format!("{} lines of others", lines.lines().count()),
        });
    }
    let mut text = String::new();
    for (stack, samples) in &folded.stacks {
        text.push_str(&format!("{stack} {samples}\n"));
    }
    fs::write(&args.output, text).map_err(ToolError::file(&args.output))?;
    let unknown = folded.unknown_percent();
    println!(
        "{samples} samples of blocks, {unknown:.2} % of them with a frame that is unknown; \
         {} between blocks left out",
        folded.between
    );
    if unknown < args.most_unknown {
        return Ok(Verdict::Fine);
    }
    println!(
        "expected less than {} % unknown: see the README on broken stacks",
        args.most_unknown
    );
    Ok(Verdict::Worse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_begin_with_the_phase() {
        let folded = parse(
            "blocks;_start;main;blocks::phase_extrinsics;a::b::C<D>::e;malloc 3\n\
             blocks;_start;main;blocks::phase_extrinsics;a::x::C<F>::e;malloc 2\n\
             blocks;_start;main;blocks::Setting::build 4\n\
             blocks;blocks::phase_seal;[unknown];f::g 1\n\
             blocks;malloc 2\n",
        );
        let stacks: Vec<_> = folded
            .stacks
            .iter()
            .map(|(k, v)| (k.as_str(), *v))
            .collect();
        assert_eq!(
            stacks,
            [
                ("[unknown]", 2),
                ("extrinsics;a::C::e;malloc", 5),
                ("seal;[unknown];f::g", 1),
            ]
        );
        assert_eq!((folded.between, folded.unknown), (4, 3));
        assert!((folded.unknown_percent() - 37.5).abs() < 1e-9);
    }
}
