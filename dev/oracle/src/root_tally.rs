//! The root updates of many cases, counted.

use super::{
    roots::{compare_roots, RootCounts, RootMismatch, RootMode},
    Case, Flavour,
};
use sp_core::storage::StateVersion;

/// A case whose root updates differ.
#[derive(Debug)]
pub struct RootFailure {
    /// Its flavour.
    pub flavour: Flavour,
    /// Its seed.
    pub seed: u64,
    /// The version its block writes in.
    pub version: StateVersion,
    /// How they differ.
    pub mismatch: RootMismatch,
}

/// The results of comparing the root updates of many cases.
#[derive(Debug, Default)]
pub struct RootTally {
    /// Sums over cases of state version 0 that agreed.
    pub version_0: RootCounts,
    /// The same for version 1.
    pub version_1: RootCounts,
    /// The cases that did not agree.
    pub failures: Vec<RootFailure>,
}

/// Compares `count` cases of each state version, from seed `first` on, in all of `modes`. The flavours
/// alternate. `progress` is called after each seed.
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
