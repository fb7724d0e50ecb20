//! A log of nodes in one piece of memory, used again from the start when its end is reached.
//!
//! ```text
//! entry:  path hash (8 bytes) | length and marks (4 bytes) | hash (32 bytes) | node
//! push:   at the head; at the start of the memory if there is no room at the end
//! pop:    the entry at the tail, the oldest
//! ```
//! Hand-written in place of a map of allocated nodes for two reasons. A node costs 12 bytes beside its hash
//! and its encoding, where each library measured on 2026-11-22 costs 70 bytes or more. And the memory is
//! bounded exactly, because it is allocated once.

use povmeter_primitives::{NodeHash, HASH_LENGTH};

/// Bytes of an entry before the node.
pub(crate) const HEADER_BYTES: usize = 12 + HASH_LENGTH;

/// The longest node that an entry can hold.
pub(crate) const LONGEST_NODE: usize = LENGTH as usize;

const LENGTH: u32 = (1 << 24) - 1;
const USES_SHIFT: u32 = 24;
/// The highest count of uses.
pub(crate) const MOST_USES: u8 = 3;
const SUPERSEDED: u32 = 1 << 26;
const DEAD: u32 = 1 << 27;

/// The memory, and which part of it holds entries.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    /// Place of the oldest entry.
    tail: usize,
    /// Where the next entry goes.
    head: usize,
    /// End of the entries that begin at the tail, if newer entries are at the start of the memory.
    wrapped_at: Option<usize>,
    /// Bytes of all entries.
    used: usize,
    /// Bytes of the dead entries.
    dead: usize,
}

impl Ring {
    /// An empty log of `capacity` bytes. The operating system provides the memory as it is used.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity].into_boxed_slice(),
            tail: 0,
            head: 0,
            wrapped_at: None,
            used: 0,
            dead: 0,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        (self.tail, self.head, self.wrapped_at) = (0, 0, None);
        (self.used, self.dead) = (0, 0);
    }

    /// Bytes of all entries, and of the dead entries.
    pub(crate) fn used_and_dead(&self) -> (usize, usize) {
        (self.used, self.dead)
    }

    /// Returns the place for an entry of `length` bytes, or `None` if there is no room.
    fn room(&self, length: usize) -> Option<usize> {
        match self.wrapped_at {
            Some(_) => (self.tail - self.head >= length).then_some(self.head),
            None if self.bytes.len() - self.head >= length => Some(self.head),
            None => (self.tail >= length).then_some(0),
        }
    }

    /// Whether there is room for an entry with a node of `length` bytes.
    pub(crate) fn fits(&self, length: usize) -> bool {
        self.room(HEADER_BYTES + length).is_some()
    }

    fn take_room(&mut self, length: usize) -> Option<usize> {
        let at = self.room(length)?;
        if at != self.head {
            self.wrapped_at = Some(self.head);
        }
        self.head = at + length;
        self.used += length;
        Some(at)
    }

    /// Appends an entry and returns its place; `None` if there is no room.
    pub(crate) fn push(
        &mut self,
        path: u64,
        hash: &NodeHash,
        node: &[u8],
        uses: u8,
    ) -> Option<usize> {
        let length = u32::try_from(node.len())
            .ok()
            .filter(|&length| length <= LENGTH)?;
        let at = self.take_room(HEADER_BYTES + node.len())?;
        let word = length | u32::from(uses.min(MOST_USES)) << USES_SHIFT;
        self.bytes[at..at + 8].copy_from_slice(&path.to_le_bytes());
        self.set_word(at, word);
        self.bytes[at + 12..at + HEADER_BYTES].copy_from_slice(hash.as_bytes());
        self.bytes[at + HEADER_BYTES..at + HEADER_BYTES + node.len()].copy_from_slice(node);
        Some(at)
    }

    /// Place of the oldest entry, dead or not.
    pub(crate) fn oldest(&self) -> Option<usize> {
        let is_empty = self.wrapped_at.is_none() && self.tail == self.head;
        (!is_empty).then_some(self.tail)
    }

    /// Removes the oldest entry. Its bytes stay as they are until the next push.
    pub(crate) fn pop(&mut self) {
        let Some(at) = self.oldest() else {
            return;
        };
        let length = HEADER_BYTES + self.length(at);
        self.tail = at + length;
        self.used -= length;
        if self.is_dead(at) {
            self.dead -= length;
        }
        match self.wrapped_at {
            Some(end) if self.tail >= end => (self.tail, self.wrapped_at) = (0, None),
            None if self.tail == self.head => (self.tail, self.head) = (0, 0),
            _ => {}
        }
    }

    /// Makes the oldest entry the newest, with `uses`, and returns its new place; `None` if the log is
    /// empty.
    pub(crate) fn renew_oldest(&mut self, uses: u8) -> Option<usize> {
        let at = self.oldest()?;
        let length = HEADER_BYTES + self.length(at);
        self.pop();
        // There is room, because the memory of the entry itself is now part of the free memory after the
        // head, or at the start.
        let to = self.take_room(length)?;
        self.bytes.copy_within(at..at + length, to);
        self.set_uses(to, uses);
        Some(to)
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(array(&self.bytes, at + 8))
    }

    fn set_word(&mut self, at: usize, word: u32) {
        self.bytes[at + 8..at + 12].copy_from_slice(&word.to_le_bytes());
    }

    fn set_mark(&mut self, at: usize, mark: u32, set: bool) {
        let word = self.word(at);
        self.set_word(at, if set { word | mark } else { word & !mark });
    }

    /// The path hash of the entry at `at`.
    pub(crate) fn path(&self, at: usize) -> u64 {
        u64::from_le_bytes(array(&self.bytes, at))
    }

    /// Bytes of the node of the entry at `at`.
    pub(crate) fn length(&self, at: usize) -> usize {
        (self.word(at) & LENGTH) as usize
    }

    /// Uses of the entry at `at`, up to [`MOST_USES`]. Each time that eviction passes it over, they are one
    /// less.
    pub(crate) fn uses(&self, at: usize) -> u8 {
        // Two bits.
        (self.word(at) >> USES_SHIFT & u32::from(MOST_USES)) as u8
    }

    pub(crate) fn set_uses(&mut self, at: usize, uses: u8) {
        let others = self.word(at) & !(u32::from(MOST_USES) << USES_SHIFT);
        self.set_word(at, others | u32::from(uses.min(MOST_USES)) << USES_SHIFT);
    }

    /// Whether the entry left the index, so that it only occupies memory.
    pub(crate) fn is_dead(&self, at: usize) -> bool {
        self.word(at) & DEAD != 0
    }

    pub(crate) fn kill(&mut self, at: usize) {
        if !self.is_dead(at) {
            self.dead += HEADER_BYTES + self.length(at);
            self.set_mark(at, DEAD, true);
        }
    }

    /// Whether an update that is being applied removes the node.
    pub(crate) fn is_superseded(&self, at: usize) -> bool {
        self.word(at) & SUPERSEDED != 0
    }

    pub(crate) fn set_superseded(&mut self, at: usize, superseded: bool) {
        self.set_mark(at, SUPERSEDED, superseded);
    }

    pub(crate) fn has_hash(&self, at: usize, hash: &NodeHash) -> bool {
        self.bytes[at + 12..at + HEADER_BYTES] == *hash.as_bytes()
    }

    pub(crate) fn hash(&self, at: usize) -> NodeHash {
        NodeHash::from(array::<HASH_LENGTH>(&self.bytes, at + 12))
    }

    pub(crate) fn node(&self, at: usize) -> &[u8] {
        let start = at + HEADER_BYTES;
        &self.bytes[start..start + self.length(at)]
    }

    /// Replaces the node of the entry at `at` by another of the same length.
    pub(crate) fn overwrite(&mut self, at: usize, hash: &NodeHash, node: &[u8]) {
        self.bytes[at + 12..at + HEADER_BYTES].copy_from_slice(hash.as_bytes());
        self.bytes[at + HEADER_BYTES..at + HEADER_BYTES + node.len()].copy_from_slice(node);
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rand::{rngs::SmallRng, Rng, SeedableRng};
    use std::collections::VecDeque;

    /// Random pushes, pops and renewals are those of a queue.
    #[test]
    fn is_a_queue() {
        let mut dice = SmallRng::seed_from_u64(1);
        for capacity in [0, HEADER_BYTES, 200, 300, 1_000, 5_000] {
            let (mut ring, mut model) = (Ring::new(capacity), VecDeque::new());
            for number in 0..20_000_u64 {
                let byte = number.to_le_bytes()[0];
                match dice.random_range(0..10) {
                    0..5 => {
                        let node = vec![byte; dice.random_range(0..150)];
                        let hash = NodeHash::from([byte; 32]);
                        let fits = ring.fits(node.len());
                        let pushed = ring.push(number, &hash, &node, 1).is_some();
                        assert_eq!(pushed, fits);
                        let used: usize = model
                            .iter()
                            .map(|(_, node, _): &(_, Vec<u8>, u8)| HEADER_BYTES + node.len())
                            .sum();
                        if pushed {
                            model.push_back((number, node, 1));
                            assert!(used + HEADER_BYTES <= capacity);
                        } else {
                            // Only the rest before the end of the memory is lost.
                            assert!(
                                used + 2 * (HEADER_BYTES + 150)
                                    >= capacity.min(used + HEADER_BYTES + 150)
                            );
                        }
                    }
                    5..8 => {
                        ring.pop();
                        model.pop_front();
                    }
                    _ => {
                        let renewed = ring.renew_oldest(2).is_some();
                        assert_eq!(renewed, !model.is_empty());
                        if let Some((path, node, _)) = model.pop_front() {
                            model.push_back((path, node, 2));
                        }
                    }
                }
                let oldest = ring
                    .oldest()
                    .map(|at| (ring.path(at), ring.node(at).to_vec(), ring.uses(at)));
                assert_eq!(oldest.as_ref(), model.front());
            }
            while let Some(at) = ring.oldest() {
                assert_eq!(ring.path(at), model.pop_front().unwrap().0);
                ring.pop();
            }
            assert!(model.is_empty());
        }
    }

    #[test]
    fn marks_are_apart() {
        let mut ring = Ring::new(500);
        let hash = NodeHash::from([9; 32]);
        let at = ring.push(7, &hash, b"node", 200).unwrap();
        assert_eq!(
            (ring.uses(at), ring.is_dead(at), ring.is_superseded(at)),
            (3, false, false)
        );
        ring.set_superseded(at, true);
        ring.set_uses(at, 1);
        ring.kill(at);
        assert_eq!(
            (ring.uses(at), ring.is_dead(at), ring.is_superseded(at)),
            (1, true, true)
        );
        ring.set_superseded(at, false);
        ring.overwrite(at, &NodeHash::from([8; 32]), b"next");
        assert_eq!(
            (ring.path(at), ring.node(at), ring.length(at)),
            (7, &b"next"[..], 4)
        );
        assert!(ring.has_hash(at, &NodeHash::from([8; 32])) && !ring.has_hash(at, &hash));
        assert!(!ring.is_superseded(at) && ring.is_dead(at));
    }
}
