//! Two programs that build blocks, timed in turns.
//!
//! ```text
//! for each launch:       both are started anew, and prepare the same block
//!     for each round:    A builds a block, then B; in the next round B goes first
//!     the quotient of the medians, B's by A's
//! the median of the quotients, and its bootstrap interval
//! ```
//! Places in memory and seeds of hashes are the same during the whole life of a process: they differ
//! by launch and not by round. So the spread is that of the launches.

use crate::{
    error::ToolError,
    spread::{median, Spread},
    Verdict, PHASES,
};
use clap::Args;
use std::{
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// The programs, and how often they are run.
#[derive(Args)]
pub(crate) struct DuelArgs {
    /// The program that builds blocks, as it was
    base: PathBuf,
    /// The program as it is
    candidate: PathBuf,
    /// How often both are started
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..))]
    launches: u32,
    /// Blocks of each per launch
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Options for the base alone, as `--contender peer-none`
    #[arg(
        long,
        value_name = "OPTIONS",
        allow_hyphen_values = true,
        default_value = ""
    )]
    base_options: String,
    /// Options for both
    #[arg(last = true)]
    options: Vec<String>,
}

/// A program that builds a block whenever it is asked.
struct Builder<'a> {
    program: &'a Path,
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    root: String,
}

/// The nanoseconds of each phase of a block.
type Times = [f64; PHASES.len()];

impl<'a> Builder<'a> {
    fn start(program: &'a Path, options: &[String]) -> Result<Self, ToolError> {
        let failed = |source| ToolError::Start {
            path: program.to_owned(),
            source,
        };
        let mut process = Command::new(program)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let mut builder = Self {
            program,
            process,
            requests,
            answers: BufReader::new(answers),
            root: String::new(),
        };
        let ready = builder.line()?;
        let mut words = ready.split(' ');
        match (words.next(), words.next()) {
            (Some("ready"), Some(root)) => builder.root = root.to_owned(),
            _ => return Err(builder.odd("the word ready and a root", ready)),
        }
        Ok(builder)
    }

    fn line(&mut self) -> Result<String, ToolError> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn odd(&self, expected: &'static str, found: String) -> ToolError {
        ToolError::Answer {
            path: self.program.to_owned(),
            expected,
            found,
        }
    }

    /// The times of a block.
    fn build(&mut self) -> Result<Times, ToolError> {
        writeln!(self.requests, "block")?;
        let line = self.line()?;
        let times = line
            .split(' ')
            .map(str::parse)
            .collect::<Result<Vec<_>, _>>();
        let times = times.ok().and_then(|times| Times::try_from(times).ok());
        times.ok_or_else(|| self.odd("five numbers", line))
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // The program ends by itself when its input ends, but would build its block first.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The medians of both programs in one launch.
struct Launch {
    base: Vec<f64>,
    candidate: Vec<f64>,
}

/// The medians of one program: each phase, and the whole block.
fn medians(blocks: &[Times]) -> Vec<f64> {
    let mut medians: Vec<f64> = (0..PHASES.len())
        .map(|phase| median(&blocks.iter().map(|block| block[phase]).collect::<Vec<_>>()))
        .collect();
    let totals: Vec<f64> = blocks.iter().map(|block| block.iter().sum()).collect();
    medians.push(median(&totals));
    medians
}

/// Times both programs and prints the result.
///
/// # Errors
/// A [`ToolError`] if a program can't be started, or does not answer as it should.
pub(crate) fn run(args: &DuelArgs) -> Result<Verdict, ToolError> {
    // The last one of a repeated option counts.
    let mut base_options = args.options.clone();
    base_options.extend(args.base_options.split_whitespace().map(str::to_owned));
    let mut launches = Vec::new();
    let mut roots = (String::new(), String::new());
    for _ in 0..args.launches {
        let mut base = Builder::start(&args.base, &base_options)?;
        let mut candidate = Builder::start(&args.candidate, &args.options)?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for round in 0..args.rounds {
            if round % 2 == 0 {
                before.push(base.build()?);
                after.push(candidate.build()?);
            } else {
                after.push(candidate.build()?);
                before.push(base.build()?);
            }
        }
        launches.push(Launch {
            base: medians(&before),
            candidate: medians(&after),
        });
        roots = (base.root.clone(), candidate.root.clone());
    }
    print!("{}", report(&launches, args.rounds));
    if roots.0 != roots.1 {
        println!("the blocks are not the same: {} and {}", roots.0, roots.1);
    }
    Ok(Verdict::Fine)
}

/// The launches as a table, and what follows from them.
fn report(launches: &[Launch], rounds: u32) -> String {
    let mut text = format!(
        "{} launches of {rounds} blocks each, in turns; thread CPU time, candidate by base\n\
         {:<11} {:>10} {:>10} {:>7} {:>16} {:>16}\n",
        launches.len(),
        "phase",
        "base us",
        "cand. us",
        "ratio",
        "95 % interval",
        "least..most",
    );
    let names = PHASES.iter().copied().chain(["block"]);
    let mut verdict = String::new();
    for (place, name) in names.enumerate() {
        let base: Vec<f64> = launches.iter().map(|launch| launch.base[place]).collect();
        let candidate: Vec<f64> = launches
            .iter()
            .map(|launch| launch.candidate[place])
            .collect();
        // A phase that takes no time has no ratio.
        let ratios: Vec<f64> = base
            .iter()
            .zip(&candidate)
            .map(|(base, candidate)| candidate / base)
            .filter(|ratio| ratio.is_finite())
            .collect();
        if ratios.is_empty() {
            continue;
        }
        let ratio = Spread::of(&ratios);
        text.push_str(&format!(
            "{name:<11} {:>10.1} {:>10.1} {:>7.3} {:>16} {:>16}\n",
            median(&base) / 1e3,
            median(&candidate) / 1e3,
            ratio.median,
            format!("{:.3}..{:.3}", ratio.low, ratio.high),
            format!("{:.3}..{:.3}", ratio.least, ratio.most),
        ));
        verdict = if ratio.is_apart_from(1.0) {
            let word = if ratio.median < 1.0 {
                "faster"
            } else {
                "slower"
            };
            let percent = (1.0 / ratio.median - 1.0) * 100.0;
            format!("the candidate is {word}: {percent:+.1} % blocks in the same time\n")
        } else {
            "no difference that could be told from noise\n".to_owned()
        };
    }
    text + &verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launches(ratio: f64) -> Vec<Launch> {
        let launch = |n: u32| {
            let wobble = 1.0 + f64::from(n % 3) / 1000.0;
            Launch {
                base: vec![1000.0; 6],
                candidate: vec![1000.0 * ratio * wobble; 6],
            }
        };
        (0..9).map(launch).collect()
    }

    #[test]
    fn a_verdict_for_the_whole_block() {
        assert!(report(&launches(0.5), 3).contains("faster: +99.8 %"));
        assert!(report(&launches(1.25), 3).contains("the candidate is slower"));
        assert!(report(&launches(0.9995), 3).contains("no difference"));
    }

    #[test]
    fn medians_of_phases_and_of_the_whole() {
        let blocks = [[1.0; 5], [3.0; 5], [2.0; 5]];
        assert_eq!(medians(&blocks), [2.0, 2.0, 2.0, 2.0, 2.0, 10.0]);
    }
}
