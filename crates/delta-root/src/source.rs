//! Where encoded nodes come from.

use crate::NodeHash;
use alloc::{boxed::Box, string::ToString, vec::Vec};
use bytes::{Bytes, BytesMut};
use core::{fmt, ops::Range};

/// Position of a node in its trie: the whole bytes of the path above it, and the last nibble
/// (in the high half of the byte) if the path has an odd number of nibbles. In a child trie the
/// bytes begin with the child's storage key.
///
/// Stores that key nodes by position and hash need it; stores that key by hash alone ignore it.
pub type NodePrefix<'a> = hash_db::Prefix<'a>;

/// A node that somebody wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeRequest<'a> {
    /// Its hash.
    pub hash: NodeHash,
    /// Its place.
    pub prefix: NodePrefix<'a>,
}

#[derive(Debug)]
pub(crate) enum Answer {
    /// Where in the memory the copy is.
    Copied(Range<usize>),
    Shared(Bytes),
    Missing,
    Failed(SourceError),
}

/// What a source says to a number of requests, one answer to each, in their order.
#[derive(Debug, Default)]
pub struct NodeAnswers {
    memory: BytesMut,
    /// Bytes of memory taken at the last time.
    taken: usize,
    answers: Vec<Answer>,
}

/// Bytes of memory that copies go to: so many at first, twice as many each time, and then so many.
const MEMORY_BYTES: [usize; 2] = [1 << 14, 1 << 20];
/// Bytes of a branch with all its children, by hash, and a little for its partial key.
const LARGE_NODE_BYTES: usize = 560;

impl NodeAnswers {
    /// Answers the next request, as [`NodeSource::node`] does.
    pub fn push(&mut self, answer: Result<Option<Bytes>, SourceError>) {
        self.answers.push(match answer {
            Ok(Some(node)) => Answer::Shared(node),
            Ok(None) => Answer::Missing,
            Err(error) => Answer::Failed(error),
        });
    }

    /// Answers the next request with a copy of `node`. The copies of a block lie together, so a walk
    /// through them is faster than through nodes spread over the memory of a whole state.
    pub fn push_copy(&mut self, node: &[u8]) {
        let start = self.memory.len();
        self.memory.extend_from_slice(node);
        self.answers.push(Answer::Copied(start..self.memory.len()));
    }

    /// Takes back the memory of all copies, if nobody has one of them any more.
    pub(crate) fn reclaim(&mut self) {
        let Self {
            memory,
            taken,
            answers,
        } = self;
        answers.clear();
        memory.clear();
        // Else what is left of it has to do.
        let _ = memory.try_reclaim(*taken);
    }

    /// Sees to it that copies for so many requests find room in one piece, as a rule.
    pub(crate) fn reserve(&mut self, requests: usize) {
        if self.memory.capacity() < requests * LARGE_NODE_BYTES {
            let [least, most] = MEMORY_BYTES;
            self.taken = (2 * self.taken).clamp(least, most);
            self.memory = BytesMut::with_capacity(self.taken.max(requests * LARGE_NODE_BYTES));
        }
    }

    /// The answers so far, and what was copied for them; there are none after.
    pub(crate) fn take(&mut self) -> (Bytes, impl Iterator<Item = Answer> + '_) {
        (self.memory.split().freeze(), self.answers.drain(..))
    }
}

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

    /// Answers every one of `requests`, as [`Self::node`] would.
    ///
    /// For a source that does better with many at once, or that has its nodes in memory and rather
    /// copies small ones than shares them. A request without an answer is taken for one whose node
    /// is missing.
    fn nodes(&self, requests: &[NodeRequest<'_>], answers: &mut NodeAnswers) {
        for request in requests {
            answers.push(self.node(&request.hash, request.prefix));
        }
    }
}

impl<S: NodeSource + ?Sized> NodeSource for &S {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        (**self).node(hash, prefix)
    }

    fn nodes(&self, requests: &[NodeRequest<'_>], answers: &mut NodeAnswers) {
        (**self).nodes(requests, answers);
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
