//! The nodes that an update inserts into a store and removes from it.

use crate::{NodeHash, NodePrefix};
use alloc::vec::Vec;
use bytes::Bytes;
use core::{fmt, ops::Range};

/// One node whose number of references changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeChange<'a> {
    /// Whole bytes of the path above the node, after the child's storage key in a child trie.
    pub path: &'a [u8],
    /// Last nibble of a path with an odd number of nibbles, in the high half.
    pub odd_nibble: Option<u8>,
    /// Hash of the node.
    pub hash: NodeHash,
    /// References gained (above zero) or lost (below zero); never zero.
    pub references: i32,
    /// The encoded node if references are gained, else empty.
    pub encoded: &'a [u8],
}

impl<'a> NodeChange<'a> {
    /// Position of the node, for stores that key by it.
    pub fn prefix(&self) -> NodePrefix<'a> {
        (self.path, self.odd_nibble)
    }
}

/// Nodes whose number of references changes: all paths in one buffer, all encoded nodes in another.
///
/// The changes of a root computation are ordered by hash, path and last nibble, each triple once, and no
/// encoded node is copied, neither here nor by [`NodeChanges::share`]. Changes can also be collected from
/// an iterator: they are copied then, and keep their order.
#[derive(Clone, Default)]
pub struct NodeChanges {
    /// One for each piece of the computation.
    pub(crate) parts: Vec<ChangesPart>,
    pub(crate) order: Vec<WriteIndex>,
}

/// The changes that one piece of the computation wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangesPart {
    pub(crate) entries: Vec<ChangeEntry>,
    /// The numbers by which the entries were sorted.
    pub(crate) numbers: Vec<u64>,
    pub(crate) paths: Vec<u8>,
    pub(crate) encoded: Bytes,
}

/// A number of references gained or lost.
#[derive(Clone, Debug)]
pub(crate) struct ChangeEntry {
    pub(crate) hash: NodeHash,
    /// The place in the paths of the part.
    pub(crate) path: Range<usize>,
    /// The place in the encoded nodes of the part; empty if references are lost.
    pub(crate) encoded: Range<usize>,
    pub(crate) references: i32,
    pub(crate) odd_nibble: Option<u8>,
}

/// An entry: its part, and its place there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteIndex {
    pub(crate) part: u32,
    pub(crate) entry: u32,
}

impl WriteIndex {
    #[inline]
    pub(crate) fn of(self, parts: &[ChangesPart]) -> &ChangeEntry {
        &parts[self.part as usize].entries[self.entry as usize]
    }

    pub(crate) fn of_mut(self, parts: &mut [ChangesPart]) -> &mut ChangeEntry {
        &mut parts[self.part as usize].entries[self.entry as usize]
    }
}

impl NodeChanges {
    /// Number of changes.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes of memory, the encoded nodes included.
    pub fn memory(&self) -> usize {
        let part = |part: &ChangesPart| {
            part.entries.capacity() * size_of::<ChangeEntry>()
                + part.numbers.capacity() * size_of::<u64>()
                + part.paths.capacity()
                + part.encoded.len()
        };
        let parts = self.parts.iter().map(part).sum::<usize>();
        parts + self.order.capacity() * size_of::<WriteIndex>()
    }

    /// The changes in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = NodeChange<'_>> + Clone {
        self.order.iter().map(|which| {
            let part = &self.parts[which.part as usize];
            let entry = which.of(&self.parts);
            NodeChange {
                path: &part.paths[entry.path.clone()],
                odd_nibble: entry.odd_nibble,
                hash: entry.hash,
                references: entry.references,
                encoded: &part.encoded[entry.encoded.clone()],
            }
        })
    }

    /// The node `encoded` of one of these changes, without a copy: it shares the memory of all nodes, and
    /// keeps that memory in use. Copies other bytes.
    pub fn share(&self, encoded: &[u8]) -> Bytes {
        let within = encoded.as_ptr_range();
        let holds = |buffer: &&Bytes| {
            let all = buffer.as_ptr_range();
            all.start <= within.start && within.end <= all.end
        };
        let mut buffers = self.parts.iter().map(|part| &part.encoded);
        buffers.find(holds).map_or_else(
            || Bytes::copy_from_slice(encoded),
            |buffer| buffer.slice_ref(encoded),
        )
    }
}

impl<'a> FromIterator<NodeChange<'a>> for NodeChanges {
    fn from_iter<I: IntoIterator<Item = NodeChange<'a>>>(changes: I) -> Self {
        let (mut entries, mut order) = (Vec::new(), Vec::new());
        let (mut paths, mut encoded) = (Vec::new(), Vec::new());
        for (change, entry) in changes.into_iter().zip(0..) {
            let at = (paths.len(), encoded.len());
            paths.extend_from_slice(change.path);
            encoded.extend_from_slice(change.encoded);
            entries.push(ChangeEntry {
                hash: change.hash,
                path: at.0..paths.len(),
                encoded: at.1..encoded.len(),
                references: change.references,
                odd_nibble: change.odd_nibble,
            });
            order.push(WriteIndex { part: 0, entry });
        }
        let encoded = Bytes::from(encoded);
        let part = ChangesPart {
            entries,
            numbers: Vec::new(),
            paths,
            encoded,
        };
        Self {
            parts: alloc::vec![part],
            order,
        }
    }
}

impl PartialEq for NodeChanges {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for NodeChanges {}

impl fmt::Debug for NodeChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Blake2b256;
    use alloc::format;

    fn change<'a>(path: &'a [u8], references: i32, encoded: &'a [u8]) -> NodeChange<'a> {
        NodeChange {
            path,
            odd_nibble: Some(0x30),
            hash: Blake2b256::hash(encoded),
            references,
            encoded,
        }
    }

    #[test]
    fn collected_changes_come_out_as_they_went_in() {
        let given = [
            change(b"b", 2, b"node"),
            change(b"", -1, b""),
            change(b"a", 1, b"another"),
        ];
        let changes: NodeChanges = given.into_iter().collect();
        assert_eq!((changes.len(), changes.is_empty()), (3, false));
        assert!(changes.iter().eq(given));
        assert_eq!(changes, changes.clone());
        assert_ne!(changes, given[..2].iter().copied().collect());
        assert_eq!(format!("{changes:?}"), format!("{given:?}"));
        assert!(NodeChanges::default().is_empty());
    }

    #[test]
    fn what_is_shared_is_not_copied() {
        let changes: NodeChanges = [change(b"a", 1, b"some"), change(b"b", 1, b"more")]
            .into_iter()
            .collect();
        for change in changes.iter() {
            let shared = changes.share(change.encoded);
            assert_eq!(
                (&shared[..], shared.as_ptr()),
                (change.encoded, change.encoded.as_ptr())
            );
        }
        let other = b"some".to_vec();
        assert_ne!(changes.share(&other).as_ptr(), other.as_ptr());
        assert_eq!(changes.share(&other), other);
    }
}
