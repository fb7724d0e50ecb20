//! Subtries on several threads.
//!
//! ```text
//! a branch with many changes below several children:
//!     if two children are sure to be left: each child with changes is built, encoded and hashed apart,
//!         in a batch of its own; this batch has only its reference
//!     else: all in one batch, because the branch may be merged with a child that is not encoded yet
//! ```
//! No computation is needed to see that two children are left: a child without changes stays, and so does a
//! child with a write below it. So no work is done twice, whatever the changes are.
//!
//! Threads share loaded nodes only, and the writes are sorted in the end, so the update is the same on any
//! number of threads.

use super::{
    encode::Reference,
    node::{Built, Parts, Place, Span},
    Batch, BatchInput, BatchMemory, NotLoaded, RootOptions, Writes,
};
use crate::{shadow::OldChild, ShadowNode};
use alloc::vec::Vec;
use core::error::Error;
use rayon::{prelude::*, ThreadPoolBuilder};
use std::sync::OnceLock;

/// The fewest changes below one branch for which several threads are faster, as measured on two cores:
/// with fewer, threads wait for each other longer than the time that they save. For more cores see
/// [`ShadowState::with_split_from`](crate::ShadowState::with_split_from).
pub const SPLIT_FROM: usize = 4_096;

/// The changes below one child of a branch.
struct Group<'a> {
    slot: OldChild<'a>,
    span: Span,
}

/// A child after its changes.
enum SplitChild {
    Gone,
    Kept(ShadowNode),
    Done(Reference),
}

impl<'a> Batch<'a> {
    /// Computes each child of branch `at` with changes below it apart, and returns these children in order;
    /// none if the branch is not split. Children begin at `depth` plus one nibble.
    pub(super) fn change_apart(
        &mut self,
        at: ShadowNode,
        span: Span,
        depth: usize,
    ) -> Result<Vec<Built>, NotLoaded> {
        let split_from = self.input.options.split_from;
        // Asked first, because the other question starts the threads.
        if span.len() < split_from {
            return Ok(Vec::new());
        }
        let threads = threads();
        if threads < 2 {
            return Ok(Vec::new());
        }
        let Some(groups) = self.groups(at, span, depth) else {
            return Ok(Vec::new());
        };
        // A group is split again if it has more than one thread's share of the changes.
        let split_from = split_from.max(span.len() / threads + 1);
        let input = self.input;
        let apart: Vec<_> = groups
            .par_iter()
            .with_max_len(1)
            .map(|group| split_child(input, group, depth + 1, split_from))
            .collect();
        let mut built = Vec::with_capacity(groups.len());
        for (group, apart) in groups.iter().zip(apart) {
            // Returns the first error in the order of the children, whichever thread is faster.
            let (child, writes) = apart?;
            self.writes.append(writes);
            built.push(match child {
                SplitChild::Done(reference) => {
                    let place = Place::of(group.span.start, depth + 1);
                    self.add(place, Parts::Encoded(reference), 0)
                }
                SplitChild::Kept(child) => Built::Kept(child),
                SplitChild::Gone => Built::Empty,
            });
        }
        Ok(built)
    }

    /// The changes by child, if several children have changes and two children are sure to be left.
    fn groups(&self, at: ShadowNode, mut span: Span, depth: usize) -> Option<Vec<Group<'a>>> {
        let mut groups = Vec::with_capacity(16);
        let mut left = 0;
        for nibble in 0..16 {
            let group = self.split_off(&mut span, nibble, depth);
            let slot = self.old_child(at, nibble);
            let stays = group.is_empty() && !matches!(slot, OldChild::Empty);
            let changes = &self.input.changes[group.range()];
            let written = || changes.iter().any(|(_, value)| value.is_some());
            left += usize::from(stays || written());
            if !group.is_empty() {
                groups.push(Group { slot, span: group });
            }
        }
        (groups.len() > 1 && left > 1).then_some(groups)
    }
}

/// The number of threads; starts them at the first call. One if the system refuses them, where rayon would panic.
fn threads() -> usize {
    static REFUSED: OnceLock<bool> = OnceLock::new();
    let refuses = || {
        // It is also an error, without a source, that there are such threads already.
        let started = ThreadPoolBuilder::new().build_global();
        started.is_err_and(|error| error.source().is_some())
    };
    // A thread of a pool has that pool.
    if rayon::current_thread_index().is_none() && *REFUSED.get_or_init(refuses) {
        return 1;
    }
    rayon::current_num_threads()
}

/// Computes the child of `group`, which begins at `depth`, in a batch of its own.
fn split_child(
    input: BatchInput<'_>,
    group: &Group<'_>,
    depth: usize,
    split_from: usize,
) -> Result<(SplitChild, Writes), NotLoaded> {
    let options = RootOptions {
        split_from,
        ..input.options
    };
    let input = BatchInput { options, ..input };
    let mut batch = Batch::new(input, BatchMemory::default(), Writes::default());
    batch.reserve(group.span.len());
    let child = match batch.change_child(group.slot, group.span, depth)? {
        Built::New(top) => SplitChild::Done(batch.encode(top, None)),
        Built::Kept(child) => SplitChild::Kept(child),
        // A child with changes below it is loaded.
        Built::Empty | Built::Unloaded(..) => SplitChild::Gone,
    };
    Ok((child, batch.writes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{
        state_update, Changes, KeyChanges, NodeHash, NodePrefix, NodeSource, Root, ShadowState,
        SourceError, StateVersion::V1,
    };
    use alloc::vec::Vec;
    use bytes::Bytes;
    use rayon::ThreadPoolBuilder;

    /// Has no nodes.
    struct Nothing;

    impl NodeSource for Nothing {
        fn node(&self, _: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
            Ok(None)
        }
    }

    fn top(top: KeyChanges<'_>) -> Changes<'_> {
        Changes {
            top,
            children: Vec::new(),
        }
    }

    /// Nothing but its time and the parts of the update tell that a root was computed apart.
    #[test]
    fn children_are_computed_apart_from_so_many_changes_on() {
        // Four keys below each child of the root, with different nibbles there.
        let keys = (0..64_u8).map(|key| [key.rotate_right(4)]);
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        let changes = |value: &'static [u8]| -> KeyChanges<'_> {
            keys.iter().map(|key| (&key[..], Some(value))).collect()
        };
        let mut state = ShadowState::new(Nothing, Root::EMPTY);
        let first = state_update(&mut state, &top(changes(&[1; 40])), V1, &mut ()).unwrap();
        let parts = |split_from, changes: KeyChanges<'_>| {
            let state = ShadowState::new(Nothing, first.root);
            let mut state = state.with_split_from(split_from);
            let nodes = first.inserted();
            let nodes = nodes.map(|node| (node.hash, first.nodes.share(node.encoded)));
            state.preload(nodes).unwrap();
            let update = state_update(&mut state, &top(changes), V1, &mut ()).unwrap();
            update.nodes.parts.len()
        };
        let parts_on = |threads, split_from, changes: KeyChanges<'_>| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| parts(split_from, changes))
        };
        let all = || changes(&[2; 40]);
        // The part of the branch, and one of each child. No child has more than a thread's share of the changes.
        assert_eq!(parts_on(3, 64, all()), 17);
        assert_eq!(parts_on(2, 2, all()), 17);
        assert_eq!(parts_on(3, 2, all()), 17);
        assert_eq!(parts_on(3, 65, all()), 1);
        assert_eq!(parts_on(1, 2, all()), 1);
        // With more threads than children, a child has more than a share, and is split again.
        assert_eq!(parts_on(32, 2, all()), 17 + 64);
        // If all changes are below one child, that child's children are computed apart.
        assert_eq!(parts_on(3, 2, all()[..4].to_vec()), 5);
        // A thread of no pool has the threads of all such threads.
        let threads = rayon::current_num_threads();
        assert_eq!(parts(2, all()) > 1, threads > 1);
    }
}
