//! What can go wrong in a block.

use alloc::vec::Vec;
use povmeter_delta_root::{LoadError, RootError};
use povmeter_overlay::TransactionError;
use povmeter_pov_estimate::ProofError;

/// Why a call on a [`Block`](crate::Block) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// A node of the parent state can't be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The root can't be computed.
    #[error(transparent)]
    Root(RootError),
    /// The open transactions do not allow the call, or the wrong side (host or runtime) made it.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The counted nodes can't be packed into a proof.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The compact proof of this block alone has no meaning, because it ignores nodes of earlier blocks.
    #[error("expected the only block of a PoV, found one that ignores {ignored} nodes of earlier blocks")]
    NotAlone {
        /// How many nodes it ignores.
        ignored: usize,
    },
    /// The key holds the root of a child trie, which follows from the child trie and can't be written.
    #[error("expected a key that a block can write, found child root key 0x{}", hex(.key))]
    ChildRootKey {
        /// The key.
        key: Vec<u8>,
    },
    /// Keys under the prefix hold the roots of child tries, which follow from the child tries and can't be written.
    #[error(
        "expected a prefix of keys that a block can write, found prefix 0x{}, \
         which covers the roots of child tries",
        hex(.prefix)
    )]
    ChildRootPrefix {
        /// The prefix.
        prefix: Vec<u8>,
    },
}

impl From<RootError> for BlockError {
    fn from(error: RootError) -> Self {
        match error {
            RootError::Load(error) => Self::Load(error),
            error => Self::Root(error),
        }
    }
}

fn hex(bytes: &[u8]) -> alloc::string::String {
    use core::fmt::Write;
    bytes
        .iter()
        .fold(alloc::string::String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
