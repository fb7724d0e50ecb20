//! The memory that a carried state names, against what was allocated.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use povmeter_delta_root::{
    state_update, Changes, KeyChanges, NodeHash, NodePrefix, NodeSource, Root, RootUpdate,
    ShadowState, SourceError, StateVersion, TrieId,
};
use povmeter_dev_allocations::{live_bytes, Counting};
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Nodes by hash. Each answer has memory of its own.
#[derive(Default)]
struct Nodes(BTreeMap<NodeHash, Vec<u8>>);

impl NodeSource for &Nodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        Ok(self.0.get(hash).map(|node| Bytes::copy_from_slice(node)))
    }
}

impl Nodes {
    fn commit(&mut self, update: &RootUpdate) {
        let inserted = update.inserted();
        let inserted = inserted.map(|node| (node.hash, node.encoded.to_vec()));
        self.0.extend(inserted);
    }
}

const CHILD: TrieId<'static> = TrieId::Child(b"child");

/// Whoever keeps loaded states bounds them by this number, so it must be about right, whatever they are made of.
#[test]
fn the_memory_of_a_carried_state_is_about_what_was_allocated() {
    let keys: Vec<_> = (0..5_000_u16)
        .map(|key| key.wrapping_mul(40_503).to_be_bytes())
        .collect();
    for (in_top, in_child, length) in [(5_000, 0, 1), (0, 5_000, 1), (2_500, 2_500, 200)] {
        let value = vec![7; length];
        let changes = |count: usize| {
            let mut changes: KeyChanges<'_> = keys[..count]
                .iter()
                .map(|key| (&key[..], Some(&value[..])))
                .collect();
            changes.sort();
            changes
        };
        let changes = Changes {
            top: changes(in_top),
            children: vec![(b"child", changes(in_child))],
        };
        let mut nodes = Nodes::default();
        let mut state = ShadowState::new(&nodes, Root::EMPTY);
        let made = state_update(&mut state, &changes, StateVersion::V1, &mut ()).unwrap();
        drop(state);
        nodes.commit(&made);

        let before = live_bytes();
        let mut state = ShadowState::new(&nodes, made.root);
        for (trie, changes) in [(TrieId::Top, &changes.top), (CHILD, &changes.children[0].1)] {
            for (key, _) in changes {
                state.value(trie, key, &mut ()).unwrap().unwrap();
            }
        }
        let used: Vec<_> = state.table().ids().collect();
        let (carried, scratch) = state.into_carried(used);
        drop(scratch);
        let mut carried = carried.unwrap();
        let compare = |memory: usize| {
            let held = usize::try_from(live_bytes() - before).unwrap();
            assert!(memory <= held, "{memory} named, {held} allocated");
            assert!(memory >= held / 10 * 9, "{memory} named, {held} allocated");
        };
        compare(carried.memory());
        // Also where equal nodes lie at many places.
        for part in [3, 2] {
            let most = carried.memory() / part;
            carried.shrink(most);
            compare(carried.memory());
            assert!(
                carried.memory() <= most + most / 4,
                "{}, {most}",
                carried.memory()
            );
            assert!(carried.memory() >= most / 4, "{}, {most}", carried.memory());
        }
    }
}
