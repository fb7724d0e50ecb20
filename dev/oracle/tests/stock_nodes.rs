//! The nodes recorded by blocks whose roots count in key order, beside those that the peer records.
//!
//! `POVMETER_CASES` sets the number of blocks of each flavour, for long runs.

use crate::estimate::cases;
use povmeter::{Accounting, Advisory, Consensus};
use povmeter_dev_oracle::{compare_stock_nodes, Case, Flavour, StockNodes};

fn compare<A: Accounting>(
    flavour: Flavour,
    seeds: std::ops::Range<u64>,
    case: impl Fn(u64, Flavour) -> Case,
) -> StockNodes {
    let mut all = StockNodes::default();
    for seed in seeds {
        let case = case(seed, flavour);
        match compare_stock_nodes::<A>(&case) {
            Ok(StockNodes {
                roots,
                of_changed_children,
                spared,
            }) => {
                all.roots += roots;
                all.of_changed_children += of_changed_children;
                all.spared += spared;
            }
            Err(mismatch) => panic!("{flavour:?}, seed {seed}: {mismatch}\n{case}"),
        }
    }
    all
}

#[test]
fn roots_in_key_order_record_what_the_peer_records() {
    for flavour in Flavour::ALL {
        let consensus = compare::<Consensus>(flavour, 0..cases(), Case::random);
        let advisory = compare::<Advisory>(flavour, 0..cases(), Case::random);
        println!("{flavour:?}: consensus {consensus:?}, advisory {advisory:?}");
        // Otherwise the cases would test little.
        assert!(consensus.roots > 100 && advisory.roots > 100);
        assert!(consensus.spared + advisory.spared > 0, "{flavour:?}");
    }
}

#[test]
fn roots_of_children_in_key_order_record_what_the_peer_records() {
    let case = |seed, flavour| Case::random(seed, flavour).asking_for_child_roots(seed);
    for flavour in Flavour::ALL {
        let consensus = compare::<Consensus>(flavour, 0..cases(), case);
        let advisory = compare::<Advisory>(flavour, 0..cases(), case);
        println!("{flavour:?}: consensus {consensus:?}, advisory {advisory:?}");
        // Otherwise the cases would test little.
        assert!(consensus.of_changed_children > 100 && advisory.of_changed_children > 100);
    }
}
