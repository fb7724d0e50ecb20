//! Checks of a block beyond its root.

use super::{attempt::Attempt, Check, ReplayError};
use codec::Encode;
use povmeter::ProofNodes;
use povmeter_dev_runtime::{
    runtime::Hashing, BoundarySize, Built, Calls, Estimates, MemoryNodes, Parent, Peer, Spent,
    NULL_NODE,
};
use sp_core::H256;
use sp_trie::CompactProof;
use std::sync::Arc;

impl Attempt<'_> {
    /// Checks that the peer records the same nodes, makes the same changes, and gives the same
    /// sizes.
    pub(super) fn against_peer(
        &self,
        built: &Built,
        recorded: u64,
    ) -> Result<[Check; 3], ReplayError> {
        let peer = self.peer_block(built.told.as_ref());
        let (theirs, their_bytes) = self.whole(peer, &mut Spent::default())?;
        let same_changes = same_nodes(&theirs, built).holds
            && theirs.main_changes == built.main_changes
            && theirs.child_changes == built.child_changes;
        Ok([
            self.same_record((built, recorded), (&theirs, their_bytes))?,
            Check::new(
                "sp-state-machine changes the same",
                same_changes,
                format!("{} keys of the top trie", theirs.main_changes.len()),
            ),
            Check::new(
                "sp-state-machine tells the same proof sizes",
                theirs.told == built.told,
                sizes_told(theirs.told.as_deref(), built.told.as_deref()),
            ),
        ])
    }

    /// Checks that the block executes again from its compact proof alone.
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
        let detail = match again {
            Ok(_) => format!("{} bytes, {told} sizes told", compact.encoded_size()),
            Err(error) => error.to_string(),
        };
        Ok(Check::new(
            "executes again from the compact proof alone",
            holds,
            detail,
        ))
    }

    /// Checks that a validator with the peer accepts the compact proof.
    pub(super) fn stock_validator(&self, built: &Built, compact: &CompactProof) -> Check {
        let root = H256(self.parent.into());
        let found = compact
            .to_memory_db::<Hashing>(&root)
            .map_err(|error| error.to_string())
            .and_then(|(nodes, root)| {
                let nodes = Arc::new(MemoryNodes(nodes));
                let peer = Peer::new(Parent { root, nodes }, self.version);
                let block = self.peer_block_of(&peer, built.told.as_ref());
                let executed = self.whole(block, &mut Spent::default());
                executed.map_err(|error| error.to_string())
            });
        let holds = found
            .as_ref()
            .is_ok_and(|(found, _)| found.root == built.root);
        let detail = match found {
            Ok((found, _)) => format!("root {:?}", found.root),
            Err(error) => error,
        };
        Check::new("sp-state-machine validates the proof", holds, detail)
    }

    /// Checks that the proof needs every node, except the null node, which every validator knows.
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
        let detail = format!("{spare} of {} can", nodes.len());
        Check::new("no node can be left out of the proof", spare == 0, detail)
    }
}

/// Checks that the last estimate is not below the size that the peer would have recorded.
pub(super) fn estimated(estimate: Option<BoundarySize>, truth: u64) -> Check {
    let estimate = estimate.map_or(0, |estimate| estimate.total());
    let detail = format!("{estimate} bytes after the last extrinsic, truth {truth}");
    Check::new("estimate complete", estimate >= truth, detail)
}

/// Checks that root and node changes are the same. Does not check the key changes, because only one way
/// of execution keeps a value that is set and removed within the block as a change.
pub(super) fn same_nodes(expected: &Built, found: &Built) -> Check {
    Check::new(
        "as a whole and in steps the same nodes change",
        expected.root == found.root && expected.update == found.update,
        format!("{} nodes", found.update.nodes().len()),
    )
}

/// Checks that every call had the same result on both state machines.
pub(super) fn same_results(name: &'static str, calls: &Calls) -> Check {
    let detail = match calls.first.first() {
        None => format!("{} calls", calls.all),
        Some(first) => format!("{} of {}, the first: {first}", calls.differences, calls.all),
    };
    Check::new(name, calls.differences == 0, detail)
}

/// Returns the number of proof sizes as text, or the first that differs.
fn sizes_told(theirs: Option<&[u64]>, ours: Option<&[u64]>) -> String {
    let (theirs, ours) = (theirs.unwrap_or_default(), ours.unwrap_or_default());
    let mut pairs = theirs.iter().zip(ours).zip(1..);
    let first = pairs.find_map(|((theirs, ours), question)| {
        (theirs != ours).then(|| format!("expected {theirs} as answer {question}, found {ours}"))
    });
    first.unwrap_or_else(|| match theirs.len() == ours.len() {
        true => format!("{} sizes", ours.len()),
        false => format!("expected {} sizes, found {}", theirs.len(), ours.len()),
    })
}
