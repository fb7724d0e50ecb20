//! The crate that takes the place of sp-state-machine, beside the original.

use povmeter_dev_oracle::{run_patched, Case, Flavour, PatchedCounts};
use sp_core::storage::StateVersion;

#[test]
fn random_blocks_are_the_originals() {
    let mut all = PatchedCounts::default();
    for flavour in Flavour::ALL {
        for seed in 0..1000 {
            for version in [StateVersion::V0, StateVersion::V1] {
                let case = Case::random(seed, flavour).in_version(version);
                let counts = run_patched(&case);
                let counts = counts.unwrap_or_else(|mismatch| {
                    panic!("{} {seed} {version:?}: {mismatch}\n{case}", flavour.name())
                });
                all.calls += counts.calls;
                all.expected_bytes += counts.expected_bytes;
                all.more_bytes += counts.more_bytes;
            }
        }
    }
    // In the recorder there may be nodes that only the order of the changes needs; docs/proof-size.md.
    let percent = all.more_bytes as f64 * 100.0 / all.expected_bytes as f64;
    assert!(percent < 1.0, "{all:?}");
    assert!(all.calls > 100_000, "{all:?}");
    println!("{all:?}: {percent:.3} % more bytes recorded");
}
