//! What must hold for a block besides its root.

use super::{attempt::Attempt, Check, ReplayError};
use crate::{
    host::{BoundarySize, Built},
    lockstep::Calls,
    peer::{MemoryNodes, Parent, Peer},
    povmeter_host::Estimates,
    runtime::Hashing,
    stopwatch::Spent,
};
use codec::Encode;
use povmeter::ProofNodes;
use sp_core::H256;
use sp_trie::CompactProof;
use std::sync::Arc;

/// The encoding of a trie without entries.
const NULL_NODE: [u8; 1] = [0];

impl Attempt<'_> {
    /// Whether the peer records the same.
    pub(super) fn against_peer(
        &self,
        built: &Built,
        recorded: u64,
    ) -> Result<[Check; 2], ReplayError> {
        let (theirs, their_bytes) = self.whole(self.peer_block(), &mut Spent::default())?;
        Ok([
            Check {
                name: "sp-state-machine records the same",
                holds: built.proof == theirs.proof && recorded == their_bytes,
                detail: format!(
                    "{their_bytes} bytes in {} nodes, found {recorded} in {}",
                    theirs.proof.len(),
                    built.proof.len()
                ),
            },
            Check {
                name: "sp-state-machine changes the same",
                holds: same_nodes(&theirs, built).holds
                    && theirs.main_changes == built.main_changes
                    && theirs.child_changes == built.child_changes,
                detail: format!("{} keys of the top trie", theirs.main_changes.len()),
            },
        ])
    }

    /// The block from its compact proof and nothing else.
    pub(super) fn again(
        &self,
        built: &Built,
        compact: &CompactProof,
    ) -> Result<Check, ReplayError> {
        let proof = povmeter::CompactProof::decode(&compact.encode());
        let nodes = proof.and_then(|proof| proof.to_source(self.parent));
        let nodes = nodes.map_err(|source| self.proof(source))?;
        let host = self.our_block(nodes, Estimates::Nowhere);
        let again = self.whole(host, &mut Spent::default());
        let holds = again.as_ref().is_ok_and(|(again, _)| {
            again.root == built.root && again.told == built.told && again.proof == built.proof
        });
        let told = built.told.as_ref().map_or(0, Vec::len);
        Ok(Check {
            name: "executes again from the compact proof alone",
            holds,
            detail: match again {
                Ok(_) => format!("{} bytes, {told} sizes told", compact.encoded_size()),
                Err(error) => error.to_string(),
            },
        })
    }

    /// The same with a validator of today.
    pub(super) fn stock_validator(&self, built: &Built, compact: &CompactProof) -> Check {
        let root = H256(self.parent.into());
        let found = compact
            .to_memory_db::<Hashing>(&root)
            .map_err(|error| error.to_string())
            .and_then(|(nodes, root)| {
                let nodes = Arc::new(MemoryNodes(nodes));
                let block = Peer::new(Parent { root, nodes }, self.version).block();
                let executed = self.whole(block, &mut Spent::default());
                executed.map_err(|error| error.to_string())
            });
        Check {
            name: "sp-state-machine validates the proof",
            holds: found
                .as_ref()
                .is_ok_and(|(found, _)| found.root == built.root),
            detail: match found {
                Ok((found, _)) => format!("root {:?}", found.root),
                Err(error) => error,
            },
        }
    }

    /// Whether every node is needed. The null node, which stands for a trie without entries, is
    /// recorded, but known to everybody by its hash.
    pub(super) fn without_each(&self, built: &Built) -> Check {
        let nodes: Vec<_> = built.proof.iter_nodes().collect();
        let mut spare = 0;
        for (left_out, node) in nodes.iter().enumerate() {
            if **node == NULL_NODE {
                continue;
            }
            let rest = nodes.iter().enumerate();
            let rest = rest.filter(|(index, _)| *index != left_out);
            let rest = rest.map(|(_, node)| node.to_vec().into());
            let source: ProofNodes = povmeter::StorageProof::new(rest).to_source();
            let host = self.our_block(source, Estimates::Nowhere);
            spare += usize::from(self.whole(host, &mut Spent::default()).is_ok());
        }
        Check {
            name: "no node can be left out of the proof",
            holds: spare == 0,
            detail: format!("{spare} of {} can", nodes.len()),
        }
    }
}

/// Whether the last estimate is at least what the peer would have recorded.
pub(super) fn estimated(estimate: Option<BoundarySize>, truth: u64) -> Check {
    let estimate = estimate.map_or(0, |estimate| estimate.total());
    Check {
        name: "estimate complete",
        holds: estimate >= truth,
        detail: format!("{estimate} bytes after the last extrinsic, truth {truth}"),
    }
}

/// Values that come and go within a block are changes of one way and not of the other.
pub(super) fn same_nodes(expected: &Built, found: &Built) -> Check {
    Check {
        name: "as a whole and in steps the same nodes change",
        holds: expected.root == found.root && expected.update == found.update,
        detail: format!("{} nodes", found.update.nodes().len()),
    }
}

/// Whether both state machines answered every call alike.
pub(super) fn same_results(name: &'static str, calls: &Calls) -> Check {
    Check {
        name,
        holds: calls.differences == 0,
        detail: match calls.first.first() {
            None => format!("{} calls", calls.all),
            Some(first) => format!("{} of {}, the first: {first}", calls.differences, calls.all),
        },
    }
}
