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
//!
//! One order does not need all of them. If a new entry comes below a branch before the last but one child goes, the
//! branch is never merged, and the child that stays is not read. So a proof that another state machine recorded may lack
//! such a child. The computation of the root does without it; see [`RootNeeds::settle_for_root`]. Which nodes the order
//! of the keys needs is the matter of `key_order.rs`.

use crate::{
    key_order::KeyOrder, nibbles::Prefixes, root::RootError, state::TOGETHER, table::KeyPath,
    LoadError, NodeHash, NodeSource, Observer, ShadowNode, ShadowState, TrieHandle,
};
use alloc::{collections::BTreeSet, vec::Vec};
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
    /// The nodes that [`RootNeeds::settle_for_root`] did without, in order. Each later call counts them, if the source has
    /// them now.
    left_out: Vec<LeftOut>,
    /// The places of `left_out`, for a proof that lacks many nodes.
    left_out_at: BTreeSet<MergePlace>,
    /// How many there were at [`RootNeeds::begin`].
    left_out_before: usize,
}

/// A trie, a branch of it that may merge with a child, and the child's nibble.
type MergePlace = (TrieHandle, ShadowNode, u8);

/// A node that the source lacked: the child of a branch that the root computation may have merged with the branch.
#[derive(Debug)]
struct LeftOut {
    at: MergePlace,
    hash: NodeHash,
    path: KeyPath,
}

impl RootNeeds {
    /// Forgets everything; keeps memory for up to `most` nodes.
    pub fn reset(&mut self, most: usize) {
        let Self {
            unsettled,
            touched,
            prefixes,
            flipped,
            left_out,
            left_out_at,
            left_out_before,
        } = self;
        unsettled.clear();
        unsettled.shrink_to(most);
        touched.clear();
        touched.shrink_to(most);
        prefixes.clear();
        flipped.clear();
        flipped.shrink_to(most);
        left_out.clear();
        left_out_at.clear();
        *left_out_before = 0;
    }

    /// Begins a set of changes that [`Self::take_back`] can take back.
    pub fn begin(&mut self) {
        self.flipped.clear();
        self.left_out_before = self.left_out.len();
    }

    /// Marks the `fate` of the parent state's entry `at`, which [`ShadowState::find`] returned.
    ///
    /// If an entry is marked again, even with an equal fate, the merges around it are observed again,
    /// because the observer may have taken its counts back since.
    ///
    /// # Panics
    /// If `handle` or `at` is of another state, which has more tries open or more nodes.
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
    /// [`LoadError`] if a node can't be loaded, or if the source still lacks one that [`Self::settle_for_root`] did
    /// without: a root counts what it may need, whatever changes follow, so no count is complete then. A later call
    /// continues where this one stopped, unless [`Self::take_back`] was called in between.
    pub fn settle<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        self.count_left_out(state, observer, false)?;
        self.settle_all(state, observer, false)
    }

    /// As [`Self::settle`], before the computation of the root itself: does without nodes that the source lacks, because
    /// the root may not need them. If it does, it can't be computed; [`Self::explained`] turns its error into the one of
    /// the source.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be loaded for another reason.
    pub fn settle_for_root<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        self.count_left_out(state, observer, true)?;
        self.settle_all(state, observer, true)
    }

    /// Counts the nodes that an earlier call did without. They stay in the list, because what is counted now may be
    /// rolled back.
    fn count_left_out<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
        for_root: bool,
    ) -> Result<(), LoadError> {
        for left_out in &self.left_out {
            let (trie, branch, nibble) = left_out.at;
            match state.merge_child(trie, branch, nibble, observer) {
                Err(LoadError::Missing { .. }) if for_root => {}
                counted => counted?,
            }
        }
        Ok(())
    }

    /// How many nodes [`Self::settle_for_root`] did without so far.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// Forgets the nodes that [`Self::settle_for_root`] did without after the first `count`, because the counts of these
    /// calls were taken back.
    pub fn forget_left_out(&mut self, count: usize) {
        let kept = count.min(self.left_out.len());
        for forgotten in self.left_out.drain(kept..) {
            self.left_out_at.remove(&forgotten.at);
        }
    }

    /// As [`Self::settle`], for a root alone: loads and observes only the nodes that it needs if the changes are applied
    /// in the order of their keys. Nothing is left to settle then, so take the marks back before another call.
    ///
    /// # Errors
    /// [`LoadError`] if a node can't be loaded.
    pub(crate) fn settle_in_key_order<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        mut order: KeyOrder<'_>,
        observer: &mut impl Observer,
    ) -> Result<(), LoadError> {
        let merging = |(handle, at)| (handle, state.trie(handle).live_at_or_above(at));
        let mut places: Vec<_> = self.unsettled.drain(..).map(merging).collect();
        // One branch may be above many deleted keys.
        places.sort_unstable();
        places.dedup();
        for (handle, branch) in places {
            let reads = match branch {
                None => order.reads_null_node(state, handle)?,
                Some(branch) => match state.path_of_lone_child(handle, branch) {
                    Some(path) => order.reads_lone_child(state, handle, &path)?,
                    None => false,
                },
            };
            if reads {
                self.unsettled
                    .push((handle, branch.unwrap_or(ShadowNode::ROOT)));
            }
        }
        self.settle_all(state, observer, false)
    }

    /// Returns `error`, or if it is about a node that [`Self::settle_for_root`] did without, that the source lacks the
    /// node.
    pub fn explained(&self, error: RootError) -> RootError {
        let RootError::NotLoaded { hash: lacking, .. } = &error else {
            return error;
        };
        match self.left_out.iter().find(|node| node.hash == *lacking) {
            None => error,
            Some(LeftOut { hash, path, .. }) => RootError::Load(LoadError::Missing {
                hash: *hash,
                path: path.clone(),
            }),
        }
    }

    fn settle_all<S: NodeSource>(
        &mut self,
        state: &mut ShadowState<S>,
        observer: &mut impl Observer,
        for_root: bool,
    ) -> Result<(), LoadError> {
        while !self.unsettled.is_empty() {
            let from = self.unsettled.len().saturating_sub(TOGETHER);
            let together = &self.unsettled[from..];
            let loaded = match together.len() {
                1 => [None; TOGETHER],
                _ => match state.load_lone_children(together, &mut self.prefixes) {
                    Ok(loaded) => loaded,
                    // One by one, to find those that are missing.
                    Err(LoadError::Missing { .. }) if for_root => [None; TOGETHER],
                    Err(error) => return Err(error),
                },
            };
            for (index, loaded) in (from..self.unsettled.len()).zip(loaded).rev() {
                let (handle, node) = self.unsettled[index];
                match state.settle(handle, node, loaded, observer) {
                    Ok(()) => {}
                    Err(LoadError::Missing { hash, path }) if for_root => {
                        self.leave_out(state, (handle, node), hash, path)?;
                    }
                    Err(error) => return Err(error),
                }
                self.unsettled.truncate(index);
            }
        }
        Ok(())
    }

    /// Notes that the source lacks the node that the root computation may merge at or above a place.
    ///
    /// # Errors
    /// [`LoadError::Missing`] if nothing is merged there, because such a node could not be counted later.
    fn leave_out<S: NodeSource>(
        &mut self,
        state: &ShadowState<S>,
        (trie, at): (TrieHandle, ShadowNode),
        hash: NodeHash,
        path: KeyPath,
    ) -> Result<(), LoadError> {
        let Some((branch, nibble)) = state.merged_at(trie, at) else {
            return Err(LoadError::Missing { hash, path });
        };
        let at = (trie, branch, nibble);
        if self.left_out_at.insert(at) {
            self.left_out.push(LeftOut { at, hash, path });
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
        self.forget_left_out(self.left_out_before);
    }
}
