//! Which nodes of the parent state a root computation reads.
//!
//! ```text
//! needs(changes):
//!     for each changed key: the whole path to it in the parent trie
//!     for each branch with exactly one live child left and no live value: that child
//!     for each trie that had entries and has none left: the null node
//! ```
//! An entry is live unless the changes delete it; insertions do not matter. The result depends on the
//! set of changes alone, not on their order, because every change is marked before the second line is
//! applied. It contains all nodes that a sequential computation reads when it applies the net changes one
//! after the other, in any order: a branch that this computation merges with a child has at most that child
//! left in the end, and if the child is gone, too, it was on the path to a changed key.

use crate::{
    nibbles::Prefixes, state::TOGETHER, LoadError, NodeSource, Observer, ShadowNode, ShadowState,
    TrieHandle,
};
use alloc::vec::Vec;
use povmeter_primitives::Fate;

/// Marks changes on a [`ShadowState`] and finds what they need.
#[derive(Debug, Default)]
pub struct RootNeeds {
    /// Nodes at or above which the root computation may have to merge two nodes.
    unsettled: Vec<(TrieHandle, ShadowNode)>,
    touched: Vec<ShadowNode>,
    /// Memory for the prefixes of nodes that are loaded together.
    prefixes: Prefixes,
    /// Entries that became live or deleted since [`RootNeeds::begin`], in order.
    flipped: Vec<(TrieHandle, ShadowNode)>,
}

impl RootNeeds {
    /// Forgets everything; keeps memory for up to `most` nodes.
    pub fn reset(&mut self, most: usize) {
        let Self {
            unsettled,
            touched,
            prefixes,
            flipped,
        } = self;
        unsettled.clear();
        unsettled.shrink_to(most);
        touched.clear();
        touched.shrink_to(most);
        prefixes.clear();
        flipped.clear();
        flipped.shrink_to(most);
    }

    /// Begins a set of changes that [`Self::take_back`] can take back.
    pub fn begin(&mut self) {
        self.flipped.clear();
    }

    /// Marks the `fate` of the parent state's entry `at`, which [`ShadowState::find`] returned.
    ///
    /// If an entry is marked again, even with an equal fate, the merges around it are observed again,
    /// because the observer may have taken its counts back since.
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
            self.flipped.push((handle, at));
        } else {
            match fate {
                // Each branch above a written entry merges at most with a node on the path to it.
                Fate::Written => {}
                Fate::Deleted => self.touched.push(at),
                Fate::Untouched => state.push_with_ancestors(handle, at, &mut self.touched),
            }
        }
        self.unsettled
            .extend(self.touched.iter().map(|&node| (handle, node)));
    }

    /// Loads and observes the nodes that the changes marked so far need besides the paths to their keys.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be loaded. A later call continues where this one stopped, unless
    /// [`Self::take_back`] was called in between.
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
                _ => state.load_lone_children(together, &mut self.prefixes)?,
            };
            for (index, loaded) in (from..self.unsettled.len()).zip(loaded).rev() {
                let (handle, node) = self.unsettled[index];
                state.settle(handle, node, loaded, observer)?;
                self.unsettled.truncate(index);
            }
        }
        Ok(())
    }

    /// Takes back the marks since [`Self::begin`]: every entry is live or deleted as it was then, and
    /// nothing is left to settle. So the caller has to settle earlier changes before [`Self::begin`].
    ///
    /// Costs a walk up for each entry that changed, as marking it did.
    pub fn take_back<S: NodeSource>(&mut self, state: &mut ShadowState<S>) {
        while let Some((handle, at)) = self.flipped.pop() {
            let live = state.value_live(handle, at);
            state.set_value_live(handle, at, !live, &mut self.touched);
        }
        self.unsettled.clear();
    }
}
