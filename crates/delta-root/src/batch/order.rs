//! Sorts writes by node and place, and adds up those of the same node and place.
//!
//! ```text
//! make a number of each write: the first half of its hash's first 8 bytes, then the write's index
//! group the numbers by their first bits: one pass to count, one to place
//! sort each group; most have one or two numbers
//! neighbours with the same hash bits: compare whole hashes and places, and add up equal ones
//! ```
//! Hashes are spread evenly, so whole hashes are hardly ever compared. If somebody grinds hashes with a
//! common prefix, one group is larger, and is sorted all the same.

use crate::{
    node_changes::{ChangesPart, NodeChanges, WriteIndex},
    NodeHash,
};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Memory in which writes are sorted.
#[derive(Debug, Default)]
pub(super) struct WriteOrder {
    sorted: Vec<u64>,
    /// The index at which each group's next number goes.
    ends: Vec<u32>,
}

/// The most bits to group by, because the ends of more groups do not fit into the nearest cache.
const MOST_BITS: u32 = 14;

/// The bits of a number that are the index of a write. [`RootMemory::finish`](super::RootMemory::finish)
/// refuses more writes than they can tell apart.
const INDEX_BITS: u64 = u32::MAX as u64;

/// The number by which a write is sorted: `hash` is that of its node, `index` its index in its part.
#[inline]
pub(super) fn number(hash: &NodeHash, index: usize) -> u64 {
    let first = hash.as_bytes().first_chunk();
    let beginning = first.map_or(0, |first| u64::from_be_bytes(*first));
    beginning & !INDEX_BITS | index as u64
}

impl WriteOrder {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let Self { sorted, ends } = self;
        sorted.clear();
        ends.clear();
    }

    /// Keeps memory for up to `most` writes, once all is forgotten.
    pub(super) fn shrink_to(&mut self, most: usize) {
        self.sorted.shrink_to(most);
    }

    /// Makes the order of `changes`, which is empty before: their net changes by hash and place.
    pub(super) fn put(&mut self, changes: &mut NodeChanges) {
        let NodeChanges { parts, order } = changes;
        let locate = locate_in(parts);
        self.sort(parts);
        order.reserve(self.sorted.len());
        let mut first = 0;
        for (index, &number) in self.sorted.iter().enumerate() {
            order.push(locate(number));
            let next = self.sorted.get(index + 1);
            if next.map(|next| next & !INDEX_BITS) != Some(number & !INDEX_BITS) {
                if order.len() - first > 1 {
                    add_up(parts, order, first);
                }
                first = order.len();
            }
        }
    }

    fn sort(&mut self, parts: &mut [ChangesPart]) {
        if let [first, others @ ..] = parts {
            for part in others {
                let before = first.numbers.len() as u64;
                let numbers = part.numbers.drain(..);
                first.numbers.extend(numbers.map(|number| number + before));
            }
        }
        let numbers = parts.first().map_or(&[][..], |part| &part.numbers);
        let bits = numbers.len().max(2).ilog2().min(MOST_BITS);
        // At most 14 bits are left, which fit into a `usize`.
        let group = |number: u64| usize::try_from(number >> (u64::BITS - bits)).unwrap_or(0);
        let Self { sorted, ends } = self;
        ends.clear();
        ends.resize(1 << bits, 0);
        for number in numbers {
            ends[group(*number)] += 1;
        }
        let mut count = 0;
        for end in ends.iter_mut() {
            let start = count;
            count += *end;
            *end = start;
        }
        sorted.clear();
        sorted.resize(numbers.len(), 0);
        for &number in numbers {
            let end = &mut ends[group(number)];
            sorted[*end as usize] = number;
            *end += 1;
        }
        let mut start = 0;
        for &end in ends.iter() {
            let end = end as usize;
            match &mut sorted[start..end] {
                [] | [_] => {}
                [a, b] => (*a, *b) = (*a.min(b), *a.max(b)),
                more => more.sort_unstable(),
            }
            start = end;
        }
    }
}

/// Returns a function that finds the write of a number, whose index counts through all parts.
fn locate_in(parts: &[ChangesPart]) -> impl Fn(u64) -> WriteIndex + use<> {
    let mut starts: Vec<u32> = Vec::new();
    if parts.len() > 1 {
        let mut count = 0;
        for part in parts {
            starts.push(count);
            count += index_of(part.entries.len() as u64);
        }
    }
    move |number| {
        let entry = index_of(number);
        if starts.is_empty() {
            return WriteIndex { part: 0, entry };
        }
        // The last part that starts at or before the entry; it is not empty.
        let part = starts.partition_point(|start| *start <= entry) - 1;
        WriteIndex {
            part: index_of(part as u64),
            entry: entry - starts[part],
        }
    }
}

/// The index of a write in its number.
fn index_of(number: u64) -> u32 {
    u32::try_from(number & INDEX_BITS).unwrap_or(u32::MAX)
}

/// Sorts the changes from `first` on, whose hashes have a common prefix, and adds up changes of the same
/// node and place.
#[cold]
fn add_up(parts: &mut [ChangesPart], order: &mut Vec<WriteIndex>, first: usize) {
    // Most are equal values at many keys, written in the order of the keys, which a stable sort orders fast.
    order[first..].sort_by(|a, b| compare(parts, *a, *b));
    // The entry at `kept` has the sum.
    let mut kept = first;
    for at in first + 1..order.len() {
        let (sum, next) = (order[kept], order[at]);
        if compare(parts, sum, next).is_ne() {
            kept += usize::from(sum.of(parts).references != 0);
            order[kept] = next;
            continue;
        }
        let references = [sum, next].map(|which| which.of(parts).references);
        // Keep the change that has the encoded node.
        if references[0] < references[1] {
            order[kept] = next;
        }
        let entry = order[kept].of_mut(parts);
        entry.references = references[0].saturating_add(references[1]);
    }
    kept += usize::from(order[kept].of(parts).references != 0);
    order.truncate(kept);
    for which in &order[first..] {
        let entry = which.of_mut(parts);
        if entry.references < 0 {
            entry.encoded = 0..0;
        }
    }
}

/// Compares two writes by hash and place.
fn compare(parts: &[ChangesPart], a: WriteIndex, b: WriteIndex) -> Ordering {
    let (of_a, of_b) = (a.of(parts), b.of(parts));
    if of_a.hash != of_b.hash {
        return of_a.hash.cmp(&of_b.hash);
    }
    let path = |which: WriteIndex| &parts[which.part as usize].paths[which.of(parts).path.clone()];
    let odd = || of_a.odd_nibble.cmp(&of_b.odd_nibble);
    path(a).cmp(path(b)).then_with(odd)
}
