//! The nodes that a root computation gains and loses.

use crate::{NodeChange, NodeHash, Root};
use alloc::{vec, vec::Vec};
use bytes::Bytes;
use core::{cmp::Ordering, mem, ops::Range};

/// The place of a node: whole bytes of its path, and the last nibble of an odd one in a high half.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenPlace {
    start: usize,
    length: usize,
    odd_nibble: Option<u8>,
}

/// One reference gained or lost.
#[derive(Clone, Copy, Debug)]
struct Write {
    place: WrittenPlace,
    hash: NodeHash,
    /// Where the node gained begins in the bytes of all, and how long it is.
    gained: Option<(usize, usize)>,
}

/// References gained and lost, of all tries of a state; places and nodes in one buffer each.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    writes: Vec<Write>,
    paths: Vec<u8>,
    encoded: Vec<u8>,
}

impl Writes {
    /// Makes room for about so many more changed nodes.
    pub(super) fn reserve(&mut self, nodes: usize) {
        self.writes.reserve(2 * nodes);
        self.paths.reserve(64 * nodes);
        self.encoded.reserve(128 * nodes);
    }

    /// The encoded nodes and values of all tries, to append to.
    pub(super) fn encoded(&mut self) -> &mut Vec<u8> {
        &mut self.encoded
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.encoded[range]
    }

    /// Takes note of a place: the keyspace, `path` and then `nibbles`, where a nibble is left over
    /// after `path` with that before.
    pub(super) fn place(
        &mut self,
        keyspace: &[u8],
        path: &[u8],
        mut odd_nibble: Option<u8>,
        nibbles: impl Iterator<Item = u8>,
    ) -> WrittenPlace {
        let start = self.paths.len();
        self.paths.extend_from_slice(keyspace);
        self.paths.extend_from_slice(path);
        for nibble in nibbles {
            match odd_nibble.take() {
                Some(high) => self.paths.push(high | nibble),
                None => odd_nibble = Some(nibble << 4),
            }
        }
        let length = self.paths.len() - start;
        WrittenPlace {
            start,
            length,
            odd_nibble,
        }
    }

    /// Notes that the node which is encoded at `range` is stored at a place.
    pub(super) fn insert(&mut self, place: WrittenPlace, hash: NodeHash, range: Range<usize>) {
        let gained = Some((range.start, range.len()));
        self.writes.push(Write {
            place,
            hash,
            gained,
        });
    }

    /// Notes that what was stored at a place is not needed there any more.
    pub(super) fn remove(&mut self, place: WrittenPlace, hash: NodeHash) {
        let gained = None;
        self.writes.push(Write {
            place,
            hash,
            gained,
        });
    }

    /// The net changes, ordered by hash and place.
    pub(crate) fn into_changes(self) -> Vec<NodeChange> {
        let Self {
            writes,
            paths,
            encoded,
        } = self;
        let (paths, encoded) = (Bytes::from(paths), Bytes::from(encoded));
        let path = |place: &WrittenPlace| place.start..place.start + place.length;
        let compare = |a: &Write, b: &Write| {
            let paths = || paths[path(&a.place)].cmp(&paths[path(&b.place)]);
            let odd = || a.place.odd_nibble.cmp(&b.place.odd_nibble);
            a.hash.cmp(&b.hash).then_with(paths).then_with(odd)
        };
        let mut changes: Vec<NodeChange> = Vec::with_capacity(writes.len());
        let mut last: Option<&Write> = None;
        let mut met = false;
        for (_, index) in in_order(&writes, compare) {
            let write = &writes[index as usize];
            let references = if write.gained.is_some() { 1 } else { -1 };
            let bytes = |(start, length): (usize, usize)| encoded.slice(start..start + length);
            match (last, changes.last_mut()) {
                (Some(same), Some(change)) if compare(same, write) == Ordering::Equal => {
                    met = true;
                    change.references = change.references.saturating_add(references);
                    if let (true, Some(gained)) = (change.encoded.is_empty(), write.gained) {
                        change.encoded = bytes(gained);
                    }
                }
                _ => changes.push(NodeChange {
                    path: paths.slice(path(&write.place)),
                    odd_nibble: write.place.odd_nibble,
                    hash: write.hash,
                    references,
                    encoded: write.gained.map_or_else(Bytes::new, bytes),
                }),
            }
            last = Some(write);
        }
        if met {
            changes.retain_mut(|change| {
                if change.references < 0 {
                    change.encoded = Bytes::new();
                }
                change.references != 0
            });
        }
        changes
    }
}

/// The indices of `writes` in order, with what decides it as a rule: the beginning of the hash. The
/// null node is nowhere stored, and so left out.
///
/// Hashes are spread evenly, so that a pass which puts those together that begin with the same bits
/// leaves few to be compared.
fn in_order(writes: &[Write], compare: impl Fn(&Write, &Write) -> Ordering) -> Vec<(u64, u32)> {
    let null = Root::EMPTY.node_hash();
    // Four billion changes do not fit into memory.
    let numbered = writes.iter().zip(0u32..).filter_map(|(write, index)| {
        let (first, _) = write.hash.as_bytes().split_first_chunk::<8>()?;
        (write.hash != null).then_some((u64::from_be_bytes(*first), index))
    });
    let bits = writes.len().max(2).ilog2().min(MOST_BITS);
    // So few bits fit.
    let group = |first: u64| usize::try_from(first >> (u64::BITS - bits)).unwrap_or(0);
    let mut ends = vec![0; 1 << bits];
    for (first, _) in numbered.clone() {
        ends[group(first)] += 1;
    }
    let mut count = 0;
    for end in &mut ends {
        count += mem::replace(end, count);
    }
    let mut order = vec![(0, 0); count];
    for (first, index) in numbered {
        let end = &mut ends[group(first)];
        order[*end] = (first, index);
        *end += 1;
    }
    for alike in order.chunk_by_mut(|(a, _), (b, _)| group(*a) == group(*b)) {
        alike.sort_unstable_by(|(a, at), (b, bt)| {
            let places = || compare(&writes[*at as usize], &writes[*bt as usize]);
            a.cmp(b).then_with(places)
        });
    }
    order
}

/// Of the bits that are looked at first: places for more would not stay near.
const MOST_BITS: u32 = 14;
