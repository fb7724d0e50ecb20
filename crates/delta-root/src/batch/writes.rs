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

impl WrittenPlace {
    fn path(&self) -> Range<usize> {
        self.start..self.start + self.length
    }
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
    /// Those of subtries that were computed apart, which have none themselves.
    apart: Vec<Self>,
}

impl Writes {
    /// Makes room for about so many more changed nodes.
    pub(super) fn reserve(&mut self, nodes: usize) {
        self.writes.reserve(2 * nodes);
        self.paths.reserve(64 * nodes);
        self.encoded.reserve(256 * nodes);
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

    /// Takes over those of a subtrie that was computed apart.
    #[cfg(feature = "parallel")]
    pub(super) fn append(&mut self, mut more: Self) {
        self.apart.append(&mut more.apart);
        self.apart.push(more);
    }

    /// The net changes, ordered by hash and place.
    pub(crate) fn into_changes(mut self) -> Vec<NodeChange> {
        let mut parts = mem::take(&mut self.apart);
        parts.push(self);
        let parts: Vec<Part> = parts.into_iter().map(Part::from).collect();
        let count = parts.iter().map(|part| part.writes.len()).sum();
        let mut changes: Vec<NodeChange> = Vec::with_capacity(count);
        let mut last = None;
        let mut met = false;
        for which in in_order(&parts, count) {
            let (part, write) = which.of(&parts);
            let references = if write.gained.is_some() { 1 } else { -1 };
            match (last, changes.last_mut()) {
                (Some(same), Some(change)) if compare(same, (part, write)).is_eq() => {
                    met = true;
                    change.references = change.references.saturating_add(references);
                    if change.encoded.is_empty() {
                        change.encoded = part.gained(write);
                    }
                }
                _ => changes.push(NodeChange {
                    path: part.paths.slice(write.place.path()),
                    odd_nibble: write.place.odd_nibble,
                    hash: write.hash,
                    references,
                    encoded: part.gained(write),
                }),
            }
            last = Some((part, write));
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

/// All that was written in one piece of the computation.
struct Part {
    writes: Vec<Write>,
    paths: Bytes,
    encoded: Bytes,
}

impl From<Writes> for Part {
    fn from(writes: Writes) -> Self {
        Self {
            writes: writes.writes,
            paths: Bytes::from(writes.paths),
            encoded: Bytes::from(writes.encoded),
        }
    }
}

impl Part {
    /// The bytes of a node gained, none of one lost.
    fn gained(&self, write: &Write) -> Bytes {
        let bytes = |(start, length)| self.encoded.slice(start..start + length);
        write.gained.map_or_else(Bytes::new, bytes)
    }
}

/// By hash and place.
fn compare((of_a, a): (&Part, &Write), (of_b, b): (&Part, &Write)) -> Ordering {
    let paths = || of_a.paths[a.place.path()].cmp(&of_b.paths[b.place.path()]);
    let odd = || a.place.odd_nibble.cmp(&b.place.odd_nibble);
    a.hash.cmp(&b.hash).then_with(paths).then_with(odd)
}

/// A write by number, with what decides its order as a rule: the beginning of its hash.
#[derive(Clone, Copy, Default)]
struct Which {
    first: u64,
    part: u32,
    index: u32,
}

impl Which {
    fn of<'p>(&self, parts: &'p [Part]) -> (&'p Part, &'p Write) {
        let part = &parts[self.part as usize];
        (part, &part.writes[self.index as usize])
    }
}

/// All `count` writes in order. The null node is nowhere stored, and so left out.
///
/// Hashes are spread evenly, so that a pass which puts those together that begin with the same bits
/// leaves few to be compared.
fn in_order(parts: &[Part], count: usize) -> Vec<Which> {
    let null = Root::EMPTY.node_hash();
    // Four billion changes do not fit into memory.
    let numbered = parts.iter().zip(0u32..).flat_map(|(part, number)| {
        part.writes
            .iter()
            .zip(0u32..)
            .filter_map(move |(write, index)| {
                let (first, _) = write.hash.as_bytes().split_first_chunk::<8>()?;
                (write.hash != null).then_some(Which {
                    first: u64::from_be_bytes(*first),
                    part: number,
                    index,
                })
            })
    });
    let bits = count.max(2).ilog2().min(MOST_BITS);
    // So few bits fit.
    let group = |which: &Which| usize::try_from(which.first >> (u64::BITS - bits)).unwrap_or(0);
    let mut ends = vec![0; 1 << bits];
    for which in numbered.clone() {
        ends[group(&which)] += 1;
    }
    let mut count = 0;
    for end in &mut ends {
        count += mem::replace(end, count);
    }
    let mut order = vec![Which::default(); count];
    for which in numbered {
        let end = &mut ends[group(&which)];
        order[*end] = which;
        *end += 1;
    }
    for alike in order.chunk_by_mut(|a, b| group(a) == group(b)) {
        alike.sort_unstable_by(|a, b| {
            let places = || compare(a.of(parts), b.of(parts));
            a.first.cmp(&b.first).then_with(places)
        });
    }
    order
}

/// Of the bits that are looked at first: places for more would not stay near.
const MOST_BITS: u32 = 14;
