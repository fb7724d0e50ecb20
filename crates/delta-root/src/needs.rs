//! Which nodes of the parent state a root computation reads.
//!
//! ```text
//! needs(changes):
//!     for each changed key: the whole way to it in the parent trie
//!     for each branch with exactly one live child left and no live value: that child
//!     for each trie that had entries and has none left: the null node
//! ```
//! An entry is live unless the changes delete it; what they insert does not matter. The result
//! depends on the set of changes alone, not on their order, since every change is marked before the
//! second line is looked at. It contains all that a sequential computation reads that applies the
//! net changes one after the other, in any order: a branch that such a computation merges on its way
//! has at most one child left in the end, and if it has none, that child was on the way to a
//! changed key.

use crate::{
    nibbles::Ways, state::TOGETHER, LoadError, NodeSource, Observer, ShadowNode, ShadowState,
    TrieHandle,
};
use alloc::vec::Vec;

/// What the changes do to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The key has a value.
    Written,
    /// The key has none.
    Deleted,
    /// The changes do not mention the key; they did before a rollback.
    Untouched,
}

/// Marks changes on a [`ShadowState`] and finds what they need.
#[derive(Debug, Default)]
pub struct RootNeeds {
    /// Nodes around which something may have to be merged. Kept over an error, so that a caller
    /// that tries again misses nothing.
    unsettled: Vec<(TrieHandle, ShadowNode)>,
    touched: Vec<ShadowNode>,
    /// Memory for the ways to nodes that are loaded together.
    ways: Ways,
    /// Entries whose state changed since [`RootNeeds::start_trial`], while there is one.
    flipped: Option<Vec<(TrieHandle, ShadowNode)>>,
}

impl RootNeeds {
    /// Forgets everything; keeps memory for up to `most` nodes.
    pub fn reset(&mut self, most: usize) {
        let Self {
            unsettled,
            touched,
            ways,
            flipped,
        } = self;
        unsettled.clear();
        unsettled.shrink_to(most);
        touched.clear();
        touched.shrink_to(most);
        ways.clear();
        *flipped = None;
    }

    /// Marks what happens to the parent's entry `at`, which [`ShadowState::find`] gave.
    ///
    /// Marking an entry again, in whatever state it was, has the merges around it looked at again:
    /// the observer may have forgotten what it was told since.
    pub fn mark<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        handle: TrieHandle,
        at: ShadowNode,
        fate: Fate,
    ) {
        let live = fate != Fate::Deleted;
        self.touched.clear();
        if state.value_live(handle, at) != live {
            state.set_value_live(handle, at, live, &mut self.touched);
            self.flipped
                .iter_mut()
                .for_each(|flipped| flipped.push((handle, at)));
        } else {
            match fate {
                // What a written entry may be merged with lies on the way to it.
                Fate::Written => {}
                Fate::Deleted => self.touched.push(at),
                Fate::Untouched => state.line_above(handle, at, &mut self.touched),
            }
        }
        self.unsettled
            .extend(self.touched.iter().map(|&node| (handle, node)));
    }

    /// Loads and observes what the changes marked so far need besides the ways to their keys.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be had; a later call goes on where this one stopped.
    pub fn settle<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        while !self.unsettled.is_empty() {
            let from = self.unsettled.len().saturating_sub(TOGETHER);
            let together = &self.unsettled[from..];
            let loaded = match together.len() {
                1 => [None; TOGETHER],
                _ => state.load_lone_children(together, &mut self.ways)?,
            };
            for (index, loaded) in (from..self.unsettled.len()).zip(loaded).rev() {
                let (handle, node) = self.unsettled[index];
                state.settle(handle, node, loaded, observer)?;
                self.unsettled.truncate(index);
            }
        }
        Ok(())
    }

    /// Starts a trial: what is marked from now on is taken back by [`Self::end_trial`].
    pub fn start_trial(&mut self) {
        self.flipped = Some(Vec::new());
    }

    /// Ends a trial: every entry is in the state that it had at its start, and nothing is left to
    /// settle. Does nothing where there is no trial.
    ///
    /// What was left to settle before the trial has to be settled before it, too.
    pub fn end_trial<S: NodeSource>(&mut self, state: &mut ShadowState<S>) {
        let Some(flipped) = self.flipped.take() else {
            return;
        };
        for (handle, at) in flipped.into_iter().rev() {
            let live = state.value_live(handle, at);
            state.set_value_live(handle, at, !live, &mut self.touched);
        }
        self.unsettled.clear();
    }
}
