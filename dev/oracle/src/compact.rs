//! Compares the length that a block tells for its compact proof with the packed proof, without the
//! peer.
//!
//! The packed proof is povmeter's own here; [`run_case`](super::run_case) compares it with the peer's.

use super::{case::ParentNodes, equal_nodes::TrieNodes, mismatch::Mismatch, Case};
use povmeter::{Accounting, Block, BlockError};
use povmeter_vectors::ask;
use std::ops::AddAssign;

/// Sums over the boundaries at which compact lengths were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactCounts {
    /// Boundaries at which the lengths were compared.
    pub boundaries: u64,
    /// The sum of the lengths told at them.
    pub bytes: u64,
}

impl AddAssign for CompactCounts {
    fn add_assign(&mut self, other: Self) {
        self.boundaries += other.boundaries;
        self.bytes += other.bytes;
    }
}

/// Runs `case` with a boundary after every op whose index is a multiple of `every`, and after the
/// last op. At each boundary, compares the length told with that of the packed proof.
///
/// # Errors
/// The first [`Mismatch`].
///
/// # Panics
/// If `every` is zero.
pub fn compare_compact<A: Accounting>(
    case: &Case,
    every: usize,
) -> Result<CompactCounts, Mismatch> {
    let nodes = ParentNodes::new(&case.parent);
    let root = nodes.root();
    let mut block = Block::with_accounting(nodes, root, A::default());
    let mut counts = CompactCounts::default();
    for (at, op) in case.ops.iter().enumerate() {
        let failed = |source: BlockError| {
            let op = op.to_string();
            Mismatch::Block { at, op, source }
        };
        ask(&mut block, op, case.our_version()).map_err(failed)?;
        if at % every != 0 && at + 1 < case.ops.len() {
            continue;
        }
        let found = block.compact_proof_bytes().map_err(failed)?;
        let expected = block.recorded_proof().to_compact(root)?.encoded_bytes();
        if found != expected {
            return Err(Mismatch::CompactSize {
                at,
                expected,
                found,
            });
        }
        counts += CompactCounts {
            boundaries: 1,
            bytes: found,
        };
    }
    Ok(counts)
}

/// The kinds of equal nodes that the parent state of a case has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EqualNodeKinds {
    /// Two tries have a node in common.
    pub in_two_tries: bool,
    /// One trie has a node at two places.
    pub in_one_trie: bool,
    /// The root node of a child trie is an inner node of another trie.
    pub root_and_inner: bool,
}

impl EqualNodeKinds {
    /// Returns the kinds in the parent state of `case`.
    pub fn of(case: &Case) -> Self {
        let nodes = TrieNodes::of(&case.parent);
        Self {
            in_two_tries: nodes.tries_share(),
            in_one_trie: nodes.a_trie_repeats(),
            root_and_inner: nodes.a_root_is_inner(),
        }
    }
}
