//! Checks that every role gets the results that the author of a block got.

use super::{
    case::{Case, ParentNodes},
    lockstep::Size,
    mismatch::{Mismatch, Role, RoleDifference},
    peer_side::PeerSide,
};
use bytes::Bytes;
use povmeter::{
    Accounting, Block, BlockError, NodeSource, ProofNodes, Root, SealedBlock, StateVersion,
    StorageProof,
};
use povmeter_dev_runtime::{panic_message, MemoryNodes, Parent};
use povmeter_vectors::{ask, Op};
use sp_core::H256;
use std::{
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

/// The calls in the block: all but those that the host rolled back.
struct Kept<'a> {
    ops: Vec<(&'a Op, Size)>,
    version: StateVersion,
}

impl<'a> Kept<'a> {
    fn new(case: &'a Case, sizes: &[Size]) -> Self {
        let mut ops = Vec::new();
        let mut starts = Vec::new();
        for (op, size) in case.ops.iter().zip(sizes) {
            match op {
                Op::HostStart => starts.push(ops.len()),
                Op::HostRollback => {
                    ops.truncate(starts.pop().unwrap_or_default());
                    continue;
                }
                Op::HostCommit => drop(starts.pop()),
                _ => {}
            }
            ops.push((op, *size));
        }
        let version = case.our_version();
        Self { ops, version }
    }

    /// Executes the block. If `estimating`, also asks for sizes and compares them with the
    /// author's.
    fn execute<A: Accounting>(
        &self,
        source: impl NodeSource,
        parent: Root,
        estimating: bool,
    ) -> Result<SealedBlock, RoleDifference> {
        let failed = |op: &str, source: BlockError| RoleDifference::Block {
            op: op.to_owned(),
            source,
        };
        let mut block = Block::with_accounting(source, parent, A::default());
        let mut boundary = 0;
        for (op, size) in &self.ops {
            ask(&mut block, op, self.version).map_err(|error| failed(&op.to_string(), error))?;
            let Some(expected) = *size else { continue };
            if estimating {
                let found = block
                    .proof_size()
                    .map_err(|error| failed("boundary", error))?;
                let found = found.total_bytes();
                if found != expected {
                    let at = boundary;
                    return Err(RoleDifference::Size {
                        at,
                        expected,
                        found,
                    });
                }
            }
            boundary += 1;
        }
        block
            .seal(self.version)
            .map_err(|error| failed("seal", error.into()))
    }
}

/// Makes importers and validators execute the block that `author` sealed.
pub(super) fn check_roles<A: Accounting>(
    case: &Case,
    parent: &ParentNodes,
    sizes: &[Size],
    author: &SealedBlock,
) -> Result<(), Mismatch> {
    let kept = Kept::new(case, sizes);
    let root = parent.root();
    let all = || by_hash(parent);
    let check = |role, executed: Result<SealedBlock, RoleDifference>, proof: bool| {
        executed
            .and_then(|sealed| compare(author, &sealed, proof))
            .map_err(|difference| Mismatch::Role {
                role,
                difference: Box::new(difference),
            })
    };
    check(Role::Importer, kept.execute::<A>(all(), root, true), true)?;
    let replayed = kept.execute::<A>(all(), root, false);
    check(Role::ReplayingImporter, replayed, !A::PROVEN)?;
    let validated = author
        .proof()
        .to_compact(root)
        .and_then(|compact| compact.to_source(root))
        .map_err(RoleDifference::from)
        .and_then(|nodes| kept.execute::<A>(nodes, root, A::PROVEN));
    check(Role::Validator, validated, true)?;
    let proof = author.proof().nodes().iter().map(|node| node.to_vec());
    let (root, proof) = (author.update().root, proof.collect());
    validate_on_peer(case, &kept, author.update().parent, proof, root).map_err(|difference| {
        Mismatch::Role {
            role: Role::StockValidator,
            difference: Box::new(difference),
        }
    })
}

/// Executes the calls in the block on the peer, with the nodes of `proof` and no others.
fn validate_on_peer(
    case: &Case,
    kept: &Kept<'_>,
    parent: Root,
    proof: Vec<Vec<u8>>,
    root: Root,
) -> Result<(), RoleDifference> {
    let nodes = sp_trie::StorageProof::new(proof).into_memory_db();
    let parent = Parent {
        root: H256(*parent.as_bytes()),
        nodes: Arc::new(MemoryNodes(nodes)),
    };
    // At a missing node the peer panics or returns a wrong root.
    let found = catch_unwind(AssertUnwindSafe(|| root_on_peer(case, kept, parent)))
        .unwrap_or_else(|panic| Err(RoleDifference::PeerPanicked(panic_message(&*panic))))?;
    let expected = H256(*root.as_bytes());
    if expected != found {
        return Err(RoleDifference::Root { expected, found });
    }
    Ok(())
}

fn root_on_peer(case: &Case, kept: &Kept<'_>, parent: Parent) -> Result<H256, RoleDifference> {
    let mut peer = PeerSide::new(parent, case.version);
    for (op, _) in &kept.ops {
        let mut net = peer.net_changes();
        let left_out = net.leave_out_absent(&case.parent);
        match op {
            // Skip a root that the peer's trie may get wrong although no node is missing.
            Op::Root if left_out => {}
            Op::ChildRoot { child } if left_out => _ = peer.child_root(&net, child)?,
            _ => _ = peer.ask(op)?,
        }
    }
    let mut net = peer.net_changes();
    net.leave_out_absent(&case.parent);
    Ok(peer.truth(&net)?.root)
}

/// Returns the whole store, keyed by hash alone.
fn by_hash(parent: &ParentNodes) -> ProofNodes {
    let nodes = parent.nodes().clone().drain().into_values();
    StorageProof::new(nodes.map(|(node, _)| Bytes::from(node))).to_source()
}

fn compare(
    author: &SealedBlock,
    found: &SealedBlock,
    with_proof: bool,
) -> Result<(), RoleDifference> {
    if author.update() != found.update() {
        return Err(RoleDifference::Update);
    }
    if with_proof && author.proof() != found.proof() {
        return Err(RoleDifference::Nodes {
            expected: author.proof().nodes().len(),
            found: found.proof().nodes().len(),
        });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Flavour;
    use povmeter::Consensus;

    #[test]
    fn a_validator_on_the_peer_misses_what_is_missing() {
        let (mut found_out, mut nodes) = (0, 0);
        for seed in 0..10 {
            let case = Case::random(seed, Flavour::Mixed);
            let parent = ParentNodes::new(&case.parent);
            let mut author = Block::with_accounting(&parent, parent.root(), Consensus);
            for op in &case.ops {
                ask(&mut author, op, case.our_version()).unwrap();
            }
            let author = author.seal(case.our_version()).unwrap();
            let kept = Kept::new(&case, &vec![None; case.ops.len()]);
            let proof: Vec<_> = author.proof().nodes().iter().map(|n| n.to_vec()).collect();
            let root = author.update().root;
            let validate = |proof| validate_on_peer(&case, &kept, parent.root(), proof, root);
            validate(proof.clone()).unwrap();
            for missing in 0..proof.len() {
                let mut proof = proof.clone();
                proof.remove(missing);
                nodes += 1;
                found_out += usize::from(validate(proof).is_err());
            }
        }
        // A rolled back transaction may have read nodes that the block does not need.
        assert!(found_out * 10 > nodes * 7, "{found_out} of {nodes}");
    }
}
