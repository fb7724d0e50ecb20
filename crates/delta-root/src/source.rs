//! Where encoded nodes come from.

use crate::{NodeBatch, NodeHash};
use alloc::{boxed::Box, string::ToString, sync::Arc};
use bytes::Bytes;
use core::fmt;

/// Position of a node in its trie: the whole bytes of the path above it, and the last nibble
/// (in the high half of the byte) if the path has an odd number of nibbles. In a child trie the
/// bytes begin with the child's storage key.
///
/// Stores that key nodes by position and hash need it; stores that key by hash alone ignore it.
pub type NodePrefix<'a> = hash_db::Prefix<'a>;

/// A place to read encoded nodes from, by hash.
///
/// Implementations hand out what was stored and do not need to check it. Wrap a store that may be
/// damaged in an adapter that hashes every node as it is read, such as `povmeter_store::Verified`.
pub trait NodeSource {
    /// The encoded node, or the value stored as a node, whose hash is `hash`; `None` if the source
    /// does not have it.
    ///
    /// # Errors
    /// The store's error. A node that the source does not have is no error.
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError>;

    /// Answers the open requests of `batch`, each as [`Self::node`] would. A request whose node the
    /// source does not have stays open.
    ///
    /// Implement it for a source that is faster with many requests at once, that copies small nodes
    /// from memory, or that wraps another source. The provided method calls [`Self::node`] for each
    /// request, so a wrapper that does not implement it splits batches up.
    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        for index in batch.open() {
            let request = batch.request(index);
            batch.answer(index, self.node(&request.hash, request.prefix));
        }
    }
}

/// Forwards both methods to the source behind a pointer.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<S: NodeSource + ?Sized> NodeSource for $pointer {
            #[inline]
            fn node(
                &self,
                hash: &NodeHash,
                prefix: NodePrefix<'_>,
            ) -> Result<Option<Bytes>, SourceError> {
                (**self).node(hash, prefix)
            }

            #[inline]
            fn nodes(&self, batch: &mut NodeBatch<'_>) {
                (**self).nodes(batch);
            }
        }
    )*};
}

forward!(&S, Box<S>, Arc<S>);

/// A source could not answer: the store below it failed, or what it stores is damaged.
#[derive(Debug)]
pub struct SourceError(Box<dyn core::error::Error + Send + Sync>);

impl SourceError {
    /// Wraps the error of the store below.
    pub fn new(error: impl core::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string())
    }
}

impl core::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.0.source()
    }
}
