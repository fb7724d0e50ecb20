//! Encodes and hashes the new nodes, from the leaves up.

use super::{
    node::{Built, Children, NewNode, NewPartial, NewValue, NewValueNode, Parts},
    Batch,
};
use crate::{
    codec::{push_header, Kind},
    nibbles::Partial,
    scale::push_compact,
    shadow::{referred_hash, OldChild, OldValue},
    NodeHash, Root, ShadowNode, HASH_LENGTH,
};
use alloc::vec::Vec;
use core::{mem::take, ops::Range};

/// A new node's reference in its parent: its hash, or the node itself if that is shorter than a hash.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reference {
    bytes: [u8; HASH_LENGTH],
    length: u8,
}

/// [`HASH_LENGTH`] as the length of a reference.
const OF_A_HASH: u8 = 32;
const _: () = assert!(OF_A_HASH as usize == HASH_LENGTH);

impl Reference {
    fn of(bytes: &[u8]) -> Self {
        let mut reference = Self::default();
        reference.bytes[..bytes.len()].copy_from_slice(bytes);
        // At most 32.
        reference.length = u8::try_from(bytes.len()).unwrap_or(0);
        reference
    }

    fn of_hash(hash: NodeHash) -> Self {
        Self {
            bytes: hash.into(),
            length: OF_A_HASH,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// References to the nodes of the levels encoded so far, and memory for the next level.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    values: Vec<NodeHash>,
    /// By index of the node.
    references: Vec<Reference>,
    /// The nodes by height, and the end of each height among them.
    order: Vec<u32>,
    ends: Vec<usize>,
    /// The nodes of the level that have a hash, and the ranges of their bytes in the writes.
    stored: Vec<(u32, Range<usize>)>,
    hashes: Vec<NodeHash>,
}

impl Encoder {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let Self {
            values,
            references,
            order,
            ends,
            stored,
            hashes,
        } = self;
        values.clear();
        references.clear();
        order.clear();
        ends.clear();
        stored.clear();
        hashes.clear();
    }

    /// Keeps memory for up to `most` nodes, once all is forgotten.
    pub(super) fn shrink_to(&mut self, most: usize) {
        self.values.shrink_to(most);
        self.references.shrink_to(most);
        self.order.shrink_to(most);
        self.ends.shrink_to(most);
        self.stored.shrink_to(most);
        self.hashes.shrink_to(most);
    }

    /// Sorts `nodes` by height, the lowest first.
    fn order(&mut self, nodes: &[NewNode]) {
        let ends = &mut self.ends;
        for node in nodes {
            let height = node.height as usize;
            if ends.len() <= height {
                ends.resize(height + 1, 0);
            }
            ends[height] += 1;
        }
        let mut count = 0;
        for end in ends.iter_mut() {
            let start = count;
            count += *end;
            *end = start;
        }
        self.order.resize(nodes.len(), 0);
        for (node, index) in nodes.iter().zip(0..) {
            let end = &mut ends[node.height as usize];
            self.order[*end] = index;
            *end += 1;
        }
    }
}

impl Batch<'_> {
    /// Encodes all new nodes and values into the writes; returns the root.
    pub(super) fn encode_root(&mut self, root: u32) -> Root {
        let reference = self.encode(root, Some(root));
        Root::from(reference.bytes)
    }

    /// Encodes all new nodes and values into the writes; returns the reference to `top`. The node `root` has
    /// a hash however short it is.
    pub(super) fn encode(&mut self, top: u32, root: Option<u32>) -> Reference {
        let mut encoder = take(&mut self.memory.encoder);
        self.encode_values(&mut encoder.values);
        encoder.order(&self.memory.nodes);
        let count = self.memory.nodes.len();
        encoder.references.resize(count, Reference::default());
        let mut start = 0;
        for level in 0..encoder.ends.len() {
            let end = encoder.ends[level];
            self.encode_level(start..end, root, &mut encoder);
            start = end;
        }
        let reference = encoder.references[top as usize];
        self.memory.encoder = encoder;
        reference
    }

    fn encode_values(&mut self, hashes: &mut Vec<NodeHash>) {
        let changes = self.input.changes;
        let value = |of: &NewValueNode| changes[of.change as usize].1.unwrap_or_default();
        hashes.resize(self.memory.values.len(), NodeHash::default());
        let inputs = self.memory.values.iter().map(value);
        self.input.options.hashing.hash_all(inputs, hashes);
        for (index, hash) in hashes.iter().enumerate() {
            let of = self.memory.values[index];
            let old = of.replaces.and_then(|at| match self.old(at).value {
                OldValue::Hash(old) => Some(referred_hash(old)),
                OldValue::None | OldValue::Inline(_) => None,
            });
            let encoded = self.writes.encoded();
            let start = encoded.len();
            if old != Some(*hash) {
                encoded.extend_from_slice(value(&of));
            }
            let encoded = start..encoded.len();
            let place = self.value_place(of.change);
            self.writes.replace(place, old, *hash, encoded);
        }
    }

    /// Encodes the nodes of a level. Hashes all nodes that have a hash together.
    fn encode_level(&mut self, level: Range<usize>, root: Option<u32>, encoder: &mut Encoder) {
        let mut buffer = take(self.writes.encoded());
        encoder.stored.clear();
        for at in level {
            let index = encoder.order[at];
            let start = buffer.len();
            let node = &self.memory.nodes[index as usize];
            #[cfg(feature = "parallel")]
            if let Parts::Encoded(reference) = node.parts {
                encoder.references[index as usize] = reference;
                continue;
            }
            self.encode_node(node, encoder, &mut buffer);
            let encoded = &buffer[start..];
            if encoded.len() >= HASH_LENGTH || Some(index) == root {
                encoder.stored.push((index, start..buffer.len()));
            } else {
                encoder.references[index as usize] = Reference::of(encoded);
                buffer.truncate(start);
                self.remove_replaced(index);
            }
        }
        *self.writes.encoded() = buffer;
        let Encoder {
            references,
            stored,
            hashes,
            ..
        } = encoder;
        if hashes.len() < stored.len() {
            hashes.resize(stored.len(), NodeHash::default());
        }
        let hashes = &mut hashes[..stored.len()];
        let inputs = stored.iter().map(|(_, range)| range.clone());
        let inputs = inputs.map(|range| self.writes.bytes(range));
        self.input.options.hashing.hash_all(inputs, hashes);
        for ((index, range), hash) in stored.drain(..).zip(hashes) {
            references[index as usize] = Reference::of_hash(*hash);
            self.store(index, *hash, range);
        }
    }

    /// Notes that the node is inserted at its place, and that the node which it replaces is removed.
    fn store(&mut self, index: u32, hash: NodeHash, encoded: Range<usize>) {
        let NewNode {
            place, replaces, ..
        } = self.memory.nodes[index as usize];
        let trie = self.input.trie;
        let old = replaces.and_then(|old| trie.old_hash(old, self.input.table));
        let place = self.written(place);
        self.writes.replace(place, old, hash, encoded);
    }

    /// Notes that the node which a new node replaces is removed, for a new node inside its parent.
    fn remove_replaced(&mut self, index: u32) {
        let NewNode {
            place, replaces, ..
        } = self.memory.nodes[index as usize];
        let trie = self.input.trie;
        if let Some(old) = replaces.and_then(|old| trie.old_hash(old, self.input.table)) {
            let place = self.written(place);
            self.writes.remove(place, old);
        }
    }

    fn encode_node(&self, node: &NewNode, encoder: &Encoder, out: &mut Vec<u8>) {
        match &node.parts {
            Parts::Leaf(at, value) => {
                let partial = self.old(*at).partial;
                let kind = match value {
                    NewValue::ValueNode(_) => Kind::HashedLeaf,
                    _ => Kind::Leaf,
                };
                push_partial(out, kind, partial);
                self.push_value(*value, encoder, out);
            }
            Parts::Branch(at, others) => {
                if !self.encode_other(*at, others.clone(), encoder, out) {
                    let children = self.children_with(*at, others.clone());
                    let value = self.old_value(*at);
                    let partial = NewPartial::Of(*at);
                    self.encode_whole(&partial, value, Some(&children), encoder, out);
                }
            }
            Parts::New {
                partial,
                value,
                children,
            } => {
                let children = children.map(|children| &self.memory.children[children as usize]);
                self.encode_whole(partial, *value, children, encoder, out);
            }
            #[cfg(feature = "parallel")]
            Parts::Encoded(_) => {}
        }
    }

    /// Writes the bytes of branch `at` with new hashes of some children. Returns `false`, and writes
    /// nothing, if an old child or a new one has no hash.
    fn encode_other(
        &self,
        at: ShadowNode,
        others: Range<u32>,
        encoder: &Encoder,
        out: &mut Vec<u8>,
    ) -> bool {
        let branch = self.input.trie.uniform_branch(at, self.input.table);
        let Some((data, children, bitmap)) = branch else {
            return false;
        };
        let begin = out.len();
        out.extend_from_slice(data);
        let written = &mut out[begin + children..];
        for (nibble, child) in self.others(others) {
            let reference = &encoder.references[*child as usize];
            if usize::from(reference.length) != HASH_LENGTH {
                out.truncate(begin);
                return false;
            }
            let before = (bitmap & ((1 << nibble) - 1)).count_ones() as usize;
            let hash = before * (1 + HASH_LENGTH) + 1;
            written[hash..hash + HASH_LENGTH].copy_from_slice(&reference.bytes);
        }
        true
    }

    fn encode_whole(
        &self,
        partial: &NewPartial,
        value: NewValue,
        children: Option<&Children>,
        encoder: &Encoder,
        out: &mut Vec<u8>,
    ) {
        match partial {
            NewPartial::Of(at) => {
                let partial = self.old(*at).partial;
                push_partial(out, self.kind(value, children.is_some()), partial);
            }
            NewPartial::Nibbles(range) => {
                let partial = &self.memory.nibbles[range.clone()];
                push_header(out, self.kind(value, children.is_some()), partial.len());
                let (odd, pairs) = partial.split_at(partial.len() % 2);
                out.extend_from_slice(odd);
                out.extend(pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
            }
        }
        if let Some(children) = children {
            let bit =
                |(nibble, child): (usize, &Built)| u16::from(*child != Built::Empty) << nibble;
            let bits = children.iter().enumerate().map(bit);
            let bitmap = bits.fold(0, |bits, bit| bits | bit);
            out.extend_from_slice(&bitmap.to_le_bytes());
        }
        self.push_value(value, encoder, out);
        let (trie, table) = (self.input.trie, self.input.table);
        for child in children.into_iter().flatten() {
            let reference = match child {
                Built::Empty => continue,
                Built::Kept(at) => trie.reference(*at, table),
                Built::Unloaded(at, nibble) => match trie.old_child(*at, *nibble, table) {
                    OldChild::Unloaded(reference) => reference,
                    // Nothing is loaded during the computation.
                    OldChild::Loaded(at) => trie.reference(at, table),
                    OldChild::Empty => continue,
                },
                Built::New(index) => encoder.references[*index as usize].bytes(),
            };
            push_compact(out, reference.len());
            out.extend_from_slice(reference);
        }
    }

    fn kind(&self, value: NewValue, is_branch: bool) -> Kind {
        let apart = match value {
            NewValue::None | NewValue::Inline(_) => false,
            NewValue::ValueNode(_) => true,
            NewValue::Old(at) => {
                let old = self.old(at).value;
                matches!(old, OldValue::Hash(_))
            }
        };
        match (is_branch, value) {
            (false, _) if apart => Kind::HashedLeaf,
            (false, _) => Kind::Leaf,
            (true, NewValue::None) => Kind::Branch,
            (true, _) if apart => Kind::HashedBranch,
            (true, _) => Kind::BranchWithValue,
        }
    }

    fn push_value(&self, value: NewValue, encoder: &Encoder, out: &mut Vec<u8>) {
        let mut push_inline = |value: &[u8]| {
            push_compact(out, value.len());
            out.extend_from_slice(value);
        };
        match value {
            NewValue::None => {}
            NewValue::Inline(change) => {
                push_inline(self.input.changes[change as usize].1.unwrap_or_default());
            }
            NewValue::ValueNode(value) => {
                out.extend_from_slice(encoder.values[value as usize].as_ref());
            }
            NewValue::Old(at) => match self.old(at).value {
                OldValue::None => {}
                OldValue::Inline(value) => push_inline(value),
                OldValue::Hash(hash) => out.extend_from_slice(hash),
            },
        }
    }
}

/// Appends the beginning of a node: its header, and its partial key.
fn push_partial(out: &mut Vec<u8>, kind: Kind, partial: Partial<'_>) {
    push_header(out, kind, partial.len());
    out.extend_from_slice(partial.bytes());
}
