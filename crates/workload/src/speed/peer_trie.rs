//! The peer's side: a trie for each boundary.

use crate::{
    host::HostError,
    peer::Parent,
    recorder::SplitRecorder,
    snapshot::Changes,
    trial::{Ephemeral, Trial, Writes},
};
use sp_core::storage::StateVersion;

/// Estimates of one block, by tries that are opened on the parent state and dropped.
pub(super) struct PeerTrie(Ephemeral);

impl PeerTrie {
    pub(super) fn new(parent: Parent, version: StateVersion) -> Self {
        let notes = SplitRecorder::default();
        Self(Ephemeral::new(parent, version, notes, Writes::Get, None))
    }

    /// One boundary.
    pub(super) fn estimate(&mut self, changes: &Changes) -> Result<(), HostError> {
        self.0.top(changes)
    }
}
