//! Whoever executes a block gets what its author got.

use super::{
    answer::ask,
    case::{Case, ParentNodes},
    lockstep::Size,
    mismatch::{Mismatch, Role, RoleDifference},
    Op,
};
use bytes::Bytes;
use povmeter::{
    Accounting, Block, BlockError, NodeSource, ProofNodes, Root, SealedBlock, StateVersion,
    StorageProof,
};

/// What is in the block: without what the host rolled back.
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

    /// Executes the block, asking for sizes if it is `estimating`, and compares them.
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
        let mut block = Block::<_, A>::new(source, parent);
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
            .map_err(|error| failed("seal", error))
    }
}

/// Has importers and a validator execute what `author` sealed.
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
    check(Role::Validator, validated, true)
}

/// The whole store, keyed by hash alone.
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
