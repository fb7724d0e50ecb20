//! The spread of a number that was measured in several rounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewer rounds show no spread.
const LEAST: usize = 4;

/// The range of the middle half of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Spread {
    /// A quarter of the rounds is below.
    pub(crate) low: f64,
    /// A quarter of the rounds is above.
    pub(crate) high: f64,
}

impl Spread {
    /// The spread of these rounds; `None` if there are too few.
    pub(crate) fn of(rounds: impl Iterator<Item = f64>) -> Option<Self> {
        let mut rounds: Vec<f64> = rounds.collect();
        rounds.sort_by(f64::total_cmp);
        let skipped = rounds.len() / 4;
        let low = rounds.get(skipped).copied()?;
        let high = rounds.get(rounds.len() - 1 - skipped).copied()?;
        (rounds.len() >= LEAST).then_some(Self { low, high })
    }

    /// Whether the two ranges share a number.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The median; NaN if there are no numbers.
pub(crate) fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => all[middle],
        _ => (all[middle - 1] + all[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(rounds: &[f64]) -> Option<(f64, f64)> {
        Spread::of(rounds.iter().copied()).map(|spread| (spread.low, spread.high))
    }

    #[test]
    fn the_middle_half_of_the_rounds() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, 2.0, 3.0]), None);
        assert_eq!(spread(&[4.0, 1.0, 3.0, 2.0]), Some((2.0, 3.0)));
        let rounds = [9.0, 1.0, 5.0, 4.0, 6.0, 100.0, 3.0];
        assert_eq!(spread(&rounds), Some((3.0, 9.0)));
    }

    #[test]
    fn ranges_that_touch_overlap() {
        let of = |low, high| Spread { low, high };
        assert!(of(1.0, 2.0).overlaps(of(2.0, 3.0)));
        assert!(of(1.0, 9.0).overlaps(of(2.0, 3.0)));
        assert!(!of(1.0, 2.0).overlaps(of(2.1, 3.0)));
        assert!(!of(2.1, 3.0).overlaps(of(1.0, 2.0)));
    }
}
