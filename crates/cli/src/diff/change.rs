//! The change of each number from one result to the other.

use super::{
    measure::Measure,
    parts::{name, Measured, Parts},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The name of a row that holds sums over rows.
const TOTAL: &str = "total";

/// A number that both results have.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Change {
    /// What the number measures.
    pub(crate) measure: Measure,
    /// Whether a limit on its measure applies to the number.
    pub(crate) judged: bool,
    /// Name of the row; null if the number is in no row.
    pub(crate) row: Option<String>,
    /// Name of the field; slashes separate nested names.
    pub(crate) field: String,
    /// The number in the first result.
    pub(crate) a: f64,
    /// The number in the second result.
    pub(crate) b: f64,
    /// By how much the second number is larger, in percent of the first; null if the first is zero.
    #[schemars(range(min = -100))]
    pub(crate) change_percent: Option<f64>,
    /// Whether the second number is worse.
    pub(crate) worse: bool,
    /// Whether it is worse by more than its limit, and this is no noise.
    pub(crate) regressed: bool,
    /// Whether it is worse by more than its limit, but this may be noise: the rounds of a time overlap, or a
    /// time that was measured once is not worse by 20 percent more than the limit, or the compressed size of a
    /// newly signed block not by 0.2 percent more.
    pub(crate) may_be_noise: bool,
}

/// By how many percent a number may be worse; null for no limit.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Limits {
    /// Proofs.
    pub(crate) proof: Option<f64>,
    /// Allocations.
    pub(crate) allocations: Option<f64>,
    /// Times.
    pub(crate) time: Option<f64>,
}

/// How many numbers are the same.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Same {
    /// Of allocations.
    pub(crate) allocations: usize,
    /// Of proofs.
    pub(crate) proof: usize,
    /// Of times.
    pub(crate) time: usize,
}

impl Same {
    fn count(changes: &[Change]) -> Self {
        let count = |measure| {
            let same = changes.iter().filter(|change| change.measure == measure);
            same.filter(|change| !change.differs()).count()
        };
        Self {
            allocations: count(Measure::Allocations),
            proof: count(Measure::Proof),
            time: count(Measure::Time),
        }
    }

    pub(crate) fn of(&self, measure: Measure) -> usize {
        match measure {
            Measure::Proof => self.proof,
            Measure::Allocations => self.allocations,
            Measure::Time => self.time,
        }
    }
}

impl Limits {
    /// The limits with `all` for each measure that has none.
    pub(crate) fn or(self, all: Option<f64>) -> Self {
        Self {
            proof: self.proof.or(all),
            allocations: self.allocations.or(all),
            time: self.time.or(all),
        }
    }

    pub(crate) fn of(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Proof => self.proof,
            Measure::Allocations => self.allocations,
            Measure::Time => self.time,
        }
    }

    pub(crate) fn any(&self) -> bool {
        Measure::ALL
            .iter()
            .any(|measure| self.of(*measure).is_some())
    }
}

impl Change {
    fn new(a: &Measured, b: &Measured, limits: &Limits) -> Self {
        let gauge = a.gauge;
        let change_percent = (a.value > 0.0).then(|| (b.value / a.value - 1.0) * 100.0);
        let mut change = Self {
            measure: gauge.measure,
            judged: gauge.judged && a.addends == b.addends,
            row: Some(a.row.clone()).filter(|row| !row.is_empty()),
            field: a.field.clone(),
            a: a.value,
            b: b.value,
            change_percent,
            worse: (b.value > a.value) != gauge.more_is_better && differ(a.value, b.value),
            regressed: false,
            may_be_noise: false,
        };
        let limit = limits.of(gauge.measure).filter(|_| change.judged);
        if let Some(limit) = limit.filter(|limit| change.worse_percent() > *limit) {
            change.may_be_noise = match (a.spread, b.spread) {
                (Some(a), Some(b)) => a.overlaps(b),
                _ => change.worse_percent() <= limit + gauge.noise_percent,
            };
            change.regressed = !change.may_be_noise;
        }
        change
    }

    pub(crate) fn differs(&self) -> bool {
        differ(self.a, self.b)
    }

    /// Returns by how many percent B is worse than A, or zero if it is not. A number above zero is infinitely
    /// worse than zero.
    pub(crate) fn worse_percent(&self) -> f64 {
        if !self.worse {
            return 0.0;
        }
        (self.factor() - 1.0) * 100.0
    }

    /// The larger number divided by the smaller one.
    fn factor(&self) -> f64 {
        let (less, more) = (self.a.min(self.b), self.a.max(self.b));
        if self.differs() {
            more / less
        } else {
            1.0
        }
    }

    /// The row and the field.
    pub(crate) fn name(&self) -> String {
        name(self.row.as_deref().unwrap_or_default(), "", &self.field)
    }
}

fn differ(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_ne()
}

/// What two results have in common, and what only one of them has.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// The largest change first.
    pub(crate) changes: Vec<Change>,
    /// How many numbers of each measure are the same.
    pub(crate) same: Same,
    /// The measures of the numbers to which a limit applies, changed or not.
    pub(crate) judged: Vec<Measure>,
    pub(crate) only_in_a: Vec<String>,
    pub(crate) only_in_b: Vec<String>,
}

impl Compared {
    pub(crate) fn new(a: &Parts, b: &Parts, limits: &Limits) -> Self {
        let by_name = |parts: &Parts| -> BTreeMap<(String, String), Measured> {
            let numbers = parts.numbers.iter();
            let singles = numbers.filter(|measured| !measured.only_total);
            singles
                .map(|measured| {
                    let name = (measured.row.clone(), measured.field.clone());
                    (name, measured.clone())
                })
                .collect()
        };
        let [of_a, of_b] = [a, b].map(by_name);
        let mut compared = Self {
            only_in_a: only_in(a, b, &of_b),
            only_in_b: only_in(b, a, &of_a),
            ..Self::default()
        };
        let both = of_a
            .iter()
            .filter_map(|(name, a)| Some((a, of_b.get(name)?)));
        let mut changes: Vec<_> = both.map(|(a, b)| Change::new(a, b, limits)).collect();
        let totals = totals(a, b);
        changes.extend(totals.iter().map(|[a, b]| Change::new(a, b, limits)));
        compared.same = Same::count(&changes);
        let is_judged = |measure: &Measure| {
            let mut judged = changes.iter().filter(|change| change.judged);
            judged.any(|change| change.measure == *measure)
        };
        compared.judged = Measure::ALL.into_iter().filter(is_judged).collect();
        changes.retain(Change::differs);
        changes.sort_by(|a, b| b.factor().total_cmp(&a.factor()));
        compared.changes = changes;
        compared
    }

    pub(crate) fn regressed(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.regressed)
    }
}

/// Returns the rows that only `here` has, and the numbers that only `here` has in rows that both have.
fn only_in(
    here: &Parts,
    there: &Parts,
    numbers: &BTreeMap<(String, String), Measured>,
) -> Vec<String> {
    let rows: BTreeSet<_> = there.rows.iter().collect();
    let (both, mut only): (Vec<_>, Vec<_>) = here
        .rows
        .iter()
        .cloned()
        .partition(|row| rows.contains(row));
    let both: BTreeSet<_> = both.into_iter().chain([String::new()]).collect();
    for measured in &here.numbers {
        let Measured { row, field, .. } = measured;
        let missing = !numbers.contains_key(&(row.clone(), field.clone()));
        if both.contains(row) && missing && !measured.only_total {
            only.push(measured.name());
        }
    }
    only
}

/// The sums over the rows that both results have.
fn totals(a: &Parts, b: &Parts) -> Vec<[Measured; 2]> {
    let of_b: BTreeSet<_> = b.rows.iter().collect();
    let rows: BTreeSet<_> = a.rows.iter().filter(|row| of_b.contains(row)).collect();
    let sums = |parts: &Parts| {
        let mut sums: BTreeMap<String, Measured> = BTreeMap::new();
        for measured in &parts.numbers {
            if !measured.only_total || !rows.contains(&measured.row) {
                continue;
            }
            let sum = sums.entry(measured.field.clone());
            let sum = sum.or_insert_with(|| Measured {
                row: TOTAL.to_owned(),
                value: 0.0,
                ..measured.clone()
            });
            sum.value += measured.value;
        }
        sums
    };
    let (of_a, mut of_b) = (sums(a), sums(b));
    let both = of_a.into_iter();
    both.filter_map(|(field, a)| Some([a, of_b.remove(&field)?]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diff::measure::{Gauge, ALLOCATIONS, COMPRESSED, PROOF, TIME},
        spread::Spread,
    };

    fn gauge(measure: Measure, more_is_better: bool, judged: bool) -> Gauge {
        let gauge = match measure {
            Measure::Proof => PROOF,
            Measure::Allocations => ALLOCATIONS,
            Measure::Time => TIME,
        };
        Gauge {
            more_is_better,
            judged,
            ..gauge
        }
    }

    fn measured(row: &str, gauge: Gauge, value: f64) -> Measured {
        Measured {
            row: row.to_owned(),
            field: "field".to_owned(),
            gauge,
            value,
            spread: None,
            only_total: false,
            addends: None,
        }
    }

    fn change(gauge: Gauge, a: f64, b: f64, limit: f64) -> Change {
        let limits = Limits {
            proof: Some(limit),
            allocations: None,
            time: Some(limit),
        };
        Change::new(&measured("", gauge, a), &measured("", gauge, b), &limits)
    }

    #[test]
    fn a_limit_is_in_percent_of_the_first() {
        let proof = gauge(Measure::Proof, false, true);
        assert!(!change(proof, 100.0, 100.0, 0.0).regressed);
        assert!(change(proof, 100.0, 101.0, 0.0).regressed);
        assert!(!change(proof, 100.0, 101.0, 2.0).regressed);
        assert!(!change(proof, 100.0, 1.0, 0.0).worse);
        // A number without a limit never fails, nor one that is only shown.
        assert!(!change(gauge(Measure::Allocations, false, true), 1.0, 9.0, 0.0).regressed);
        assert!(!change(gauge(Measure::Time, false, false), 1.0, 9.0, 0.0).regressed);
    }

    #[test]
    fn less_of_a_ratio_is_worse() {
        let ratio = gauge(Measure::Time, true, true);
        let halved = change(ratio, 200.0, 100.0, 79.0);
        assert!(halved.worse && halved.regressed);
        assert!((halved.worse_percent() - 100.0).abs() < 1e-9);
        assert!(!change(ratio, 200.0, 100.0, 101.0).regressed);
        assert!(!change(ratio, 100.0, 200.0, 0.0).worse);
    }

    /// Two ratios with the ranges of their rounds.
    fn within(a: (f64, [f64; 2]), b: (f64, [f64; 2]), limit: f64) -> Change {
        let limits = Limits {
            time: Some(limit),
            ..Limits::default()
        };
        let ratio = gauge(Measure::Time, true, true);
        let [a, b] = [a, b].map(|(value, [low, high])| Measured {
            spread: Some(Spread { low, high }),
            ..measured("", ratio, value)
        });
        Change::new(&a, &b, &limits)
    }

    #[test]
    fn a_time_is_worse_only_beyond_its_spread() {
        // 20 % worse, with a limit of 10 %.
        let apart = within((2.4, [2.3, 2.5]), (2.0, [1.9, 2.1]), 10.0);
        assert!(apart.regressed && !apart.may_be_noise);
        let overlapping = within((2.4, [2.0, 2.9]), (2.0, [1.6, 2.1]), 10.0);
        assert!(overlapping.worse && overlapping.may_be_noise && !overlapping.regressed);
        // Apart, but within the limit.
        let little = within((2.1, [2.09, 2.11]), (2.0, [1.99, 2.01]), 10.0);
        assert!(little.worse && !little.regressed && !little.may_be_noise);
        // Better is never a regression.
        let better = within((2.0, [1.9, 2.1]), (4.0, [3.9, 4.1]), 0.0);
        assert!(!better.worse && !better.regressed && !better.may_be_noise);
    }

    #[test]
    fn a_time_without_a_spread_must_be_much_worse() {
        let time = gauge(Measure::Time, false, true);
        for (b, regressed, may_be_noise) in [
            (109.0, false, false),
            (129.0, false, true),
            (131.0, true, false),
        ] {
            let change = change(time, 100.0, b, 10.0);
            assert_eq!(
                (change.regressed, change.may_be_noise),
                (regressed, may_be_noise),
                "{b}"
            );
        }
        // Proofs are exact.
        let proof = change(gauge(Measure::Proof, false, true), 100.0, 111.0, 10.0);
        assert!(proof.regressed);
    }

    #[test]
    fn a_compressed_size_may_be_noise() {
        for (b, limit, regressed, may_be_noise) in [
            (1_001.0, 0.0, false, true),
            (1_003.0, 0.0, true, false),
            (1_011.0, 1.0, false, true),
            (1_013.0, 1.0, true, false),
        ] {
            let change = change(COMPRESSED, 1_000.0, b, limit);
            let found = (change.regressed, change.may_be_noise);
            assert_eq!(found, (regressed, may_be_noise), "{b}");
        }
        // All other numbers of a proof are exact.
        let proof = change(PROOF, 1_000.0, 1_001.0, 0.0);
        assert!(proof.regressed && !proof.may_be_noise);
    }

    #[test]
    fn something_is_infinitely_worse_than_nothing() {
        let proof = gauge(Measure::Proof, false, true);
        let new = change(proof, 0.0, 1.0, 1_000_000.0);
        assert!(new.regressed && new.change_percent.is_none());
        let gone = change(proof, 1.0, 0.0, 0.0);
        assert!(!gone.worse && gone.change_percent == Some(-100.0));
        assert!(!change(proof, 0.0, 0.0, 0.0).differs());
    }

    fn parts(rows: &[(&str, f64)], only_total: bool) -> Parts {
        let gauge = gauge(Measure::Time, false, true);
        Parts {
            options: Vec::new(),
            facts: Vec::new(),
            checks: Vec::new(),
            numbers: rows
                .iter()
                .map(|(row, value)| Measured {
                    only_total,
                    ..measured(row, gauge, *value)
                })
                .collect(),
            rows: rows.iter().map(|(row, _)| (*row).to_owned()).collect(),
        }
    }

    #[test]
    fn what_changed_most_comes_first() {
        let a = parts(
            &[("same", 5.0), ("half", 4.0), ("more", 10.0), ("gone", 1.0)],
            false,
        );
        let b = parts(
            &[("new", 1.0), ("same", 5.0), ("more", 15.0), ("half", 2.0)],
            false,
        );
        let compared = Compared::new(&a, &b, &Limits::default());
        let rows = compared.changes.iter();
        let rows: Vec<_> = rows.map(|change| change.row.as_deref()).collect();
        assert_eq!(rows, [Some("half"), Some("more")]);
        assert_eq!(compared.same.time, 1);
        assert_eq!(compared.only_in_a, ["gone"]);
        assert_eq!(compared.only_in_b, ["new"]);
    }

    #[test]
    fn totals_are_of_rows_that_both_have() {
        let a = parts(&[("1", 5.0), ("2", 4.0), ("3", 100.0)], true);
        let b = parts(&[("1", 6.0), ("2", 4.0), ("4", 1.0)], true);
        let compared = Compared::new(&a, &b, &Limits::default());
        let [total] = &compared.changes[..] else {
            panic!("{:?}", compared.changes)
        };
        let row = total.row.as_deref();
        assert_eq!((row, total.a, total.b), (Some("total"), 9.0, 10.0));
    }
}
