//! How the two sides of a case can differ.

use super::Answer;
use povmeter::{BlockError, NodeHash, ProofError};
use povmeter_dev_runtime::HostError;
use sp_core::H256;
use std::fmt;

/// Who executes a block that somebody else built.
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
        /// Why not.
        source: BlockError,
    },
    /// The peer has no result.
    #[error("expected a result of sp-state-machine, found an error")]
    Peer(#[from] HostError),
    /// The peer panicked: most probably a node is missing.
    #[error("sp-state-machine panicked: {0}")]
    PeerPanicked(String),
    /// The compact proof can't be expanded.
    #[error("can't expand the compact proof")]
    Proof(#[from] ProofError),
    /// Another size at a boundary.
    #[error("expected a size of {expected} at boundary {at}, found {found}")]
    Size {
        /// Which of the boundaries that are in the block.
        at: usize,
        /// The author's size.
        expected: u64,
        /// The size now.
        found: u64,
    },
    /// Another root.
    #[error("expected the author's root {expected:?}, found {found:?}")]
    Root {
        /// The author's.
        expected: H256,
        /// The one found.
        found: H256,
    },
    /// Another root, or other nodes inserted and removed.
    #[error("expected the author's root and nodes, found others")]
    Update,
    /// Another proof.
    #[error("expected the author's {expected} nodes in the proof, found other {found}")]
    Nodes {
        /// Nodes of the author's proof.
        expected: usize,
        /// Nodes of the proof now.
        found: usize,
    },
}

/// What kind of difference a [`Mismatch`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MismatchKind {
    /// An estimate was lower than the truth, or a needed node was not counted.
    Under,
    /// A role gets other sizes than the author.
    Roles,
    /// A compact proof, or its size, is not the peer's.
    Compact,
    /// Anything else.
    Other,
}

/// The first difference between the two sides of a case. Places are indices into the case's ops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Ours has no result, but the peer has one.
    #[error("op {at}, {op}: expected a result, found an error")]
    Block {
        /// Where.
        at: usize,
        /// The call.
        op: String,
        /// Why there is no result.
        source: BlockError,
    },
    /// The peer has no result.
    #[error("expected a result of sp-state-machine, found an error")]
    Peer(#[from] HostError),
    /// Another answer.
    #[error("op {at}, {op}: expected {expected:?}, found {found:?}")]
    Answer {
        /// Where.
        at: usize,
        /// The call.
        op: String,
        /// The peer's answer.
        expected: Box<Answer>,
        /// Ours.
        found: Box<Answer>,
    },
    /// Another number of bytes read.
    #[error("op {at}, {op}: expected {expected} bytes to be read so far, found {found}")]
    ReadBytes {
        /// Where.
        at: usize,
        /// The call.
        op: String,
        /// What the peer recorded.
        expected: u64,
        /// What we did.
        found: u64,
    },
    /// An estimate below the truth.
    #[error("op {at}: expected a size of {expected} at least, found {found}")]
    Under {
        /// Where.
        at: usize,
        /// The truth.
        expected: u64,
        /// The estimate.
        found: u64,
    },
    /// A node that the block needs is not counted.
    #[error("op {at}: expected node {missing} to be counted, found it missing")]
    NotCounted {
        /// Where.
        at: usize,
        /// Its hash.
        missing: NodeHash,
    },
    /// The size of the compact proof is not its length.
    #[error("op {at}: expected a compact proof of {expected} bytes, found {found}")]
    CompactSize {
        /// Where.
        at: usize,
        /// Length of the packed proof.
        expected: u64,
        /// What was told.
        found: u64,
    },
    /// Our nodes can't be packed.
    #[error("can't pack the counted nodes")]
    Proof(#[from] ProofError),
    /// The compact proof of the same nodes is not the peer's.
    #[error(
        "expected sp-state-machine's compact proof of {expected} bytes, found another of {found}"
    )]
    Compact {
        /// Bytes of the peer's.
        expected: usize,
        /// Bytes of ours.
        found: usize,
    },
    /// Another root.
    #[error("expected root {expected:?}, found {found:?}")]
    Root {
        /// The peer's.
        expected: H256,
        /// Ours.
        found: H256,
    },
    /// Other nodes inserted or removed.
    #[error("expected sp-state-machine's inserted and removed nodes, found others")]
    Nodes,
    /// Other changes.
    #[error("expected sp-state-machine's changes, found others")]
    Changes,
    /// A role that executes the block does not get what its author got.
    #[error("{role} differs")]
    Role {
        /// Who.
        role: Role,
        /// In what.
        #[source]
        difference: Box<RoleDifference>,
    },
}

impl Mismatch {
    /// The kind of difference.
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
