//! Compares the length told for the compact proof at each boundary with the packed proof.
//!
//! `POVMETER_BOUNDARIES` sets how many boundaries the long run compares.

#![allow(clippy::unwrap_used)]

use povmeter::{Advisory, Consensus};
use povmeter_dev_oracle::{compare_compact, Case, CompactCounts, EqualNodeKinds, Flavour};
use std::sync::atomic::{AtomicU64, Ordering};

/// Boundaries of the short run, which is part of every test run and takes a few seconds.
const SHORT: u64 = 60_000;
/// Boundaries of the long run.
const LONG: u64 = 10_000_000;

/// The result of comparing many cases.
#[derive(Default)]
struct Outcome {
    cases: u64,
    runs: u64,
    counts: CompactCounts,
    failures: Vec<String>,
}

/// Compares the case of `seed` and `flavour` in both accountings: with a boundary after each op, and
/// with fewer, so that nodes come and go between two boundaries.
fn compare(seed: u64, flavour: Flavour, outcome: &mut Outcome) {
    let case = Case::random(seed, flavour);
    outcome.cases += 1;
    for every in [1, 5] {
        for result in [
            compare_compact::<Consensus>(&case, every),
            compare_compact::<Advisory>(&case, every),
        ] {
            outcome.runs += 1;
            match result {
                Ok(counts) => outcome.counts += counts,
                Err(mismatch) => {
                    let name = format!("{flavour:?} {seed}, every {every}: {mismatch}");
                    outcome.failures.push(name);
                }
            }
        }
    }
}

/// Compares cases from seed `first` on, on two threads, until `boundaries` boundaries are done.
fn compare_boundaries(first: u64, boundaries: u64) -> Outcome {
    let (next, done) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        let mut outcome = Outcome::default();
        while done.load(Ordering::Relaxed) < boundaries {
            let (seed, before) = (next.fetch_add(1, Ordering::Relaxed), outcome.counts);
            for flavour in Flavour::ALL {
                compare(seed, flavour, &mut outcome);
            }
            let added = outcome.counts.boundaries - before.boundaries;
            done.fetch_add(added.max(1), Ordering::Relaxed);
        }
        outcome
    };
    let (mut one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        (work(), other.join().unwrap())
    });
    one.cases += two.cases;
    one.runs += two.runs;
    one.counts += two.counts;
    one.failures.extend(two.failures);
    one
}

#[track_caller]
fn assert_equal(outcome: &Outcome) {
    let Outcome {
        cases,
        runs,
        counts,
        failures,
    } = outcome;
    println!(
        "{cases} cases, {runs} runs, {counts:?}, {} differ",
        failures.len()
    );
    for failure in failures.iter().take(5) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} runs differ", failures.len());
}

#[test]
fn lengths_told_are_those_of_packed_proofs() {
    assert_equal(&compare_boundaries(0, SHORT));
}

#[test]
#[ignore = "takes many minutes: ten million boundaries"]
fn ten_million_lengths_told_takes_long() {
    let boundaries = std::env::var("POVMETER_BOUNDARIES").ok();
    let boundaries = boundaries.map_or(LONG, |count| count.parse().unwrap());
    assert_equal(&compare_boundaries(1_000_000, boundaries));
}

/// Without equal nodes the comparisons above would test little.
#[test]
fn random_states_have_equal_nodes() {
    const CASES: u64 = 500;
    for flavour in Flavour::ALL {
        let [mut two, mut one, mut root] = [0; 3];
        for seed in 0..CASES {
            let kinds = EqualNodeKinds::of(&Case::random(seed, flavour));
            two += u64::from(kinds.in_two_tries);
            one += u64::from(kinds.in_one_trie);
            root += u64::from(kinds.root_and_inner);
        }
        println!(
            "{flavour:?}: of {CASES} states {two} have a node in two tries, {one} twice in one, \
             {root} a child's root node as an inner node"
        );
        assert!(two * 3 >= CASES && one * 3 >= CASES && root * 8 >= CASES);
    }
}
