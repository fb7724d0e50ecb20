//! Requests for several nodes at once.

use crate::{NodeHash, NodePrefix, SourceError};
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use core::ops::Range;

/// A request for a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeRequest<'a> {
    /// Hash of the node.
    pub hash: NodeHash,
    /// Position of the node.
    pub prefix: NodePrefix<'a>,
}

/// Requests for nodes and the answers to them, as [`NodeSource::nodes`](crate::NodeSource::nodes) takes
/// them.
///
/// A request is *open* until it has an answer. A source answers the open requests whose nodes it has
/// and leaves the others open, so several sources can serve one batch, one after the other. The node of
/// a request that is open in the end is missing. A source that wraps another one may
/// - answer some requests itself and forward the batch: the other source answers those still open;
/// - read the answers of the other source ([`Self::get`]), and replace them ([`Self::answer`]);
/// - keep [`Self::open`] from before it forwards the batch, to tell the answers of the other source
///   from earlier ones.
///
/// ```
/// use bytes::Bytes;
/// use povmeter_delta_root::{NodeBatch, NodeHash, NodePrefix, NodeSource, SourceError};
///
/// /// Has one node; the source below has all others.
/// struct Above<S>(NodeHash, Bytes, S);
///
/// impl<S: NodeSource> NodeSource for Above<S> {
///     fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
///         if *hash == self.0 {
///             return Ok(Some(self.1.clone()));
///         }
///         self.2.node(hash, prefix)
///     }
///
///     fn nodes(&self, batch: &mut NodeBatch<'_>) {
///         for index in batch.open() {
///             if batch.request(index).hash == self.0 {
///                 batch.answer(index, Ok(Some(self.1.clone())));
///             }
///         }
///         self.2.nodes(batch);
///     }
/// }
/// ```
#[derive(Debug)]
pub struct NodeBatch<'r> {
    requests: &'r [NodeRequest<'r>],
    /// A bit for each request: whether it is open.
    open: u32,
    memory: AnswerMemory,
}

/// The requests that were open when [`NodeBatch::open`] was called, by index, in rising order.
#[derive(Clone, Debug)]
pub struct OpenRequests(u32);

impl Iterator for OpenRequests {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let index = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(index)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.count_ones() as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for OpenRequests {}

#[derive(Debug)]
enum Answer {
    Open,
    /// The place of the node in the memory of the batch.
    Copied(Range<usize>),
    Shared(Bytes),
    Failed(SourceError),
}

/// Bytes of memory that the copies of several batches share: the first size, which doubles up to the second.
const MEMORY_BYTES: [usize; 2] = [1 << 14, 1 << 20];
/// Bytes of a branch with 16 children by hash and a short partial key.
const LARGE_NODE_BYTES: usize = 560;

impl<'r> NodeBatch<'r> {
    /// The most requests of one batch.
    pub const MOST: usize = 32;

    /// `requests` in batches, none of them answered yet. Allocates for each batch.
    pub fn of(requests: &'r [NodeRequest<'r>]) -> impl Iterator<Item = Self> {
        requests
            .chunks(Self::MOST)
            .map(|requests| Self::in_memory(requests, AnswerMemory::default()))
    }

    /// A batch of `requests`, not more than [`Self::MOST`], in `memory`.
    pub(crate) fn in_memory(requests: &'r [NodeRequest<'r>], mut memory: AnswerMemory) -> Self {
        debug_assert!(requests.len() <= Self::MOST);
        memory.reserve(requests.len());
        let open = match requests.len() {
            0 => 0,
            count => u32::MAX >> (Self::MOST - count),
        };
        Self {
            requests,
            open,
            memory,
        }
    }

    /// Number of requests, answered or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there is no request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The requests that are open now. Later answers do not change the result.
    #[inline]
    pub fn open(&self) -> OpenRequests {
        OpenRequests(self.open)
    }

    /// Request `index`.
    ///
    /// # Panics
    /// If the batch has no such request.
    #[inline]
    pub fn request(&self, index: usize) -> &'r NodeRequest<'r> {
        &self.requests[index]
    }

    /// Answers request `index` with a result of [`NodeSource::node`](crate::NodeSource::node), and replaces
    /// an earlier answer. The answer `Ok(None)` opens the request again.
    ///
    /// # Panics
    /// If the batch has no such request.
    #[inline]
    pub fn answer(&mut self, index: usize, answer: Result<Option<Bytes>, SourceError>) {
        let answer = match answer {
            Ok(Some(node)) => Answer::Shared(node),
            Ok(None) => Answer::Open,
            Err(error) => Answer::Failed(error),
        };
        self.set(index, answer);
    }

    /// Answers request `index` with a copy of `node`. The copies of a block lie close together, so walks
    /// through them are faster than through nodes spread over the memory of a whole state.
    ///
    /// # Panics
    /// If the batch has no such request.
    #[inline]
    pub fn answer_with_copy(&mut self, index: usize, node: &[u8]) {
        let start = self.memory.copies.len();
        self.memory.copies.extend_from_slice(node);
        let end = self.memory.copies.len();
        self.set(index, Answer::Copied(start..end));
    }

    #[inline]
    fn set(&mut self, index: usize, answer: Answer) {
        let is_open = matches!(answer, Answer::Open);
        self.memory.answers[index] = answer;
        // A batch has at most as many requests as `open` has bits.
        self.open &= !(1 << index);
        self.open |= u32::from(is_open) << index;
    }

    /// The answer to request `index`; `Ok(None)` if it is open.
    ///
    /// # Errors
    /// The error that the request was answered with.
    ///
    /// # Panics
    /// If the batch has no such request.
    pub fn get(&self, index: usize) -> Result<Option<&[u8]>, &SourceError> {
        match &self.memory.answers[index] {
            Answer::Open => Ok(None),
            Answer::Copied(range) => Ok(Some(&self.memory.copies[range.clone()])),
            Answer::Shared(node) => Ok(Some(node)),
            Answer::Failed(error) => Err(error),
        }
    }

    /// The node that request `index` was answered with, for a caller that keeps it; `None` if there is none.
    /// A copied answer is copied again, out of the batch's memory.
    ///
    /// # Panics
    /// If the batch has no such request.
    pub fn share(&self, index: usize) -> Option<Bytes> {
        match &self.memory.answers[index] {
            Answer::Open | Answer::Failed(_) => None,
            Answer::Copied(range) => {
                Some(Bytes::copy_from_slice(&self.memory.copies[range.clone()]))
            }
            Answer::Shared(node) => Some(node.clone()),
        }
    }

    /// Hands each request with its answer to `take`, and returns the memory.
    pub(crate) fn finish(
        self,
        mut take: impl FnMut(usize, &NodeRequest<'r>, Result<Option<Bytes>, SourceError>),
    ) -> AnswerMemory {
        let Self {
            requests,
            mut memory,
            ..
        } = self;
        let copies = memory.copies.split().freeze();
        let answers = memory.answers.drain(..);
        for (index, (request, answer)) in requests.iter().zip(answers).enumerate() {
            let answer = match answer {
                Answer::Open => Ok(None),
                Answer::Copied(range) => Ok(Some(copies.slice(range))),
                Answer::Shared(node) => Ok(Some(node)),
                Answer::Failed(error) => Err(error),
            };
            take(index, request, answer);
        }
        memory
    }

    /// Drops the answers, and returns the memory.
    pub(crate) fn discard(mut self) -> AnswerMemory {
        self.memory.answers.clear();
        self.memory.copies.clear();
        self.memory
    }
}

/// Keeps most nodes from being requested twice in one batch, because walks often wait for the same node.
pub(crate) struct DistinctHashes {
    /// By the first byte of a hash: one plus the index of the last request with that byte, or zero.
    last: [u8; 256],
}

impl DistinctHashes {
    pub(crate) fn new() -> Self {
        Self { last: [0; 256] }
    }

    /// Notes that `hash` is requested after `requests`; returns `false` if one of them has that hash. Misses
    /// it if a later one has another hash with the same first byte.
    #[inline]
    pub(crate) fn insert(&mut self, hash: &NodeHash, requests: &[NodeRequest<'_>]) -> bool {
        let last = &mut self.last[usize::from(hash.as_bytes()[0])];
        let met = usize::from(*last).checked_sub(1);
        if met.is_some_and(|index| requests[index].hash == *hash) {
            return false;
        }
        // A batch is shorter than 255.
        *last = u8::try_from(requests.len() + 1).unwrap_or(0);
        true
    }
}

/// Memory that one batch after the other uses.
#[derive(Debug, Default)]
pub(crate) struct AnswerMemory {
    copies: BytesMut,
    /// Bytes of the last allocation for copies.
    allocated: usize,
    answers: Vec<Answer>,
}

impl AnswerMemory {
    /// Takes back the memory of all copies, if no copy is in use any more.
    pub(crate) fn reclaim(&mut self) {
        let Self {
            copies,
            allocated,
            answers,
        } = self;
        answers.clear();
        copies.clear();
        // If a copy is in use, the rest of the memory is used up first.
        let _ = copies.try_reclaim(*allocated);
    }

    /// Makes an open answer for each of `requests` requests, and memory in one piece for a copy of a node
    /// of [`LARGE_NODE_BYTES`] for each.
    fn reserve(&mut self, requests: usize) {
        self.answers.resize_with(requests, || Answer::Open);
        let needed = requests * LARGE_NODE_BYTES;
        if self.copies.capacity() < needed {
            let [first, most] = MEMORY_BYTES;
            self.allocated = (2 * self.allocated).clamp(first, most);
            self.copies = BytesMut::with_capacity(self.allocated.max(needed));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use alloc::{format, vec};

    fn requests(count: u8) -> Vec<NodeRequest<'static>> {
        let request = |byte| NodeRequest {
            hash: NodeHash::from([byte; 32]),
            ..NodeRequest::default()
        };
        (0..count).map(request).collect()
    }

    #[test]
    fn all_requests_are_open_at_first() {
        for count in [0, 1, 2, 31, 32, 33, 64, 65] {
            let requests = requests(count);
            let mut hashes = Vec::new();
            for batch in NodeBatch::of(&requests) {
                assert!(batch.len() <= NodeBatch::MOST);
                assert_eq!(batch.open().len(), batch.len());
                assert!(!batch.is_empty());
                hashes.extend(batch.open().map(|index| batch.request(index).hash));
            }
            let expected: Vec<_> = requests.iter().map(|request| request.hash).collect();
            assert_eq!(hashes, expected);
        }
    }

    #[test]
    fn a_hash_is_met_again() {
        let mut distinct = DistinctHashes::new();
        let mut requests = requests(3);
        for (index, request) in requests.iter().enumerate() {
            assert!(distinct.insert(&request.hash, &requests[..index]));
            assert!(!distinct.insert(&request.hash, &requests));
        }
        let mut hash = [2; 32];
        hash[31] = 1;
        let hash = NodeHash::from(hash);
        assert!(distinct.insert(&hash, &requests), "another with that byte");
        requests.push(NodeRequest {
            hash,
            ..NodeRequest::default()
        });
        assert!(!distinct.insert(&hash, &requests));
    }

    #[test]
    fn the_last_answer_stands() {
        let requests = requests(32);
        let mut batch = NodeBatch::of(&requests).next().unwrap();
        let before = batch.open();
        batch.answer_with_copy(1, b"first");
        batch.answer_with_copy(31, b"copied");
        batch.answer(1, Ok(Some(Bytes::from_static(b"shared"))));
        batch.answer(2, Ok(Some(Bytes::from_static(b"lost"))));
        batch.answer(2, Ok(None));
        let broken = || SourceError::new(core::fmt::Error);
        batch.answer(3, Ok(None));
        batch.answer(4, Err(broken()));
        batch.answer(5, Err(broken()));
        batch.answer_with_copy(5, b"");

        assert_eq!(before.collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
        let open: Vec<_> = batch.open().collect();
        let expected: Vec<_> = (0..31).filter(|index| ![1, 4, 5].contains(index)).collect();
        assert_eq!(open, expected);
        assert_eq!(batch.get(1).unwrap(), Some(b"shared".as_slice()));
        assert_eq!(batch.get(2).unwrap(), None);
        assert_eq!(batch.get(5).unwrap(), Some(b"".as_slice()));
        assert_eq!(batch.get(31).unwrap(), Some(b"copied".as_slice()));
        assert_eq!(
            format!("{:?}", batch.get(4)),
            format!("{:?}", Err::<(), _>(&broken()))
        );
        assert_eq!(batch.share(31).unwrap(), b"copied".as_slice());
        assert_eq!(batch.share(1).unwrap(), b"shared".as_slice());
        assert_eq!((batch.share(2), batch.share(4)), (None, None));

        let mut found = vec![];
        batch.finish(|index, request, answer| {
            assert_eq!(request.hash, requests[index].hash);
            found.push((index, answer));
        });
        assert_eq!(found.len(), 32);
        for (index, answer) in found {
            match index {
                1 => assert_eq!(answer.unwrap().unwrap(), b"shared".as_slice()),
                4 => assert!(answer.is_err()),
                5 => assert!(answer.unwrap().unwrap().is_empty()),
                31 => assert_eq!(answer.unwrap().unwrap(), b"copied".as_slice()),
                _ => assert_eq!(answer.unwrap(), None),
            }
        }
    }
}
