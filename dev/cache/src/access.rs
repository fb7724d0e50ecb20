//! Which accounts a block touches.

use rand::{rngs::SmallRng, seq::SliceRandom, Rng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the accounts of a block are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Uniformly: every account is equally likely.
    Uniform,
    /// By Zipf's law with exponent 0.9.
    Zipf,
    /// Nine of ten draws are among the active 5 % of the accounts. Each block replaces 1 % of the active accounts.
    ActiveSet,
}

impl Access {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Zipf, Self::ActiveSet];

    /// The name, as in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::ActiveSet => "active_set",
        }
    }
}

const ZIPF_EXPONENT: f64 = 0.9;

/// Draws accounts.
pub(crate) enum Draw {
    Uniform(usize),
    Zipf {
        sums: Vec<f64>,
        accounts: Vec<usize>,
    },
    ActiveSet {
        active: Vec<usize>,
        accounts: usize,
    },
}

impl Draw {
    pub(crate) fn new(access: Access, accounts: usize, dice: &mut SmallRng) -> Self {
        let mut order: Vec<usize> = (0..accounts).collect();
        order.shuffle(dice);
        match access {
            Access::Uniform => Self::Uniform(accounts),
            Access::Zipf => {
                let mut sum = 0.0;
                let weights = (1..=accounts).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT));
                let sums = weights.map(|weight| {
                    sum += weight;
                    sum
                });
                Self::Zipf {
                    sums: sums.collect(),
                    accounts: order,
                }
            }
            Access::ActiveSet => {
                order.truncate(accounts.div_ceil(20));
                Self::ActiveSet {
                    active: order,
                    accounts,
                }
            }
        }
    }

    /// Draws an account.
    pub(crate) fn account(&self, dice: &mut SmallRng) -> usize {
        match self {
            Self::Uniform(accounts) => dice.random_range(0..*accounts),
            Self::Zipf { sums, accounts } => {
                let drawn = dice.random_range(0.0..sums.last().copied().unwrap_or(1.0));
                accounts[sums
                    .partition_point(|sum| *sum <= drawn)
                    .min(accounts.len() - 1)]
            }
            Self::ActiveSet { active, accounts } => {
                if dice.random_range(0..10) == 0 {
                    dice.random_range(0..*accounts)
                } else {
                    active[dice.random_range(0..active.len())]
                }
            }
        }
    }

    /// Replaces a part of the active accounts.
    pub(crate) fn end_block(&mut self, dice: &mut SmallRng) {
        if let Self::ActiveSet { active, accounts } = self {
            for _ in 0..active.len() / 100 {
                let at = dice.random_range(0..active.len());
                active[at] = dice.random_range(0..*accounts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn few_accounts_get_most() {
        let mut dice = SmallRng::seed_from_u64(1);
        let shares = Access::ALL.map(|access| {
            let draw = Draw::new(access, 1_000, &mut dice);
            let mut counts = vec![0; 1_000];
            for _ in 0..100_000 {
                counts[draw.account(&mut dice)] += 1;
            }
            counts.sort_unstable();
            counts[950..].iter().sum::<u32>() as f64 / 100_000.0
        });
        let [uniform, zipf, active] = shares;
        assert!((0.05..0.08).contains(&uniform), "{uniform}");
        assert!((0.5..0.62).contains(&zipf), "{zipf}");
        assert!((0.88..0.93).contains(&active), "{active}");
    }
}
