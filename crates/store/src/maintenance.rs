//! Numbers about a store, and pruning by number or root.

use crate::history::{KeptState, StateHistory, StateId};
use crate::progress::{Progress, PROGRESS_STEPS};
use crate::stored::StoredNodes;
use crate::walk::{NodeFault, Walk};
use crate::StoreError;
use povmeter_delta_root::{NodeHash, Root};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

/// Numbers about a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStat {
    /// Distinct nodes.
    pub nodes: u64,
    /// Bytes of these nodes, encoded; the files of a database are larger.
    pub bytes: u64,
    /// References to these nodes, added up.
    pub references: u64,
    /// The kept states, in the order in which they were committed.
    pub states: Vec<KeptState>,
    /// Places of nodes in the newest state.
    pub places: u64,
    /// Nodes on the longest path of the newest state, from the root of the state; those of a child trie
    /// come below the node with its root.
    pub depth: u32,
}

/// Why there are no numbers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A node of the newest state is not what it should be. [`verify`](crate::verify) lists all of them.
    #[error("state {state}: node {hash} is {fault}")]
    Node {
        /// The newest state.
        state: StateId,
        /// Hash of the node.
        hash: NodeHash,
        /// What is wrong with it.
        fault: NodeFault,
    },
}

/// Returns numbers about `store`. Calls `progress` with the nodes visited so far. Changes nothing.
///
/// # Errors
/// [`StatError`].
///
/// # Cost
/// Reads each node of the store once, and each place of the newest state.
pub fn stat<S: StoredNodes + ?Sized>(
    store: &mut S,
    progress: Progress<'_>,
) -> Result<StoreStat, StatError> {
    let mut stat = StoreStat {
        states: store.states().iter().copied().collect(),
        ..StoreStat::default()
    };
    let mut steps = 0_u64;
    let mut step = || {
        steps += 1;
        if steps.is_multiple_of(PROGRESS_STEPS) {
            progress(steps);
        }
    };
    store.each_node(&mut |node| {
        stat.nodes += 1;
        stat.bytes += node.encoded.len() as u64;
        stat.references = stat.references.saturating_add(node.references);
        step();
        ControlFlow::Continue(())
    })?;
    let newest = *store.states().newest();
    let mut walk = Walk::new(store, newest.root);
    while let Some((place, found)) = walk.enter() {
        if let Err(fault) = found {
            return Err(StatError::Node {
                state: newest.id,
                hash: place.hash,
                fault,
            });
        }
        stat.places += 1;
        stat.depth = stat.depth.max(place.depth + 1);
        step();
    }
    progress(steps);
    Ok(stat)
}

/// Prunes all but the newest state and the `count - 1` states before it, with whatever else was built
/// on the oldest of them. Calls `progress` with the states dropped so far, and returns them.
///
/// # Errors
/// Those of [`StateHistory::prune`]. What was dropped before the error is dropped.
pub fn prune_to_last<S: StateHistory + ?Sized>(
    store: &mut S,
    count: NonZeroUsize,
    progress: Progress<'_>,
) -> Result<Vec<KeptState>, StoreError> {
    let states = store.states();
    let line = states.ancestry(states.newest().id);
    let oldest = line.take(count.get()).last().map(|state| state.id);
    prune_to(store, oldest.unwrap_or(store.states().base().id), progress)
}

/// Prunes all but the newest state with the root `root` and its descendants. Calls `progress` with the
/// states dropped so far, and returns them.
///
/// # Errors
/// [`PruneError::NoSuchRoot`] if there is none, and those of [`StateHistory::prune`]. What was dropped
/// before the error is dropped.
pub fn prune_to_root<S: StateHistory + ?Sized>(
    store: &mut S,
    root: Root,
    progress: Progress<'_>,
) -> Result<Vec<KeptState>, PruneError> {
    let state = store.states().of_root(root);
    let state = state.ok_or(PruneError::NoSuchRoot { root })?.id;
    Ok(prune_to(store, state, progress)?)
}

/// Why a store was not pruned to a root.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// No kept state has the root.
    #[error("expected the root of a kept state, found {root}, which no kept state has")]
    NoSuchRoot {
        /// The root.
        root: Root,
    },
    /// The store could not drop a state.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Prunes to `base`, one generation after the other, because the changes of many blocks at once take
/// much memory.
fn prune_to<S: StateHistory + ?Sized>(
    store: &mut S,
    base: StateId,
    progress: Progress<'_>,
) -> Result<Vec<KeptState>, StoreError> {
    let path: Vec<_> = store
        .states()
        .ancestry(base)
        .map(|state| state.id)
        .collect();
    let mut gone = Vec::new();
    for id in path.into_iter().rev() {
        gone.extend(store.prune(id)?);
        progress(gone.len() as u64);
    }
    Ok(gone)
}
