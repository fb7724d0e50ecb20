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
    /// Hash under which the node is stored. parity-db does not return it, so there it is the hash of
    /// the bytes.
    pub hash: NodeHash,
    /// References that the store counts.
    pub references: u64,
    /// The encoded node.
    pub encoded: &'a [u8],
}

/// A store whose nodes and counts can be listed: what [`verify`](crate::verify) and
/// [`stat`](crate::stat) need.
pub trait StoredNodes: StateHistory {
    /// Calls `visit` with each node, the null node excepted, in no special order, until `visit`
    /// breaks.
    ///
    /// It takes `&mut self`, because a database with a queue must write the queue out first.
    ///
    /// # Errors
    /// If the database failed or an entry is damaged.
    fn each_node(
        &mut self,
        visit: &mut dyn FnMut(CountedNode<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Returns how the kept state `state` differs from its parent.
    ///
    /// # Errors
    /// If `state` is not kept or is the base, its journal is damaged, or the database failed.
    fn diff(&self, state: StateId) -> Result<StateDiff, StoreError>;
}
