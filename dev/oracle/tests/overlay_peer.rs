//! The overlay and the peer's in lockstep: random calls, every result compared.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/overlay/tests/overlay/edges.rs"]
mod edges;

use edges::{KEYS, VALUES};
use povmeter_dev_runtime::runtime::Hashing;
use povmeter_overlay::{Lookup, Overlay, TrieId};
use rand::{rngs::SmallRng, seq::IndexedRandom, Rng, SeedableRng};
use sp_core::storage::ChildInfo;
use sp_state_machine::OverlayedChanges;
use std::collections::{BTreeMap, BTreeSet};

const CHILDREN: [&[u8]; 3] = [b"c", b"cc", b"d"];

/// A macro, because the peer does not export the type of its values.
macro_rules! owned {
    () => {
        |(key, value)| (key.to_vec(), value.value().cloned())
    };
}

struct Pair {
    ours: Overlay,
    peer: OverlayedChanges<Hashing>,
    /// The parent state, for keys that the overlay does not hold.
    parent: BTreeMap<&'static [u8], &'static [u8]>,
    children: BTreeSet<&'static [u8]>,
}

impl Pair {
    fn new(rng: &mut SmallRng) -> Self {
        let parent = KEYS.iter().filter(|_| rng.random_bool(0.5));
        let parent = parent.map(|key| (*key, VALUES[1 + key.len()]));
        Self {
            ours: Overlay::new(),
            peer: OverlayedChanges::default(),
            parent: parent.collect(),
            children: BTreeSet::new(),
        }
    }

    fn step(&mut self, rng: &mut SmallRng) {
        let key = *KEYS.choose(rng).unwrap();
        // Without the longest list, because the peer's debug build panics when its length overflows.
        let value = *VALUES[1..].choose(rng).unwrap();
        let prefix = &key[..rng.random_range(0..=key.len())];
        match rng.random_range(0..40) {
            0..=5 => {
                self.ours.set(TrieId::Top, key, value);
                self.peer.set_storage(key.to_vec(), Some(value.to_vec()));
            }
            6..=8 => {
                self.ours.remove(TrieId::Top, key);
                self.peer.set_storage(key.to_vec(), None);
            }
            9..=16 => self.append(key, value),
            17..=20 => self.child(rng, key, value, prefix),
            21..=22 => {
                let ours = self.ours.clear_prefix(TrieId::Top, prefix);
                assert_eq!(ours, self.peer.clear_prefix(prefix));
            }
            23 => self.clear_with_limit(rng, prefix),
            24..=27 => self.next(TrieId::Top, key),
            28..=31 => {
                self.ours.start_transaction();
                self.peer.start_transaction();
            }
            32..=33 => {
                let ours = self.ours.commit_transaction();
                assert_eq!(ours.is_ok(), self.peer.commit_transaction().is_ok());
            }
            34..=36 => {
                let ours = self.ours.rollback_transaction();
                assert_eq!(ours.is_ok(), self.peer.rollback_transaction().is_ok());
            }
            37 => {
                let ours = self.ours.enter_runtime();
                assert_eq!(ours.is_ok(), self.peer.enter_runtime().is_ok());
            }
            38 => {
                let ours = self.ours.exit_runtime();
                assert_eq!(ours.is_ok(), self.peer.exit_runtime().is_ok());
            }
            _ => self.compare(),
        }
        assert_eq!(self.ours.depth(), self.peer.transaction_depth());
        self.get(TrieId::Top, key);
    }

    fn append(&mut self, key: &[u8], element: &[u8]) {
        let parent = self.parent.get(key);
        let of_parent = || Ok::<_, ()>(parent);
        self.ours
            .append(TrieId::Top, key, element, of_parent)
            .unwrap();
        let init = || parent.map_or_else(Vec::new, |value| value.to_vec());
        self.peer
            .append_storage(key.to_vec(), element.to_vec(), init);
    }

    fn child(&mut self, rng: &mut SmallRng, key: &[u8], value: &[u8], prefix: &[u8]) {
        let child = *CHILDREN.choose(rng).unwrap();
        let (store, info) = (TrieId::Child(child), ChildInfo::new_default(child));
        self.children.insert(child);
        match rng.random_range(0..8) {
            0..=2 => {
                self.ours.set(store, key, value);
                self.peer
                    .set_child_storage(&info, key.to_vec(), Some(value.to_vec()));
            }
            3..=4 => {
                self.ours.remove(store, key);
                self.peer.set_child_storage(&info, key.to_vec(), None);
            }
            5 => {
                let ours = self.ours.clear_prefix(store, b"");
                assert_eq!(ours, self.peer.clear_child_storage(&info));
            }
            6 => {
                let ours = self.ours.clear_prefix(store, prefix);
                assert_eq!(ours, self.peer.clear_child_prefix(&info, prefix));
            }
            _ => self.next(store, key),
        }
        self.get(store, key);
    }

    /// Clears a prefix as the host functions do: the keys in the overlay, then keys of the parent state
    /// from a cursor on, up to a limit.
    fn clear_with_limit(&mut self, rng: &mut SmallRng, prefix: &[u8]) {
        let cursor = *KEYS.choose(rng).unwrap();
        let limit = rng.random_range(0..4);
        let ours = self.ours.clear_prefix(TrieId::Top, prefix);
        assert_eq!(ours, self.peer.clear_prefix(prefix));
        let from = cursor.max(prefix);
        let keys = self.parent.range(from..).map(|(key, _)| *key);
        for key in keys.take_while(|key| key.starts_with(prefix)).take(limit) {
            let pending = self.peer.storage(key) == Some(None);
            assert_eq!(self.ours.remove(TrieId::Top, key), !pending);
            if !pending {
                self.peer.set_storage(key.to_vec(), None);
            }
        }
    }

    fn next(&mut self, store: TrieId<'_>, key: &[u8]) {
        let ours = self.ours.next_after(store, key);
        let found = match store {
            TrieId::Top => self.peer.iter_after(key).next().map(owned!()),
            TrieId::Child(child) => self.peer.child_iter_after(child, key).next().map(owned!()),
        };
        let found = found.as_ref();
        assert_eq!(ours, found.map(|(key, value)| (&key[..], value.as_deref())));
    }

    fn get(&mut self, store: TrieId<'_>, key: &[u8]) {
        let found = match store {
            TrieId::Top => self.peer.storage(key),
            TrieId::Child(child) => {
                let info = ChildInfo::new_default(child);
                self.peer.child_storage(&info, key)
            }
        };
        let found = match found {
            None => Lookup::Untouched,
            Some(None) => Lookup::Deleted,
            Some(Some(value)) => Lookup::Value(value),
        };
        assert_eq!(self.ours.get(store, key), found, "{store:?} {key:?}");
    }

    /// Compares all changes of both overlays.
    fn compare(&mut self) {
        let peer: Vec<_> = self.peer.changes_mut().map(owned!()).collect();
        assert!(equal(&self.ours.changes(TrieId::Top), &peer));
        for child in self.children.clone() {
            let ours = self.ours.changes(TrieId::Child(child));
            let peer = self.peer.child_changes_mut(child).map(|(changes, _)| {
                let changes = changes.map(owned!());
                changes.collect::<Vec<_>>()
            });
            assert!(equal(&ours, &peer.unwrap_or_default()), "{child:?}");
        }
    }
}

type Owned = (Vec<u8>, Option<Vec<u8>>);

fn equal(ours: &[(&[u8], Option<&[u8]>)], peer: &[Owned]) -> bool {
    let peer = peer.iter().map(|(key, value)| (&key[..], value.as_deref()));
    ours.iter().copied().eq(peer)
}

#[test]
fn every_result_is_the_peers() {
    for seed in 0..10_000 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut pair = Pair::new(rng);
        let mut at = 0;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while at < 200 {
                at += 1;
                pair.step(rng);
            }
            pair.compare();
        }));
        assert!(outcome.is_ok(), "seed {seed} fails at call {at}");
    }
}
