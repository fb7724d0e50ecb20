//! All nodes of a store, for maintenance.

use crate::history::{StateHistory, StateId};
use crate::journal::StateDiff;
use crate::StoreError;
use povmeter_delta_root::NodeHash;
use std::ops::ControlFlow;

/// A node in a store, with its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountedNode<'a> {
    /// Hash under which the node is stored. parity-db does not tell it, so there it is the hash of the
    /// bytes.
    pub hash: NodeHash,
    /// References that the store counts.
    pub references: u64,
    /// The encoded node.
    pub encoded: &'a [u8],
}

/// A store whose nodes and counts can be listed: what [`verify`](crate::verify) and
/// [`stat`](crate::stat) need.
pub trait StoredNodes: StateHistory {
    /// Calls `visit` with each node, the null node excepted, in no special order, until it breaks.
    ///
    /// It takes `&mut self`, because a database with a queue has to write it out first.
    ///
    /// # Errors
    /// The database's.
    fn each_node(
        &mut self,
        visit: &mut dyn FnMut(CountedNode<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// How the kept state `state` differs from its parent.
    ///
    /// # Errors
    /// If `state` is not kept, is the base, or its journal is damaged; or the database's.
    fn diff(&self, state: StateId) -> Result<StateDiff, StoreError>;
}
