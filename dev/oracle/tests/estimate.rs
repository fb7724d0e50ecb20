//! The estimate against the oracle, over random blocks.
//!
//! `POVMETER_CASES` sets the number of blocks of each flavour, for long runs.

use povmeter_dev_oracle::{run_cases, Case, Flavour, MismatchKind, Tally};

/// Enough for the bounds below to be meaningful, in about twenty seconds.
const CASES: u64 = 1000;

/// How many random blocks of each flavour a test runs.
pub(crate) fn cases() -> u64 {
    let cases = std::env::var("POVMETER_CASES").ok();
    cases.map_or(CASES, |cases| {
        cases.parse().expect("POVMETER_CASES is a number")
    })
}

#[test]
fn random_blocks_agree_with_the_peer() {
    let tally = run_cases(0, cases(), Case::random, |_| {});
    for flavour in Flavour::ALL {
        for proven in [true, false] {
            let of = tally.of_accounting(flavour, proven);
            let (over, rule) = (of.over_bytes_percent(), of.rule_over_bytes_percent());
            println!("{flavour:?}, proven {proven}: {over:.4} %, by the rule {rule:.4} %, {of:?}");
            assert!(of.rule_over_bytes_percent() <= 0.2, "{of:?}");
        }
    }
    assert_agreed(&tally, Case::random);
    let (mixed, adversarial) = (tally.of(Flavour::Mixed), tally.of(Flavour::Adversarial));
    assert!(mixed.over_bytes_percent() <= 0.2, "{mixed:?}");
    assert!(adversarial.over_nodes_percent() <= 1.1, "{adversarial:?}");
    // Otherwise the cases would test little.
    assert!(tally.of(Flavour::DeleteHeavy).upstream_under > 0);
}

/// As above, in blocks that ask for the roots of children, which then are changes of the top trie.
#[test]
fn random_blocks_that_ask_for_roots_of_children_agree_with_the_peer() {
    let case = |seed, flavour| Case::random(seed, flavour).asking_for_child_roots(seed);
    let tally = run_cases(0, cases(), case, |_| {});
    assert_agreed(&tally, case);
    assert!(tally.total().child_roots > 1_000, "{tally:?}");
}

/// Checks that all cases agreed, and shows some that did not.
#[track_caller]
fn assert_agreed(tally: &Tally, case: impl Fn(u64, Flavour) -> Case) {
    for failure in tally.failures().iter().take(3) {
        let case = case(failure.case.seed, failure.case.flavour);
        println!("{:?}: {:?}\n{case}", failure.case, failure.mismatch);
    }
    assert_eq!(tally.count(MismatchKind::Under), 0, "estimates too low");
    assert_eq!(tally.count(MismatchKind::Roles), 0, "roles differ");
    assert_eq!(tally.count(MismatchKind::Compact), 0, "compact proofs");
    assert_eq!(tally.failures().len(), 0, "cases differ");
}
