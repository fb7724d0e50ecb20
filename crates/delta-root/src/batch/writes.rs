//! The nodes that a root computation gains and loses, as they come.

use super::order;
use crate::{
    node_changes::{Entry, Part},
    NodeHash, Root,
};
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Range;

/// The place of a node: where whole bytes of its path lie, and the last nibble of an odd one in a
/// high half.
#[derive(Clone, Debug)]
pub(super) struct WrittenPlace {
    path: Range<usize>,
    odd_nibble: Option<u8>,
}

/// References gained and lost, of all tries of a state; places and nodes in one buffer each.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    entries: Vec<Entry>,
    /// What they are sorted by, see [`super::order`].
    numbers: Vec<u64>,
    paths: Vec<u8>,
    encoded: Vec<u8>,
    /// Those of subtries that were computed apart, which have none themselves.
    apart: Vec<Self>,
}

impl Writes {
    /// In the memory of changes that nobody needs any more, if nobody shares their nodes.
    pub(super) fn in_memory(part: Part) -> Self {
        let Part {
            mut entries,
            mut numbers,
            mut paths,
            encoded,
        } = part;
        numbers.clear();
        entries.clear();
        paths.clear();
        // A vector of bytes that somebody shares would be a copy; the next ones are as many, as a rule.
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

    /// Makes room for about so many more changed nodes, if there never was any.
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
        self.entries.capacity() * size_of::<Entry>()
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

    /// Takes note of a place: the keyspace, `path` and then a last nibble, in a high half.
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

    /// Takes note of the place that is `nibble` further on than `place`, which was noted last.
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

    /// Notes that the node which is encoded at `encoded` is stored at a place, where `old` was.
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

    /// Notes that what was stored at a place is not needed there any more.
    #[inline]
    pub(super) fn remove(&mut self, place: WrittenPlace, hash: NodeHash) {
        self.push(place, hash, 0..0, -1);
    }

    /// The null node is nowhere stored, and so left out.
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
        self.entries.push(Entry {
            hash,
            path,
            encoded,
            references,
            odd_nibble,
        });
    }

    /// Takes over those of a subtrie that was computed apart.
    #[cfg(feature = "parallel")]
    pub(super) fn append(&mut self, mut more: Self) {
        self.apart.append(&mut more.apart);
        self.apart.push(more);
    }

    /// All of them into `parts`, which is empty.
    pub(super) fn into_parts(self, parts: &mut Vec<Part>) {
        let Self {
            entries,
            numbers,
            paths,
            encoded,
            apart,
        } = self;
        let encoded = Bytes::from(encoded);
        parts.push(Part {
            entries,
            numbers,
            paths,
            encoded,
        });
        // These have none apart.
        for more in apart {
            more.into_parts(parts);
        }
    }
}
