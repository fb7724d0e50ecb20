//! Where encoded nodes come from.

use crate::{NodeBatch, NodeHash};
use alloc::{boxed::Box, string::ToString, sync::Arc};
use bytes::Bytes;
use core::{error::Error, fmt};
#[cfg(feature = "std")]
use std::sync::{PoisonError, RwLock};

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

/// For a store that some threads read while another commits to it: each call holds the lock for reading.
///
/// A lock that a panic of a writer has poisoned is read all the same, because nodes are found by their hashes: a
/// commit that was cut off can leave nodes missing, but puts none in the place of another.
#[cfg(feature = "std")]
impl<S: NodeSource + ?Sized> NodeSource for RwLock<S> {
    #[inline]
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let source = self.read().unwrap_or_else(PoisonError::into_inner);
        source.node(hash, prefix)
    }

    #[inline]
    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let source = self.read().unwrap_or_else(PoisonError::into_inner);
        source.nodes(batch);
    }
}

/// A source could not answer: the store below it failed, or what it stores is damaged.
///
/// Its text is that of the store's error, which [`Self::get_ref`] and
/// [`source`](core::error::Error::source) return.
///
/// ```
/// use povmeter_delta_root::SourceError;
/// use std::io;
///
/// let error = SourceError::new(io::Error::from(io::ErrorKind::NetworkDown));
/// let store_error = error.get_ref().downcast_ref::<io::Error>();
/// assert_eq!(store_error.map(io::Error::kind), Some(io::ErrorKind::NetworkDown));
/// ```
#[derive(Debug)]
pub struct SourceError(Box<dyn Error + Send + Sync>);

impl SourceError {
    /// Wraps the error of the store below, or a text.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// The error of the store below.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string())
    }
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.get_ref())
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::NodeRequest;
    use std::{
        cell::Cell,
        panic::{catch_unwind, AssertUnwindSafe},
        sync::RwLock,
    };

    /// Counts the calls of each method. It has no node.
    #[derive(Default)]
    struct Counting {
        single: Cell<usize>,
        batches: Cell<usize>,
    }

    impl NodeSource for Counting {
        fn node(&self, _: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
            self.single.set(self.single.get() + 1);
            Ok(None)
        }

        fn nodes(&self, _: &mut NodeBatch<'_>) {
            self.batches.set(self.batches.get() + 1);
        }
    }

    #[test]
    fn a_lock_forwards_both_methods_also_after_a_panic() -> Result<(), SourceError> {
        let lock = RwLock::new(Counting::default());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.write();
            panic!("a writer panics");
        }));
        assert!(panicked.is_err() && lock.is_poisoned());
        let (hash, prefix) = (NodeHash::default(), (&[][..], None));
        assert_eq!(lock.node(&hash, prefix)?, None);
        for mut batch in NodeBatch::of(&[NodeRequest { hash, prefix }]) {
            lock.nodes(&mut batch);
        }
        let counting = lock.read().unwrap_or_else(PoisonError::into_inner);
        assert_eq!((counting.single.get(), counting.batches.get()), (1, 1));
        Ok(())
    }
}
