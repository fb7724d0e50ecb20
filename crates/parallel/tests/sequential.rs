//! Random blocks in parallel have the outcome of the same blocks executed one transaction after the other: endings,
//! the size after each transaction, root, changes, and the nodes of the proof.

#![allow(clippy::unwrap_used)]

mod support;

use povmeter_parallel::{Parallel, Strategy};
use std::num::NonZeroUsize;
use support::program::{Flavour, Programs};

fn workers(count: usize) -> Parallel {
    Parallel::new(NonZeroUsize::new(count).unwrap())
}

fn compare(cases: std::ops::Range<u64>, flavour: Flavour, ways: &[Parallel]) {
    support::quiet();
    let store = support::parent_state();
    let mut ways = ways.to_vec();
    for seed in cases {
        let programs = Programs::random(seed, flavour);
        let expected = support::sequential(&store, &programs);
        for way in &mut ways {
            let found = support::parallel(&store, &programs, way);
            for (index, (found, expected)) in found
                .transactions
                .iter()
                .zip(&expected.transactions)
                .enumerate()
            {
                assert_eq!(found, expected, "seed {seed}, transaction {index}, {way:?}");
            }
            assert!(
                found == expected,
                "seed {seed}, {way:?}\n{found:?}\n{expected:?}"
            );
        }
    }
}

const USUAL: Flavour = Flavour {
    transactions: 60,
    ops: 12,
    keys: support::program::KEYS,
    rare: false,
};

#[test]
fn each_transaction_ahead_by_one_worker() {
    let ways = [workers(1).with_strategy(Strategy::EachAhead)];
    compare(0..300, USUAL, &ways);
    compare(
        300..500,
        Flavour {
            rare: true,
            ..USUAL
        },
        &ways,
    );
}

#[test]
fn several_workers() {
    let ways = [2, 4, 8].map(|count| workers(count).with_strategy(Strategy::Always));
    compare(1_000..1_150, USUAL, &ways);
    compare(
        1_150..1_250,
        Flavour {
            rare: true,
            ..USUAL
        },
        &ways,
    );
    let each = [workers(4).with_strategy(Strategy::EachAhead)];
    compare(
        2_000..2_100,
        Flavour {
            rare: true,
            ..USUAL
        },
        &each,
    );
}

/// The beginning of each transaction runs beside the block.
#[test]
fn preparations() {
    let ways = [2, 4].map(|count| workers(count).with_strategy(Strategy::Prepare));
    let rare = Flavour {
        rare: true,
        ..USUAL
    };
    compare(5_000..5_150, rare, &ways);
}

#[test]
fn few_keys_and_large_windows() {
    let ways = [workers(8)
        .with_strategy(Strategy::EachAhead)
        .with_window(1_000)];
    compare(3_000..3_100, Flavour { keys: 4, ..USUAL }, &ways);
    compare(
        3_100..3_200,
        Flavour {
            keys: 4,
            rare: true,
            ..USUAL
        },
        &ways,
    );
}

/// Long enough for every phase of the adaptive strategy.
#[test]
fn adaptive() {
    let long = Flavour {
        transactions: 2_500,
        rare: true,
        ..USUAL
    };
    compare(4_000..4_012, long, &[workers(1), workers(3), workers(8)]);
}

#[test]
#[ignore = "takes long: 40,000 blocks"]
fn takes_long() {
    let rare = Flavour {
        rare: true,
        ..USUAL
    };
    let each = workers(4).with_strategy(Strategy::EachAhead);
    let ways = [each, workers(3).with_strategy(Strategy::Always)];
    compare(10_000..20_000, rare, &ways);
    compare(
        20_000..30_000,
        Flavour { keys: 6, ..rare },
        &[each.with_window(1_000), ways[1]],
    );
}
