//! Reads what profilers say about a program that builds blocks: stacks of perf, instruction counts of
//! callgrind, call sites of dhat; and times two such programs in turns.
//!
//! The scripts beside this package start the profilers, and then this program on their output. The
//! README explains how to read the results.

mod callgrind;
mod counts;
mod dhat;
mod draw;
mod duel;
mod error;
mod fold;
mod names;
mod spread;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Read what profilers say about building blocks. The scripts in profiling/ call it.
#[derive(Parser)]
#[command(name = "povmeter-profiling", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fold what `perf script` prints into one line per stack, from the phases of a block on
    Fold(fold::FoldArgs),
    /// Draw folded stacks, or how they differ from others
    Draw(draw::DrawArgs),
    /// Count instructions by phase, crate and function, and compare them with a baseline
    Instructions(counts::InstructionsArgs),
    /// List call sites that allocate, by phase
    Allocations(dhat::AllocationsArgs),
    /// Time two programs that build blocks, in turns
    Duel(duel::DuelArgs),
}

/// What a command found out.
enum Verdict {
    Fine,
    /// Something has grown, or exceeds its limit. The command has printed what.
    Worse,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Fold(args) => fold::run(&args),
        Command::Draw(args) => draw::run(&args),
        Command::Instructions(args) => counts::run(&args),
        Command::Allocations(args) => dhat::run(&args),
        Command::Duel(args) => duel::run(&args),
    };
    match done {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Worse) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            // Not the code that says something has grown.
            ExitCode::from(2)
        }
    }
}

/// The phases of a block. The program that builds blocks runs each in a function whose name is [`MARK`]
/// and the phase.
const PHASES: [&str; 5] = ["initialize", "extrinsics", "estimates", "finalize", "seal"];

/// What the names of functions that mark phases begin with.
const MARK: &str = "blocks::phase_";

/// The place in [`PHASES`] of the phase that `function` marks.
fn phase_of(function: &str) -> Option<usize> {
    let name = function.strip_prefix(MARK)?;
    let name = name.split("::").next()?;
    PHASES.iter().position(|phase| *phase == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_told_by_their_marks() {
        assert_eq!(phase_of("blocks::phase_initialize"), Some(0));
        assert_eq!(phase_of("blocks::phase_seal::h0123456789abcdef"), Some(4));
        assert_eq!(phase_of("blocks::phase_sealed"), None);
        assert_eq!(phase_of("blocks::main"), None);
    }
}
