//! The times of two programs that build and import the same blocks, in turns.

use crate::{
    cli::{CompareOptions, MeasureOptions},
    error::Error,
    measure::{median, BlockTimes, Measurement},
    output::print_line,
};
use serde::Serialize;
use std::{path::Path, process::Command};

/// What was compared.
#[derive(Serialize)]
struct Comparison {
    what: &'static str,
    schema: u32,
    accounts: u32,
    transfers: u32,
    child_writes: u32,
    /// The sizes of each client's caches.
    trie_cache_mib: u32,
    signature_cache_mib: u32,
    blocks: u32,
    rounds: usize,
    rows: Vec<Row>,
}

/// One kind of time, in milliseconds.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    /// Medians of the blocks of each round.
    this_ms: Vec<f64>,
    other_ms: Vec<f64>,
    /// How many times as fast the other program is: the median of the rounds, the lowest and the highest.
    ratio: f64,
    lowest: f64,
    highest: f64,
}

/// A time of a block.
type Time = fn(&BlockTimes) -> f64;

const TIMES: [(&str, Time); 5] = [
    ("build", |block| block.build_ms),
    ("build, processor", |block| block.build_cpu_ms),
    ("commit", |block| block.author_commit_ms),
    ("import", |block| block.import_ms),
    ("import, processor", |block| block.import_cpu_ms),
];

/// Runs `measure` of this program and of the other one in turns, and prints the medians.
///
/// # Errors
/// [`Error::Program`] if one of them fails; [`Error::OtherBlocks`] if they make different blocks.
pub(crate) fn compare(options: &CompareOptions) -> Result<(), Error> {
    let this = std::env::current_exe().map_err(|error| Error::Program {
        program: "this program".into(),
        reason: error.to_string(),
    })?;
    let (mut these, mut others) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        // Each comes first in turns, in case what runs first is faster or slower.
        let (one, other);
        if round % 2 == 0 {
            one = run(&this, &options.measure)?;
            other = run(&options.other, &options.measure)?;
        } else {
            other = run(&options.other, &options.measure)?;
            one = run(&this, &options.measure)?;
        }
        if one.best_hash != other.best_hash {
            return Err(Error::OtherBlocks {
                expected: one.best_hash,
                found: other.best_hash,
            });
        }
        these.push(one);
        others.push(other);
    }
    let rows = TIMES.map(|(name, time)| {
        let medians = |rounds: &[Measurement]| -> Vec<f64> {
            let rounds = rounds.iter();
            rounds
                .map(|round| median(round.blocks.iter().map(time)))
                .collect()
        };
        let (this_ms, other_ms) = (medians(&these), medians(&others));
        let ratios: Vec<f64> = this_ms
            .iter()
            .zip(&other_ms)
            .map(|(this, other)| this / other.max(f64::MIN_POSITIVE))
            .collect();
        Row {
            name,
            ratio: median(ratios.iter().copied()),
            lowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            highest: ratios.iter().copied().fold(0.0, f64::max),
            this_ms,
            other_ms,
        }
    });
    let MeasureOptions {
        transfers,
        child_writes,
        blocks,
        accounts,
        trie_cache,
        signature_cache,
        json,
    } = options.measure;
    let comparison = Comparison {
        what: "node-compare",
        schema: 1,
        accounts,
        transfers,
        child_writes,
        trie_cache_mib: trie_cache,
        signature_cache_mib: signature_cache,
        blocks,
        rounds: these.len(),
        rows: rows.into(),
    };
    print(&comparison, json)
}

/// The result of `program measure`.
fn run(program: &Path, options: &MeasureOptions) -> Result<Measurement, Error> {
    let failed = |reason: String| Error::Program {
        program: program.to_owned(),
        reason,
    };
    let MeasureOptions {
        transfers,
        child_writes,
        blocks,
        accounts,
        trie_cache,
        signature_cache,
        json: _,
    } = options;
    let mut command = Command::new(program);
    command.args(["measure", "--json"]);
    for (name, value) in [
        ("--transfers", u64::from(*transfers)),
        ("--child-writes", u64::from(*child_writes)),
        ("--blocks", u64::from(*blocks)),
        ("--accounts", u64::from(*accounts)),
        ("--trie-cache", u64::from(*trie_cache)),
        ("--signature-cache", u64::from(*signature_cache)),
    ] {
        command.args([name, &value.to_string()]);
    }
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {errors}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

fn print(comparison: &Comparison, json: bool) -> Result<(), Error> {
    if json {
        let text = serde_json::to_string_pretty(comparison).expect("numbers and texts");
        return print_line(text);
    }
    let Comparison {
        accounts,
        transfers,
        child_writes,
        trie_cache_mib,
        signature_cache_mib,
        blocks,
        rounds,
        ..
    } = comparison;
    print_line(format_args!(
        "{accounts} accounts, {blocks} blocks of {transfers} transfers and {child_writes} writes to child tries"
    ))?;
    print_line(format_args!(
        "caches: {trie_cache_mib} MiB of a trie, {signature_cache_mib} MiB of signatures; {rounds} rounds of each program; ms"
    ))?;
    print_line(format_args!(
        "{:<18} {:>10} {:>10} {:>14} {:>20}",
        "", "this", "other", "times as fast", "lowest to highest"
    ))?;
    for row in &comparison.rows {
        print_line(format_args!(
            "{:<18} {:>10.1} {:>10.1} {:>14.2} {:>20}",
            row.name,
            median(row.this_ms.iter().copied()),
            median(row.other_ms.iter().copied()),
            row.ratio,
            format!("{:.2} to {:.2}", row.lowest, row.highest),
        ))?;
    }
    Ok(())
}
