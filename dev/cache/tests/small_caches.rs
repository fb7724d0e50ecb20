//! A small comparison, from the recorded blocks to the report.
#![allow(clippy::unwrap_used)]

use povmeter_dev_cache::{measure_caches, Access, CacheError, CacheOptions, CacheRow, Keying};

fn options() -> CacheOptions {
    CacheOptions {
        accounts: 2_000,
        blocks: 20,
        touched: 50,
        seed: 1,
        accesses: vec![Access::Zipf],
        write_shares: vec![100],
        bytes_percents: vec![20, 200],
    }
}

#[test]
fn every_cache_is_compared() {
    let mut parts = 0;
    // Without an allocator that counts, limits are taken as they are.
    let report = measure_caches(&options(), &|| 0, &mut |_, _, _| parts += 1).unwrap();
    assert_eq!(report.rows.len(), 30);
    assert!(parts > 30 && report.no_stale_reads());
    let hits = |policy: &str, keying, percent| {
        let is = |row: &&CacheRow| {
            (row.policy.as_str(), row.keying, row.bytes_percent) == (policy, keying, percent)
        };
        report.rows.iter().find(is).unwrap().hit_percent
    };
    let ours = |percent| hits("povmeter", Keying::Path, percent);
    assert!(ours(20) > 0.0 && ours(200) > ours(20), "{report:?}");
    // With room for all nodes, every cache of nodes and values misses only nodes that were not asked for
    // before.
    for row in &report.rows {
        if row.bytes_percent == 200 && row.policy != "sp-trie" {
            assert_eq!(row.hit_percent, ours(200), "{row:?}");
        }
    }
    for row in &report.rows {
        assert!((0.0..=100.0).contains(&row.hit_percent), "{row:?}");
        assert!(row.entries > 0 && row.ns > 0.0, "{row:?}");
    }
    // The same accesses again: ours draws a secret for its hash table, the others are the same.
    let again = measure_caches(&options(), &|| 0, &mut |_, _, _| {}).unwrap();
    assert_eq!(again.state_bytes, report.state_bytes);
}

/// An eviction since the block asked for a node does not show that the node will be asked for again.
#[test]
fn updates_larger_than_the_cache_leave_what_is_popular() {
    let options = CacheOptions {
        accounts: 20_000,
        blocks: 30,
        touched: 1_000,
        write_shares: vec![20, 100],
        bytes_percents: vec![5],
        ..options()
    };
    let report = measure_caches(&options, &|| 0, &mut |_, _, _| {}).unwrap();
    let ours = report.rows.iter().filter(|row| row.policy == "povmeter");
    let hits: Vec<_> = ours.map(|row| row.hit_percent).collect();
    let [few_writes, all_writes] = hits[..] else {
        panic!("expected 2 rows, found {hits:?}");
    };
    assert!(few_writes - all_writes < 1.0, "{hits:?}");
}

#[test]
fn nothing_to_measure_is_an_error() {
    let nothing = CacheOptions {
        blocks: 1,
        ..options()
    };
    let error = measure_caches(&nothing, &|| 0, &mut |_, _, _| {}).unwrap_err();
    assert!(matches!(error, CacheError::Nothing));
}
