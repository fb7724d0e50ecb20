//! The memory of a cache, counted by the allocator.
#![allow(clippy::unwrap_used)]

use povmeter_delta_root::{Blake2b256, NodeChange, Root, RootUpdate};
use povmeter_dev_allocations::{live_bytes, Counting};
use povmeter_node_cache::NodeCache;
use rand::{rngs::SmallRng, Rng, SeedableRng};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Lengths of nodes as in a state of accounts: leaves, values, small and full branches.
fn length(dice: &mut SmallRng) -> usize {
    match dice.random_range(0..100) {
        0..45 => 80,
        45..85 => 79,
        85..98 => 36 + 33 * dice.random_range(2..8),
        _ => 531,
    }
}

#[test]
fn never_more_than_allowed() {
    // At 960,000 the shards have the largest tables for their size.
    for bytes in [10_000, 100_000, 900_000, 960_000, 3_000_000, 20_000_000] {
        let mut dice = SmallRng::seed_from_u64(1);
        let before = live_bytes();
        let cache = NodeCache::new(bytes);
        let mut most = 0;
        // The nodes that are replaced, by path.
        let mut old = vec![Vec::new(); 1_000];
        let node_count = bytes / 40;
        for number in 0..node_count {
            let node = vec![dice.random(); length(&mut dice)];
            let hash = Blake2b256::hash(&node);
            let path = number.to_le_bytes();
            if number % 5 == 0 {
                let at = dice.random_range(0..old.len());
                let path = at.to_be_bytes();
                let change = |references, encoded, hash| NodeChange {
                    path: &path,
                    odd_nibble: None,
                    hash,
                    references,
                    encoded,
                };
                let removed: &Vec<u8> = &old[at];
                let nodes = [
                    change(-1, &[][..], Blake2b256::hash(removed)),
                    change(1, &node[..], hash),
                ];
                let update = RootUpdate {
                    parent: Root::EMPTY,
                    root: Root::EMPTY,
                    children: vec![],
                    nodes: nodes.into_iter().collect(),
                };
                cache.apply(&update);
                old[at] = node;
            } else {
                cache.insert(&hash, (&path, None), &node);
                drop(node);
            }
            if number % 64 == 0 {
                let others: usize = old.iter().map(Vec::capacity).sum::<usize>()
                    + old.capacity() * size_of::<Vec<u8>>();
                most = most.max(usize::try_from(live_bytes() - before).unwrap() - others);
            }
        }
        let counters = cache.counters();
        assert!(most <= bytes, "{most} of {bytes}");
        assert!(counters.memory_bytes <= most as u64 + size_of::<NodeCache>() as u64);
        if bytes >= 900_000 {
            let ratio = bytes as f64 / counters.payload_bytes() as f64;
            assert!(ratio < 1.4, "{counters:?}");
        }
        drop(cache);
        drop(old);
        assert_eq!(live_bytes(), before, "bytes are left");
    }
}
