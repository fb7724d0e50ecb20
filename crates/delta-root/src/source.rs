//! Where encoded nodes come from.

use crate::NodeHash;
use alloc::{boxed::Box, string::ToString};
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
/// Implementations hand out what was stored and do not need to check it. Where the store may be
/// damaged, wrap it in an adapter that hashes every node as it is read, such as
/// `povmeter_store::Verified`.
pub trait NodeSource {
    /// The encoded node, or the value stored as a node, whose hash is `hash`; `None` if the source
    /// does not have it.
    ///
    /// # Errors
    /// Whatever kept the source from answering. Absence is not an error.
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError>;
}

impl<S: NodeSource + ?Sized> NodeSource for &S {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        (**self).node(hash, prefix)
    }
}

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
