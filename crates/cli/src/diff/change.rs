//! How each number changed from one result to the other.

use super::{
    result::{Measured, RunResult},
    shape::Measure,
};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// The name of a row that holds sums over rows.
const TOTAL: &str = "total";

/// A number that both results have.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) measure: Measure,
    #[serde(serialize_with = "or_null")]
    pub(crate) row: String,
    pub(crate) field: &'static str,
    pub(crate) a: f64,
    pub(crate) b: f64,
    /// By how much B is more than A, in percent of A; `None` if A is zero.
    pub(crate) change_percent: Option<f64>,
    pub(crate) worse: bool,
    /// Whether it is worse by more than its limit.
    pub(crate) regressed: bool,
}

fn or_null<S: Serializer>(row: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(row)
        .filter(|row| !row.is_empty())
        .serialize(serializer)
}

/// By how many percent a number may be worse; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Limits {
    pub(crate) proof: Option<f64>,
    pub(crate) allocations: Option<f64>,
    pub(crate) time: Option<f64>,
}

impl Limits {
    fn of(&self, measure: Measure) -> Option<f64> {
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
        let number = a.number;
        let change_percent = (a.value > 0.0).then(|| (b.value / a.value - 1.0) * 100.0);
        let mut change = Self {
            measure: number.measure,
            row: a.row.clone(),
            field: number.field,
            a: a.value,
            b: b.value,
            change_percent,
            worse: (b.value > a.value) != number.more_is_better && differ(a.value, b.value),
            regressed: false,
        };
        let limit = limits.of(number.measure).filter(|_| number.judged);
        change.regressed = limit.is_some_and(|limit| change.worse_percent() > limit);
        change
    }

    pub(crate) fn differs(&self) -> bool {
        differ(self.a, self.b)
    }

    /// By how many percent B is worse than A, zero if it is not. A number above zero is infinitely worse
    /// than zero.
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
        match self.row.as_str() {
            "" => self.field.to_owned(),
            row => format!("{row}: {}", self.field),
        }
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
    pub(crate) same: BTreeMap<&'static str, usize>,
    pub(crate) only_in_a: Vec<String>,
    pub(crate) only_in_b: Vec<String>,
}

impl Compared {
    pub(crate) fn new(a: &RunResult, b: &RunResult, limits: &Limits) -> Self {
        let by_name = |result: &RunResult| -> BTreeMap<(String, &'static str), Measured> {
            let singles = result
                .numbers
                .iter()
                .filter(|measured| !measured.only_total);
            singles
                .map(|measured| {
                    (
                        (measured.row.clone(), measured.number.field),
                        measured.clone(),
                    )
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
        for measure in Measure::ALL {
            let same = changes.iter().filter(|change| change.measure == measure);
            let same = same.filter(|change| !change.differs()).count();
            compared.same.insert(measure.name(), same);
        }
        changes.retain(Change::differs);
        changes.sort_by(|a, b| b.factor().total_cmp(&a.factor()));
        compared.changes = changes;
        compared
    }

    pub(crate) fn regressed(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.regressed)
    }
}

/// Rows that only `here` has, and numbers that only `here` has in rows that both have.
fn only_in(
    here: &RunResult,
    there: &RunResult,
    numbers: &BTreeMap<(String, &'static str), Measured>,
) -> Vec<String> {
    let rows: BTreeSet<_> = there.rows.iter().collect();
    let (both, mut only): (Vec<_>, Vec<_>) = here
        .rows
        .iter()
        .cloned()
        .partition(|row| rows.contains(row));
    let both: BTreeSet<_> = both.into_iter().chain([String::new()]).collect();
    for measured in &here.numbers {
        let Measured { row, number, .. } = measured;
        let missing = !numbers.contains_key(&(row.clone(), number.field));
        if both.contains(row) && missing && !measured.only_total {
            only.push(match row.as_str() {
                "" => number.field.to_owned(),
                row => format!("{row}: {}", number.field),
            });
        }
    }
    only
}

/// The sums over the rows that both results have.
fn totals(a: &RunResult, b: &RunResult) -> Vec<[Measured; 2]> {
    let rows: BTreeSet<_> = a.rows.iter().filter(|row| b.rows.contains(row)).collect();
    let sums = |result: &RunResult| {
        let mut sums: BTreeMap<&'static str, Measured> = BTreeMap::new();
        for measured in &result.numbers {
            if !measured.only_total || !rows.contains(&measured.row) {
                continue;
            }
            let sum = sums.entry(measured.number.field);
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
    both.filter_map(|(field, a)| Some([a, of_b.remove(field)?]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::shape::{Number, SHAPES};

    fn number(measure: Measure, more_is_better: bool, judged: bool) -> Number {
        Number {
            field: "field",
            measure,
            more_is_better,
            judged,
        }
    }

    fn measured(row: &str, number: Number, value: f64) -> Measured {
        Measured {
            row: row.to_owned(),
            number,
            value,
            only_total: false,
        }
    }

    fn change(number: Number, a: f64, b: f64, limit: f64) -> Change {
        let limits = Limits {
            proof: Some(limit),
            allocations: None,
            time: Some(limit),
        };
        Change::new(&measured("", number, a), &measured("", number, b), &limits)
    }

    #[test]
    fn a_limit_is_in_percent_of_the_first() {
        let proof = number(Measure::Proof, false, true);
        assert!(!change(proof, 100.0, 100.0, 0.0).regressed);
        assert!(change(proof, 100.0, 101.0, 0.0).regressed);
        assert!(!change(proof, 100.0, 101.0, 2.0).regressed);
        assert!(!change(proof, 100.0, 1.0, 0.0).worse);
        // A number without a limit never fails, nor one that is only shown.
        assert!(!change(number(Measure::Allocations, false, true), 1.0, 9.0, 0.0).regressed);
        assert!(!change(number(Measure::Time, false, false), 1.0, 9.0, 0.0).regressed);
    }

    #[test]
    fn less_of_a_ratio_is_worse() {
        let ratio = number(Measure::Time, true, true);
        let halved = change(ratio, 200.0, 100.0, 99.0);
        assert!(halved.worse && halved.regressed);
        assert!((halved.worse_percent() - 100.0).abs() < 1e-9);
        assert!(!change(ratio, 200.0, 100.0, 101.0).regressed);
        assert!(!change(ratio, 100.0, 200.0, 0.0).worse);
    }

    #[test]
    fn something_is_infinitely_worse_than_nothing() {
        let proof = number(Measure::Proof, false, true);
        let new = change(proof, 0.0, 1.0, 1_000_000.0);
        assert!(new.regressed && new.change_percent.is_none());
        let gone = change(proof, 1.0, 0.0, 0.0);
        assert!(!gone.worse && gone.change_percent == Some(-100.0));
        assert!(!change(proof, 0.0, 0.0, 0.0).differs());
    }

    fn result(rows: &[(&str, f64)], only_total: bool) -> RunResult {
        let number = number(Measure::Time, false, true);
        RunResult {
            shape: &SHAPES[0],
            options: Vec::new(),
            facts: Vec::new(),
            numbers: rows
                .iter()
                .map(|(row, value)| Measured {
                    only_total,
                    ..measured(row, number, *value)
                })
                .collect(),
            rows: rows.iter().map(|(row, _)| (*row).to_owned()).collect(),
        }
    }

    #[test]
    fn what_changed_most_comes_first() {
        let a = result(
            &[("same", 5.0), ("half", 4.0), ("more", 10.0), ("gone", 1.0)],
            false,
        );
        let b = result(
            &[("new", 1.0), ("same", 5.0), ("more", 15.0), ("half", 2.0)],
            false,
        );
        let compared = Compared::new(&a, &b, &Limits::default());
        let rows: Vec<_> = compared.changes.iter().map(|change| &*change.row).collect();
        assert_eq!(rows, ["half", "more"]);
        assert_eq!(compared.same["time"], 1);
        assert_eq!(compared.only_in_a, ["gone"]);
        assert_eq!(compared.only_in_b, ["new"]);
    }

    #[test]
    fn totals_are_of_rows_that_both_have() {
        let a = result(&[("1", 5.0), ("2", 4.0), ("3", 100.0)], true);
        let b = result(&[("1", 6.0), ("2", 4.0), ("4", 1.0)], true);
        let compared = Compared::new(&a, &b, &Limits::default());
        let [total] = &compared.changes[..] else {
            panic!("{:?}", compared.changes)
        };
        assert_eq!((&*total.row, total.a, total.b), ("total", 9.0, 10.0));
    }
}
