//! The node format as a codec of trie-db, which computes roots and packs proofs.

use crate::{
    decode::{
        self, ChildOffsets, DecodeError, DecodedNode, DecodedValue, ESCAPE_HEADER, NULL_NODE,
    },
    scale::push_compact,
    Blake2b256, NodeHash, Root, StateVersion,
};
use alloc::vec::Vec;
use core::borrow::Borrow;
use trie_db::{
    node::{NibbleSlicePlan, NodeHandlePlan, NodePlan, Value, ValuePlan},
    ChildReference, TrieLayout,
};

/// The node format of Substrate state tries, both state versions, as a trie-db codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateCodec;

/// trie-db layout that writes values as state version 0 does.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayoutV0;

/// trie-db layout that writes values as state version 1 does.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayoutV1;

macro_rules! layout {
    ($name:ident, $max_inline:expr) => {
        impl TrieLayout for $name {
            const USE_EXTENSION: bool = false;
            const ALLOW_EMPTY: bool = true;
            const MAX_INLINE_VALUE: Option<u32> = $max_inline;
            type Hash = Blake2b256;
            type Codec = StateCodec;
        }
    };
}

layout!(LayoutV0, None);
layout!(LayoutV1, Some(StateVersion::V1_NODE_VALUE));

/// The kinds of nodes that have a header.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Leaf,
    Branch,
    BranchWithValue,
    HashedLeaf,
    HashedBranch,
}

impl Kind {
    /// The fixed bits of the header and the number of bits left for the size.
    fn header(self) -> (u8, u32) {
        match self {
            Self::Leaf => (0b0100_0000, 6),
            Self::Branch => (0b1000_0000, 6),
            Self::BranchWithValue => (0b1100_0000, 6),
            Self::HashedLeaf => (0b0010_0000, 5),
            Self::HashedBranch => (0b0001_0000, 4),
        }
    }
}

/// Appends the header of a node whose partial key has `nibbles` nibbles.
pub(crate) fn push_header(out: &mut Vec<u8>, kind: Kind, nibbles: usize) {
    let (bits, size_bits) = kind.header();
    let most = (1u8 << size_bits) - 1;
    match u8::try_from(nibbles) {
        Ok(size) if size < most => out.push(bits | size),
        _ => {
            out.push(bits | most);
            let mut rest = nibbles - usize::from(most);
            while rest >= 255 {
                out.push(255);
                rest -= 255;
            }
            // Below 255 by the loop.
            out.push(u8::try_from(rest).unwrap_or(254));
        }
    }
}

fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Inline(bytes) => {
            push_compact(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        Value::Node(hash) => out.extend_from_slice(hash),
    }
}

impl trie_db::NodeCodec for StateCodec {
    const ESCAPE_HEADER: Option<u8> = Some(ESCAPE_HEADER);
    type Error = DecodeError;
    type HashOut = NodeHash;

    fn hashed_null_node() -> NodeHash {
        Root::EMPTY.node_hash()
    }

    fn decode_plan(data: &[u8]) -> Result<NodePlan, DecodeError> {
        let mut children = ChildOffsets::default();
        let (partial, value, is_branch) = match decode::decode(data, &mut children)? {
            DecodedNode::Null => return Ok(NodePlan::Empty),
            DecodedNode::Node {
                partial,
                partial_nibbles,
                value,
                is_branch,
                ..
            } => (
                NibbleSlicePlan::new(partial, partial_nibbles % 2),
                value,
                is_branch,
            ),
        };
        let value = value.map(|value| match value {
            DecodedValue::Inline(range) => ValuePlan::Inline(range),
            DecodedValue::Hash(range) => ValuePlan::Node(range),
        });
        if !is_branch {
            // A leaf always has a value: every leaf header says so.
            let value = value.ok_or(DecodeError::Header { found: data[0] })?;
            return Ok(NodePlan::Leaf { partial, value });
        }
        let children = children.map(|offset| {
            let offset = offset as usize;
            (offset != 0).then(|| {
                let length = decode::child_length(data, offset);
                let range = offset..offset + length;
                if length == crate::HASH_LENGTH {
                    NodeHandlePlan::Hash(range)
                } else {
                    NodeHandlePlan::Inline(range)
                }
            })
        });
        Ok(NodePlan::NibbledBranch {
            partial,
            value,
            children,
        })
    }

    fn is_empty_node(data: &[u8]) -> bool {
        data == NULL_NODE
    }

    fn empty_node() -> &'static [u8] {
        NULL_NODE
    }

    fn leaf_node(partial: impl Iterator<Item = u8>, nibbles: usize, value: Value<'_>) -> Vec<u8> {
        let kind = match value {
            Value::Inline(_) => Kind::Leaf,
            Value::Node(_) => Kind::HashedLeaf,
        };
        let mut out = Vec::new();
        push_header(&mut out, kind, nibbles);
        out.extend(partial);
        push_value(&mut out, &value);
        out
    }

    fn extension_node(
        _: impl Iterator<Item = u8>,
        _: usize,
        _: ChildReference<NodeHash>,
    ) -> Vec<u8> {
        unreachable!("layouts without extensions never ask for one")
    }

    fn branch_node(
        _: impl Iterator<Item = impl Borrow<Option<ChildReference<NodeHash>>>>,
        _: Option<Value<'_>>,
    ) -> Vec<u8> {
        unreachable!("layouts without extensions keep partial keys in branches")
    }

    fn branch_node_nibbled(
        partial: impl Iterator<Item = u8>,
        nibbles: usize,
        children: impl Iterator<Item = impl Borrow<Option<ChildReference<NodeHash>>>>,
        value: Option<Value<'_>>,
    ) -> Vec<u8> {
        let kind = match value {
            None => Kind::Branch,
            Some(Value::Inline(_)) => Kind::BranchWithValue,
            Some(Value::Node(_)) => Kind::HashedBranch,
        };
        let mut out = Vec::new();
        push_header(&mut out, kind, nibbles);
        out.extend(partial);
        let bitmap_at = out.len();
        out.extend_from_slice(&[0; 2]);
        if let Some(value) = &value {
            push_value(&mut out, value);
        }
        let mut bitmap = 0u16;
        for (index, child) in children.enumerate() {
            match child.borrow() {
                None => continue,
                Some(ChildReference::Hash(hash)) => {
                    push_compact(&mut out, hash.as_ref().len());
                    out.extend_from_slice(hash.as_ref());
                }
                Some(ChildReference::Inline(bytes, length)) => {
                    push_compact(&mut out, *length);
                    out.extend_from_slice(&bytes.as_ref()[..*length]);
                }
            }
            bitmap |= 1 << index;
        }
        out[bitmap_at..bitmap_at + 2].copy_from_slice(&bitmap.to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::header_bytes;

    #[test]
    fn headers_are_as_long_as_said() {
        for kind in [
            Kind::Leaf,
            Kind::BranchWithValue,
            Kind::HashedLeaf,
            Kind::HashedBranch,
        ] {
            for nibbles in (0..80).chain(310..330).chain(560..580) {
                let mut header = Vec::new();
                push_header(&mut header, kind, nibbles);
                let bits = kind.header().1;
                assert_eq!(
                    header.len(),
                    header_bytes(nibbles, bits),
                    "{nibbles} in {bits} bits"
                );
            }
        }
    }
}
