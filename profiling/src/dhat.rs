//! Call sites that allocate, by phase, from the output of dhat.

use crate::{error::ToolError, names, phase_of, Verdict, PHASES};
use clap::Args;
use serde::Deserialize;
use std::{collections::HashMap, fmt::Write as _, fs, path::PathBuf};

/// The output of dhat, and how much of it to print.
#[derive(Args)]
pub(crate) struct AllocationsArgs {
    /// The output of dhat
    profile: PathBuf,
    /// How many blocks were built with their phases marked
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// How many call sites are listed per phase
    #[arg(long, default_value_t = 12)]
    top: usize,
}

/// The output of dhat, as far as it is read.
#[derive(Deserialize)]
struct Profile {
    /// Points that allocate, each with its stack.
    #[serde(rename = "pps")]
    points: Vec<Point>,
    /// Frames, which stacks name by number.
    #[serde(rename = "ftbl")]
    frames: Vec<String>,
}

#[derive(Deserialize)]
struct Point {
    #[serde(rename = "tb")]
    bytes: u64,
    #[serde(rename = "tbk")]
    calls: u64,
    /// The innermost first.
    #[serde(rename = "fs")]
    stack: Vec<usize>,
}

/// Allocations of one call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Allocated {
    calls: u64,
    bytes: u64,
}

/// Crates through which others allocate.
const MIDDLEMEN: [&str; 9] = [
    "alloc",
    "core",
    "std",
    "hashbrown",
    "libc and others",
    "bytes",
    "smallvec",
    "arrayvec",
    "parity_scale_codec",
];

/// A frame's function and place: `0x12AB: a::b::f (file.rs:12)` is `a::b::f` and `file.rs:12`.
fn parts(frame: &str) -> (&str, &str) {
    let frame = frame.split_once(": ").map_or(frame, |(_, rest)| rest);
    match frame.rsplit_once(" (") {
        Some((function, place)) => (function, place.trim_end_matches(')')),
        None => (frame, ""),
    }
}

/// The function that asked for the memory: the innermost one outside of [`MIDDLEMEN`], with its line.
fn site(stack: &[&str]) -> String {
    let asked = stack
        .iter()
        .map(|frame| parts(frame))
        .find(|(function, _)| !MIDDLEMEN.contains(&names::crate_of(function).as_str()));
    match asked {
        Some((function, place)) => format!("{} ({place})", names::short(function)),
        None => "unknown".to_owned(),
    }
}

/// Allocations by phase and call site; those outside of phases are left out.
fn by_phase(profile: &Profile) -> Vec<HashMap<String, Allocated>> {
    let mut phases = vec![HashMap::<String, Allocated>::new(); PHASES.len()];
    for point in &profile.points {
        let stack: Vec<&str> = point
            .stack
            .iter()
            .filter_map(|frame| profile.frames.get(*frame))
            .map(String::as_str)
            .collect();
        let marked = stack.iter().find_map(|frame| phase_of(parts(frame).0));
        if let Some(phase) = marked {
            let allocated = phases[phase].entry(site(&stack)).or_default();
            allocated.calls += point.calls;
            allocated.bytes += point.bytes;
        }
    }
    phases
}

/// The tables of all phases, per block.
fn tables(phases: &[HashMap<String, Allocated>], blocks: u32, top: usize) -> String {
    let mut text = String::new();
    let per_block = |count: u64| count as f64 / f64::from(blocks);
    for (name, sites) in PHASES.iter().zip(phases) {
        let sum = sites
            .values()
            .fold(Allocated::default(), |sum, one| Allocated {
                calls: sum.calls + one.calls,
                bytes: sum.bytes + one.bytes,
            });
        let mut rows: Vec<_> = sites.iter().collect();
        rows.sort_by(|a, b| (b.1.calls, b.1.bytes, a.0).cmp(&(a.1.calls, a.1.bytes, b.0)));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:>12.1} {:>14.1}  {name}, per block",
            per_block(sum.calls),
            per_block(sum.bytes)
        );
        for (site, allocated) in rows.iter().take(top) {
            let calls = per_block(allocated.calls);
            let bytes = per_block(allocated.bytes);
            let _ = writeln!(text, "{calls:>12.1} {bytes:>14.1}    {site}");
        }
        if rows.len() > top {
            let _ = writeln!(text, "{:>27}    {} more call sites", "", rows.len() - top);
        }
    }
    text
}

/// Prints the call sites that allocate.
///
/// # Errors
/// A [`ToolError`] if the file can't be read, or has no allocations of blocks.
pub(crate) fn run(args: &AllocationsArgs) -> Result<Verdict, ToolError> {
    let path = &args.profile;
    let text = fs::read_to_string(path).map_err(ToolError::file(path))?;
    let profile: Profile = serde_json::from_str(&text).map_err(|source| ToolError::Json {
        path: path.clone(),
        source,
    })?;
    let phases = by_phase(&profile);
    if phases.iter().all(HashMap::is_empty) {
        return Err(ToolError::Content {
            path: path.clone(),
            expected: "allocations of blocks",
            found: format!("{} of other places", profile.points.len()),
        });
    }
    println!("{:>12} {:>14}", "allocations", "bytes");
    print!("{}", tables(&phases, args.blocks, args.top));
    Ok(Verdict::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_sites_by_phase() {
        let profile = serde_json::json!({
            "dhatFileVersion": 2,
            "ftbl": [
                "[root]",
                "0x1: malloc (in /usr/libexec/valgrind/vgpreload_dhat-amd64-linux.so)",
                "0x2: alloc::vec::Vec<T>::push (mod.rs:100)",
                "0x3: povmeter_overlay::heap::Heap::grow (heap.rs:12)",
                "0x4: blocks::phase_seal (blocks.rs:50)",
                "0x5: blocks::main (blocks.rs:300)",
            ],
            "pps": [
                { "tb": 300, "tbk": 4, "fs": [1, 2, 3, 4, 5] },
                { "tb": 100, "tbk": 2, "fs": [1, 3, 4, 5] },
                { "tb": 900, "tbk": 9, "fs": [1, 2, 5] },
            ],
        });
        let phases = by_phase(&serde_json::from_value(profile).unwrap());
        let site = "povmeter_overlay::Heap::grow (heap.rs:12)";
        let expected = Allocated {
            calls: 6,
            bytes: 400,
        };
        assert_eq!(phases[4], HashMap::from([(site.to_owned(), expected)]));
        assert!(phases[..4].iter().all(HashMap::is_empty));
        let table = tables(&phases, 2, 5);
        assert!(
            table.contains(&format!("3.0          200.0    {site}")),
            "{table}"
        );
    }
}
