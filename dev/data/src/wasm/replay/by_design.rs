//! The nodes that povmeter records and sp-state-machine does not, by reason.
//!
//! ```text
//! extra   = nodes that we recorded and the peer did not; there must be none the other way round
//! extra nodes by design:
//!     the null node, if a trie that had entries is empty at a boundary or at the end
//!     nodes that trie-db reads if it applies the deletions of the block before its insertions
//!     nodes that a block without questions for the proof size does not record, if the runtime asked
//! all other extra nodes are errors of povmeter
//! ```
//!
//! The reasons are those of docs/differences.md and docs/proof-size.md.

use super::{attempt::Attempt, Check, ReplayError};
use codec::Encode;
use povmeter::Advisory;
use povmeter_dev_runtime::{
    deletions_first, Built, Estimates, HostError, PovmeterBlock, Spent, NULL_NODE,
};
use povmeter_substrate::SizeSource;
use sp_trie::StorageProof;
use std::{collections::BTreeSet, fmt};

/// Encoded nodes.
type Nodes = BTreeSet<Vec<u8>>;

/// The differences between two records of one block.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Nodes that only the peer recorded.
    missing: Nodes,
    /// The null node of an emptied trie.
    null: Nodes,
    /// Siblings that the rule counts whatever is inserted beside them.
    rule: Nodes,
    /// Nodes that only the estimates within the block counted.
    questions: Nodes,
    /// Nodes without a reason.
    unexplained: Nodes,
}

/// The reasons why povmeter records more.
#[derive(Default)]
pub(super) struct Reasons {
    /// Nodes that the root needs if deletions come first.
    pub(super) deletions_first: Nodes,
    /// Whether the block empties a trie that had entries.
    pub(super) emptied: bool,
    /// Nodes that the block records without estimates; `None` if the runtime asked for no estimate.
    pub(super) unasked: Option<Nodes>,
}

impl Differences {
    pub(super) fn new(ours: &StorageProof, theirs: &StorageProof, reasons: &Reasons) -> Self {
        let [ours, theirs] = [ours, theirs].map(nodes);
        let mut differences = Self {
            missing: theirs.difference(&ours).cloned().collect(),
            ..Self::default()
        };
        for node in ours.difference(&theirs) {
            let unasked = reasons.unasked.as_ref();
            let of = if *node == NULL_NODE && reasons.emptied {
                &mut differences.null
            } else if reasons.deletions_first.contains(node) {
                &mut differences.rule
            } else if unasked.is_some_and(|unasked| !unasked.contains(node)) {
                &mut differences.questions
            } else {
                &mut differences.unexplained
            };
            of.insert(node.clone());
        }
        differences
    }

    /// Returns whether all differences are by design and add up to the difference between `ours` and
    /// `theirs`, the bytes that povmeter and the peer recorded.
    pub(super) fn are_by_design(&self, ours: u64, theirs: u64) -> bool {
        self.missing.is_empty()
            && self.unexplained.is_empty()
            && theirs.checked_add(self.bytes()) == Some(ours)
    }

    /// Describes the nodes recorded by design; `None` if there are none.
    pub(super) fn text(&self) -> Option<String> {
        (self.bytes() > 0).then(|| self.to_string())
    }

    fn by_design(&self) -> [(&Nodes, &'static str); 3] {
        [
            (&self.null, "null node of an emptied trie"),
            (&self.rule, "siblings of deleted keys"),
            (&self.questions, "touched by questions for the proof size"),
        ]
    }

    fn bytes(&self) -> u64 {
        let by_design = self.by_design();
        by_design.iter().map(|(nodes, _)| bytes(nodes)).sum()
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes more than sp-state-machine", self.bytes())?;
        let reasons = self.by_design().into_iter();
        let reasons = reasons.filter(|(nodes, _)| !nodes.is_empty());
        for (at, (nodes, reason)) in reasons.enumerate() {
            let separator = if at == 0 { ":" } else { "," };
            write!(f, "{separator} {} {reason}", bytes(nodes))?;
        }
        Ok(())
    }
}

fn nodes(proof: &StorageProof) -> Nodes {
    proof.iter_nodes().cloned().collect()
}

/// Returns the bytes of the nodes, each with its length prefix.
fn bytes(nodes: &Nodes) -> u64 {
    nodes.iter().map(|node| node.encoded_size() as u64).sum()
}

impl Attempt<'_> {
    /// Checks that the peer records the same nodes, except for differences by design.
    pub(super) fn same_record(
        &self,
        (built, recorded): (&Built, u64),
        (theirs, their_bytes): (&Built, u64),
    ) -> Result<Check, ReplayError> {
        let detail = format!(
            "{their_bytes} bytes in {} nodes, found {recorded} in {}",
            theirs.proof.len(),
            built.proof.len()
        );
        let mut check = Check::new("sp-state-machine records the same", true, detail);
        if built.proof == theirs.proof {
            check.holds = recorded == their_bytes;
            return Ok(check);
        }
        let differences = Differences::new(&built.proof, &theirs.proof, &self.reasons(built)?);
        check.holds = differences.are_by_design(recorded, their_bytes);
        if check.holds {
            check.by_design = differences.text();
        } else {
            let Differences {
                missing,
                unexplained,
                ..
            } = &differences;
            check.detail = format!(
                "{}; {} nodes are missing, {} have no reason",
                check.detail,
                missing.len(),
                unexplained.len()
            );
        }
        Ok(check)
    }

    fn reasons(&self, built: &Built) -> Result<Reasons, ReplayError> {
        if self.sizes == SizeSource::Reads {
            // Then povmeter records the peer's nodes.
            return Ok(Reasons::default());
        }
        let parent = self.nodes.parent(sp_core::H256(self.parent.into()));
        let (top, children) = (&built.main_changes, &built.child_changes);
        let needed = deletions_first(&parent, self.version, top, children);
        let needed = needed.map_err(|reason| self.host(HostError::state(reason)))?;
        // Only estimates touch nodes; sizes from a record or of the reads do not.
        let asked = built.told.as_ref().is_some_and(|told| !told.is_empty());
        let unasked = (asked && self.sizes == SizeSource::Estimate).then(|| self.unasked(built));
        Ok(Reasons {
            deletions_first: needed.nodes,
            emptied: needed.emptied,
            unasked: unasked.transpose()?,
        })
    }

    /// Returns the nodes that the block records if the sizes that its runtime asks for are known in
    /// advance.
    fn unasked(&self, built: &Built) -> Result<Nodes, ReplayError> {
        let told = built.told.clone().unwrap_or_default();
        let host = PovmeterBlock::<_, Advisory>::with_accounting(
            self.nodes.clone(),
            self.parent,
            self.version,
            Estimates::Nowhere,
            SizeSource::Replay(told),
        );
        let (unasked, _) = self.whole(host, &mut Spent::default())?;
        Ok(nodes(&unasked.proof))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(nodes: &[&[u8]]) -> StorageProof {
        StorageProof::new(nodes.iter().map(|node| node.to_vec()))
    }

    fn set(nodes: &[&[u8]]) -> Nodes {
        nodes.iter().map(|node| node.to_vec()).collect()
    }

    const NULL: &[u8] = &NULL_NODE;
    const READ: &[u8] = &[1; 40];
    const SIBLING: &[u8] = &[2; 40];
    const TOUCHED: &[u8] = &[3; 80];

    fn reasons(emptied: bool, deletions_first: &[&[u8]], unasked: Option<&[&[u8]]>) -> Reasons {
        Reasons {
            deletions_first: set(deletions_first),
            emptied,
            unasked: unasked.map(set),
        }
    }

    #[test]
    fn each_reason_explains_its_nodes_alone() {
        let theirs = proof(&[READ]);
        let by_design = |nodes: &[&[u8]], reasons: &Reasons| {
            let ours = proof(&[&[READ], nodes].concat());
            let bytes: u64 = nodes.iter().map(|node| node.encoded_size() as u64).sum();
            let differences = Differences::new(&ours, &theirs, reasons);
            assert!(!differences.are_by_design(100 + bytes + 1, 100));
            let holds = differences.are_by_design(100 + bytes, 100);
            holds.then(|| differences.text()).flatten()
        };
        let none = reasons(false, &[], None);
        for node in [NULL, SIBLING, TOUCHED] {
            assert_eq!(by_design(&[node], &none), None);
        }
        let emptied = by_design(&[NULL], &reasons(true, &[], None)).unwrap();
        let text = "2 bytes more than sp-state-machine: 2 null node of an emptied trie";
        assert_eq!(emptied, text);
        // A question alone does not explain the null node.
        assert_eq!(
            by_design(&[NULL], &reasons(false, &[], Some(&[NULL]))),
            None
        );
        assert_eq!(by_design(&[SIBLING], &reasons(true, &[], None)), None);
        assert!(by_design(&[SIBLING], &reasons(false, &[SIBLING], None)).is_some());
        assert!(by_design(&[TOUCHED], &reasons(false, &[], Some(&[READ]))).is_some());
        // The node is recorded without questions, too.
        assert_eq!(
            by_design(&[TOUCHED], &reasons(false, &[], Some(&[TOUCHED]))),
            None
        );
        let all = reasons(true, &[SIBLING], Some(&[READ]));
        assert_eq!(
            by_design(&[NULL, SIBLING, TOUCHED], &all).unwrap(),
            "125 bytes more than sp-state-machine: 2 null node of an emptied trie, 41 siblings of \
             deleted keys, 82 touched by questions for the proof size"
        );
    }

    #[test]
    fn nothing_that_the_peer_records_may_be_missing() {
        let reasons = reasons(true, &[SIBLING], Some(&[]));
        let differences = Differences::new(&proof(&[READ]), &proof(&[READ, SIBLING]), &reasons);
        assert!(!differences.are_by_design(41, 41));
        assert_eq!(differences.text(), None);
    }
}
