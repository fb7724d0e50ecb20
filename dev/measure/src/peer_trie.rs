//! The peer's side: a trie for each boundary.

use povmeter_dev_ladder::{Changes, Ephemeral, Trial, Writes};
use povmeter_dev_runtime::{HostError, Parent, SplitRecorder};
use sp_core::storage::StateVersion;

/// Estimates of one block, with tries that are opened on the parent state and dropped.
pub(super) struct PeerTrie(Ephemeral);

impl PeerTrie {
    pub(super) fn new(parent: Parent, version: StateVersion) -> Self {
        let notes = SplitRecorder::default();
        Self(Ephemeral::new(parent, version, notes, Writes::Get, None))
    }

    /// Reads the keys of `changes`, so that the recorder has their nodes.
    pub(super) fn read(&mut self, changes: &Changes) -> Result<(), HostError> {
        // A trie reads a key that is written, as it is asked to here.
        let reads = changes
            .iter()
            .map(|(key, _)| (key.clone(), Some(Vec::new())));
        self.0.top(&reads.collect())
    }

    /// Estimates at one boundary.
    pub(super) fn estimate(&mut self, changes: &Changes) -> Result<(), HostError> {
        self.0.top(changes)
    }
}
