//! Random calls, on the overlay and on the naive model.

use crate::{
    edges::{KEYS, VALUES},
    naive::{full, FullKey, Naive},
};
use codec::{Compact, CompactLen, Decode};
use povmeter_overlay::{Fate, Lookup, Overlay, Reader, TrieId};
use rand::{rngs::SmallRng, seq::IndexedRandom, Rng, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

const STORES: [TrieId<'static>; 4] = [
    TrieId::Top,
    TrieId::Child(b"c"),
    TrieId::Child(b""),
    TrieId::Child(b"cc"),
];

#[derive(Clone, Debug)]
enum Call {
    Set(TrieId<'static>, &'static [u8], &'static [u8]),
    Remove(TrieId<'static>, &'static [u8]),
    Append(
        TrieId<'static>,
        &'static [u8],
        &'static [u8],
        Option<&'static [u8]>,
    ),
    AppendToFailing(TrieId<'static>, &'static [u8]),
    ClearPrefix(TrieId<'static>, &'static [u8]),
    NextAfter(TrieId<'static>, &'static [u8]),
    Start,
    Commit,
    RollBack(Reader),
    Enter,
    Exit(Reader),
    Snapshot,
}

/// `weights` differ per sequence: some nest deeply, some hardly, some take snapshots all the time.
fn call(rng: &mut SmallRng, weights: &[u32; 5]) -> Call {
    let total: u32 = weights.iter().sum();
    let mut pick = rng.random_range(0..total);
    let class = weights.iter().position(|&weight| {
        let here = pick < weight;
        pick = pick.wrapping_sub(weight);
        here
    });
    let store = *STORES[..].choose(rng).unwrap();
    let store = if rng.random_ratio(1, 2) {
        TrieId::Top
    } else {
        store
    };
    let key = *KEYS.choose(rng).unwrap();
    let value = *VALUES.choose(rng).unwrap();
    match class.unwrap() {
        0 => match rng.random_range(0..10) {
            0..=2 => Call::Set(store, key, value),
            3..=4 => Call::Remove(store, key),
            5..=8 => Call::Append(
                store,
                key,
                value,
                [None, VALUES.choose(rng).copied()][rng.random_range(0..2)],
            ),
            _ => Call::AppendToFailing(store, key),
        },
        1 => match rng.random_range(0..2) {
            0 => Call::ClearPrefix(store, &key[..rng.random_range(0..=key.len())]),
            _ => Call::NextAfter(store, key),
        },
        2 => Call::Start,
        3 => match rng.random_range(0..12) {
            0..=4 => Call::Commit,
            5..=7 => Call::RollBack(Reader::Forgets),
            8..=9 => Call::RollBack(Reader::Keeps),
            10 => Call::Enter,
            _ => Call::Exit([Reader::Forgets, Reader::Keeps][rng.random_range(0..2)]),
        },
        _ => Call::Snapshot,
    }
}

/// What the overlay holds for a key: nothing, a deletion or a value.
type Held = Option<Option<Vec<u8>>>;

/// What the reader of dirty keys knows, and knew at the start of each open transaction.
#[derive(Default)]
struct Knowledge {
    knows: BTreeMap<FullKey, Held>,
    knew: Vec<BTreeMap<FullKey, Held>>,
    /// What it was told last of each key, of which it forgets nothing.
    told: BTreeMap<FullKey, Held>,
}

impl Knowledge {
    fn follow(&mut self, depth: usize, forgets: bool) {
        if depth > self.knew.len() {
            self.knew.push(self.knows.clone());
        }
        while depth < self.knew.len() {
            let knew = self.knew.pop().unwrap();
            if forgets {
                self.knows = knew;
            }
        }
    }
}

struct Pair {
    overlay: Overlay,
    naive: Naive,
    reader: Knowledge,
}

impl Pair {
    fn run(&mut self, call: &Call) {
        let Self { overlay, naive, .. } = self;
        match *call {
            Call::Set(store, key, value) => {
                overlay.set(store, key, value);
                naive.set(full(store, key), Some(value.to_vec()));
            }
            Call::Remove(store, key) => {
                let was_deleted = naive.fate(&full(store, key)) == Fate::Deleted;
                assert_eq!(overlay.remove(store, key), !was_deleted);
                naive.set(full(store, key), None);
            }
            Call::Append(store, key, element, parent) => {
                let unknown = naive.fate(&full(store, key)) == Fate::Untouched;
                let mut asked = false;
                let parent_value = || {
                    asked = true;
                    Ok::<_, ()>(parent)
                };
                overlay.append(store, key, element, parent_value).unwrap();
                assert_eq!(asked, unknown);
                naive.append(full(store, key), element, parent.map(Into::into));
            }
            Call::AppendToFailing(store, key) => {
                let unknown = naive.fate(&full(store, key)) == Fate::Untouched;
                let result = overlay.append(store, key, b"e", || Err::<Option<&[u8]>, _>("failed"));
                if unknown {
                    assert_eq!(result, Err("failed"));
                } else {
                    assert_eq!(result, Ok(()));
                    naive.append(full(store, key), b"e", None);
                }
            }
            Call::ClearPrefix(store, prefix) => {
                assert_eq!(
                    overlay.clear_prefix(store, prefix),
                    naive.clear_prefix(store, prefix)
                );
            }
            Call::NextAfter(store, key) => {
                assert_eq!(overlay.next_after(store, key), naive.next_after(store, key));
            }
            Call::Start => {
                overlay.start_transaction();
                naive.start();
            }
            Call::Commit => assert_eq!(overlay.commit_transaction().is_ok(), naive.close(None)),
            Call::RollBack(reader) => {
                let closed = overlay.rollback_transaction_for(reader);
                assert_eq!(closed.is_ok(), naive.close(Some(reader)));
            }
            Call::Enter => assert_eq!(overlay.enter_runtime().is_ok(), naive.enter()),
            Call::Exit(reader) => {
                assert_eq!(overlay.exit_runtime_for(reader).ok(), naive.exit(reader));
            }
            Call::Snapshot => {
                for dirty in overlay.dirty() {
                    let key = full(dirty.trie, dirty.key);
                    let held = naive.changes.get(&key).cloned();
                    self.reader.told.insert(key.clone(), held.clone());
                    self.reader.knows.insert(key, held);
                }
                overlay.snapshot();
                naive.snapshot();
            }
        }
    }

    fn compare(&self) {
        let Self { overlay, naive, .. } = self;
        assert_eq!(overlay.depth(), naive.depth());
        assert_eq!(overlay.is_empty(), naive.changes.is_empty());
        let told: Vec<_> = overlay
            .dirty()
            .map(|d| (full(d.trie, d.key), d.fate))
            .collect();
        let keys: BTreeSet<_> = told.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(told.len(), keys.len(), "a key is told twice");
        // The model keeps known keys dirty.
        assert!(keys.is_subset(&naive.dirty));
        assert!(told.iter().all(|(key, fate)| *fate == naive.fate(key)));
        let mut children: Vec<_> = naive
            .changes
            .keys()
            .filter_map(|(s, _)| s.clone())
            .collect();
        children.dedup();
        assert!(overlay
            .children()
            .eq(children.iter().map(|child| &child[..])));
        for store in STORES {
            let (in_store, _) = full(store, &[]);
            let held = naive.changes.iter().filter(|((s, _), _)| *s == in_store);
            let held: Vec<_> = held.map(|((_, k), v)| (&k[..], v.as_deref())).collect();
            for key in KEYS {
                let expected = match held.iter().find(|(held, _)| *held == key) {
                    None => Lookup::Untouched,
                    Some((_, None)) => Lookup::Deleted,
                    Some((_, Some(value))) => Lookup::Value(value),
                };
                assert_eq!(overlay.get(store, key), expected, "{store:?} {key:?}");
            }
            assert_eq!(overlay.changes(store), held, "{store:?}");
            assert_eq!(
                overlay.has_values(store),
                held.iter().any(|(_, v)| v.is_some()),
                "{store:?}"
            );
        }
    }

    /// Compares the keys that the innermost transaction changed, and those that it only appended to.
    fn compare_transaction(&self) {
        let Self { overlay, naive, .. } = self;
        let at = |place| overlay.at(place).unwrap();
        let listed: Vec<_> = overlay.changed_in_transaction().collect();
        let keys: BTreeSet<_> = listed
            .iter()
            .map(|changed| {
                let (trie, key, held) = at(changed.place);
                assert_eq!(held, overlay.get(trie, key));
                full(trie, key)
            })
            .collect();
        assert_eq!(listed.len(), keys.len(), "a key is listed twice");
        let Some((changed, start)) = naive.changed_in_transaction() else {
            return assert!(listed.is_empty());
        };
        assert_eq!(keys, *changed);
        for appended in listed.iter().filter(|changed| changed.only_appended) {
            let (trie, key, held) = at(appended.place);
            let before = start.changes[&full(trie, key)].clone().unwrap();
            let (Lookup::Value(list), Ok(Compact(elements))) =
                (held, Compact::<u32>::decode(&mut &before[..]))
            else {
                panic!("{key:?} was no list, or is none: {held:?}");
            };
            let before = &before[Compact::compact_len(&elements)..];
            let Compact(now) = Compact::<u32>::decode(&mut &list[..]).unwrap();
            assert!(list[Compact::compact_len(&now)..].starts_with(before));
        }
        let all: BTreeSet<_> = overlay
            .places()
            .map(at)
            .filter(|of| of.2 != Lookup::Untouched)
            .map(|(trie, key, _)| full(trie, key))
            .collect();
        assert!(all.iter().eq(naive.changes.keys()));
    }

    fn run_sequence(&mut self, seed: u64, calls: &mut Vec<Call>) {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let weights = [
            8,
            rng.random_range(0..3),
            rng.random_range(0..5),
            rng.random_range(0..5),
            rng.random_range(0..6),
        ];
        for _ in 0..200 {
            let call = call(rng, &weights);
            calls.push(call.clone());
            // Each sequence stops to compare at other steps.
            let look = rng.random_ratio(1, 8);
            let content = look.then(|| self.naive.changes.clone());
            let revision = self.overlay.revision();
            self.run(&call);
            if look {
                self.compare();
                self.compare_transaction();
            }
            if content.is_some_and(|content| content != self.naive.changes) {
                assert!(self.overlay.revision() > revision);
            }
            let forgets = matches!(
                call,
                Call::RollBack(Reader::Forgets) | Call::Exit(Reader::Forgets)
            );
            self.reader.follow(self.naive.depth(), forgets);
            if matches!(call, Call::Snapshot) {
                for (key, held) in self.reader.knows.iter().chain(&self.reader.told) {
                    let expected = self.naive.changes.get(key);
                    assert_eq!(held.as_ref(), expected, "the reader is wrong about {key:?}");
                }
                assert!(self
                    .naive
                    .changes
                    .keys()
                    .all(|key| self.reader.knows.contains_key(key)));
            }
        }
    }
}

/// Two tests, which run at the same time.
#[test]
fn agrees_with_the_naive_model() {
    agrees_for(0..5_000);
}

#[test]
fn agrees_with_the_naive_model_for_other_seeds() {
    agrees_for(5_000..10_000);
}

/// One overlay, reset before each sequence, whatever state the sequence before left it in.
fn agrees_for(seeds: Range<u64>) {
    let mut overlay = Overlay::new();
    for seed in seeds {
        overlay.reset();
        let mut pair = Pair {
            overlay,
            naive: Naive::default(),
            reader: Knowledge::default(),
        };
        let mut calls = Vec::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pair.compare();
            pair.run_sequence(seed, &mut calls);
            pair.compare();
        }));
        assert!(
            outcome.is_ok(),
            "seed {seed} fails at the last of {calls:#?}"
        );
        if seed.is_multiple_of(4) {
            pair.end();
        }
        overlay = pair.overlay;
    }
}

impl Pair {
    fn end(&mut self) {
        let _ = self.overlay.exit_runtime();
        let _ = self.naive.exit(Reader::Forgets);
        while self.naive.depth() > 0 {
            self.run(&Call::Commit);
        }
        self.compare();
        let changes = self.overlay.to_owned_changes().unwrap();
        assert!(changes.children().eq(self.overlay.children()));
        for store in STORES {
            assert!(changes.changes(store).eq(self.overlay.changes(store)));
        }
    }
}
