//! Medians, and how far they can be trusted.

/// The median of `numbers`; NaN if there are none.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// A median with its spread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// The bootstrap interval, `low` to `high`: of samples drawn anew from the numbers, 95 % have their
    /// median in it.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// How many samples are drawn anew.
const DRAWS: usize = 2000;

impl Spread {
    /// The spread of `numbers`.
    pub(crate) fn of(numbers: &[f64]) -> Self {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut medians: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let drawn: Vec<f64> = numbers
                    .iter()
                    .map(|_| numbers[random.below(numbers.len())])
                    .collect();
                median(&drawn)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        Self {
            median: median(numbers),
            least,
            most: numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            low: medians[DRAWS / 40],
            high: medians[DRAWS - 1 - DRAWS / 40],
        }
    }

    /// Whether the interval is on one side of `number`.
    pub(crate) fn is_apart_from(&self, number: f64) -> bool {
        self.high < number || number < self.low
    }
}

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The remainder is below the limit, and so fits.
        usize::try_from(self.0 % limit.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(&[3.0, 1.0, 100.0]) - 3.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 100.0, 2.0]) - 3.0).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_difference_below_the_noise_is_none() {
        let noisy: Vec<f64> = (0..20).map(|n| 0.95 + f64::from(n % 10) / 100.0).collect();
        assert!(!Spread::of(&noisy).is_apart_from(1.0));
        let slower: Vec<f64> = noisy.iter().map(|ratio| ratio * 1.1).collect();
        let spread = Spread::of(&slower);
        assert!(spread.is_apart_from(1.0));
        assert!(spread.least <= spread.low && spread.low <= spread.median);
        assert!(spread.median <= spread.high && spread.high <= spread.most);
    }
}
