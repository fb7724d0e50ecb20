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
    /// Calls after which the recorded bytes were compared.
    recorded: u64,
    /// Blocks whose recorded nodes were compared at the end.
    blocks: u64,
}

/// Runs `case` on the original and on the replacement as a node would: one overlay for the block, a new
/// backend and new externalities for each call, one recorder whose transactions follow those of the host.
/// Backends of cases with an even number of calls have a trie cache, so that the replacement uses its cache of nodes.
/// These cases run twice, and the second time the cache has the nodes of the parent.
///
/// After a root that the original may get wrong, because it deletes an absent key, the recorded nodes are not those
/// of the original's root, and only a node that the replacement lacks is an error.
///
/// # Errors
/// The first [`Mismatch`]: in answers, recorded bytes, root, nodes inserted and removed, changes, or the recorded
/// nodes.
fn run_patched(case: &Case) -> Result<PatchedCounts, Mismatch> {
    let nodes = ParentNodes::new(&case.parent);
    let is_cached = case.ops.len().is_multiple_of(2);
    if is_cached {
        run_once(case, &nodes, is_cached)?;
    }
    run_once(case, &nodes, is_cached)
}

fn run_once(case: &Case, nodes: &ParentNodes, is_cached: bool) -> Result<PatchedCounts, Mismatch> {
    let mut run = Run {
        case,
        peer: PeerSide::new(nodes.parent(), case.version),
        parent: nodes.parent(),
        overlay: OverlayedChanges::default(),
        recorder: Recorder::default(),
        extensions: Extensions::default(),
        cache: is_cached.then(|| SharedTrieCache::new(CacheSize::unlimited(), None)),
        left_out: false,
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
    /// Whether a root was computed without deletions that the original may get wrong.
    left_out: bool,
    counts: PatchedCounts,
}

impl Run<'_> {
    fn call(&mut self, at: usize, op: &Op) -> Result<(), Mismatch> {
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
        if self.left_out {
            return Ok(());
        }
        let expected = self.peer.read_bytes();
        let found = self.recorder.estimate_encoded_size() as u64;
        if expected != found {
            return Err(Mismatch::ReadBytes {
                at,
                op,
                expected,
                found,
            });
        }
        self.counts.recorded += 1;
        Ok(())
    }

    fn ask_peer(&mut self, op: &Op) -> Result<Answer, Mismatch> {
        if matches!(op, Op::Root | Op::ChildRoot { .. }) {
            let (net, left_out) = self.net_changes();
            self.left_out |= left_out;
            match op {
                // The peer's own root would be wrong.
                Op::Root if left_out => {
                    let root = self.peer.truth(&net)?.root;
                    return Ok(Answer::Root(root.as_bytes().to_vec()));
                }
                Op::ChildRoot { child } if left_out => {
                    return Ok(self.peer.child_root(&net, child)?);
                }
                _ => {}
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
        let (net, left_out) = self.net_changes();
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
        if self.left_out || left_out {
            if let Some(missing) = expected.difference(&found).next() {
                return Err(Mismatch::NotCounted {
                    at: self.case.ops.len(),
                    missing: Blake2b256::hash(missing),
                });
            }
            return Ok(self.counts);
        }
        if expected != found {
            return Err(Mismatch::Recorded {
                at: self.case.ops.len(),
                lacking: expected.difference(&found).count(),
                more: found.difference(&expected).count(),
            });
        }
        self.counts.blocks += 1;
        Ok(self.counts)
    }
}

mod tests {
    use super::*;
    use crate::Flavour;
    use sp_core::storage::StateVersion;

    fn run_all(seeds: u64, case: impl Fn(u64, Flavour) -> Case) -> PatchedCounts {
        let mut all = PatchedCounts::default();
        for flavour in Flavour::ALL {
            for seed in 0..seeds {
                for version in [StateVersion::V0, StateVersion::V1] {
                    let case = case(seed, flavour).in_version(version);
                    let counts = run_patched(&case);
                    let counts = counts.unwrap_or_else(|mismatch| {
                        panic!("{} {seed} {version:?}: {mismatch}\n{case}", flavour.name())
                    });
                    all.calls += counts.calls;
                    all.recorded += counts.recorded;
                    all.blocks += counts.blocks;
                }
            }
        }
        all
    }

    #[test]
    fn random_blocks_are_the_originals() {
        let all = run_all(1000, Case::random);
        // Otherwise the cases would test little.
        assert!(all.calls > 100_000 && all.recorded > 100_000, "{all:?}");
        assert!(all.blocks > 1000, "{all:?}");
        println!("{all:?}");
    }

    #[test]
    fn random_blocks_that_ask_for_roots_of_children_are_the_originals() {
        let case = |seed, flavour| Case::random(seed, flavour).asking_for_child_roots(seed);
        let all = run_all(300, case);
        assert!(all.calls > 30_000 && all.recorded > 10_000, "{all:?}");
        assert!(all.blocks > 100, "{all:?}");
    }
}
