//! Compares the root updates of many cases, and counts the results.

use super::{
    roots::{compare_roots, RootCounts, RootMismatch, RootMode},
    Case, Flavour,
};
use sp_core::storage::StateVersion;

/// A case whose root updates differ.
#[derive(Debug)]
pub struct RootFailure {
    /// The flavour of the case.
    pub flavour: Flavour,
    /// The seed of the case.
    pub seed: u64,
    /// The state version in which its block writes.
    pub version: StateVersion,
    /// How the root updates differ.
    pub mismatch: RootMismatch,
}

/// The results of comparing the root updates of many cases.
#[derive(Debug, Default)]
pub struct RootTally {
    /// Sums over cases of state version 0 that agreed.
    pub version_0: RootCounts,
    /// Sums over cases of state version 1 that agreed.
    pub version_1: RootCounts,
    /// The cases that did not agree.
    pub failures: Vec<RootFailure>,
}

/// Compares `count` cases of each state version, from seed `first` on, in all of `modes`. The flavours
/// alternate. Calls `progress` after each seed.
pub fn run_roots(
    first: u64,
    count: u64,
    modes: &[RootMode],
    mut progress: impl FnMut(),
) -> RootTally {
    let mut tally = RootTally::default();
    let seeds = (0..count).map(|more| first.wrapping_add(more));
    for (seed, flavour) in seeds.zip(Flavour::ALL.into_iter().cycle()) {
        for version in [StateVersion::V0, StateVersion::V1] {
            let case = Case::random(seed, flavour).in_version(version);
            let sum = match version {
                StateVersion::V0 => &mut tally.version_0,
                StateVersion::V1 => &mut tally.version_1,
            };
            match compare_roots(&case, modes) {
                Ok(counts) => *sum += counts,
                Err(mismatch) => tally.failures.push(RootFailure {
                    flavour,
                    seed,
                    version,
                    mismatch,
                }),
            }
        }
        progress();
    }
    tally
}
