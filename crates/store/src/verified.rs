//! Nodes hashed as they are read.

use crate::{NodeStore, StoreError};
use bytes::Bytes;
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError,
};

/// A source that hashes every node it reads, and answers with an error instead of a node that is
/// not the one asked for.
///
/// Costs one Blake2b-256 of the node each time it is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verified<S>(S);

/// A source answered with another node than the one it was asked for. What
/// [`SourceError`] of a [`Verified`] source holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt node: expected one with hash {expected}, found {length} bytes with hash {found}")]
#[non_exhaustive]
pub struct HashMismatch {
    /// Hash that was asked for.
    pub expected: NodeHash,
    /// Hash of what the source answered with.
    pub found: NodeHash,
    /// Bytes the source answered with.
    pub length: usize,
}

impl<S> Verified<S> {
    /// `source` with every node hashed as it is read.
    pub const fn new(source: S) -> Self {
        Self(source)
    }

    /// The source below.
    pub const fn get_ref(&self) -> &S {
        &self.0
    }

    /// The source, no longer verified.
    pub fn into_inner(self) -> S {
        self.0
    }
}

/// Refuses a node that is not the one with hash `expected`.
fn check(expected: &NodeHash, encoded: &[u8]) -> Result<(), SourceError> {
    let found = Blake2b256::hash(encoded);
    if found == *expected {
        return Ok(());
    }
    Err(SourceError::new(HashMismatch {
        expected: *expected,
        found,
        length: encoded.len(),
    }))
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
        // What was answered before is not from the source below.
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
