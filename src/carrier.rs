//! What finished blocks loaded, kept for blocks on the same state or the state after them.
//!
//! ```text
//! a block ends:          keep the part of the state that it loaded
//! it is recycled:        keep its update
//! a block begins on R:   a kept state on R; else one from which kept updates lead to R, which are
//!                        applied now
//! more than the limit:   forget the oldest; of one state and one update, shrink the state
//! ```
//! Updates are applied late, because until then the state also serves a second block on the same
//! parent.

use povmeter_delta_root::{CarriedState, Root, RootUpdate};
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps loaded states within a number of bytes.
#[derive(Debug)]
pub(crate) struct Carrier {
    most_bytes: usize,
    kept: Mutex<Kept>,
}

/// Both are ordered by when they came, the newest last.
#[derive(Debug, Default)]
struct Kept {
    /// Each on another root.
    states: Vec<CarriedState>,
    updates: Vec<RootUpdate>,
}

/// Most states, because each of a chain's forks has its own.
const MOST_STATES: usize = 4;
/// Most updates: those of a few blocks, each with a fork.
const MOST_UPDATES: usize = 8;

impl Kept {
    fn memory(&self) -> usize {
        let states = self.states.iter().map(CarriedState::memory);
        let updates = self.updates.iter().map(|update| update.nodes.memory());
        states.sum::<usize>() + updates.sum::<usize>()
    }

    /// The state from which updates lead to `root`, and these updates in order, both taken out.
    fn take(&mut self, root: Root) -> Option<(CarriedState, Vec<RootUpdate>)> {
        // The last update first.
        let mut steps: Vec<usize> = Vec::new();
        let mut from = root;
        let state = loop {
            if let Some(state) = self.states.iter().position(|state| state.root() == from) {
                break state;
            }
            let mut updates = self.updates.iter();
            let step = updates.rposition(|update| update.root == from)?;
            // A chain may come back to a root, but no way to one is longer than all updates.
            if steps.len() == self.updates.len() {
                return None;
            }
            steps.push(step);
            from = self.updates[step].parent;
        };
        let state = self.states.remove(state);
        let mut all: Vec<_> = take(&mut self.updates).into_iter().map(Some).collect();
        let steps = steps.iter().rev().filter_map(|&step| all[step].take());
        let updates = steps.collect();
        self.updates.extend(all.into_iter().flatten());
        Some((state, updates))
    }

    /// Forgets what came first, until the rest is within the bounds, or one state and one update are left.
    fn forget_oldest(&mut self, most_bytes: usize) {
        while self.updates.len() > MOST_UPDATES {
            self.updates.remove(0);
        }
        while self.states.len() > MOST_STATES {
            self.states.remove(0);
        }
        while self.memory() > most_bytes {
            // The next block is most likely on the newest state, after the newest update.
            if self.states.len() > 1 {
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
            kept: Mutex::default(),
        }
    }

    /// A poisoned lock does no harm, because no change under it can be left half done.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory of all that is kept.
    pub(crate) fn memory(&self) -> usize {
        self.kept().memory()
    }

    /// Takes the loaded part of the state of `root`.
    pub(crate) fn take(&self, root: Root) -> Option<CarriedState> {
        // The lock is held for the look-up alone, because updates take time.
        let (mut state, updates) = self.kept().take(root)?;
        updates.iter().for_each(|update| {
            state.advance(update);
        });
        (state.root() == root).then_some(state)
    }

    /// Keeps the loaded part of a state.
    pub(crate) fn add(&self, mut state: CarriedState) {
        let mut kept = self.kept();
        // Another block may have been on the same state at the same time.
        let twin = kept
            .states
            .iter()
            .position(|other| other.root() == state.root());
        if let Some(twin) = twin.map(|at| kept.states.remove(at)) {
            if twin.nodes() > state.nodes() {
                state = twin;
            }
        }
        kept.states.push(state);
        self.fit(kept);
    }

    /// Keeps `update`, if there is a state that it starts from; else returns it.
    pub(crate) fn add_update(&self, update: RootUpdate) -> Option<RootUpdate> {
        let mut kept = self.kept();
        let updates = kept.updates.iter().map(|update| update.root);
        let mut roots = kept.states.iter().map(CarriedState::root).chain(updates);
        if !roots.any(|root| root == update.parent) {
            return Some(update);
        }
        kept.updates.retain(|other| other.root != update.root);
        kept.updates.push(update);
        self.fit(kept);
        None
    }

    /// Brings what is kept within the bounds: forgets what came first, then shrinks what is left.
    fn fit(&self, mut kept: MutexGuard<'_, Kept>) {
        kept.forget_oldest(self.most_bytes);
        if kept.memory() <= self.most_bytes {
            return;
        }
        let updates = kept.updates.iter().map(|update| update.nodes.memory());
        let left = self.most_bytes.saturating_sub(updates.sum());
        let state = kept.states.pop();
        // Not under the lock, because it takes as long as some blocks.
        drop(kept);
        let shrunk = state.map(|mut state| {
            state.shrink(left / 2);
            state
        });
        let mut kept = self.kept();
        kept.states.extend(shrunk);
        kept.forget_oldest(self.most_bytes);
        if kept.memory() > self.most_bytes {
            *kept = Kept::default();
        }
    }
}
