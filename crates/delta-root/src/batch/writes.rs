//! The nodes that a root computation inserts and removes, in the order of the computation.

use super::order;
use crate::{
    node_changes::{ChangeEntry, ChangesPart},
    NodeHash, Root,
};
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Range;

/// The place of a node: the range of the whole bytes of its path, and the last nibble of an odd path, in a
/// high half.
#[derive(Clone, Debug)]
pub(super) struct WrittenPlace {
    path: Range<usize>,
    odd_nibble: Option<u8>,
}

/// The references that all tries of a state gain and lose; places and nodes lie in one buffer each.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    entries: Vec<ChangeEntry>,
    /// The numbers by which the entries are sorted, see [`super::order`].
    numbers: Vec<u64>,
    paths: Vec<u8>,
    encoded: Vec<u8>,
    /// The writes of subtries that were computed apart. Their own `apart` is empty.
    apart: Vec<Self>,
}

impl Writes {
    /// No writes, in the memory of changes that are no longer needed.
    pub(super) fn in_memory(part: ChangesPart) -> Self {
        let ChangesPart {
            mut entries,
            mut numbers,
            mut paths,
            encoded,
        } = part;
        numbers.clear();
        entries.clear();
        paths.clear();
        // A shared buffer can't be reused. The next update has about as many bytes.
        let mut encoded = if encoded.is_unique() {
            Vec::from(encoded)
        } else {
            Vec::with_capacity(encoded.len())
        };
        encoded.clear();
        Self {
            entries,
            numbers,
            paths,
            encoded,
            apart: Vec::new(),
        }
    }

    /// Reserves memory for about `nodes` changed nodes, if none is allocated.
    pub(super) fn reserve(&mut self, nodes: usize) {
        if self.entries.capacity() > 0 {
            return;
        }
        self.entries.reserve(2 * nodes);
        self.numbers.reserve(2 * nodes);
        self.paths.reserve(32 * nodes);
        self.encoded.reserve(256 * nodes);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let Self {
            entries,
            numbers,
            paths,
            encoded,
            apart,
        } = self;
        entries.clear();
        numbers.clear();
        paths.clear();
        encoded.clear();
        apart.clear();
    }

    /// Keeps memory for up to `nodes` nodes, once all is forgotten.
    pub(super) fn shrink_to(&mut self, nodes: usize) {
        self.entries.shrink_to(2 * nodes);
        self.numbers.shrink_to(2 * nodes);
        self.paths.shrink_to(64 * nodes);
        self.encoded.shrink_to(256 * nodes);
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<ChangeEntry>()
            + self.numbers.capacity() * size_of::<u64>()
            + self.paths.capacity()
            + self.encoded.capacity()
    }

    /// The encoded nodes and values of all tries, to append to.
    pub(super) fn encoded(&mut self) -> &mut Vec<u8> {
        &mut self.encoded
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.encoded[range]
    }

    /// Stores a place: the keyspace, then `path`, then the last nibble of an odd path, in a high half.
    #[inline]
    pub(super) fn place(
        &mut self,
        keyspace: &[u8],
        path: &[u8],
        odd_nibble: Option<u8>,
    ) -> WrittenPlace {
        let start = self.paths.len();
        if !keyspace.is_empty() {
            self.paths.extend_from_slice(keyspace);
        }
        self.paths.extend_from_slice(path);
        WrittenPlace {
            path: start..self.paths.len(),
            odd_nibble,
        }
    }

    /// Extends `place`, which was stored last, by `nibble`.
    #[inline]
    pub(super) fn further(&mut self, place: WrittenPlace, nibble: u8) -> WrittenPlace {
        let WrittenPlace {
            mut path,
            mut odd_nibble,
        } = place;
        match odd_nibble.take() {
            Some(high) => {
                self.paths.push(high | nibble);
                path.end = self.paths.len();
            }
            None => odd_nibble = Some(nibble << 4),
        }
        WrittenPlace { path, odd_nibble }
    }

    /// Notes that the node `hash` with the bytes `encoded` is inserted at a place, and `old` removed there.
    #[inline]
    pub(super) fn replace(
        &mut self,
        place: WrittenPlace,
        old: Option<NodeHash>,
        hash: NodeHash,
        encoded: Range<usize>,
    ) {
        if let Some(old) = old {
            if old == hash {
                return;
            }
            self.push(place.clone(), old, 0..0, -1);
        }
        self.push(place, hash, encoded, 1);
    }

    /// Notes that a node is removed at a place.
    #[inline]
    pub(super) fn remove(&mut self, place: WrittenPlace, hash: NodeHash) {
        self.push(place, hash, 0..0, -1);
    }

    /// Adds a write, unless it is of the null node, which no store has.
    #[inline]
    fn push(
        &mut self,
        place: WrittenPlace,
        hash: NodeHash,
        encoded: Range<usize>,
        references: i32,
    ) {
        let WrittenPlace { path, odd_nibble } = place;
        if hash == Root::EMPTY.node_hash() {
            return;
        }
        self.numbers.push(order::number(&hash, self.entries.len()));
        self.entries.push(ChangeEntry {
            hash,
            path,
            encoded,
            references,
            odd_nibble,
        });
    }

    /// Adds the writes of a subtrie that was computed apart.
    #[cfg(feature = "parallel")]
    pub(super) fn append(&mut self, mut more: Self) {
        self.apart.append(&mut more.apart);
        self.apart.push(more);
    }

    /// Number of writes, including the writes of subtries that were computed apart.
    pub(super) fn len(&self) -> usize {
        let apart = self.apart.iter().map(Self::len);
        self.entries.len() + apart.sum::<usize>()
    }

    /// Moves all writes into `parts`, which is empty.
    pub(super) fn into_parts(self, parts: &mut Vec<ChangesPart>) {
        let Self {
            entries,
            numbers,
            paths,
            encoded,
            apart,
        } = self;
        let encoded = Bytes::from(encoded);
        parts.push(ChangesPart {
            entries,
            numbers,
            paths,
            encoded,
        });
        // A part computed apart has no parts of its own.
        for more in apart {
            more.into_parts(parts);
        }
    }
}
