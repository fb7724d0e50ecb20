//! The memory that a carried state names, against what was allocated.

#![allow(clippy::unwrap_used)]
#![allow(unsafe_code)] // A global allocator that counts needs it.

use bytes::Bytes;
use povmeter_delta_root::{
    state_update, Changes, KeyChanges, NodeHash, NodePrefix, NodeSource, Root, RootUpdate,
    ShadowState, SourceError, StateVersion, TrieId,
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::BTreeMap,
};

struct Counting;

thread_local! {
    /// Bytes allocated and not yet freed. Wraps, because a thread may free what another allocated.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

fn note_held(more: usize, less: usize) {
    HELD.with(|held| held.set(held.get().wrapping_add(more).wrapping_sub(less)));
}

// SAFETY: every call goes to the system allocator unchanged; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_held(layout.size(), 0);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note_held(0, layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note_held(size, layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

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

        let before = HELD.with(Cell::get);
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
            let held = HELD.with(Cell::get).wrapping_sub(before);
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
