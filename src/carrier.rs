//! Keeps the nodes that finished blocks loaded, for blocks on the same state or the state after them.
//!
//! ```text
//! a block ends:          keep the part of the state that it loaded
//! it is recycled:        keep its update
//! a block begins on R:   a kept state on R; else one from which kept updates lead to R, which are
//!                        applied now
//! more than the limit:   forget the oldest; if one state and one update are left, shrink the state
//! ```
//! Updates are applied late, because until then the state also serves a second block on the same
//! parent.
//!
//! Shrinking a large state takes as long as executing some blocks, so a thread does it. Meanwhile blocks on that
//! state, or on one after it, load what they need. The nodes that they loaded are forgotten, but their updates are
//! kept, because these lead from the shrunk state to the states of the blocks. If memory is full, they stay longer than
//! the states of forks.

use povmeter_delta_root::{CarriedState, Root, RootUpdate};
use std::iter::successors;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Keeps loaded states within a number of bytes.
#[derive(Debug)]
pub(crate) struct Carrier {
    most_bytes: usize,
    kept: Arc<Mutex<Kept>>,
}

/// The kept states and updates, each in order of arrival, the newest last.
#[derive(Debug, Default)]
struct Kept {
    /// No two have the same root.
    states: Vec<CarriedState>,
    updates: Vec<RootUpdate>,
    /// The root of the state that is being shrunk.
    shrinking: Option<Root>,
}

/// The most states that are kept: several, because each fork of a chain has its own.
const MOST_STATES: usize = 4;
/// The most updates that are kept: those of a few blocks, each with a fork.
const MOST_UPDATES: usize = 8;
/// The most updates that are kept while a state is shrunk: those of the blocks executed meanwhile.
const MOST_UPDATES_SHRINKING: usize = 64;
/// A state of at most this many bytes is shrunk without a thread, which takes some 10 ms.
const SHRUNK_AT_ONCE: usize = 8 << 20;

impl Kept {
    fn memory(&self) -> usize {
        let states = self.states.iter().map(CarriedState::memory);
        let updates = self.updates.iter().map(|update| update.nodes.memory());
        states.sum::<usize>() + updates.sum::<usize>()
    }

    /// The roots from which kept updates lead to `root`: `root` itself, and so back to where the chain of updates starts.
    fn way_to(&self, root: Root) -> impl Iterator<Item = Root> + '_ {
        let before = |root: &Root| {
            let mut updates = self.updates.iter();
            updates.rfind(|update| update.root == *root)
        };
        let way = successors(Some(root), move |root| Some(before(root)?.parent));
        // A chain may return to a root, so the number of steps is limited to that of the updates.
        way.take(self.updates.len() + 1)
    }

    /// Whether `root` is that of the state that is being shrunk, or kept updates lead from there to it.
    fn is_shrinking(&self, root: Root) -> bool {
        self.shrinking
            .is_some_and(|shrinking| self.way_to(root).any(|root| root == shrinking))
    }

    /// Whether `root` is that of a kept state, or of the one that is being shrunk.
    fn has_state(&self, root: Root) -> bool {
        let mut states = self.states.iter().map(CarriedState::root);
        self.shrinking == Some(root) || states.any(|state| state == root)
    }

    /// Whether the state after `update` is on the way from the nearest kept state to the one before it: after a block
    /// without changes, or one that takes back the changes of others.
    fn leads_back(&self, update: &RootUpdate) -> bool {
        for root in self.way_to(update.parent) {
            if root == update.root {
                return true;
            }
            if self.has_state(root) {
                return false;
            }
        }
        false
    }

    /// Finds the state from which kept updates lead to `root`, the nearest one. Puts the places of these updates into
    /// `steps`, the last update first.
    fn leading_to(&self, root: Root, steps: &mut Vec<usize>) -> Option<usize> {
        let mut from = root;
        loop {
            if let Some(state) = self.states.iter().position(|state| state.root() == from) {
                return Some(state);
            }
            let mut updates = self.updates.iter();
            let step = updates.rposition(|update| update.root == from)?;
            // A chain may return to a root; with more steps than updates it goes in a circle.
            if steps.len() == self.updates.len() {
                return None;
            }
            steps.push(step);
            from = self.updates[step].parent;
        }
    }

    /// Removes and returns the state from which kept updates lead to `root`, and these updates in order.
    fn take(&mut self, root: Root) -> Option<(CarriedState, Vec<RootUpdate>)> {
        let mut steps = Vec::new();
        let state = self.leading_to(root, &mut steps)?;
        let state = self.states.remove(state);
        let mut all: Vec<_> = take(&mut self.updates).into_iter().map(Some).collect();
        let steps = steps.iter().rev().filter_map(|&step| all[step].take());
        let updates = steps.collect();
        self.updates.extend(all.into_iter().flatten());
        Some((state, updates))
    }

    /// Forgets the oldest states and updates, until the rest is within the bounds, or one of each is left; no state
    /// while one is being shrunk.
    fn forget_oldest(&mut self, most_bytes: usize) {
        let most_updates = match self.shrinking {
            Some(_) => MOST_UPDATES_SHRINKING,
            None => MOST_UPDATES,
        };
        while self.updates.len() > most_updates {
            self.updates.remove(0);
        }
        while self.states.len() > MOST_STATES {
            self.states.remove(0);
        }
        // While a state is shrunk, none of these is kept at the cost of the updates that lead from there.
        let least_states = usize::from(self.shrinking.is_none());
        while self.memory() > most_bytes {
            // The next block is most likely on the newest state, after the newest update.
            if self.states.len() > least_states {
                self.states.remove(0);
            } else if self.updates.len() > 1 {
                self.updates.remove(0);
            } else {
                break;
            }
        }
    }
}

impl Carrier {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            kept: Arc::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// Bytes of memory of all that is kept.
    pub(crate) fn memory(&self) -> usize {
        self.kept().memory()
    }

    /// Removes and returns the loaded part of the state of `root`; `None` if no kept state leads to it.
    pub(crate) fn take(&self, root: Root) -> Option<CarriedState> {
        // The lock is held for the look-up alone, because applying updates takes time.
        let (mut state, updates) = self.kept().take(root)?;
        updates.iter().for_each(|update| {
            state.advance(update);
        });
        (state.root() == root).then_some(state)
    }

    /// Keeps the loaded part of a state.
    pub(crate) fn add(&self, mut state: CarriedState) {
        let mut kept = self.kept();
        if kept.is_shrinking(state.root()) {
            return;
        }
        // Another block may have been on the same state at the same time, or a thread may have shrunk the state before it
        // meanwhile. The one with more nodes is kept, because the next block gets the nearest one.
        if let Some(at) = kept.leading_to(state.root(), &mut Vec::new()) {
            let other = &kept.states[at];
            if other.nodes() > state.nodes() {
                state = kept.states.remove(at);
            } else if other.root() == state.root() {
                kept.states.remove(at);
            }
        }
        kept.states.push(state);
        self.fit(kept);
    }

    /// Keeps `update` if a kept state or update has its parent root; otherwise returns it. Also returns one that leads back
    /// to where kept updates came by, because it would take the place of the one that leads there first.
    pub(crate) fn add_update(&self, update: RootUpdate) -> Option<RootUpdate> {
        let mut kept = self.kept();
        let mut roots = kept.updates.iter().map(|update| update.root);
        let starts = kept.has_state(update.parent) || roots.any(|root| root == update.parent);
        if !starts || kept.leads_back(&update) {
            return Some(update);
        }
        kept.updates.retain(|other| other.root != update.root);
        kept.updates.push(update);
        self.fit(kept);
        None
    }

    /// Brings what is kept within the bounds: forgets the oldest, then shrinks the state that is left.
    fn fit(&self, mut kept: MutexGuard<'_, Kept>) {
        kept.forget_oldest(self.most_bytes);
        if kept.memory() <= self.most_bytes {
            return;
        }
        let state = match kept.shrinking {
            Some(_) => None,
            None => kept.states.pop(),
        };
        let Some(state) = state else {
            // One large update is left.
            kept.updates.clear();
            return;
        };
        kept.shrinking = Some(state.root());
        // The lock is released, because shrinking takes as long as executing some blocks.
        drop(kept);
        let at_once = state.memory() <= SHRUNK_AT_ONCE;
        let shrinks = Shrinks {
            state: Some(state),
            most_bytes: self.most_bytes,
            kept: Arc::clone(&self.kept),
        };
        if at_once {
            return shrinks.run();
        }
        let thread = thread::Builder::new().name("povmeter-shrink".to_owned());
        // If no thread can be started, the state is dropped, and blocks load what they need.
        let _ = thread.spawn(|| shrinks.run());
    }
}

/// A state that is being shrunk.
struct Shrinks {
    state: Option<CarriedState>,
    most_bytes: usize,
    kept: Arc<Mutex<Kept>>,
}

impl Shrinks {
    fn run(mut self) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        let updates: usize = {
            let kept = lock(&self.kept);
            let updates = kept.updates.iter();
            updates.map(|update| update.nodes.memory()).sum()
        };
        state.shrink(self.most_bytes.saturating_sub(updates) / 2);
        while let Some(update) = self.first_of_too_many() {
            state.advance(&update);
        }
        self.state = Some(state);
    }

    /// Removes and returns the update that leads from the state towards the newest one, if too many are kept.
    fn first_of_too_many(&self) -> Option<RootUpdate> {
        let mut kept = lock(&self.kept);
        let from = kept.shrinking?;
        if kept.updates.len() <= MOST_UPDATES {
            return None;
        }
        let mut root = kept.updates.last()?.root;
        for _ in 0..kept.updates.len() {
            let mut updates = kept.updates.iter();
            let step = updates.rposition(|update| update.root == root)?;
            root = kept.updates[step].parent;
            if root == from {
                let update = kept.updates.remove(step);
                kept.shrinking = Some(update.root);
                return Some(update);
            }
        }
        None
    }
}

/// Ends the shrinking, after a panic too, so that later states can be shrunk.
impl Drop for Shrinks {
    fn drop(&mut self) {
        let mut kept = lock(&self.kept);
        kept.shrinking = None;
        kept.states.extend(self.state.take());
        kept.forget_oldest(self.most_bytes);
        if kept.memory() > self.most_bytes {
            *kept = Kept::default();
        }
    }
}

/// A poisoned lock does no harm, because no change under it can be left half done.
fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{scratch::Scratch, Block, StateVersion::V1, TrieId::Top};
    use povmeter_store::{MemoryStore, NodeStore};

    const ENTRIES: u32 = 2_000;

    fn key(number: u32) -> [u8; 4] {
        number.wrapping_mul(0x9e37_79b9).to_be_bytes()
    }

    /// The loaded state of a block on `root` that reads `entries` entries.
    fn loaded(store: &MemoryStore, root: Root, entries: u32) -> CarriedState {
        let mut block = Block::new(store, root);
        for number in 0..entries {
            block.get(Top, &key(number)).unwrap();
        }
        block.into_scratch(true).1.unwrap()
    }

    /// Commits a block that writes entries, and returns its update.
    fn update(store: &mut MemoryStore, numbers: std::ops::Range<u32>, value: u8) -> RootUpdate {
        let mut block = Block::new(&*store, store.root());
        for number in numbers {
            // Long enough that each leaf is a node of its own.
            block.set(Top, &key(number), &[value; 40]).unwrap();
        }
        let sealed = block.seal(V1).unwrap();
        store.commit(sealed.update()).unwrap();
        Scratch::default().recycle(sealed, true).unwrap()
    }

    /// Blocks are executed while a thread shrinks the state that they are built on.
    #[test]
    fn a_shrunk_state_leads_to_the_blocks_of_the_meantime() {
        let mut store = MemoryStore::new();
        update(&mut store, 0..ENTRIES, 0);
        let first = store.root();
        let state = loaded(&store, first, ENTRIES);
        let nodes = state.nodes();
        let carrier = Carrier::new(state.memory() * 4);
        carrier.kept().shrinking = Some(first);
        let shrinks = Shrinks {
            state: Some(state),
            most_bytes: carrier.most_bytes,
            kept: Arc::clone(&carrier.kept),
        };
        for value in 1..=3 * u8::try_from(MOST_UPDATES).unwrap() {
            let root = store.root();
            assert!(carrier.take(root).is_none());
            carrier.add(loaded(&store, root, 3));
            assert_eq!(
                carrier.kept().states.len(),
                0,
                "it would go on in its place"
            );
            let first = u32::from(value);
            let update = update(&mut store, first..first + 5, value);
            assert!(carrier.add_update(update).is_none());
        }
        shrinks.run();
        assert_eq!(carrier.kept().updates.len(), MOST_UPDATES);
        assert_eq!(carrier.kept().shrinking, None);
        let state = carrier.take(store.root()).unwrap();
        assert!(state.nodes() >= nodes, "{} of {nodes}", state.nodes());
    }

    /// A block began while a thread shrank the state before it, and ended when the thread was done.
    #[test]
    fn a_block_that_loaded_little_does_not_hide_the_shrunk_state() {
        let mut store = MemoryStore::new();
        update(&mut store, 0..ENTRIES, 0);
        let before = loaded(&store, store.root(), ENTRIES);
        let nodes = before.nodes();
        let carrier = Carrier::new(before.memory() * 4);
        carrier.add(before);
        assert!(carrier.add_update(update(&mut store, 0..5, 1)).is_none());
        let little = loaded(&store, store.root(), 3);
        carrier.add(little);
        assert!(carrier.add_update(update(&mut store, 5..10, 2)).is_none());
        let state = carrier.take(store.root()).unwrap();
        assert!(state.nodes() >= nodes, "{} of {nodes}", state.nodes());
    }

    /// The large state of a fork arrives while another state is being shrunk.
    #[test]
    fn a_fork_does_not_hide_the_shrunk_state() {
        let mut store = MemoryStore::new();
        update(&mut store, 0..ENTRIES, 0);
        let first = store.root();
        let mut fork = MemoryStore::new();
        update(&mut fork, 0..ENTRIES, 9);
        let state = loaded(&store, first, ENTRIES);
        let carrier = Carrier::new(state.memory() / 2);
        carrier.kept().shrinking = Some(first);
        let shrinks = Shrinks {
            state: Some(state),
            most_bytes: carrier.most_bytes,
            kept: Arc::clone(&carrier.kept),
        };
        for value in 1..=3 {
            let first = u32::from(value);
            let update = update(&mut store, first..first + 5, value);
            assert!(carrier.add_update(update).is_none());
        }
        // Two that fit, and then one that does not.
        for entries in [3, 4, ENTRIES] {
            let root = fork.root();
            carrier.add(loaded(&fork, root, entries));
            assert!(carrier.memory() <= carrier.most_bytes);
            assert_eq!(carrier.kept().updates.len(), 3, "{entries}");
            update(&mut fork, 0..1, entries.to_le_bytes()[0]);
        }
        assert_eq!(carrier.kept().states.len(), 0);
        shrinks.run();
        let state = carrier.take(store.root()).unwrap();
        assert_eq!(state.root(), store.root());
        assert!(state.nodes() > 0);
    }

    /// A state that is too large is dropped while another one is being shrunk.
    #[test]
    fn another_state_is_not_kept_beyond_the_bound() {
        let mut store = MemoryStore::new();
        update(&mut store, 0..ENTRIES, 0);
        let first = store.root();
        let carrier = Carrier::new(loaded(&store, first, ENTRIES).memory() / 2);
        carrier.kept().shrinking = Some(Root::EMPTY);
        carrier.add(loaded(&store, first, ENTRIES));
        assert_eq!(carrier.memory(), 0);
        carrier.kept().shrinking = None;
        carrier.add(loaded(&store, first, ENTRIES));
        let left = carrier.memory();
        assert!(left > 0 && left <= carrier.most_bytes, "{left}");
        assert_eq!(carrier.take(first).unwrap().root(), first);
    }

    /// A block without changes, and one that takes back the changes of the block before it.
    #[test]
    fn an_update_back_does_not_hide_the_way_forth() {
        let mut store = MemoryStore::new();
        update(&mut store, 0..ENTRIES, 0);
        let state = loaded(&store, store.root(), ENTRIES);
        let nodes = state.nodes();
        let carrier = Carrier::new(state.memory() * 4);
        carrier.add(state);
        assert!(carrier.add_update(update(&mut store, 0..5, 1)).is_none());
        let first = store.root();
        let empty = update(&mut store, 0..0, 0);
        assert_eq!((empty.parent, empty.root), (first, first));
        assert!(carrier.add_update(empty).is_some());
        assert!(carrier.add_update(update(&mut store, 0..5, 2)).is_none());
        let back = update(&mut store, 0..5, 1);
        assert_eq!(back.root, first);
        assert!(carrier.add_update(back).is_some());
        let state = carrier.take(first).unwrap();
        assert!(state.nodes() >= nodes, "{} of {nodes}", state.nodes());
    }

    /// The way to the state after a block ends at a kept state, so an update from there replaces another.
    #[test]
    fn an_update_back_from_a_kept_state_is_kept() {
        let mut store = MemoryStore::new();
        update(&mut store, 0..ENTRIES, 0);
        let (before, entries) = (store.root(), ENTRIES / 2);
        let carrier = Carrier::new(usize::MAX);
        carrier.add(loaded(&store, before, entries));
        assert!(carrier.add_update(update(&mut store, 0..5, 1)).is_none());
        let first = store.root();
        assert!(carrier.add_update(update(&mut store, 0..5, 2)).is_none());
        let second = store.root();
        carrier.add(loaded(&store, second, ENTRIES));
        assert!(carrier.add_update(update(&mut store, 0..5, 1)).is_none());
        assert!(carrier.take(first).is_some());
        assert!(carrier.kept().has_state(before), "the other was nearer");
    }

    /// The block that led to the state that is being shrunk is still known.
    #[test]
    fn a_state_after_the_shrunk_one_is_found_past_an_earlier_update() {
        let mut store = MemoryStore::new();
        update(&mut store, 0..ENTRIES, 0);
        let carrier = Carrier::new(usize::MAX);
        carrier.add(loaded(&store, store.root(), 3));
        assert!(carrier.add_update(update(&mut store, 0..5, 1)).is_none());
        carrier.kept().shrinking = Some(store.root());
        assert!(carrier.add_update(update(&mut store, 0..5, 2)).is_none());
        carrier.add(loaded(&store, store.root(), 3));
        assert_eq!(
            carrier.kept().states.len(),
            1,
            "it would go on in its place"
        );
    }
}
