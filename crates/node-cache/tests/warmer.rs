//! The warmer: what it loads, and that no source and no queue can stop it from ending.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{genesis, key};
use povmeter::{Block, TrieId};
use povmeter_delta_root::{NodeHash, NodePrefix, NodeSource, SourceError};
use povmeter_node_cache::{CachedSource, NodeCache, Warmer, WarmerOptions};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, SeedableRng};
use std::{
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{channel, Receiver, Sender},
        Arc, Mutex,
    },
};

fn options(threads: usize, queue: usize) -> WarmerOptions {
    WarmerOptions {
        threads: NonZeroUsize::new(threads).unwrap(),
        queue,
    }
}

#[test]
fn a_block_finds_all_it_was_warmed_for() {
    let store = Arc::new(genesis(1));
    let cache = Arc::new(NodeCache::new(4 << 20));
    let warmer = Warmer::new(Arc::clone(&store), Arc::clone(&cache), options(3, 100)).unwrap();
    let mut dice = SmallRng::seed_from_u64(2);
    // Some of the keys do not exist, and neither does one of the tries.
    let keys: Vec<_> = (0..500).map(|_| key(&mut dice)).collect();
    let tries = [TrieId::Top, TrieId::Child(b"pool"), TrieId::Child(b"none")];
    warmer.start_block(store.root());
    for trie in tries {
        assert_eq!(warmer.warm(trie, &keys), 500);
    }
    warmer.wait();
    assert_eq!(warmer.counters().warmed, 1_500);

    let before = cache.counters();
    let mut block = Block::new(CachedSource::new(&store, Arc::clone(&cache)), store.root());
    for trie in tries {
        for key in &keys {
            block.get(trie, key).unwrap();
        }
    }
    assert_eq!(cache.counters().misses, before.misses);
    assert!(cache.counters().hits > before.hits + 50);
}

#[test]
fn a_queue_may_be_as_long_as_a_number_can_say() {
    let store = Arc::new(genesis(3));
    let warmer = Warmer::new(
        Arc::clone(&store),
        Arc::new(NodeCache::new(1 << 20)),
        options(1, usize::MAX),
    );
    let warmer = warmer.unwrap();
    warmer.start_block(store.root());
    let keys = [b"none"; 5_000];
    assert_eq!(warmer.warm(TrieId::Top, &keys), keys.len());
    warmer.wait();
}

/// A source that waits for a word at each read, and then panics, fails or answers, as the word
/// says.
#[derive(Clone)]
struct Told(Arc<MemoryStore>, Arc<Mutex<Receiver<Word>>>);

#[derive(Clone, Copy)]
enum Word {
    Answer,
    Fail,
    Panic,
}

impl NodeSource for Told {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let word = self
            .1
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .recv();
        // When the test has dropped the sender, every read is answered.
        match word.unwrap_or(Word::Answer) {
            Word::Answer => self.0.node(hash, prefix),
            Word::Fail => Err(SourceError::new(std::fmt::Error)),
            Word::Panic => panic!("the source was told to"),
        }
    }
}

fn told(queue: usize) -> (Sender<Word>, Arc<MemoryStore>, Warmer) {
    let store = Arc::new(genesis(1));
    let (sender, words) = channel();
    let source = Told(Arc::clone(&store), Arc::new(Mutex::new(words)));
    let cache = Arc::new(NodeCache::new(1 << 20));
    let warmer = Warmer::new(source, cache, options(1, queue)).unwrap();
    warmer.start_block(store.root());
    (sender, store, warmer)
}

#[test]
fn a_panic_and_an_error_end_nothing() {
    let (words, _, warmer) = told(10);
    for word in [Word::Fail, Word::Panic] {
        words.send(word).unwrap();
    }
    for key in [b"a", b"b", b"c"] {
        assert_eq!(warmer.warm(TrieId::Top, &[key]), 1);
    }
    drop(words);
    warmer.wait();
    let counters = warmer.counters();
    assert_eq!(
        (counters.failed, counters.panics, counters.warmed),
        (1, 1, 1)
    );
}

/// A source whose clones panic while it says so. The clone for the thread is made before.
struct Panicking(Arc<MemoryStore>, Arc<AtomicBool>);

impl Clone for Panicking {
    fn clone(&self) -> Self {
        assert!(!self.1.load(Relaxed), "the source was told to");
        Self(Arc::clone(&self.0), Arc::clone(&self.1))
    }
}

impl NodeSource for Panicking {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        assert!(!self.1.load(Relaxed), "the source was told to");
        self.0.node(hash, prefix)
    }
}

#[test]
fn a_panic_of_a_clone_ends_nothing() {
    let store = Arc::new(genesis(1));
    let panics = Arc::new(AtomicBool::new(false));
    let source = Panicking(Arc::clone(&store), Arc::clone(&panics));
    let cache = Arc::new(NodeCache::new(1 << 20));
    let warmer = Warmer::new(source, cache, options(1, 10)).unwrap();
    warmer.start_block(store.root());
    // The thread may clone the source before or after this.
    panics.store(true, Relaxed);
    for key in [b"a", b"b", b"c"] {
        assert_eq!(warmer.warm(TrieId::Top, &[key]), 1);
    }
    // Does not hang.
    warmer.wait();
    assert_eq!((warmer.counters().panics, warmer.counters().warmed), (3, 0));
    panics.store(false, Relaxed);
    assert_eq!(warmer.warm(TrieId::Top, &[b"a"]), 1);
    warmer.wait();
    assert_eq!((warmer.counters().panics, warmer.counters().warmed), (3, 1));
}

#[test]
fn a_full_queue_refuses() {
    let (words, _, warmer) = told(2);
    let taken: usize = (0..10).map(|_| warmer.warm(TrieId::Top, &[b"key"])).sum();
    // One key may be with the thread.
    assert!((2..=3).contains(&taken), "{taken}");
    assert_eq!(warmer.counters().refused, 10 - taken as u64);
    drop(words);
    warmer.wait();
    assert_eq!(warmer.counters().warmed, taken as u64);
}

#[test]
fn keys_of_an_earlier_block_are_left() {
    let (words, store, warmer) = told(10);
    for _ in 0..5 {
        warmer.warm(TrieId::Top, &[b"key"]);
    }
    warmer.start_block(store.root());
    drop(words);
    warmer.wait();
    let counters = warmer.counters();
    assert!(counters.outdated >= 4, "{counters:?}");
    assert_eq!(counters.outdated + counters.warmed, 5);
}

#[test]
fn ends_with_a_full_queue() {
    let (words, _, warmer) = told(4);
    while warmer.warm(TrieId::Top, &[b"key"]) > 0 {}
    // The thread waits for the word of one read.
    let ended = std::thread::spawn(move || drop(warmer));
    for _ in 0..100 {
        // The source is gone if the thread has ended.
        let _ = words.send(Word::Answer);
    }
    drop(words);
    ended.join().unwrap();
}

#[test]
fn a_state_without_nodes_is_no_trouble() {
    let cache = Arc::new(NodeCache::new(1 << 20));
    let warmer = Warmer::new(Arc::new(MemoryStore::new()), cache, options(2, 10)).unwrap();
    // Before the first block the state is the empty one.
    warmer.warm(TrieId::Top, &[b"key"]);
    warmer.start_block([7; 32].into());
    warmer.warm(TrieId::Top, &[b"key"]);
    warmer.wait();
    assert_eq!(warmer.counters().failed, 1);
}
