//! Tests of several states in one store, against a naive model: random trees of blocks that are
//! committed, pruned and discarded.
#![allow(clippy::unwrap_used)]

mod common;

use common::stores::{counts, TestStore};
use common::{change, changes, encoded, hash, read, root, Change};
use povmeter_delta_root::{NodeHash, Root, RootUpdate};
use povmeter_store::{MemoryStore, StateId, StoreError, StoredNodes};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// Number of places of each node of a state.
type Content = BTreeMap<String, u32>;

struct ModelState {
    id: StateId,
    parent: Option<StateId>,
    height: u64,
    /// All nodes but the root node.
    content: Content,
}

impl ModelState {
    /// Equal states have equal roots.
    fn root_name(&self) -> Option<String> {
        (self.height > 0).then(|| format!("root of {:?}", self.content))
    }

    fn root(&self) -> Root {
        self.root_name().map_or(Root::EMPTY, |name| root(&name))
    }

    /// All nodes.
    fn nodes(&self) -> Content {
        let mut nodes = self.content.clone();
        nodes.extend(self.root_name().map(|name| (name, 1)));
        nodes
    }
}

/// What a store should hold, computed from scratch each time.
struct Model(Vec<ModelState>);

impl Model {
    fn get(&self, id: StateId) -> &ModelState {
        self.0.iter().find(|state| state.id == id).unwrap()
    }

    fn is_below(&self, state: &ModelState, id: StateId) -> bool {
        state.id == id
            || state
                .parent
                .is_some_and(|parent| self.is_below(self.get(parent), id))
    }

    /// Removes the states that `stays` does not keep, and returns their ids.
    fn remove(&mut self, stays: impl Fn(&Self, &ModelState) -> bool) -> Vec<StateId> {
        let gone: Vec<_> = self
            .0
            .iter()
            .filter(|state| !stays(self, state))
            .map(|s| s.id)
            .collect();
        self.0.retain(|state| !gone.contains(&state.id));
        gone
    }

    /// The references that each node should have: those of the base, and what each block adds.
    fn counts(&self) -> BTreeMap<NodeHash, u64> {
        let mut counts = BTreeMap::new();
        for state in &self.0 {
            let before = state
                .parent
                .map(|parent| self.get(parent).nodes())
                .unwrap_or_default();
            for (name, places) in state.nodes() {
                let gained = places.saturating_sub(before.get(&name).copied().unwrap_or_default());
                if gained > 0 {
                    *counts.entry(hash(&name)).or_default() += u64::from(gained);
                }
            }
        }
        counts
    }

    fn assert_kept<S: TestStore>(&self, store: &S) {
        let found: Vec<_> = store
            .states()
            .iter()
            .map(|s| (s.id, s.parent, s.root, s.height))
            .collect();
        let expected = self.0.iter().map(|s| (s.id, s.parent, s.root(), s.height));
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert_eq!(store.kept_roots().len(), self.0.len());
        assert_eq!(store.root(), self.0.last().unwrap().root());
        for state in &self.0 {
            for name in state.nodes().keys() {
                assert_eq!(
                    read(store, name),
                    Some(encoded(name)),
                    "{name} of {}",
                    state.id
                );
            }
        }
    }

    fn assert_counts(&self, store: &mut impl StoredNodes) {
        assert_eq!(counts(store), self.counts());
    }
}

/// A random state after `parent`, and the update that leads to it.
fn random_block(parent: &ModelState, rng: &mut SmallRng) -> (Content, RootUpdate) {
    let mut content = parent.content.clone();
    let mut nodes: Vec<Change> = Vec::new();
    for _ in 0..rng.random_range(0..5) {
        let name = rng.random_range(0..12).to_string();
        let places = content.entry(name.clone()).or_default();
        let wanted = rng.random_range(0..4u32);
        let by = i32::try_from(wanted).unwrap() - i32::try_from(*places).unwrap();
        *places = wanted;
        if by != 0 {
            nodes.push(change(&name, &[rng.random()], by));
        }
        if wanted > 0 && rng.random() {
            // The node also moves.
            nodes.push(change(&name, &[1], 1));
            nodes.push(change(&name, &[2], -1));
        }
    }
    content.retain(|_, places| *places > 0);
    let next = ModelState {
        id: parent.id,
        parent: None,
        height: parent.height + 1,
        content,
    };
    nodes.extend(next.root_name().map(|name| change(&name, &[], 1)));
    nodes.extend(parent.root_name().map(|name| change(&name, &[], -1)));
    let update = RootUpdate {
        parent: parent.root(),
        root: next.root(),
        children: vec![],
        nodes: changes(&nodes),
    };
    (next.content, update)
}

/// Makes one step: a block on some state (often a fork, sometimes a twin), a prune or a discard.
fn step<S: TestStore>(store: &mut S, model: &mut Model, rng: &mut SmallRng) {
    let some = model.0.choose(rng).unwrap();
    let id = some.id;
    match rng.random_range(0..10) {
        0 => {
            let gone = store.prune(id).unwrap();
            let expected = model.remove(|model, state| model.is_below(state, id));
            assert_eq!(
                gone.iter().map(|state| state.id).collect::<Vec<_>>(),
                expected
            );
            model.0[0].parent = None;
        }
        1 | 2 if some.parent.is_some() => {
            let gone = store.discard(id).unwrap();
            let expected = model.remove(|model, state| !model.is_below(state, id));
            assert_eq!(
                gone.iter().map(|state| state.id).collect::<Vec<_>>(),
                expected
            );
        }
        _ => {
            let parent = if rng.random() {
                model.0.last().unwrap()
            } else {
                some
            };
            let (parent, height) = (parent.id, parent.height + 1);
            let (content, update) = random_block(model.get(parent), rng);
            for _ in 0..rng.random_range(1..4) / 3 + 1 {
                let id = store.keep(parent, &update).unwrap();
                model.0.push(ModelState {
                    id,
                    parent: Some(parent),
                    height,
                    content: content.clone(),
                });
            }
        }
    }
}

fn agrees_with_the_model<S: TestStore + StoredNodes>(seeds: u64, steps: usize, every: usize) {
    for seed in 0..seeds {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (home, mut store) = S::make();
        let base = *store.states().base();
        let mut model = Model(vec![ModelState {
            id: base.id,
            parent: None,
            height: 0,
            content: Content::new(),
        }]);
        for round in 0..steps {
            step(&mut store, &mut model, &mut rng);
            model.assert_kept(&store);
            if round % every == 0 {
                model.assert_counts(&mut store);
            }
            if rng.random_range(0..8) == 0 {
                store = store.settle(&home);
                model.assert_kept(&store);
            }
        }
        model.assert_counts(&mut store);
        // Back to one state, and on with plain commits.
        let newest = store.states().newest().id;
        store.prune(newest).unwrap();
        model.remove(|_, state| state.id == newest);
        model.0[0].parent = None;
        let (content, update) = random_block(&model.0[0], &mut rng);
        store.commit(&update).unwrap();
        let mut store = store.settle(&home);
        model.0[0].id = store.states().base().id;
        model.0[0].height += 1;
        model.0[0].content = content;
        model.assert_kept(&store);
        model.assert_counts(&mut store);
    }
}

#[test]
fn memory_agrees_with_the_model() {
    agrees_with_the_model::<MemoryStore>(150, 80, 1);
}

#[cfg(feature = "parity-db")]
#[test]
fn parity_db_agrees_with_the_model() {
    agrees_with_the_model::<povmeter_store::ParityDbStore>(3, 60, 10);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_agrees_with_the_model() {
    agrees_with_the_model::<povmeter_store::RocksDbStore>(3, 60, 10);
}

/// An update from `parent` to the root `name`.
fn update(parent: Root, name: &str, nodes: Vec<Change>) -> RootUpdate {
    let nodes: Vec<_> = nodes.into_iter().chain([change(name, &[], 1)]).collect();
    RootUpdate {
        parent,
        root: root(name),
        children: vec![],
        nodes: changes(&nodes),
    }
}

/// Checks that refused calls say why and change nothing.
fn refusals<S: TestStore + StoredNodes>() {
    let (home, mut store) = S::make();
    let empty = store.states().base().id;
    let one = store
        .keep(
            empty,
            &update(Root::EMPTY, "one", vec![change("a", &[1], 1)]),
        )
        .unwrap();
    let two = store
        .keep(one, &update(root("one"), "two", vec![]))
        .unwrap();
    let before = counts(&mut store);

    let error = store
        .commit(&update(root("two"), "three", vec![]))
        .unwrap_err();
    assert!(
        matches!(error, StoreError::SeveralStates { kept: 3 }),
        "{error:?}"
    );
    let error = store
        .keep(two, &update(root("one"), "three", vec![]))
        .unwrap_err();
    let (expected, found) = (root("two"), root("one"));
    assert_eq!(
        error.to_string(),
        format!("state {two} is at root {expected}, the update starts from root {found}")
    );
    let lost = vec![change("b", &[1], -1)];
    let error = store
        .keep(two, &update(root("two"), "three", lost))
        .unwrap_err();
    assert!(
        matches!(error, StoreError::MissingReferences { .. }),
        "{error:?}"
    );
    let error = store.discard(empty).unwrap_err();
    assert!(
        matches!(error, StoreError::BaseState { id } if id == empty),
        "{error:?}"
    );

    let mut store = store.settle(&home);
    assert_eq!(store.kept_roots(), [Root::EMPTY, root("one"), root("two")]);
    assert_eq!(counts(&mut store), before);
    store.discard(two).unwrap();
    let text = format!("state {two}, which is not kept");
    for error in [
        store
            .keep(two, &update(root("two"), "three", vec![]))
            .unwrap_err(),
        store.prune(two).unwrap_err(),
        store.discard(two).unwrap_err(),
    ] {
        assert!(
            matches!(error, StoreError::UnknownState { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(&text), "{error}");
    }
    // A name is not given again.
    let again = store
        .keep(one, &update(root("one"), "two", vec![]))
        .unwrap();
    assert!(again > two);
    let store = store.settle(&home);
    assert_eq!(store.states().of_root(root("two")).unwrap().id, again);
    let line: Vec<_> = store
        .states()
        .ancestry(again)
        .map(|state| state.id)
        .collect();
    assert_eq!(line, [again, one, empty]);
    assert_eq!(store.states().children(one).count(), 1);
}

#[test]
fn refusals_change_nothing() {
    refusals::<MemoryStore>();
    #[cfg(feature = "parity-db")]
    refusals::<povmeter_store::ParityDbStore>();
    #[cfg(feature = "rocksdb")]
    refusals::<povmeter_store::RocksDbStore>();
}

/// A name is a number, which rises by one with each state, whether it is kept or committed.
fn names_are_numbers<S: TestStore>() {
    let (home, mut store) = S::make();
    let base = store.states().base().id;
    assert_eq!(base.number(), 0);
    let one = store
        .keep(base, &update(Root::EMPTY, "one", vec![]))
        .unwrap();
    let fork = store
        .keep(base, &update(Root::EMPTY, "fork", vec![]))
        .unwrap();
    assert_eq!([one, fork].map(StateId::number), [1, 2]);
    assert_eq!(fork.to_string(), "2");
    store.discard(fork).unwrap();
    store.prune(one).unwrap();
    store.commit(&update(root("one"), "two", vec![])).unwrap();
    let store = store.settle(&home);
    let numbers: Vec<_> = store
        .states()
        .iter()
        .map(|state| state.id.number())
        .collect();
    assert_eq!(numbers, [3]);
}

#[test]
fn names_of_states_are_numbers() {
    names_are_numbers::<MemoryStore>();
    #[cfg(feature = "parity-db")]
    names_are_numbers::<povmeter_store::ParityDbStore>();
    #[cfg(feature = "rocksdb")]
    names_are_numbers::<povmeter_store::RocksDbStore>();
}
