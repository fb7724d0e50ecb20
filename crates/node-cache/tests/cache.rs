//! Which nodes a cache has, after reads, updates, forks and races.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{genesis, run};
use povmeter::{Block, StateVersion::V1, TrieId::Top};
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeChange, NodeHash, NodePrefix, NodeRequest, NodeSource, Root,
    RootUpdate, SourceError,
};
use povmeter_node_cache::{CachedSource, NodeCache};
use povmeter_store::NodeStore;
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

fn change<'a>(path: &'a [u8], references: i32, node: &'a [u8]) -> NodeChange<'a> {
    NodeChange {
        path,
        odd_nibble: None,
        hash: Blake2b256::hash(node),
        references,
        encoded: if references > 0 { node } else { &[] },
    }
}

fn update(changes: &[NodeChange<'_>]) -> RootUpdate {
    RootUpdate {
        parent: Root::EMPTY,
        root: Root::EMPTY,
        children: vec![],
        nodes: changes.iter().copied().collect(),
    }
}

fn insert(cache: &NodeCache, path: &[u8], node: &[u8]) {
    cache.insert(&Blake2b256::hash(node), (path, None), node);
}

fn has(cache: &NodeCache, path: &[u8], node: &[u8]) -> bool {
    let found = cache.get(&Blake2b256::hash(node), (path, None));
    assert!(found.as_ref().is_none_or(|found| found == node));
    found.is_some()
}

#[test]
fn shared_by_threads() {
    fn is<T: Send + Sync>() {}
    is::<NodeCache>();
    is::<CachedSource<povmeter_store::MemoryStore>>();
    is::<povmeter_node_cache::Warmer>();
}

#[test]
fn the_hash_tells() {
    let cache = NodeCache::new(100_000);
    insert(&cache, b"a", b"first");
    assert!(has(&cache, b"a", b"first"));
    assert!(!has(&cache, b"a", b"other"), "another node at the path");
    assert!(!has(&cache, b"b", b"first"), "another path");
    let counters = cache.counters();
    assert_eq!(
        (counters.hits, counters.misses, counters.entries),
        (1, 2, 1)
    );
    assert_eq!((counters.node_bytes, counters.payload_bytes()), (5, 37));
}

#[test]
fn an_update_replaces() {
    let cache = NodeCache::new(100_000);
    insert(&cache, b"same", b"old 1");
    insert(&cache, b"longer", b"old 2");
    insert(&cache, b"gone", b"old 3");
    insert(&cache, b"moved", b"node");
    cache.apply(&update(&[
        change(b"same", -1, b"old 1"),
        change(b"same", 1, b"new 1"),
        change(b"longer", 1, b"a longer new 2"),
        change(b"longer", -1, b"old 2"),
        change(b"gone", -1, b"old 3"),
        change(b"moved", -1, b"node"),
        change(b"here", 1, b"node"),
        change(b"absent", -1, b"never read"),
        change(b"absent", 1, b"new"),
    ]));
    for (path, node) in [
        (&b"same"[..], &b"new 1"[..]),
        (b"longer", b"a longer new 2"),
        (b"here", b"node"),
        (b"absent", b"new"),
    ] {
        assert!(has(&cache, path, node), "{node:?}");
    }
    for (path, node) in [
        (&b"same"[..], &b"old 1"[..]),
        (b"longer", b"old 2"),
        (b"gone", b"old 3"),
        (b"moved", b"node"),
    ] {
        assert!(!has(&cache, path, node), "{node:?}");
    }
    let counters = cache.counters();
    assert_eq!(
        (counters.entries, counters.superseded, counters.evictions),
        (4, 4, 0)
    );
}

/// A leaf without a partial key and its value lie at the same path.
#[test]
fn a_leaf_and_its_value_are_both_kept() {
    let cache = NodeCache::new(100_000);
    insert(&cache, b"key", b"leaf 0");
    insert(&cache, b"key", b"value 0");
    for number in 0..5 {
        let name = |what, number| format!("{what} {number}").into_bytes();
        let old = ["leaf", "value"].map(|what| name(what, number));
        let new = ["leaf", "value"].map(|what| name(what, number + 1));
        assert!(old.iter().all(|node| has(&cache, b"key", node)), "{number}");
        cache.apply(&update(&[
            change(b"key", 1, &new[0]),
            change(b"key", -1, &old[0]),
            change(b"key", -1, &old[1]),
            change(b"key", 1, &new[1]),
        ]));
        assert!(!old.iter().any(|node| has(&cache, b"key", node)));
    }
    assert_eq!(cache.counters().entries, 2);
}

/// Both children of one parent live on. The update of each removes the parent's node once; then the
/// nodes of both are in the cache.
#[test]
fn two_forks_are_both_kept() {
    let cache = NodeCache::new(100_000);
    insert(&cache, b"path", b"parent");
    cache.apply(&update(&[
        change(b"path", -1, b"parent"),
        change(b"path", 1, b"fork a"),
    ]));
    assert!(!has(&cache, b"path", b"parent"));
    insert(&cache, b"path", b"parent");
    assert!(has(&cache, b"path", b"parent") && has(&cache, b"path", b"fork a"));
    cache.apply(&update(&[
        change(b"path", -1, b"parent"),
        change(b"path", 1, b"fork b"),
    ]));
    assert!(has(&cache, b"path", b"fork a") && has(&cache, b"path", b"fork b"));
    assert!(!has(&cache, b"path", b"parent"));
    // The update of a block that was applied before changes nothing.
    cache.apply(&update(&[
        change(b"path", -1, b"parent"),
        change(b"path", 1, b"fork b"),
    ]));
    assert_eq!(cache.counters().entries, 2);
    cache.apply(&update(&[
        change(b"path", -1, b"fork b"),
        change(b"path", 1, b"next b"),
    ]));
    assert!(has(&cache, b"path", b"fork a") && has(&cache, b"path", b"next b"));
    assert_eq!(cache.counters().entries, 2);
}

/// A source that calls back before it answers.
struct Slow<F>(&'static [u8], Mutex<F>);

impl<F: FnMut()> NodeSource for Slow<F> {
    fn node(&self, _: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        (self.1.lock().unwrap())();
        Ok(Some(Bytes::from_static(self.0)))
    }
}

/// A node that is read before an update removes it, and arrives after it, is not kept.
#[test]
fn a_late_node_does_not_enter() {
    let cache = Arc::new(NodeCache::new(100_000));
    let removal = update(&[change(b"a", -1, b"old"), change(b"a", 1, b"new")]);
    let meanwhile = Arc::clone(&cache);
    let slow = Slow(b"old", Mutex::new(move || meanwhile.apply(&removal)));
    let source = CachedSource::new(slow, Arc::clone(&cache));
    let hash = Blake2b256::hash(b"old");
    assert_eq!(
        source.node(&hash, (b"a", None)).unwrap().unwrap(),
        &b"old"[..]
    );
    assert!(!has(&cache, b"a", b"old") && has(&cache, b"a", b"new"));

    // The same in a batch.
    let requests = [NodeRequest {
        hash,
        prefix: (b"a", None),
    }];
    let mut batch = NodeBatch::of(&requests).next().unwrap();
    source.nodes(&mut batch);
    assert_eq!(batch.get(0).unwrap().unwrap(), b"old");
    assert!(!has(&cache, b"a", b"old"));
    assert_eq!(cache.counters().late_fills, 2);
}

#[test]
fn a_batch_asks_only_for_what_is_missing() {
    let cache = Arc::new(NodeCache::new(100_000));
    insert(&cache, b"a", b"cached");
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let slow = Slow(b"read", Mutex::new(move || *count.lock().unwrap() += 1));
    let source = CachedSource::new(slow, Arc::clone(&cache));
    let request = |path, node| NodeRequest {
        hash: Blake2b256::hash(node),
        prefix: (path, None),
    };
    let requests = [
        request(&b"a"[..], b"cached"),
        request(b"b", b"read"),
        request(b"c", b"answered before"),
    ];
    for calls in [1, 1] {
        let mut batch = NodeBatch::of(&requests).next().unwrap();
        batch.answer_with_copy(2, b"answered before");
        source.nodes(&mut batch);
        assert_eq!(batch.get(0).unwrap().unwrap(), b"cached");
        assert_eq!(batch.get(1).unwrap().unwrap(), b"read");
        assert_eq!(batch.get(2).unwrap().unwrap(), b"answered before");
        assert_eq!(*asked.lock().unwrap(), calls);
    }
    // An answer that was there before does not enter.
    assert_eq!(cache.counters().entries, 2);
}

#[test]
fn a_dropped_block_leaves_what_it_read() {
    let store = genesis(3);
    let cache = Arc::new(NodeCache::new(1 << 20));
    let source = CachedSource::new(&store, Arc::clone(&cache));
    let mut block = Block::new(&source, store.root());
    for number in 0..100_u8 {
        block.set(Top, &[number], &[number; 50]).unwrap();
    }
    let read = block.seal(V1).unwrap().proof().nodes().len();
    assert!(read > 10);
    assert_eq!(cache.counters().entries, read as u64);
}

/// Every answer is the node of the hash that was asked for, over random reads, updates of two forks, and
/// small memory.
#[test]
fn no_stale_read() {
    for bytes in [5_000, 30_000, 200_000, 2 << 20] {
        let mut dice = SmallRng::seed_from_u64(bytes as u64);
        let cache = NodeCache::new(bytes);
        let mut all: HashMap<NodeHash, Vec<u8>> = HashMap::new();
        let mut forks = [HashMap::<u16, Vec<u8>>::new(), HashMap::new()];
        for _ in 0..400 {
            let fork = &mut forks[dice.random_range(0..2)];
            let mut changes = Vec::new();
            for _ in 0..20 {
                let path = dice.random_range(0..2_000_u16);
                let node = vec![dice.random(); dice.random_range(0..200)];
                all.insert(Blake2b256::hash(&node), node.clone());
                changes.push((path, fork.insert(path, node.clone()), node));
            }
            changes.sort_by_key(|change| change.0);
            changes.dedup_by_key(|change| change.0);
            let paths: Vec<_> = changes
                .iter()
                .map(|change| change.0.to_le_bytes())
                .collect();
            let mut nodes = Vec::new();
            for ((_, old, new), path) in changes.iter().zip(&paths) {
                nodes.extend(old.as_ref().map(|old| change(path, -1, old)));
                nodes.push(change(path, 1, new));
            }
            cache.apply(&update(&nodes));
            for _ in 0..100 {
                let path = dice.random_range(0..2_000_u16);
                let fork = &forks[dice.random_range(0..2)];
                let Some(node) = fork.get(&path) else {
                    continue;
                };
                let (hash, prefix) = (Blake2b256::hash(node), path.to_le_bytes());
                match cache.get(&hash, (&prefix, None)) {
                    Some(found) => assert_eq!(found, all[&hash]),
                    None => cache.insert(&hash, (&prefix, None), node),
                }
            }
            let counters = cache.counters();
            assert!(counters.memory_bytes <= bytes as u64, "{counters:?}");
        }
        assert!(cache.counters().hits > 0);
    }
}

/// A large cache has all nodes of the last state that were read or written, and no others.
#[test]
fn only_the_last_state_is_left() {
    let mut store = genesis(4);
    let cache = Arc::new(NodeCache::new(8 << 20));
    for seed in 0..30 {
        let source = CachedSource::new(&store, Arc::clone(&cache));
        let (update, _) = run(source, store.root(), seed).unwrap();
        store.commit(&update).unwrap();
        cache.apply(&update);
        for node in update.inserted() {
            assert!(cache.contains(&node.hash, node.prefix()));
        }
        for node in update.removed() {
            assert!(!cache.contains(&node.hash, node.prefix()));
        }
    }
}

#[test]
fn a_poor_size_is_no_error() {
    for bytes in [0, 1, 100, 1_000, 5_000, 10_000] {
        let cache = NodeCache::new(bytes);
        for number in 0..100_u8 {
            insert(&cache, &[number], &[number; 500]);
            insert(&cache, &[number], &[number; 5]);
        }
        insert(&cache, b"huge", &vec![1; 1 << 20]);
        assert!(!has(&cache, b"huge", &vec![1; 1 << 20]));
        assert!(cache.counters().refused > 0);
    }
}
