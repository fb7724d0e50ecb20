//! A node of a compact proof, and the node of the trie that it stands for.
//!
//! ```text
//! item = node, where a child of no bytes stands for a child that is an item of its own
//!      | 01 node, whose value is the whole next item
//! ```
//! Bytes after the node are ignored, as in trie-db.

use crate::{
    codec::{push_header, Kind},
    decode::{
        child_length, decode, ChildOffsets, DecodedNode, ESCAPE_HEADER, HASH_LENGTH_BYTE, NULL_NODE,
    },
    DecodeError, NodeHash,
};
use alloc::vec::Vec;
use core::ops::Range;

/// The parts of a node of a compact proof.
#[derive(Clone, Debug)]
pub struct CompactNode {
    /// The place of the node in the item, without escape byte and trailing bytes.
    bytes: Range<usize>,
    kind: CompactKind,
    partial_nibbles: usize,
    partial: Range<usize>,
    children: ChildOffsets,
    omitted: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompactKind {
    Null,
    Leaf,
    Branch,
}

impl CompactNode {
    /// Finds the parts of the node in `item`.
    ///
    /// # Errors
    /// [`DecodeError`] if `item` holds no node.
    pub fn of(item: &[u8]) -> Result<Self, DecodeError> {
        let start = usize::from(item.first() == Some(&ESCAPE_HEADER));
        let data = &item[start..];
        let mut children = ChildOffsets::default();
        let (kind, partial_nibbles, partial, end) = match decode(data, &mut children)? {
            DecodedNode::Null => (CompactKind::Null, 0, 0..0, NULL_NODE.len()),
            DecodedNode::Node {
                partial,
                partial_nibbles,
                is_branch,
                end,
                ..
            } => {
                let kind = if is_branch {
                    CompactKind::Branch
                } else {
                    CompactKind::Leaf
                };
                (kind, partial_nibbles, partial, end)
            }
        };
        let mut omitted = 0;
        for (nibble, offset) in children.iter().enumerate() {
            if *offset != 0 && child_length(data, *offset as usize) == 0 {
                omitted |= 1 << nibble;
            }
        }
        Ok(Self {
            bytes: start..start + end,
            kind,
            partial_nibbles,
            partial,
            children,
            omitted,
        })
    }

    /// Whether the node's value is the next item.
    pub fn has_detached_value(&self) -> bool {
        self.bytes.start > 0
    }

    /// How many children have items of their own.
    pub fn omitted_children(&self) -> usize {
        self.omitted.count_ones() as usize
    }

    /// The place of the trie's node in the item; `None` if the node has to be [written](Self::expand).
    pub fn as_is(&self) -> Option<Range<usize>> {
        let is_whole = self.omitted == 0 && !self.has_detached_value();
        is_whole.then(|| self.bytes.clone())
    }

    /// Appends the trie's node to `out`, with the hash of the detached value, and with `children`, the hashes
    /// of all omitted children, in order.
    ///
    /// # Panics
    /// If `item` is shorter than the item that the node was found in.
    pub fn expand(
        &self,
        item: &[u8],
        value: Option<&NodeHash>,
        children: &[NodeHash],
        out: &mut Vec<u8>,
    ) {
        let data = &item[self.bytes.clone()];
        let first_child = self.children.iter().find(|offset| **offset != 0);
        // The length of the first child is one byte.
        let children_start = first_child.map_or(data.len(), |offset| *offset as usize - 1);
        match (self.kind, value) {
            (CompactKind::Null, _) => {
                out.extend_from_slice(NULL_NODE);
                return;
            }
            (_, None) => out.extend_from_slice(&data[..children_start]),
            (kind, Some(hash)) => {
                let is_branch = kind == CompactKind::Branch;
                let kind = if is_branch {
                    Kind::HashedBranch
                } else {
                    Kind::HashedLeaf
                };
                push_header(out, kind, self.partial_nibbles);
                // The bitmap of a branch follows its partial key.
                let end = self.partial.end + if is_branch { 2 } else { 0 };
                out.extend_from_slice(&data[self.partial.start..end]);
                out.extend_from_slice(hash.as_bytes());
            }
        }
        let mut hashes = children.iter();
        for offset in self.children.iter().filter(|offset| **offset != 0) {
            let start = *offset as usize;
            match child_length(data, start) {
                0 => {
                    out.push(HASH_LENGTH_BYTE);
                    out.extend(hashes.next().into_iter().flat_map(|hash| hash.as_bytes()));
                }
                length => out.extend_from_slice(&data[start - 1..start + length]),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A branch with an inline value of three bytes and children at 1 (a leaf inside it) and 4.
    const BRANCH: &[u8] = &[
        0b1100_0010,
        0xab,
        0b0001_0010,
        0,
        12,
        7,
        8,
        9,
        16,
        0x41,
        0x03,
        0x04,
        0x09,
        0,
    ];

    #[test]
    fn hashes_take_the_place_of_what_was_omitted() {
        let node = CompactNode::of(BRANCH).unwrap();
        assert_eq!(
            (node.omitted_children(), node.has_detached_value()),
            (1, false)
        );
        assert_eq!(node.as_is(), None);
        let hash = NodeHash::from([5; 32]);
        let mut out = Vec::new();
        node.expand(BRANCH, None, &[hash], &mut out);
        let expected = [&BRANCH[..13], &[128], &[5; 32]].concat();
        assert_eq!(out, expected);
        let whole = CompactNode::of(&expected).unwrap();
        assert_eq!(whole.as_is(), Some(0..expected.len()));
    }

    #[test]
    fn a_detached_value_makes_the_node_one_with_a_hash() {
        let item = [&[ESCAPE_HEADER], BRANCH, &[0xff; 3]].concat();
        let node = CompactNode::of(&item).unwrap();
        assert!(node.has_detached_value());
        let (value, child) = (NodeHash::from([6; 32]), NodeHash::from([5; 32]));
        let mut out = Vec::new();
        node.expand(&item, Some(&value), &[child], &mut out);
        let expected = [
            &[0b0001_0010, 0xab, 0b0001_0010, 0][..],
            &[6; 32],
            &BRANCH[8..13],
            &[128],
            &[5; 32],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn bytes_after_a_node_are_ignored() {
        let node = CompactNode::of(&[0, 1, 2]).unwrap();
        assert_eq!(node.as_is(), Some(0..1));
        assert!(CompactNode::of(&[]).is_err());
        assert!(CompactNode::of(&[ESCAPE_HEADER]).is_err());
    }
}
