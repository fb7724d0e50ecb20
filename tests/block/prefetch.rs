//! Paths and values that are loaded ahead: later calls need no source, and nothing is counted.

use crate::{key, store_with};
use povmeter::{Block, NodeSource, ProofSize, Root, SourceError, StateVersion, TrieId};
use povmeter_delta_root::{NodeHash, NodePrefix};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::cell::Cell;

const TOP: TrieId<'_> = TrieId::Top;
const CHILD: TrieId<'_> = TrieId::Child(b"child");

/// A store that can be cut off.
struct Source<'a> {
    store: &'a MemoryStore,
    open: Cell<bool>,
}

impl NodeSource for Source<'_> {
    fn node(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
    ) -> Result<Option<bytes::Bytes>, SourceError> {
        if self.open.get() {
            self.store.node(hash, prefix)
        } else {
            Err(SourceError::new(std::io::Error::other("cut off")))
        }
    }
}

/// Top and child trie of 300 accounts, with values in leaves and in nodes of their own.
fn store(version: StateVersion) -> MemoryStore {
    let value = |number: u32| vec![7; [1, 31, 33, 90][number as usize % 4]];
    let mut store = store_with(version, (0..300).map(|number| (key(number), value(number))));
    let mut block = Block::new(&store, store.root());
    for number in 0..300 {
        block.set(CHILD, &key(number), &value(number)).unwrap();
    }
    let sealed = block.seal(version).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// Reads all of these keys and writes some, with all sizes.
fn work<S: NodeSource>(
    block: &mut Block<S>,
    trie: TrieId<'_>,
    keys: &[[u8; 32]],
) -> Vec<ProofSize> {
    let mut sizes = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        block.get(trie, key).unwrap();
        if number % 3 == 0 {
            block.set(trie, key, &[8; 40]).unwrap();
        }
        sizes.push(block.proof_size().unwrap());
    }
    sizes
}

#[test]
fn what_was_loaded_ahead_needs_no_source_and_counts_as_ever() {
    for version in [StateVersion::V0, StateVersion::V1] {
        let store = store(version);
        for seed in 0..60 {
            let mut random = SmallRng::seed_from_u64(seed);
            let trie = [TOP, CHILD, TrieId::Child(b"none")][random.random_range(0..3)];
            // More than fit into one call, some twice, some not in the state.
            let keys: Vec<_> = (0..random.random_range(1..100))
                .map(|_| key(random.random_range(0..400)))
                .collect();
            let mut plain = Block::new(&store, store.root());
            let expected = work(&mut plain, trie, &keys);

            let source = Source {
                store: &store,
                open: Cell::new(true),
            };
            let mut block = Block::new(&source, store.root());
            block.prefetch(trie, &keys).unwrap();
            assert_eq!(block.recorded_size(), ProofSize::default());
            source.open.set(false);
            assert_eq!(work(&mut block, trie, &keys), expected, "{seed}");
            source.open.set(true);
            let sealed = block.seal(version).unwrap();
            let plain = plain.seal(version).unwrap();
            assert_eq!(sealed.update().root, plain.update().root);
            assert_eq!(sealed.proof(), plain.proof());
        }
    }
}

#[test]
fn keys_that_are_changed_or_looked_for_need_no_values() {
    let store = store(StateVersion::V1);
    let source = Source {
        store: &store,
        open: Cell::new(true),
    };
    for trie in [TOP, CHILD] {
        // All values of one length are one node. The last keys are not in the state.
        let [read, changed] =
            [2, 3].map(|length| (0..100).map(|number| key(4 * number + length)).collect());
        let (read, changed): (Vec<_>, Vec<_>) = (read, changed);
        source.open.set(true);
        let mut plain = Block::new(&store, store.root());
        let mut block = Block::new(&source, store.root());
        block.prefetch_for(trie, &read, &changed).unwrap();
        source.open.set(false);
        for key in &read {
            assert_eq!(block.get(trie, key).unwrap(), plain.get(trie, key).unwrap());
        }
        for key in &changed {
            let exists = plain.exists(trie, key).unwrap();
            assert_eq!(block.exists(trie, key).unwrap(), exists);
            assert_eq!(block.get(trie, key).is_err(), exists);
            plain.set(trie, key, &[8; 40]).unwrap();
            block.set(trie, key, &[8; 40]).unwrap();
        }
        assert_eq!(block.proof_size().unwrap(), plain.proof_size().unwrap());
    }
}

#[test]
fn a_failing_source_is_an_error_that_leaves_the_block_usable() {
    let store = store(StateVersion::V1);
    let source = Source {
        store: &store,
        open: Cell::new(false),
    };
    let mut block = Block::new(&source, store.root());
    let error = block.prefetch(TOP, &[key(1)]).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
    source.open.set(true);
    assert!(block.get(TOP, &key(1)).unwrap().is_some());
}

#[test]
fn an_empty_state_has_nothing_to_load() {
    let store = MemoryStore::new();
    let mut block = Block::new(&store, Root::EMPTY);
    block.prefetch(TOP, &[key(1)]).unwrap();
    block.prefetch(CHILD, &[key(1)]).unwrap();
}
