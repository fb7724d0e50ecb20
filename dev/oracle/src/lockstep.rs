//! Runs a case on both sides, step by step.

use super::{
    case::{Case, ParentNodes},
    mismatch::Mismatch,
    net::NetChanges,
    peer_side::PeerSide,
    report::CaseReport,
    roles::check_roles,
    rule,
};
use codec::Encode;
use povmeter::{Accounting, Block, SealedBlock, TrieId};
use povmeter_delta_root::Blake2b256;
use povmeter_dev_runtime::{runtime::Hashing, NodeChange, RootUpdate};
use povmeter_vectors::{ask, Answer, Op};
use sp_core::H256;
use sp_trie::StorageProof;
use std::collections::BTreeSet;

/// Runs `case` on povmeter and on the peer, in the accounting `A`, and compares every result.
///
/// # Errors
/// The first [`Mismatch`].
pub fn run_case<A: Accounting>(case: &Case) -> Result<CaseReport, Mismatch> {
    Lockstep::<A>::new(case).run()
}

/// The size at a boundary; `None` for other ops.
pub(super) type Size = Option<u64>;

struct Lockstep<'a, A: Accounting> {
    case: &'a Case,
    nodes: ParentNodes,
    peer: PeerSide,
    block: Block<ParentNodes, A>,
    report: CaseReport,
    /// The sizes by op.
    sizes: Vec<Size>,
    /// Whether the runtime asked for the root: now, and at the start of each open transaction of the
    /// host. The peer counts the nodes of such a root as read; our block may have counted them in an
    /// estimate.
    root_asked: Vec<bool>,
}

impl<'a, A: Accounting> Lockstep<'a, A> {
    fn new(case: &'a Case) -> Self {
        let nodes = ParentNodes::new(&case.parent);
        let peer = PeerSide::new(nodes.parent(), case.version);
        let block = Block::with_accounting(nodes.clone(), nodes.root(), A::default());
        Self {
            case,
            nodes,
            peer,
            block,
            report: CaseReport {
                blocks: 1,
                ..CaseReport::default()
            },
            sizes: Vec::new(),
            root_asked: vec![false],
        }
    }

    fn run(mut self) -> Result<CaseReport, Mismatch> {
        let case = self.case;
        for (at, op) in case.ops.iter().enumerate() {
            let size = match op {
                Op::Boundary => Some(self.boundary(at)?),
                _ => {
                    self.call(at, op)?;
                    None
                }
            };
            self.sizes.push(size);
        }
        self.finish()
    }

    fn call(&mut self, at: usize, op: &Op) -> Result<(), Mismatch> {
        self.note_root(op);
        let expected = self.ask_peer(op)?;
        let answer = ask(&mut self.block, op, self.case.our_version());
        let op = op.to_string();
        let found = answer.map_err(|source| {
            let op = op.clone();
            Mismatch::Block { at, op, source }
        })?;
        if expected != found {
            let (expected, found) = (Box::new(expected), Box::new(found));
            return Err(Mismatch::Answer {
                at,
                op,
                expected,
                found,
            });
        }
        let (expected, size) = (self.peer.read_bytes(), self.block.recorded_size());
        if self.root_asked.last() == Some(&false) && size.read_bytes != expected {
            let found = size.read_bytes;
            return Err(Mismatch::ReadBytes {
                at,
                op,
                expected,
                found,
            });
        }
        if size.total_bytes() < expected {
            let found = size.total_bytes();
            return Err(Mismatch::Under {
                at,
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
                // The peer's own root would be wrong. The root used instead is not recorded as
                // read.
                let root = self.peer.truth(&net)?.root;
                return Ok(Answer::Root(root.as_bytes().to_vec()));
            }
        }
        if let Op::ChildRoot { child } = op {
            let (net, left_out) = self.net_changes();
            if left_out {
                return Ok(self.peer.child_root(&net, child)?);
            }
        }
        Ok(self.peer.ask(op)?)
    }

    fn note_root(&mut self, op: &Op) {
        let asked = self.root_asked.last().copied().unwrap_or_default();
        match op {
            Op::HostStart => self.root_asked.push(asked),
            Op::HostRollback => drop(self.root_asked.pop()),
            Op::HostCommit => {
                self.root_asked.pop();
                if let Some(last) = self.root_asked.last_mut() {
                    *last |= asked;
                }
            }
            Op::Root => self.note_counted_root(),
            // The root of another child is read.
            Op::ChildRoot { child } if self.block.overlay().is_touched(TrieId::Child(&child.0)) => {
                self.note_counted_root();
                self.report.child_roots += 1;
            }
            _ => {}
        }
    }

    fn note_counted_root(&mut self) {
        if let Some(last) = self.root_asked.last_mut() {
            *last = true;
        }
    }

    /// Asks both sides for the size of the proof now.
    fn boundary(&mut self, at: usize) -> Result<u64, Mismatch> {
        let failed = |source| Mismatch::Block {
            at,
            op: Op::Boundary.to_string(),
            source,
        };
        let found = self.block.proof_size().map_err(failed)?.total_bytes();
        let (net, left_out) = self.net_changes();
        let truth = self.peer.truth(&net)?;
        if found < truth.bytes {
            let expected = truth.bytes;
            return Err(Mismatch::Under {
                at,
                expected,
                found,
            });
        }
        let counted = self.block.recorded_proof();
        let nodes: BTreeSet<&[u8]> = counted.nodes().iter().map(AsRef::as_ref).collect();
        let missing = truth
            .proof
            .iter_nodes()
            .find(|node| !nodes.contains(&node[..]));
        if let Some(missing) = missing {
            let missing = Blake2b256::hash(missing);
            return Err(Mismatch::NotCounted { at, missing });
        }
        let needed = rule::needed(&net, &self.nodes).map_err(failed)?;
        let (rule_bytes, needed) = self.with_reads(needed);
        if rule_bytes < truth.bytes {
            return Err(Mismatch::Under {
                at,
                expected: truth.bytes,
                found: rule_bytes,
            });
        }
        if let Some(missing) = needed.iter().find(|node| !nodes.contains(&node[..])) {
            let missing = Blake2b256::hash(missing);
            return Err(Mismatch::NotCounted { at, missing });
        }
        let expected = counted.to_compact(self.nodes.root())?.encoded_bytes();
        let told = self.block.compact_proof_bytes().map_err(failed)?;
        if told != expected {
            let found = told;
            return Err(Mismatch::CompactSize {
                at,
                expected,
                found,
            });
        }
        let report = &mut self.report;
        report.boundaries += 1;
        report.truth_bytes += truth.bytes;
        report.over_bytes += found - truth.bytes;
        report.truth_nodes += truth.proof.len() as u64;
        report.rule_over_bytes += rule_bytes - truth.bytes;
        report.over_nodes += (nodes.len() - truth.proof.len()) as u64;
        if left_out {
            report.left_out += 1;
        } else {
            // Deletions that are left out would make the upstream strategy's trie lose values, too.
            report.upstream_boundaries += 1;
            report.upstream_under += u64::from(self.peer.upstream_size()? < truth.bytes);
        }
        Ok(found)
    }

    /// Returns the size of `needed` and all nodes read in the recorder's unit, and these nodes.
    fn with_reads(&self, mut needed: BTreeSet<Vec<u8>>) -> (u64, BTreeSet<Vec<u8>>) {
        needed.extend(self.peer.read_proof().into_nodes());
        let bytes = needed.iter().map(|node| node.encoded_size() as u64);
        (bytes.sum(), needed)
    }

    /// Returns the net changes without those that the peer's trie may get wrong, and whether any
    /// were left out.
    fn net_changes(&mut self) -> (NetChanges, bool) {
        let mut net = self.peer.net_changes();
        let left_out = net.leave_out_absent(&self.case.parent);
        (net, left_out)
    }

    fn finish(mut self) -> Result<CaseReport, Mismatch> {
        self.report.upstream_under_blocks = self.report.upstream_under.min(1);
        let (net, left_out) = self.net_changes();
        let truth = self.peer.truth(&net)?;
        let (expected_changes, read) =
            (self.peer.net_changes().all_of_top(), self.peer.read_proof());
        let sealed = self.block.seal(self.case.our_version());
        let sealed = sealed.map_err(|source| Mismatch::Block {
            at: self.case.ops.len(),
            op: "seal".to_owned(),
            source: source.into(),
        })?;
        compare_update(&sealed, truth.root, truth.update)?;
        let expected_changes = expected_changes.iter();
        if !expected_changes.map(borrowed).eq(sealed.top_changes()) {
            return Err(Mismatch::Changes);
        }
        if !left_out {
            let built = povmeter_dev_runtime::Built::from(self.peer.finish()?);
            let found = H256(*sealed.update().root.as_bytes());
            if built.root != found {
                let expected = built.root;
                return Err(Mismatch::Root { expected, found });
            }
            let children = built.child_changes.iter().map(|(name, changes)| {
                let changes: Vec<_> = changes.iter().map(borrowed).collect();
                (name.as_slice(), changes)
            });
            let found = sealed.child_changes();
            if !children.eq(found.map(|(name, changes)| (name, changes.collect()))) {
                return Err(Mismatch::Changes);
            }
        }
        compare_proof(&sealed, read, &self.nodes)?;
        check_roles::<A>(self.case, &self.nodes, &self.sizes, &sealed)?;
        Ok(self.report)
    }
}

/// Compares the root, and the nodes inserted and removed by place.
fn compare_update(
    sealed: &SealedBlock,
    root: H256,
    nodes: sp_trie::PrefixedMemoryDB<Hashing>,
) -> Result<(), Mismatch> {
    let found = H256(*sealed.update().root.as_bytes());
    if root != found {
        return Err(Mismatch::Root {
            expected: root,
            found,
        });
    }
    let theirs = RootUpdate::of_transaction(nodes);
    let ours = RootUpdate::new(sealed.update().nodes.iter().map(|node| NodeChange {
        key: sp_trie::prefixed_key::<Hashing>(&H256(*node.hash.as_bytes()), node.prefix()),
        count: node.references,
        node: node.encoded.to_vec(),
    }));
    if theirs != ours {
        return Err(Mismatch::Nodes);
    }
    Ok(())
}

fn borrowed((key, value): &(Vec<u8>, Option<Vec<u8>>)) -> povmeter::Change<'_> {
    (key, value.as_deref())
}

/// Checks that the sealed proof holds all nodes read, and that the peer packs it to the same bytes.
fn compare_proof(
    sealed: &SealedBlock,
    read: StorageProof,
    parent: &ParentNodes,
) -> Result<(), Mismatch> {
    let ours: BTreeSet<Vec<u8>> = sealed
        .proof()
        .nodes()
        .iter()
        .map(|node| node.to_vec())
        .collect();
    if let Some(missing) = read.into_nodes().difference(&ours).next() {
        return Err(Mismatch::NotCounted {
            at: usize::MAX,
            missing: Blake2b256::hash(missing),
        });
    }
    let compact = sealed.proof().to_compact(parent.root())?;
    if ours.is_empty() {
        // The peer packs no proof without a root node.
        return Ok(());
    }
    let theirs = StorageProof::new(ours);
    let theirs = theirs.into_compact_proof::<Hashing>(parent.parent().root);
    let theirs = theirs
        .map_err(povmeter_dev_runtime::HostError::state)?
        .encode();
    let ours = compact.encode();
    if theirs != ours {
        let (expected, found) = (theirs.len(), ours.len());
        return Err(Mismatch::Compact { expected, found });
    }
    Ok(())
}
