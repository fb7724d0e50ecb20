//! Compares root updates on several threads with those on one thread, to the last byte.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter_delta_root::{
    state_update, state_update_of_loaded, Changes, NodeHash, NodePrefix, NodeSource, Root,
    RootError, RootUpdate, ShadowState, SourceError, StateVersion,
};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::BTreeMap;

type Edits = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Nodes by hash.
#[derive(Debug, Default)]
struct Nodes(BTreeMap<NodeHash, Bytes>);

impl NodeSource for &Nodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        Ok(self.0.get(hash).cloned())
    }
}

fn changes(edits: &Edits) -> Changes<'_> {
    let top = edits.iter();
    Changes {
        top: top
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
            .collect(),
        children: Vec::new(),
    }
}

/// A state, and the threads that compute its updates.
struct State {
    nodes: Nodes,
    root: Root,
    version: StateVersion,
    pool: ThreadPool,
}

impl State {
    fn new(entries: &Edits, version: StateVersion) -> Self {
        let mut state = Self {
            nodes: Nodes::default(),
            root: Root::EMPTY,
            version,
            pool: ThreadPoolBuilder::new().num_threads(3).build().unwrap(),
        };
        let update = state.update(entries, usize::MAX).unwrap();
        let inserted = update.inserted();
        state.nodes.0 = inserted
            .map(|node| (node.hash, update.nodes.share(node.encoded)))
            .collect();
        state.root = update.root;
        state
    }

    fn update(&self, edits: &Edits, split_from: usize) -> Result<RootUpdate, RootError> {
        let changes = changes(edits);
        self.pool.install(|| {
            let state = ShadowState::new(&self.nodes, self.root);
            let mut state = state.with_split_from(split_from);
            state_update(&mut state, &changes, self.version, &mut ())
        })
    }

    /// The update, which is equal on one thread and on several.
    fn same(&self, edits: &Edits) -> RootUpdate {
        let expected = self.update(edits, usize::MAX).unwrap();
        assert_eq!(self.update(edits, 2).unwrap(), expected, "{edits:02x?}");
        expected
    }
}

fn value(rng: &mut SmallRng) -> Option<Vec<u8>> {
    Some(vec![
        rng.random_range(0..3);
        [0, 1, 31, 32, 33, 100][rng.random_range(0..6)]
    ])
}

/// A key of few different nibbles. Many of these keys are prefixes of others, and some are long.
fn key(rng: &mut SmallRng) -> Vec<u8> {
    let bytes = [0x00, 0x01, 0x10, 0x11, 0xf0];
    let length = [0, 1, 2, 3, 4, 16, 32, 33][rng.random_range(0..8)];
    (0..length)
        .map(|_| bytes[rng.random_range(0..bytes.len())])
        .collect()
}

#[test]
fn random_updates_are_the_same() {
    for seed in 0..600 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let entries: Edits = (0..rng.random_range(1..60))
            .map(|_| (key(rng), value(rng)))
            .collect();
        let version = [StateVersion::V0, StateVersion::V1][(seed % 2) as usize];
        let state = State::new(&entries, version);
        // From updates that delete nothing to those that delete nearly everything.
        let deleted = f64::from(rng.random_range(0..=10)) / 10.0;
        let mut edits = Edits::new();
        for key in entries.into_keys() {
            if rng.random_bool(deleted) {
                edits.insert(key, None);
            } else if rng.random_bool(0.3) {
                edits.insert(key, value(rng));
            }
        }
        for _ in 0..rng.random_range(0..10) {
            edits.insert(key(rng), value(rng));
        }
        state.same(&edits);
    }
}

/// A branch with two children, several entries below each.
fn two_groups() -> Edits {
    let keys = [0x11u8, 0x12, 0x13, 0x21, 0x22, 0x23];
    keys.map(|first| (vec![0xaa, first, 0xbb], Some(vec![7; 40])))
        .into()
}

#[test]
fn a_child_that_takes_the_place_of_its_branch_is_merged() {
    let state = State::new(&two_groups(), StateVersion::V1);
    let mut edits: Edits = two_groups().into_keys().map(|key| (key, None)).collect();
    for first in [0x21, 0x22] {
        edits.insert(vec![0xaa, first, 0xbb], Some(vec![8; 40]));
    }
    let update = state.same(&edits);
    edits.retain(|_, value| value.is_some());
    assert_eq!(update.root, State::new(&edits, StateVersion::V1).root);
}

#[test]
fn nothing_is_left_of_all_groups() {
    let state = State::new(&two_groups(), StateVersion::V1);
    let edits = two_groups().into_keys().map(|key| (key, None)).collect();
    assert_eq!(state.same(&edits).root, Root::EMPTY);
}

#[test]
fn a_branch_that_is_merged_itself_has_children_that_went_apart() {
    let mut entries = two_groups();
    entries.insert(vec![0xab], Some(vec![1]));
    let state = State::new(&entries, StateVersion::V0);
    let mut edits = two_groups();
    edits
        .values_mut()
        .for_each(|value| *value = Some(vec![8; 40]));
    edits.insert(vec![0xab], None);
    let update = state.same(&edits);
    edits.retain(|_, value| value.is_some());
    assert_eq!(update.root, State::new(&edits, StateVersion::V0).root);
}

#[test]
fn the_first_of_several_nodes_that_are_not_loaded_is_named() {
    let state = State::new(&two_groups(), StateVersion::V0);
    let edits = two_groups();
    let changes = changes(&edits);
    let error = |split_from| {
        let shadow = ShadowState::new(&state.nodes, state.root);
        let mut shadow = shadow.with_split_from(split_from);
        let update = || state_update_of_loaded(&mut shadow, &changes, state.version);
        state.pool.install(update).unwrap_err().to_string()
    };
    for _ in 0..20 {
        assert_eq!(error(2), error(usize::MAX));
    }
}
