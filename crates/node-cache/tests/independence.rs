//! What a block counts does not depend on the cache: cold, warm, tiny, shared by threads and forks, or off.
#![allow(clippy::unwrap_used)]

mod common;

use common::{genesis, keys_of, run};
use povmeter::TrieId;
use povmeter_node_cache::{CachedSource, NodeCache, Warmer, WarmerOptions};
use povmeter_store::{MemoryStore, NodeStore, Verified};
use std::{sync::Arc, thread};

/// A state, and the caches over it.
struct State {
    store: MemoryStore,
    caches: Vec<Arc<NodeCache>>,
}

impl State {
    /// Executes a block over each cache and without one, compares, and commits.
    fn step(&mut self, seed: u64) {
        let root = self.store.root();
        let (update, expected) = run(Verified::new(&self.store), root, seed).unwrap();
        for (which, cache) in self.caches.iter().enumerate() {
            let source = Verified::new(CachedSource::new(&self.store, Arc::clone(cache)));
            let (found, told) = run(source, root, seed).unwrap();
            assert_eq!(told, expected, "cache {which}, block {seed}");
            assert_eq!(found, update);
        }
        self.store.commit(&update).unwrap();
        for cache in &self.caches {
            cache.apply(&update);
        }
    }
}

#[test]
fn blocks_are_the_same_with_any_cache() {
    for seed in 0..6 {
        let sizes = [0, 3_000, 20_000, 100_000, 4 << 20];
        let caches = sizes.map(|bytes| Arc::new(NodeCache::new(bytes)));
        let mut state = State {
            store: genesis(seed),
            caches: caches.to_vec(),
        };
        for number in 0..25 {
            if number % 8 == 3 {
                // Cold.
                state.caches[3].clear();
            }
            state.step(seed * 1_000 + number);
        }
        let [none, tiny, small, _, large] = caches.map(|cache| cache.counters());
        assert_eq!((none.hits, none.entries), (0, 0));
        assert!(tiny.evictions > 0 && small.evictions > 0 && large.evictions == 0);
        let percents = [tiny, small, large].map(|counters| counters.hit_percent().unwrap());
        assert!(percents.is_sorted(), "{percents:?}");
        assert!(large.hit_percent().unwrap() > 80.0, "{large:?}");
    }
}

/// Two chains from one state on one cache, block by block in turns, and blocks that are never committed.
#[test]
fn forks_share_a_cache() {
    let cache = Arc::new(NodeCache::new(200_000));
    let both = |seed| State {
        store: genesis(seed),
        caches: vec![Arc::clone(&cache)],
    };
    let (mut one, mut other) = (both(5), both(5));
    for number in 0..40 {
        // Both build the same block every third time: an equal update is applied twice.
        one.step(100 + number);
        other.step(if number % 3 == 0 {
            100 + number
        } else {
            200 + number
        });
        let root = one.store.root();
        run(
            CachedSource::new(&one.store, Arc::clone(&cache)),
            root,
            300 + number,
        )
        .unwrap();
        if number == 20 {
            // A reorganisation: one goes on from the state of the other.
            one.store = other.store.clone();
        }
    }
    let counters = cache.counters();
    assert!(counters.hit_percent().unwrap() > 50.0, "{counters:?}");
}

#[test]
fn threads_share_a_cache() {
    for bytes in [20_000, 1 << 20] {
        let cache = Arc::new(NodeCache::new(bytes));
        let warmed = genesis(9);
        let warmer = Warmer::new(
            Arc::new(warmed.clone()),
            Arc::clone(&cache),
            WarmerOptions::default(),
        );
        let warmer = warmer.unwrap();
        thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, warmer, warmed) = (&cache, &warmer, &warmed);
                scope.spawn(move || {
                    let caches = vec![Arc::clone(cache)];
                    let mut state = State {
                        store: genesis(9),
                        caches,
                    };
                    for number in 0..15 {
                        warmer.start_block(warmed.root());
                        warmer.warm(TrieId::Top, &keys_of(thread * 100 + number));
                        state.step(thread * 100 + number);
                    }
                });
            }
        });
        warmer.wait();
        let counters = cache.counters();
        assert!(
            counters.hits > 0 && counters.memory_bytes <= bytes as u64,
            "{counters:?}"
        );
        assert_eq!((warmer.counters().failed, warmer.counters().panics), (0, 0));
    }
}
