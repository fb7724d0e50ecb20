//! New nodes to bytes and hashes, from the leaves up.

use super::{Batch, Built, NewNode, NewValue};
use crate::{
    codec::{push_header, Kind},
    scale::push_compact,
    NodeHash, Root, HASH_LENGTH,
};
use alloc::{vec, vec::Vec};
use bytes::Bytes;
use core::ops::Range;

/// What a new node's parent holds for it: a hash, or the node itself where it is shorter than one.
#[derive(Clone, Copy, Debug, Default)]
struct Reference {
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

impl Batch<'_> {
    /// The root, all new nodes and values handed to the writes.
    pub(super) fn encode(mut self, root: usize) -> Root {
        let values = self.encode_values();
        let mut levels: Vec<Vec<usize>> = vec![Vec::new(); self.nodes[root].height + 1];
        for (index, node) in self.nodes.iter().enumerate() {
            levels[node.height].push(index);
        }
        let mut references = vec![Reference::default(); self.nodes.len()];
        for level in levels {
            self.encode_level(&level, root, &values, &mut references);
        }
        Root::from(references[root].bytes)
    }

    fn encode_values(&mut self) -> Vec<NodeHash> {
        let mut hashes = vec![NodeHash::default(); self.values.len()];
        let inputs = self.values.iter().map(|(_, value)| *value);
        self.hashing.hash_all(inputs, &mut hashes);
        for ((key, value), hash) in self.values.iter().zip(&hashes) {
            let encoded = Bytes::copy_from_slice(value);
            self.writes
                .insert(self.trie.keyspace(), key, None, *hash, encoded);
        }
        hashes
    }

    /// Encodes the nodes of a level into one buffer, which the update then shares, and hashes those
    /// together that have a hash.
    fn encode_level(
        &mut self,
        level: &[usize],
        root: usize,
        values: &[NodeHash],
        references: &mut [Reference],
    ) {
        let mut buffer = Vec::new();
        let mut stored: Vec<(usize, Range<usize>)> = Vec::with_capacity(level.len());
        for &index in level {
            let start = buffer.len();
            self.encode_node(&self.nodes[index], values, references, &mut buffer);
            let encoded = &buffer[start..];
            if encoded.len() >= HASH_LENGTH || index == root {
                stored.push((index, start..buffer.len()));
            } else {
                references[index] = Reference::of(encoded);
                buffer.truncate(start);
            }
        }
        let buffer = Bytes::from(buffer);
        let mut hashes = vec![NodeHash::default(); stored.len()];
        let inputs = stored.iter().map(|(_, range)| &buffer[range.clone()]);
        self.hashing.hash_all(inputs, &mut hashes);
        for ((index, range), hash) in stored.iter().zip(hashes) {
            references[*index] = Reference::of(hash.as_ref());
            let (path, odd) = self.nodes[*index].place.path(&[]);
            let encoded = buffer.slice(range.clone());
            self.writes
                .insert(self.trie.keyspace(), &path, odd, hash, encoded);
        }
    }

    fn encode_node(
        &self,
        node: &NewNode<'_>,
        values: &[NodeHash],
        references: &[Reference],
        out: &mut Vec<u8>,
    ) {
        let partial = &self.nibbles[node.partial.clone()];
        let kind = match (node.children.is_some(), node.value) {
            (false, NewValue::Inline(_) | NewValue::None) => Kind::Leaf,
            (false, NewValue::Kept(_) | NewValue::Fresh(_)) => Kind::HashedLeaf,
            (true, NewValue::None) => Kind::Branch,
            (true, NewValue::Inline(_)) => Kind::BranchWithValue,
            (true, NewValue::Kept(_) | NewValue::Fresh(_)) => Kind::HashedBranch,
        };
        push_header(out, kind, partial.len());
        let (odd, pairs) = partial.split_at(partial.len() % 2);
        out.extend_from_slice(odd);
        out.extend(pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
        let children = node.children.map(|children| &self.children[children]);
        if let Some(children) = children {
            let bit =
                |(nibble, child): (usize, &Built<'_>)| u16::from(*child != Built::Empty) << nibble;
            let bitmap = children
                .iter()
                .enumerate()
                .map(bit)
                .fold(0, |bits, bit| bits | bit);
            out.extend_from_slice(&bitmap.to_le_bytes());
        }
        match node.value {
            NewValue::None => {}
            NewValue::Inline(value) => {
                push_compact(out, value.len());
                out.extend_from_slice(value);
            }
            NewValue::Kept(hash) => out.extend_from_slice(hash),
            NewValue::Fresh(index) => out.extend_from_slice(values[index].as_ref()),
        }
        for child in children.into_iter().flatten() {
            let reference = match child {
                Built::Empty => continue,
                Built::Kept(at) => self.trie.reference(*at, self.table),
                Built::Unloaded(reference) => reference,
                Built::New(index) => references[*index].bytes(),
            };
            push_compact(out, reference.len());
            out.extend_from_slice(reference);
        }
    }
}
