//! Runs many cases, and counts the results.

use super::{run_case, Case, CaseReport, Flavour, Mismatch, MismatchKind};
use povmeter::{Accounting, Advisory, Consensus};

/// Names a case that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseName {
    /// The flavour of the case.
    pub flavour: Flavour,
    /// The seed of the case.
    pub seed: u64,
    /// Whether the accounting was consensus.
    pub proven: bool,
}

/// A case that did not agree with the peer.
#[derive(Debug)]
pub struct Failure {
    /// The case.
    pub case: CaseName,
    /// How it differs.
    pub mismatch: Mismatch,
}

/// The results of many cases.
#[derive(Debug, Default)]
pub struct Tally {
    adversarial: ByAccounting,
    mixed: ByAccounting,
    delete_heavy: ByAccounting,
    failures: Vec<Failure>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ByAccounting {
    consensus: CaseReport,
    advisory: CaseReport,
}

impl Tally {
    /// Returns the sums over cases of `flavour` that agreed with the peer.
    pub fn of(&self, flavour: Flavour) -> CaseReport {
        let mut sum = self.of_accounting(flavour, true);
        sum += self.of_accounting(flavour, false);
        sum
    }

    /// Returns the sums over cases of `flavour` that agreed with the peer, in consensus accounting if
    /// `proven`, else in advisory accounting.
    pub fn of_accounting(&self, flavour: Flavour, proven: bool) -> CaseReport {
        let sums = match flavour {
            Flavour::Adversarial => self.adversarial,
            Flavour::Mixed => self.mixed,
            Flavour::DeleteHeavy => self.delete_heavy,
        };
        if proven {
            sums.consensus
        } else {
            sums.advisory
        }
    }

    /// Returns the sums over all cases that agreed with the peer.
    pub fn total(&self) -> CaseReport {
        let mut total = CaseReport::default();
        for flavour in Flavour::ALL {
            total += self.of(flavour);
        }
        total
    }

    /// Returns the cases that did not agree with the peer.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Returns the number of cases with a mismatch of `kind`.
    pub fn count(&self, kind: MismatchKind) -> usize {
        let of_kind = |failure: &&Failure| failure.mismatch.kind() == kind;
        self.failures.iter().filter(of_kind).count()
    }

    fn run<A: Accounting>(&mut self, seed: u64, flavour: Flavour, case: &Case) {
        let sums = match flavour {
            Flavour::Adversarial => &mut self.adversarial,
            Flavour::Mixed => &mut self.mixed,
            Flavour::DeleteHeavy => &mut self.delete_heavy,
        };
        let sum = if A::PROVEN {
            &mut sums.consensus
        } else {
            &mut sums.advisory
        };
        match run_case::<A>(case) {
            Ok(report) => *sum += report,
            Err(mismatch) => self.failures.push(Failure {
                case: CaseName {
                    flavour,
                    seed,
                    proven: A::PROVEN,
                },
                mismatch,
            }),
        }
    }
}

/// Runs `count` cases of each flavour, from seed `first` on, in both accountings. `case` makes the case of a seed.
/// Calls `progress` after each seed with the number of seeds done.
pub fn run_cases(
    first: u64,
    count: u64,
    case: impl Fn(u64, Flavour) -> Case,
    mut progress: impl FnMut(u64),
) -> Tally {
    let mut tally = Tally::default();
    for done in 0..count {
        for flavour in Flavour::ALL {
            let seed = first.wrapping_add(done);
            let case = case(seed, flavour);
            tally.run::<Consensus>(seed, flavour, &case);
            tally.run::<Advisory>(seed, flavour, &case);
        }
        progress(done + 1);
    }
    tally
}
