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
    /// Bytes of the encoded nodes; the files of a database are larger.
    pub bytes: u64,
    /// Sum of the references to all nodes.
    pub references: u64,
    /// The kept states, in the order in which they were committed.
    pub states: Vec<KeptState>,
    /// Places of nodes in the newest state.
    pub places: u64,
    /// Number of nodes on the longest path of the newest state, from its root node. A path into a child
    /// trie continues below the node that holds the child trie's root.
    pub depth: u32,
}

/// Why [`stat`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A node of the newest state is missing or damaged. [`verify`](crate::verify) lists all such nodes.
    #[error("state {state}: node {hash} is {fault}")]
    Node {
        /// The newest state.
        state: StateId,
        /// Hash of the node.
        hash: NodeHash,
        /// What is wrong with the node.
        fault: NodeFault,
    },
}

/// Returns numbers about `store`. Calls `progress` with the number of nodes and places visited so far.
/// Changes nothing.
///
/// # Errors
/// If the database failed, or a node of the newest state is missing or damaged.
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

/// Drops all states but the newest state, its nearest `count - 1` ancestors, and the other descendants
/// of the oldest kept ancestor. Calls `progress` with the number of states dropped so far. Returns the
/// dropped states.
///
/// # Errors
/// Those of [`StateHistory::prune`]. States dropped before the error stay dropped.
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

/// Drops all states but the newest state with the root `root` and its descendants. Calls `progress` with
/// the number of states dropped so far. Returns the dropped states.
///
/// # Errors
/// [`PruneError::NoSuchRoot`] if no kept state has the root, and those of [`StateHistory::prune`].
/// States dropped before the error stay dropped.
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

/// Prunes to `base` one generation at a time, because the changes of many blocks together need much
/// memory.
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
