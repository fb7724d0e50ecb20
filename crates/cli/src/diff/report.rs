//! The report on two results, as text and as JSON.

use super::{
    change::{Change, Compared, Limits, Same},
    measure::Measure,
    parts::Checked,
    result::RunResult,
};
use crate::{
    counted::counted,
    one_line::one_line,
    output::{verdict, CommandResult},
    table::{or_dash, Table},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write, path::Path};

/// Changes of each measure that are shown without `--all`.
const SHOWN: usize = 12;

/// One of the two results.
#[derive(Debug, Serialize, JsonSchema)]
struct Side {
    /// Its file, as the user named it.
    file: String,
    /// The command that made it, without povmeter.
    command: &'static str,
}

/// A value that differs.
#[derive(Debug, Serialize, JsonSchema)]
struct Different {
    /// Name of the value.
    name: String,
    /// The value in the first result; null if it is missing.
    a: Option<String>,
    /// The value in the second result; null if it is missing.
    b: Option<String>,
}

/// Two results side by side.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiffReport {
    /// The result before.
    a: Side,
    /// The result after.
    b: Side,
    /// Options that differ.
    different_options: Vec<Different>,
    /// Roots, counts and checks that differ.
    different_facts: Vec<Different>,
    /// Rows and numbers that only the first has.
    only_in_a: Vec<String>,
    /// Rows and numbers that only the second has.
    only_in_b: Vec<String>,
    /// How many numbers are the same.
    same: Same,
    /// Numbers that changed, the largest change first.
    changes: Vec<Change>,
    /// By how many percent a number may be worse; null for no limit.
    limits_percent: Limits,
    /// The limits that were given for one measure each.
    #[serde(skip)]
    own_limits: Limits,
    /// The measures of the numbers to which a limit applies.
    #[serde(skip)]
    judged: Vec<Measure>,
    /// Number of changes that are worse than their limit.
    regressed: usize,
    /// Checks that hold in the first result and fail in the second; `pov_limit/fits` is one of them, unless the
    /// second limit is lower.
    now_failing: Vec<String>,
}

impl CommandResult for DiffReport {
    const COMMAND: &'static str = "diff";
    const WHAT: &'static str = "diff";
    const SCHEMA: u64 = 1;
}

impl DiffReport {
    pub(crate) fn new(
        paths: [&Path; 2],
        results: [&RunResult; 2],
        limits: Limits,
        own_limits: Limits,
        compared: Compared,
    ) -> Self {
        let side = |which: usize| Side {
            file: paths[which].display().to_string(),
            command: results[which].kind.command,
        };
        let [a, b] = results.map(|result| &result.parts);
        Self {
            a: side(0),
            b: side(1),
            different_options: different(&a.options, &b.options, true),
            different_facts: different(&a.facts, &b.facts, false),
            regressed: compared.regressed().count(),
            now_failing: now_failing(&a.checks, &b.checks),
            only_in_a: compared.only_in_a,
            only_in_b: compared.only_in_b,
            same: compared.same,
            changes: compared.changes,
            limits_percent: limits,
            own_limits,
            judged: compared.judged,
        }
    }

    /// Returns the options that differ, in one line; empty if none differs.
    pub(crate) fn different_options(&self) -> String {
        let options = self.different_options.iter().map(Different::line);
        options.collect::<Vec<_>>().join(", ")
    }

    /// The numbers that are worse than allowed, and the checks that fail only in B.
    pub(crate) fn regressed(&self) -> Vec<String> {
        let regressed = self.changes.iter().filter(|change| change.regressed);
        let failing = self.now_failing.iter();
        let failing = failing.map(|name| format!("the failed check `{name}`"));
        failing.chain(regressed.map(Change::name)).collect()
    }

    /// The measures whose limit can judge nothing, because the results have no number in common to which it applies.
    /// For a limit on all measures, numbers of one are enough.
    pub(crate) fn unjudged(&self) -> Vec<&'static str> {
        let limits = match self.judged.is_empty() {
            true => &self.limits_percent,
            false => &self.own_limits,
        };
        let limited = Measure::ALL.into_iter();
        let limited = limited.filter(|measure| limits.of(*measure).is_some());
        let unjudged = limited.filter(|measure| !self.judged.contains(measure));
        unjudged.map(Measure::name).collect()
    }

    /// Returns the report as text, with all changes or the largest ones.
    pub(crate) fn text(&self, all: bool) -> String {
        let mut text = format!("A  {}\nB  {}\n", self.a.line(), self.b.line());
        let list = |text: &mut String, title: &str, items: Vec<String>| {
            if !items.is_empty() {
                text.push_str(&format!("\n{title}\n"));
                items
                    .iter()
                    .for_each(|item| text.push_str(&format!("  {}\n", one_line(item))));
            }
        };
        let lines = |different: &[Different]| different.iter().map(Different::line).collect();
        list(
            &mut text,
            "made with different options",
            lines(&self.different_options),
        );
        let most = if all { usize::MAX } else { SHOWN };
        let sections = Measure::ALL.map(|measure| self.section(measure, most));
        let sections: String = sections.into_iter().flatten().collect();
        text.push_str(match sections.as_str() {
            "" => "\nno numbers in common\n",
            sections => sections,
        });
        list(&mut text, "facts that differ", lines(&self.different_facts));
        list(&mut text, "only in A", self.only_in_a.clone());
        list(&mut text, "only in B", self.only_in_b.clone());
        text.push_str(&self.judgement());
        text.trim_end().to_owned()
    }

    /// Writes the changes of a measure's numbers; `None` if it has no numbers.
    fn section(&self, measure: Measure, most: usize) -> Option<String> {
        let changes = self.changes.iter();
        let changes: Vec<_> = changes.filter(|change| change.measure == measure).collect();
        let same = self.same.of(measure);
        let (name, count) = (measure.name(), changes.len());
        if changes.is_empty() {
            return (same > 0).then(|| format!("\n{name}: all {same} numbers are the same\n"));
        }
        let mut text = format!("\n{name}: {count} of {} numbers changed\n", count + same);
        let mut table = Table::new(["<", "A", "B", "change", "<"]);
        // Never left out: numbers that are worse than their limit, and numbers outside of rows.
        let (shown, left_out): (Vec<_>, Vec<_>) =
            changes.iter().enumerate().partition(|(place, change)| {
                *place < most || change.regressed || change.may_be_noise || change.row.is_none()
            });
        for (_, change) in shown {
            let percent = change.change_percent;
            table.row([
                format!("  {}", change.name()),
                short(change.a),
                short(change.b),
                or_dash(percent.map(|percent| format!("{percent:+.2} %"))),
                self.verdict(change),
            ]);
        }
        let _ = writeln!(text, "{table}");
        if !left_out.is_empty() {
            let count = left_out.len();
            let _ = writeln!(text, "  and {count} smaller changes; --all shows them");
        }
        Some(text)
    }

    /// How a change is judged, in words.
    fn verdict(&self, change: &Change) -> String {
        let word = match change {
            Change {
                regressed: true, ..
            } => "TOO MUCH",
            Change {
                may_be_noise: true, ..
            } => "worse, may be noise",
            Change { worse: true, .. } => "worse",
            _ => "better",
        };
        let is_limited = self.limits_percent.of(change.measure).is_some();
        let exempt = match is_limited && !change.judged {
            true => ", not judged",
            false => "",
        };
        format!("{word}{exempt}")
    }

    /// A line for each check that fails only in B, and one for the limits if there are any.
    fn judgement(&self) -> String {
        let failing = self.now_failing.iter().map(|name| {
            let failed = verdict(false);
            format!("\n{failed}holds in A, fails in B: {}", one_line(name))
        });
        let limits = match self.limits_percent.any() {
            true => self.judgement_by_limits(),
            false => String::new(),
        };
        failing.chain([limits]).collect()
    }

    fn judgement_by_limits(&self) -> String {
        let limits = &self.limits_percent;
        let limits = [
            ("proof", limits.proof),
            ("allocations", limits.allocations),
            ("time", limits.time),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(name, limit)| Some((name, limit?)));
        let limits: Vec<_> = limits
            .map(|(name, limit)| format!("{name} {limit} %"))
            .collect();
        let times = self.changes.iter();
        let times = times.filter(|change| change.may_be_noise && change.measure == Measure::Time);
        let noise = match times.count() {
            0 => String::new(),
            times => format!(
                "\n       times that may be noise: {times}; repeat the measurement, or count instructions with \
                 profiling/instructions.sh"
            ),
        };
        let limits = limits.join(", ");
        let unjudged = match self.unjudged()[..] {
            [] => String::new(),
            ref unjudged => format!(
                "\n{}no numbers to judge: {}",
                verdict(false),
                unjudged.join(", ")
            ),
        };
        if self.judged.is_empty() {
            return unjudged;
        }
        format!(
            "{unjudged}\n{}worse by more than allowed: {} (allowed: {limits}){noise}",
            verdict(self.regressed == 0),
            counted(self.regressed as u64, "number"),
        )
    }
}

impl Side {
    fn line(&self) -> String {
        format!("{}, of `povmeter {}`", one_line(&self.file), self.command)
    }
}

impl Different {
    fn line(&self) -> String {
        let Self { name, a, b } = self;
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let line = format!("{name}: {} in A, {} in B", side(a), side(b));
        one_line(&line).into_owned()
    }
}

/// The names of the checks that hold in A and fail in B. What is above a limit that is lower than A's need not be worse.
fn now_failing(a: &[Checked], b: &[Checked]) -> Vec<String> {
    let held = a.iter().filter(|check| check.holds);
    let held: BTreeMap<_, _> = held.map(|check| (&check.name, check.limit)).collect();
    let failing = b.iter().filter(|check| !check.holds);
    failing
        .filter(|check| {
            let held = held.get(&check.name);
            held.is_some_and(|limit| *limit <= check.limit)
        })
        .map(|check| check.name.clone())
        .collect()
}

/// The values that differ. A value that only one side has counts if values are `needed`.
fn different(a: &[(String, String)], b: &[(String, String)], needed: bool) -> Vec<Different> {
    let [of_a, of_b] = [a, b].map(|values| {
        // If a name occurs twice, the first value counts.
        let values = values.iter().rev();
        let values = values.map(|(name, value)| (name.as_str(), value.as_str()));
        values.collect::<BTreeMap<_, _>>()
    });
    let only_b = b
        .iter()
        .filter(|(name, _)| !of_a.contains_key(name.as_str()));
    let names = a.iter().chain(only_b).map(|(name, _)| name.as_str());
    let value = |of: &BTreeMap<&str, &str>, name| of.get(name).map(|value| (*value).to_owned());
    let all = names.map(|name| Different {
        name: name.to_owned(),
        a: value(&of_a, name),
        b: value(&of_b, name),
    });
    all.filter(|different| different.a != different.b)
        .filter(|different| needed || (different.a.is_some() && different.b.is_some()))
        .collect()
}

/// Formats a whole number without decimals, any other number with three.
fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}
