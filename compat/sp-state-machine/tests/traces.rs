//! What calls trace, beside the original: the same events with the same texts, because programs read them.
#![allow(clippy::unwrap_used)]

use hash_db::Hasher;
use sp_core::{
    storage::{ChildInfo, StateVersion},
    Blake2Hasher, KeccakHasher, H256,
};
use sp_externalities::Externalities;
use sp_trie::{trie_types::TrieDBMutBuilderV1, KeySpacedDBMut, PrefixedMemoryDB, TrieMut};
use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};
use tracing::{
    field::{Field, Visit},
    span, Event, Metadata, Subscriber,
};

const VERSION: StateVersion = StateVersion::V1;
/// Lengths below and above that from which a trace shortens a value.
const LENGTHS: [usize; 8] = [0, 1, 40, 1_025, 1_026, 1_027, 1_028, 3_000];

/// Keeps the events of the state as text.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

/// The text of one event.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Counts the externalities of the process.
        if field.name() != "ext_id" {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "state"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The events of `calls`.
fn traced(calls: impl FnOnce()) -> Vec<String> {
    let events = Events::default();
    tracing::subscriber::with_default(events.clone(), calls);
    let mut events = events.0.lock().unwrap();
    std::mem::take(&mut *events)
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn byte(&mut self, bound: u8) -> u8 {
        u8::try_from(self.roll(bound.into())).unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        vec![1, self.byte(3), self.byte(3)]
    }

    fn value(&mut self) -> Vec<u8> {
        let byte = self.byte(u8::MAX);
        vec![byte; LENGTHS[self.roll(LENGTHS.len())]]
    }

    fn child(&mut self) -> ChildInfo {
        ChildInfo::new_default([&b"one"[..], b"two"][self.roll(2)])
    }
}

/// One random call.
fn call(ext: &mut dyn Externalities, dice: &mut Dice, open: &mut u32) {
    let (key, child, value) = (dice.key(), dice.child(), dice.value());
    let prefix = key[..1 + dice.roll(3)].to_vec();
    let limit = [None, Some(2)][dice.roll(2)];
    let root_key = child.prefixed_storage_key().into_inner();
    match dice.roll(22) {
        0 | 1 => _ = ext.storage(&key),
        2 => _ = ext.storage_hash(&key),
        3 => _ = ext.child_storage(&child, &key),
        4 => _ = ext.child_storage_hash(&child, &key),
        5 => _ = ext.exists_storage(&key),
        6 => _ = ext.exists_child_storage(&child, &key),
        7 => _ = ext.next_storage_key(&key),
        8 => _ = ext.next_child_storage_key(&child, &key),
        9 | 10 => ext.set_storage(key, value),
        11 => ext.clear_storage(&key),
        12 => ext.set_child_storage(&child, key, value),
        13 => ext.clear_child_storage(&child, &key),
        14 => _ = ext.kill_child_storage(&child, limit, None),
        15 => _ = ext.clear_prefix(&prefix, limit, None),
        16 => _ = ext.clear_child_prefix(&child, &prefix, limit, None),
        17 => ext.storage_append(key, value),
        // Refused, in part with an event.
        18 => {
            ext.set_storage(root_key.clone(), value);
            _ = ext.clear_prefix(&root_key, None, None);
        }
        19 => {
            ext.storage_index_transaction(1, &key, 7);
            ext.storage_renew_transaction_index(2, &key);
        }
        20 => {
            *open += 1;
            ext.storage_start_transaction();
        }
        _ if *open > 0 => {
            *open -= 1;
            match dice.roll(2) {
                0 => ext.storage_rollback_transaction().unwrap(),
                _ => ext.storage_commit_transaction().unwrap(),
            }
        }
        _ => {}
    }
}

/// Random calls, and the roots at the end.
fn calls(ext: &mut dyn Externalities, seed: u64) {
    let (mut dice, mut open) = (Dice(seed), 0);
    for _ in 0..100 {
        call(ext, &mut dice, &mut open);
    }
    for name in [&b"one"[..], b"two", b"absent"] {
        ext.child_storage_root(&ChildInfo::new_default(name), VERSION);
    }
    ext.storage_root(VERSION);
    ext.storage_root(VERSION);
    ext.child_storage_root(&ChildInfo::new_default(b"one"), VERSION);
}

/// A state with random values in the top trie and in a child trie.
fn state<H: Hasher<Out = H256>>(dice: &mut Dice) -> (PrefixedMemoryDB<H>, H256) {
    let mut nodes = PrefixedMemoryDB::<H>::default();
    let (mut root, mut child_root) = (H256::default(), H256::default());
    {
        let mut spaced = KeySpacedDBMut::new(&mut nodes, b"one");
        let mut trie = TrieDBMutBuilderV1::<H>::new(&mut spaced, &mut child_root).build();
        for _ in 0..9 {
            trie.insert(&dice.key(), &dice.value()).unwrap();
        }
    }
    let child = ChildInfo::new_default(b"one").prefixed_storage_key();
    {
        let mut trie = TrieDBMutBuilderV1::<H>::new(&mut nodes, &mut root).build();
        for _ in 0..9 {
            trie.insert(&dice.key(), &dice.value()).unwrap();
        }
        trie.insert(&child, child_root.as_ref()).unwrap();
    }
    (nodes, root)
}

/// Compares the events of random calls, with extrinsics collected or not, and returns their number.
fn compare<H: Hasher<Out = H256> + 'static>(collects: bool) -> usize
where
    H::StdHasher: Default,
{
    let mut compared = 0;
    for seed in 0..100 {
        let (nodes, root) = state::<H>(&mut Dice(!seed));
        let backend = original::TrieBackendBuilder::<_, H>::new(nodes.clone(), root).build();
        let mut overlay = original::OverlayedChanges::default();
        overlay.set_collect_extrinsics(collects);
        let mut ext = original::Ext::new(&mut overlay, &backend, None);
        let expected = traced(|| calls(&mut ext, seed));

        let backend = sp_state_machine::TrieBackendBuilder::<_, H>::new(nodes, root).build();
        let mut overlay = sp_state_machine::OverlayedChanges::default();
        overlay.set_collect_extrinsics(collects);
        let mut ext = sp_state_machine::Ext::new(&mut overlay, &backend, None);
        let found = traced(|| calls(&mut ext, seed));
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "seed {seed}, event {at}");
        }
        assert_eq!(found.len(), expected.len(), "seed {seed}");
        compared += found.len();
    }
    compared
}

#[test]
fn calls_trace_what_the_originals_trace() {
    assert!(compare::<Blake2Hasher>(false) > 5_000);
}

#[test]
fn calls_that_the_original_executes_are_traced_once() {
    assert!(compare::<KeccakHasher>(false) > 5_000);
    assert!(compare::<Blake2Hasher>(true) > 5_000);
}
