//! How the two sides of a case can differ.

use super::Answer;
use povmeter::{BlockError, NodeHash, ProofError};
use povmeter_dev_runtime::HostError;
use sp_core::H256;
use std::fmt;

/// A role that executes a block of another author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Has the whole store, keyed by hash alone, and estimates again.
    Importer,
    /// Has the whole store and the author's record of sizes, and estimates nothing.
    ReplayingImporter,
    /// Has the compact proof and nothing else.
    Validator,
    /// Has the proof and nothing else, and runs the peer.
    StockValidator,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Importer => "the importer",
            Self::ReplayingImporter => "the replaying importer",
            Self::Validator => "the validator",
            Self::StockValidator => "the validator on sp-state-machine",
        })
    }
}

/// How another role's execution of a block differs from the author's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoleDifference {
    /// A call has no result.
    #[error("{op}: expected a result, found an error")]
    Block {
        /// The call.
        op: String,
        /// Why the call has no result.
        source: BlockError,
    },
    /// The peer has no result.
    #[error("expected a result of sp-state-machine, found an error")]
    Peer(#[from] HostError),
    /// The peer panicked, most likely because a node is missing.
    #[error("sp-state-machine panicked: {0}")]
    PeerPanicked(String),
    /// The compact proof can't be expanded.
    #[error("can't expand the compact proof")]
    Proof(#[from] ProofError),
    /// The role gets another size at a boundary.
    #[error("expected a size of {expected} at boundary {at}, found {found}")]
    Size {
        /// The index among the boundaries in the block.
        at: usize,
        /// The author's size.
        expected: u64,
        /// The size of the role.
        found: u64,
    },
    /// The role gets another root.
    #[error("expected the author's root {expected:?}, found {found:?}")]
    Root {
        /// The author's root.
        expected: H256,
        /// The role's root.
        found: H256,
    },
    /// The role gets another root, or other nodes inserted and removed.
    #[error("expected the author's root and nodes, found others")]
    Update,
    /// The role gets another proof.
    #[error("expected the author's {expected} nodes in the proof, found other {found}")]
    Nodes {
        /// Nodes of the author's proof.
        expected: usize,
        /// Nodes of the role's proof.
        found: usize,
    },
}

/// The kind of a [`Mismatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MismatchKind {
    /// An estimate was lower than the truth, or a needed node was not counted.
    Under,
    /// A role gets other sizes than the author.
    Roles,
    /// A compact proof, or its size, is wrong.
    Compact,
    /// Anything else.
    Other,
}

/// The first difference between the two sides of a case. Its `at` is an index into the case's ops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Our side has no result, but the peer has one.
    #[error("op {at}, {op}: expected a result, found an error")]
    Block {
        /// Index of the op.
        at: usize,
        /// The call.
        op: String,
        /// Why there is no result.
        source: BlockError,
    },
    /// The peer has no result.
    #[error("expected a result of sp-state-machine, found an error")]
    Peer(#[from] HostError),
    /// The answers differ.
    #[error("op {at}, {op}: expected {expected:?}, found {found:?}")]
    Answer {
        /// Index of the op.
        at: usize,
        /// The call.
        op: String,
        /// The peer's answer.
        expected: Box<Answer>,
        /// Our answer.
        found: Box<Answer>,
    },
    /// The numbers of bytes read differ.
    #[error("op {at}, {op}: expected {expected} bytes to be read so far, found {found}")]
    ReadBytes {
        /// Index of the op.
        at: usize,
        /// The call.
        op: String,
        /// The bytes that the peer recorded.
        expected: u64,
        /// The bytes that we recorded.
        found: u64,
    },
    /// An estimate is below the truth.
    #[error("op {at}: expected a size of {expected} at least, found {found}")]
    Under {
        /// Index of the op.
        at: usize,
        /// The truth.
        expected: u64,
        /// The estimate.
        found: u64,
    },
    /// A node that the block needs is not counted.
    #[error("op {at}: expected node {missing} to be counted, found it missing")]
    NotCounted {
        /// Index of the op; `usize::MAX` at the end of the block.
        at: usize,
        /// Hash of the node.
        missing: NodeHash,
    },
    /// The recorded nodes are not the peer's.
    #[error("op {at}: expected the nodes that sp-state-machine recorded, found {lacking} missing and {more} more")]
    Recorded {
        /// Index of the op; that after the last at the end of the block.
        at: usize,
        /// Nodes that only the peer recorded.
        lacking: usize,
        /// Nodes that only we recorded.
        more: usize,
    },
    /// The size told for the compact proof is not its length.
    #[error("op {at}: expected a compact proof of {expected} bytes, found {found}")]
    CompactSize {
        /// Index of the op.
        at: usize,
        /// Length of the packed proof.
        expected: u64,
        /// The size told.
        found: u64,
    },
    /// Our nodes cannot be packed.
    #[error("can't pack the counted nodes")]
    Proof(#[from] ProofError),
    /// The compact proof of the same nodes is not the peer's.
    #[error(
        "expected sp-state-machine's compact proof of {expected} bytes, found another of {found}"
    )]
    Compact {
        /// Length of the peer's proof.
        expected: usize,
        /// Length of our proof.
        found: usize,
    },
    /// The roots differ.
    #[error("expected root {expected:?}, found {found:?}")]
    Root {
        /// The peer's root.
        expected: H256,
        /// Our root.
        found: H256,
    },
    /// The nodes inserted or removed differ.
    #[error("expected sp-state-machine's inserted and removed nodes, found others")]
    Nodes,
    /// The changes differ.
    #[error("expected sp-state-machine's changes, found others")]
    Changes,
    /// A role that executes the block gets other results than its author.
    #[error("{role} differs")]
    Role {
        /// The role.
        role: Role,
        /// The difference.
        #[source]
        difference: Box<RoleDifference>,
    },
}

impl Mismatch {
    /// Returns the kind of the difference.
    pub fn kind(&self) -> MismatchKind {
        match self {
            Self::Under { .. } | Self::NotCounted { .. } => MismatchKind::Under,
            Self::CompactSize { .. } | Self::Compact { .. } | Self::Proof(_) => {
                MismatchKind::Compact
            }
            Self::Role { .. } => MismatchKind::Roles,
            _ => MismatchKind::Other,
        }
    }
}
