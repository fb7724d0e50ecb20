//! Runs a case on the crate that replaces sp-state-machine in a node, and on the original.
//!
//! Only for tests, because nothing that is published may depend on that crate.

use super::{
    case::{Case, ParentNodes},
    mismatch::Mismatch,
    net::NetChanges,
    peer_side::{ask_externalities, PeerSide},
};
use patched::{Ext, OverlayedChanges, TrieBackendBuilder};
use povmeter_delta_root::Blake2b256;
use povmeter_dev_runtime::{runtime::Hashing, HostError, Parent, RootUpdate};
use povmeter_vectors::{Answer, Op};
use sp_externalities::Extensions;
use sp_trie::{
    cache::{CacheSize, SharedTrieCache},
    recorder::Recorder,
    StorageProof,
};
use std::collections::BTreeSet;

/// Sums over blocks for which the replacement and the original agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PatchedCounts {
    /// Calls with an answer compared.
    calls: u64,
    /// Bytes that the original records for the block and its root.
    expected_bytes: u64,
    /// Bytes that the replacement records in addition.
    more_bytes: u64,
}

/// Runs `case` on the original and on the replacement as a node would: one overlay for the block, a new
/// backend and new externalities for each call, one recorder whose transactions follow those of the host.
/// Backends of cases with an even number of calls have a trie cache, so that the replacement uses its cache
/// of nodes, which all these cases share.
///
/// # Errors
/// The first [`Mismatch`]: in answers, recorded bytes, root, nodes inserted and removed, changes, or a node
/// that the original records and the replacement does not.
fn run_patched(case: &Case) -> Result<PatchedCounts, Mismatch> {
    let nodes = ParentNodes::new(&case.parent);
    let mut run = Run {
        case,
        peer: PeerSide::new(nodes.parent(), case.version),
        parent: nodes.parent(),
        overlay: OverlayedChanges::default(),
        recorder: Recorder::default(),
        extensions: Extensions::default(),
        cache: case
            .ops
            .len()
            .is_multiple_of(2)
            .then(|| SharedTrieCache::new(CacheSize::unlimited(), None)),
        root_asked: false,
        counts: PatchedCounts::default(),
    };
    for (at, op) in case.ops.iter().enumerate() {
        run.call(at, op)?;
    }
    run.finish()
}

struct Run<'c> {
    case: &'c Case,
    peer: PeerSide,
    parent: Parent,
    overlay: OverlayedChanges<Hashing>,
    recorder: Recorder<Hashing>,
    extensions: Extensions,
    cache: Option<SharedTrieCache<Hashing>>,
    /// Whether the runtime asked for a root. The sides may count different nodes for it.
    root_asked: bool,
    counts: PatchedCounts,
}

impl Run<'_> {
    fn call(&mut self, at: usize, op: &Op) -> Result<(), Mismatch> {
        self.root_asked |= *op == Op::Root;
        let expected = self.ask_peer(op)?;
        let found = self.ask(op);
        let op = op.to_string();
        if expected != found {
            let (expected, found) = (Box::new(expected), Box::new(found));
            return Err(Mismatch::Answer {
                at,
                op,
                expected,
                found,
            });
        }
        self.counts.calls += 1;
        let expected = self.peer.read_bytes();
        let found = self.recorder.estimate_encoded_size() as u64;
        if !self.root_asked && expected != found {
            return Err(Mismatch::ReadBytes {
                at,
                op,
                expected,
                found,
            });
        }
        Ok(())
    }

    fn ask_peer(&mut self, op: &Op) -> Result<Answer, Mismatch> {
        if *op == Op::Root {
            let (net, left_out) = self.net_changes();
            if left_out {
                // The peer's own root would be wrong.
                let root = self.peer.truth(&net)?.root;
                return Ok(Answer::Root(root.as_bytes().to_vec()));
            }
        }
        Ok(self.peer.ask(op)?)
    }

    fn ask(&mut self, op: &Op) -> Answer {
        // The overlay refuses to close a transaction that is not open, and the recorder then gets no call.
        match op {
            Op::HostStart => {
                self.overlay.start_transaction();
                self.recorder.start_transaction();
            }
            Op::HostCommit => {
                if self.overlay.commit_transaction().is_ok() {
                    let _ = self.recorder.commit_transaction();
                }
            }
            Op::HostRollback => {
                if self.overlay.rollback_transaction().is_ok() {
                    let _ = self.recorder.rollback_transaction();
                }
            }
            Op::Enter => drop(self.overlay.enter_runtime()),
            Op::Exit => drop(self.overlay.exit_runtime()),
            Op::Boundary => {}
            _ => {
                let parent = &self.parent;
                let local = self
                    .cache
                    .as_ref()
                    .map(SharedTrieCache::local_cache_untrusted);
                let backend = TrieBackendBuilder::new(parent.nodes.clone(), parent.root)
                    .with_optional_cache(local.as_ref())
                    .with_recorder(self.recorder.clone())
                    .build();
                let extensions = Some(&mut self.extensions);
                let mut ext = Ext::new(&mut self.overlay, &backend, extensions);
                return ask_externalities(&mut ext, op, self.case.version);
            }
        }
        Answer::Done
    }

    /// Returns the net changes without those that the peer's trie may get wrong, and whether any
    /// were left out.
    fn net_changes(&mut self) -> (NetChanges, bool) {
        let mut net = self.peer.net_changes();
        let left_out = net.leave_out_absent(&self.case.parent);
        (net, left_out)
    }

    fn finish(mut self) -> Result<PatchedCounts, Mismatch> {
        let (net, _) = self.net_changes();
        let truth = self.peer.truth(&net)?;
        let expected_changes = self.peer.net_changes().all_of_top();
        let local = self
            .cache
            .as_ref()
            .map(SharedTrieCache::local_cache_untrusted);
        let backend = TrieBackendBuilder::new(self.parent.nodes.clone(), self.parent.root)
            .with_optional_cache(local.as_ref())
            .with_recorder(self.recorder.clone())
            .build();
        let drained = self
            .overlay
            .drain_storage_changes(&backend, self.case.version);
        let drained = drained.map_err(|found| HostError::state(std::io::Error::other(found)))?;
        let (expected, found) = (truth.root, drained.transaction_storage_root);
        if expected != found {
            return Err(Mismatch::Root { expected, found });
        }
        let theirs = RootUpdate::of_transaction(truth.update);
        if theirs != RootUpdate::of_transaction(drained.transaction) {
            return Err(Mismatch::Nodes);
        }
        if expected_changes != drained.main_storage_changes {
            return Err(Mismatch::Changes);
        }
        let nodes = |proof: StorageProof| proof.into_nodes();
        let found: BTreeSet<Vec<u8>> = nodes(self.recorder.to_storage_proof());
        let expected: BTreeSet<Vec<u8>> = nodes(truth.proof);
        if let Some(missing) = expected.difference(&found).next() {
            return Err(Mismatch::NotCounted {
                at: self.case.ops.len(),
                missing: Blake2b256::hash(missing),
            });
        }
        self.counts.expected_bytes = truth.bytes;
        let found_bytes = self.recorder.estimate_encoded_size() as u64;
        self.counts.more_bytes = found_bytes.saturating_sub(truth.bytes);
        Ok(self.counts)
    }
}

mod tests {
    use super::*;
    use crate::Flavour;
    use sp_core::storage::StateVersion;

    #[test]
    fn random_blocks_are_the_originals() {
        let mut all = PatchedCounts::default();
        for flavour in Flavour::ALL {
            for seed in 0..1000 {
                for version in [StateVersion::V0, StateVersion::V1] {
                    let case = Case::random(seed, flavour).in_version(version);
                    let counts = run_patched(&case);
                    let counts = counts.unwrap_or_else(|mismatch| {
                        panic!("{} {seed} {version:?}: {mismatch}\n{case}", flavour.name())
                    });
                    all.calls += counts.calls;
                    all.expected_bytes += counts.expected_bytes;
                    all.more_bytes += counts.more_bytes;
                }
            }
        }
        // The recorder may hold nodes that only the order of the changes needs; see docs/proof-size.md.
        let percent = all.more_bytes as f64 * 100.0 / all.expected_bytes as f64;
        assert!(percent < 1.0, "{all:?}");
        assert!(all.calls > 100_000, "{all:?}");
        println!("{all:?}: {percent:.3} % more bytes recorded");
    }
}
