//! A wrapper that checks the hash of every node it reads.

use crate::history::{KeptState, KeptStates, StateHistory, StateId};
use crate::{NodeStore, StoreError};
use bytes::Bytes;
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError,
};

/// A source that hashes every node it reads and returns an error if the hash is not the one asked
/// for.
///
/// Each read costs one Blake2b-256 of the node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verified<S>(S);

/// The error inside the [`SourceError`] of a [`Verified`] source: the source below returned a node
/// with another hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt node: expected one with hash {expected}, found {length} bytes with hash {found}")]
#[non_exhaustive]
pub struct HashMismatch {
    /// Hash that was asked for.
    pub expected: NodeHash,
    /// Hash of the bytes that the source returned.
    pub found: NodeHash,
    /// Number of bytes that the source returned.
    pub length: usize,
}

impl<S> Verified<S> {
    /// Wraps `source`, so that the hash of every node is checked.
    pub const fn new(source: S) -> Self {
        Self(source)
    }

    /// The wrapped source.
    pub const fn get_ref(&self) -> &S {
        &self.0
    }

    /// The wrapped source, for calls that the wrapper does not have, such as a backup of a store.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.0
    }

    /// Unwraps the source; its nodes are no longer checked.
    pub fn into_inner(self) -> S {
        self.0
    }
}

/// Returns an error if the hash of `encoded` is not `expected`.
pub(crate) fn check_hash(expected: &NodeHash, encoded: &[u8]) -> Result<(), HashMismatch> {
    let found = Blake2b256::hash(encoded);
    if found == *expected {
        return Ok(());
    }
    Err(HashMismatch {
        expected: *expected,
        found,
        length: encoded.len(),
    })
}

fn check(expected: &NodeHash, encoded: &[u8]) -> Result<(), SourceError> {
    check_hash(expected, encoded).map_err(SourceError::new)
}

impl<S: NodeSource> NodeSource for Verified<S> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let node = self.0.node(hash, prefix)?;
        if let Some(encoded) = &node {
            check(hash, encoded)?;
        }
        Ok(node)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        // Answers that are already in the batch come from elsewhere, so they are not checked.
        let asked = batch.open();
        self.0.nodes(batch);
        for index in asked {
            let Ok(Some(encoded)) = batch.get(index) else {
                continue;
            };
            if let Err(error) = check(&batch.request(index).hash, encoded) {
                batch.answer(index, Err(error));
            }
        }
    }
}

impl<S: NodeStore> NodeStore for Verified<S> {
    fn root(&self) -> Root {
        self.0.root()
    }

    fn commit(&mut self, update: &RootUpdate) -> Result<(), StoreError> {
        self.0.commit(update)
    }
}

impl<S: StateHistory> StateHistory for Verified<S> {
    fn states(&self) -> &KeptStates {
        self.0.states()
    }

    fn keep(&mut self, parent: StateId, update: &RootUpdate) -> Result<StateId, StoreError> {
        self.0.keep(parent, update)
    }

    fn prune(&mut self, base: StateId) -> Result<Vec<KeptState>, StoreError> {
        self.0.prune(base)
    }

    fn discard(&mut self, state: StateId) -> Result<Vec<KeptState>, StoreError> {
        self.0.discard(state)
    }
}
