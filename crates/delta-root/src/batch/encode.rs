//! New nodes to bytes and hashes, from the leaves up.

use super::{Batch, Built, NewNode, NewPartial, NewValue, Parts};
use crate::{
    codec::{push_header, Kind},
    scale::push_compact,
    shadow::OldSlot,
    NodeHash, Root, ShadowNode, HASH_LENGTH,
};
use alloc::{vec, vec::Vec};
use core::{iter::empty, ops::Range};

/// What a new node's parent holds for it: a hash, or the node itself where it is shorter than one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reference {
    bytes: [u8; HASH_LENGTH],
    length: u8,
}

impl Reference {
    fn of(bytes: &[u8]) -> Self {
        let mut reference = Self::default();
        reference.bytes[..bytes.len()].copy_from_slice(bytes);
        // At most 32.
        reference.length = u8::try_from(bytes.len()).unwrap_or(0);
        reference
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What encoding the nodes of a level has found out of the levels below, and memory for it.
struct Encoder {
    values: Vec<NodeHash>,
    /// By index of the node.
    references: Vec<Reference>,
    /// Nodes of the level that have a hash, and their bytes among those written.
    stored: Vec<(u32, Range<usize>)>,
    hashes: Vec<NodeHash>,
}

impl Batch<'_> {
    /// The root, all new nodes and values handed to the writes.
    pub(super) fn encode_root(&mut self, root: u32) -> Root {
        let reference = self.encode(root, Some(root));
        Root::from(reference.bytes)
    }

    /// What refers to `top`, all new nodes and values handed to the writes. `root` has a hash however
    /// short it is.
    pub(super) fn encode(&mut self, top: u32, root: Option<u32>) -> Reference {
        let mut encoder = Encoder {
            values: self.encode_values(),
            references: vec![Reference::default(); self.nodes.len()],
            stored: Vec::with_capacity(self.nodes.len()),
            hashes: vec![NodeHash::default(); self.nodes.len()],
        };
        for level in self.levels() {
            self.encode_level(&level, root, &mut encoder);
        }
        encoder.references[top as usize]
    }

    /// The nodes by height, the lowest first.
    fn levels(&self) -> Vec<Vec<u32>> {
        let mut counts: Vec<usize> = Vec::new();
        for node in &self.nodes {
            let height = node.height as usize;
            if counts.len() <= height {
                counts.resize(height + 1, 0);
            }
            counts[height] += 1;
        }
        let mut levels: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        for (node, index) in self.nodes.iter().zip(0..) {
            levels[node.height as usize].push(index);
        }
        levels
    }

    fn encode_values(&mut self) -> Vec<NodeHash> {
        let mut hashes = vec![NodeHash::default(); self.values.len()];
        let inputs = self.values.iter().map(|(_, value)| *value);
        self.effort.hashing.hash_all(inputs, &mut hashes);
        for ((key, value), hash) in self.values.iter().zip(&hashes) {
            let place = self.writes.place(self.trie.keyspace(), key, None, empty());
            let start = self.writes.encoded().len();
            self.writes.encoded().extend_from_slice(value);
            self.writes.insert(place, *hash, start..start + value.len());
        }
        hashes
    }

    /// Encodes the nodes of a level, and hashes those together that have a hash.
    fn encode_level(&mut self, level: &[u32], root: Option<u32>, encoder: &mut Encoder) {
        let mut buffer = core::mem::take(self.writes.encoded());
        encoder.stored.clear();
        for &index in level {
            let start = buffer.len();
            #[cfg(feature = "parallel")]
            if let Parts::Done(reference) = self.nodes[index as usize].parts {
                encoder.references[index as usize] = reference;
                continue;
            }
            self.encode_node(&self.nodes[index as usize], encoder, &mut buffer);
            let encoded = &buffer[start..];
            if encoded.len() >= HASH_LENGTH || Some(index) == root {
                encoder.stored.push((index, start..buffer.len()));
            } else {
                encoder.references[index as usize] = Reference::of(encoded);
                buffer.truncate(start);
            }
        }
        *self.writes.encoded() = buffer;
        let Encoder {
            references,
            stored,
            hashes,
            ..
        } = encoder;
        let hashes = &mut hashes[..stored.len()];
        let inputs = stored.iter().map(|(_, range)| range.clone());
        let inputs = inputs.map(|range| self.writes.bytes(range));
        self.effort.hashing.hash_all(inputs, hashes);
        for ((index, range), hash) in stored.drain(..).zip(hashes) {
            references[index as usize] = Reference::of(hash.as_ref());
            let place = self.written(self.nodes[index as usize].place, 0..0);
            self.writes.insert(place, *hash, range);
        }
    }

    fn encode_node(&self, node: &NewNode<'_>, encoder: &Encoder, out: &mut Vec<u8>) {
        match &node.parts {
            Parts::Whole {
                partial,
                value,
                children,
            } => {
                let children = children.map(|children| &self.children[children]);
                self.encode_whole(partial, *value, children, encoder, out);
            }
            Parts::Other(at, others) => {
                let others = &self.others[others.clone()];
                if !self.encode_other(*at, others, encoder, out) {
                    let children = self.children_with(*at, others);
                    let value = NewValue::of(self.trie.old(*at, self.table).value);
                    let partial = NewPartial::Of(*at);
                    self.encode_whole(&partial, value, Some(&children), encoder, out);
                }
            }
            #[cfg(feature = "parallel")]
            Parts::Done(_) => {}
        }
    }

    /// The bytes of branch `at` with other hashes in it; `false`, and nothing written, if a child,
    /// before or after, has no hash.
    fn encode_other(
        &self,
        at: ShadowNode,
        others: &[(u8, u32)],
        encoder: &Encoder,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some((data, children, bitmap)) = self.trie.uniform_branch(at, self.table) else {
            return false;
        };
        let begin = out.len();
        out.extend_from_slice(data);
        for (nibble, child) in others {
            let reference = encoder.references[*child as usize].bytes();
            if reference.len() != HASH_LENGTH {
                out.truncate(begin);
                return false;
            }
            let before = (bitmap & ((1 << nibble) - 1)).count_ones() as usize;
            let hash = begin + children + before * (1 + HASH_LENGTH) + 1;
            out[hash..hash + HASH_LENGTH].copy_from_slice(reference);
        }
        true
    }

    fn encode_whole(
        &self,
        partial: &NewPartial,
        value: NewValue<'_>,
        children: Option<&[Built; 16]>,
        encoder: &Encoder,
        out: &mut Vec<u8>,
    ) {
        let kind = match (children.is_some(), value) {
            (false, NewValue::Inline(_) | NewValue::None) => Kind::Leaf,
            (false, NewValue::Kept(_) | NewValue::Fresh(_)) => Kind::HashedLeaf,
            (true, NewValue::None) => Kind::Branch,
            (true, NewValue::Inline(_)) => Kind::BranchWithValue,
            (true, NewValue::Kept(_) | NewValue::Fresh(_)) => Kind::HashedBranch,
        };
        match partial {
            NewPartial::Of(at) => {
                let partial = self.trie.old(*at, self.table).partial;
                push_header(out, kind, partial.len());
                out.extend_from_slice(partial.bytes());
            }
            NewPartial::Nibbles(range) => {
                let partial = &self.nibbles[range.clone()];
                push_header(out, kind, partial.len());
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
        match value {
            NewValue::None => {}
            NewValue::Inline(value) => {
                push_compact(out, value.len());
                out.extend_from_slice(value);
            }
            NewValue::Kept(hash) => out.extend_from_slice(hash),
            NewValue::Fresh(index) => out.extend_from_slice(encoder.values[index].as_ref()),
        }
        for child in children.into_iter().flatten() {
            let reference = match child {
                Built::Empty => continue,
                Built::Kept(at) => self.trie.reference(*at, self.table),
                Built::Unloaded(at, nibble) => match self.trie.old_slot(*at, *nibble, self.table) {
                    OldSlot::Unloaded(reference) => reference,
                    // Nothing is loaded meanwhile.
                    OldSlot::Loaded(at) => self.trie.reference(at, self.table),
                    OldSlot::Empty => continue,
                },
                Built::New(index) => encoder.references[*index as usize].bytes(),
            };
            push_compact(out, reference.len());
            out.extend_from_slice(reference);
        }
    }
}
