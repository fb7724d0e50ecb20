//! Instruction counts, and their growth since a baseline.

use crate::{callgrind::Instructions, error::ToolError, names, Verdict, PHASES};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

/// What was counted, and what to compare it with.
#[derive(Args)]
pub(crate) struct InstructionsArgs {
    /// The output of callgrind
    counts: PathBuf,
    /// The counts to compare with, by block
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// The options that the block was built with
    #[arg(long, default_value = "")]
    block: String,
    /// How many blocks were built with their phases marked; the printed counts are their mean
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    blocks: u64,
    /// A condition that counts depend on, as `rustc=1.95.0`; may be repeated
    #[arg(long = "condition", value_name = "NAME=VALUE", value_parser = condition)]
    conditions: Vec<(String, String)>,
    /// Growth above which the command ends with code 1, in percent
    #[arg(long, default_value_t = 2.0)]
    threshold: f64,
    /// Make these counts the baseline
    #[arg(long)]
    update: bool,
    /// How many functions are listed
    #[arg(long, default_value_t = 20)]
    top: usize,
}

fn condition(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let (name, value) = parts.ok_or_else(|| format!("expected NAME=VALUE, found {text}"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Counts of one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    /// The conditions that they depend on, besides the code.
    conditions: BTreeMap<String, String>,
    phases: BTreeMap<String, u64>,
    crates: BTreeMap<String, u64>,
    functions: BTreeMap<String, u64>,
}

/// The stored counts, by the options of the block.
type Baseline = BTreeMap<String, Counts>;

/// Functions with less than one in this many instructions are not stored.
const LEAST_STORED: u64 = 500;
/// Crates with less than one in this many instructions are too small to compare by percentage.
const LEAST_COMPARED: u64 = 200;

impl Counts {
    fn new(instructions: &Instructions, conditions: &[(String, String)]) -> Self {
        let total = instructions.total();
        let mut functions = BTreeMap::new();
        for (name, count) in &instructions.functions {
            *functions.entry(names::short(name)).or_default() += count;
        }
        functions.retain(|_, count| *count >= total / LEAST_STORED);
        let mut crates = instructions.crates();
        crates.retain(|_, count| *count >= total / LEAST_COMPARED);
        let phases = PHASES.iter().map(|phase| (*phase).to_owned());
        Self {
            conditions: conditions.iter().cloned().collect(),
            phases: phases.zip(instructions.phases).collect(),
            crates,
            functions,
        }
    }

    fn total(&self) -> u64 {
        self.phases.values().sum()
    }
}

/// A count before and now.
struct Change<'a> {
    name: &'a str,
    before: u64,
    now: u64,
}

impl Change<'_> {
    fn percent(&self) -> f64 {
        (self.now as f64 / self.before as f64 - 1.0) * 100.0
    }
}

/// The changes of the counts that are in both, unless they were 0 before.
fn changes<'a>(before: &BTreeMap<String, u64>, now: &'a BTreeMap<String, u64>) -> Vec<Change<'a>> {
    let changes = now.iter().filter_map(|(name, now)| {
        let before = *before.get(name)?;
        Some(Change {
            name,
            before,
            now: *now,
        })
    });
    changes.filter(|change| change.before > 0).collect()
}

/// One of the tables of counts: by phase, crate or function.
type Part = fn(&Counts) -> &BTreeMap<String, u64>;

/// The counts as tables, beside those of `before`.
fn tables(now: &Counts, before: Option<&Counts>, top: usize) -> String {
    let mut text = String::new();
    let total = now.total();
    let none = BTreeMap::new();
    let parts: [(&str, Part, usize); 3] = [
        ("phase", |counts| &counts.phases, usize::MAX),
        ("crate", |counts| &counts.crates, usize::MAX),
        ("function", |counts| &counts.functions, top),
    ];
    for (title, of, top) in parts {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:>14} {:>6} {:>8}  {title}",
            "instructions", "%", "change"
        );
        let before = before.map_or(&none, of);
        let mut rows: Vec<_> = of(now).iter().collect();
        if title == "phase" {
            rows.sort_by_key(|(name, _)| PHASES.iter().position(|phase| phase == name));
        } else {
            rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        }
        for (name, count) in rows.into_iter().take(top) {
            let change = before.get(name).filter(|before| **before > 0);
            let change = change.map_or_else(String::new, |before| {
                let change = Change {
                    name,
                    before: *before,
                    now: *count,
                };
                format!("{:+.2} %", change.percent())
            });
            let share = *count as f64 * 100.0 / total.max(1) as f64;
            let _ = writeln!(text, "{count:>14} {share:>6.2} {change:>8}  {name}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{total:>14} in all");
    text
}

/// The phases, and the crates of this project, that grew by more than `threshold` percent. Other crates are
/// left out, because their counts also change with what the compiler inlines into them, unlike those of
/// phases.
fn grown(now: &Counts, before: &Counts, threshold: f64) -> Vec<String> {
    let mut grown = Vec::new();
    for (kind, before, now) in [
        ("phase", &before.phases, &now.phases),
        ("crate", &before.crates, &now.crates),
    ] {
        for change in changes(before, now) {
            let is_ours = kind == "phase" || change.name.starts_with("povmeter");
            if is_ours && change.percent() > threshold {
                let Change { name, before, now } = change;
                let percent = change.percent();
                let line = format!("{kind} {name}: {before} before, {now} now, {percent:+.2} %");
                grown.push(line);
            }
        }
    }
    grown
}

/// Prints counts, and compares them with the baseline or becomes it.
///
/// # Errors
/// A [`ToolError`] if a file can't be read or written.
pub(crate) fn run(args: &InstructionsArgs) -> Result<Verdict, ToolError> {
    let text = fs::read_to_string(&args.counts).map_err(ToolError::file(&args.counts))?;
    let odd = |found| ToolError::Content {
        path: args.counts.clone(),
        expected: "counts of blocks by callgrind",
        found,
    };
    let mut instructions = Instructions::parse(&text).map_err(odd)?;
    instructions.divide(args.blocks);
    if instructions.total() == 0 {
        return Err(odd("no phase of a block".to_owned()));
    }
    let now = Counts::new(&instructions, &args.conditions);
    let mut baseline = read_baseline(&args.baseline)?;
    let before = baseline.get(&args.block);
    let comparable = before.filter(|before| before.conditions == now.conditions);
    print!("{}", tables(&now, comparable, args.top));
    if args.update {
        baseline.insert(args.block.clone(), now);
        let text = serde_json::to_string_pretty(&baseline).map_err(|source| ToolError::Json {
            path: args.baseline.clone(),
            source,
        })?;
        fs::write(&args.baseline, text + "\n").map_err(ToolError::file(&args.baseline))?;
        println!("these are the baseline now");
        return Ok(Verdict::Fine);
    }
    let Some(before) = before else {
        println!("no baseline for this block: --update-baseline makes one");
        return Ok(Verdict::Fine);
    };
    let Some(before) = comparable else {
        println!("not compared with the baseline, which was counted under other conditions:");
        for (name, value) in &now.conditions {
            let then = before
                .conditions
                .get(name)
                .map_or("nothing", String::as_str);
            if then != value {
                println!("  {name}: {then} then, {value} now");
            }
        }
        return Ok(Verdict::Fine);
    };
    let total = Change {
        name: "block",
        before: before.total(),
        now: now.total(),
    };
    println!("{:+.3} % since the baseline", total.percent());
    let grown = grown(&now, before, args.threshold);
    if grown.is_empty() {
        return Ok(Verdict::Fine);
    }
    println!("grown by more than {} %:", args.threshold);
    for line in grown {
        println!("  {line}");
    }
    println!("if that is meant: --update-baseline, and say in the commit why");
    Ok(Verdict::Worse)
}

fn read_baseline(path: &PathBuf) -> Result<Baseline, ToolError> {
    if !path.exists() {
        return Ok(Baseline::new());
    }
    let text = fs::read_to_string(path).map_err(ToolError::file(path))?;
    serde_json::from_str(&text).map_err(|source| ToolError::Json {
        path: path.clone(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(overlay: u64) -> Counts {
        let functions = [
            ("povmeter_overlay::overlay::Overlay::set", overlay),
            ("frame_support::x::y", 100_000),
            ("povmeter_delta_root::z::small", 10),
        ];
        let functions = functions.map(|(name, count)| (name.to_owned(), count));
        let instructions = Instructions {
            phases: [1_000, 100_000 + overlay, 2_000, 20_000, 3_000],
            functions: functions.into(),
        };
        Counts::new(&instructions, &[("rustc".to_owned(), "1".to_owned())])
    }

    #[test]
    fn five_percent_of_a_small_crate_are_seen() {
        let (before, now) = (counts(8_000), counts(8_400));
        assert_eq!(
            grown(&now, &before, 2.0),
            ["crate povmeter_overlay: 8000 before, 8400 now, +5.00 %"]
        );
        assert!(grown(&now, &before, 6.0).is_empty());
        assert!(grown(&before, &now, 2.0).is_empty());
    }

    #[test]
    fn what_moves_between_crates_of_others_is_no_growth() {
        let (before, mut now) = (counts(8_000), counts(8_000));
        now.crates.insert("frame_support".to_owned(), 150_000);
        assert!(grown(&now, &before, 2.0).is_empty());
        now.phases.insert(PHASES[1].to_owned(), 150_000);
        assert_eq!(grown(&now, &before, 2.0).len(), 1);
    }

    #[test]
    fn functions_that_hardly_count_are_not_kept() {
        let counts = counts(8_000);
        assert!(counts
            .functions
            .contains_key("povmeter_overlay::Overlay::set"));
        assert!(!counts.functions.contains_key("povmeter_delta_root::small"));
        assert!(!counts.crates.contains_key("povmeter_delta_root"));
    }

    #[test]
    fn tables_tell_what_changed() {
        let table = tables(&counts(8_400), Some(&counts(8_000)), 1);
        assert!(table.contains("+5.00 %  povmeter_overlay\n"), "{table}");
        assert!(
            !table.contains("Overlay::set"),
            "only one function: {table}"
        );
        assert!(!tables(&counts(8_400), None, 1).contains('+'));
    }

    #[test]
    fn conditions_have_names() {
        assert!(condition("rustc=1.95.0 (x)").is_ok());
        assert!(condition("rustc").is_err());
    }
}
