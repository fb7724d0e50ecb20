//! Reading an encoded node.
//!
//! ```text
//! node   = null | header partial [bitmap] [value] [children]
//! null   = 00
//! header = 01nnnnnn  leaf                        n: count of partial nibbles. If its bits are all
//!          10nnnnnn  branch                         ones, the count is n plus the sum of the bytes
//!          11nnnnnn  branch with a value            that follow; the first byte below 255 is the
//!          001nnnnn  leaf, value by hash            last of them
//!          0001nnnn  branch, value by hash
//! partial  = nibbles, right aligned; the first byte of an odd count holds one nibble
//! bitmap   = u16 little endian, bit i: there is a child at nibble i       (branches)
//! value    = SCALE bytes, or a hash of 32 bytes
//! children = SCALE bytes each: 32 are a hash, fewer are the node itself   (branches)
//! ```

use crate::{index::Index, nibbles::Partial, scale, NodeHash, HASH_LENGTH};
use alloc::vec::Vec;
use core::ops::Range;

/// In a compact proof, the byte before a node whose value is the next item.
pub(crate) const ESCAPE_HEADER: u8 = 0b0000_0001;
/// The encoded null node: the root of a trie without entries.
pub(crate) const NULL_NODE: &[u8] = &[0];
/// The most bytes of a node, because offsets into it are indices.
const MAX_NODE_BYTES: usize = Index::END as usize - 1;

/// The length of a hash as a SCALE compact integer.
pub(crate) const HASH_LENGTH_BYTE: u8 = 32 << 2;

/// Why bytes are not a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The node ends before the parts that its header announces.
    #[error("node of {found} bytes ends early: expected {expected} bytes at least")]
    Truncated {
        /// Bytes needed at least.
        expected: usize,
        /// Bytes of the node.
        found: usize,
    },
    /// No kind of node begins with the first byte.
    #[error("expected a node header, found byte {found:#04x}")]
    Header {
        /// The first byte.
        found: u8,
    },
    /// A partial key with an odd count of nibbles must begin with a zero half byte.
    #[error("expected zero padding before an odd partial key, found byte {found:#04x}")]
    Padding {
        /// The first byte of the partial key.
        found: u8,
    },
    /// A branch without any child.
    #[error("branch without a child")]
    NoChildren,
    /// A length that is not a canonical SCALE compact integer.
    #[error("expected a SCALE compact length at byte {at}")]
    Length {
        /// The byte of the node.
        at: usize,
    },
    /// A child longer than a hash, which its parent has to hold by hash.
    #[error("child of {found} bytes: expected {HASH_LENGTH} at most")]
    ChildTooLong {
        /// Bytes of the child.
        found: usize,
    },
    /// A node inside its parent does not fill its place.
    #[error("node of {expected} bytes is followed by {} more", found - expected)]
    Trailing {
        /// Bytes of the node.
        expected: usize,
        /// Bytes of its place.
        found: usize,
    },
    /// More bytes than any state node has.
    #[error("node of {found} bytes: expected {MAX_NODE_BYTES} at most")]
    TooLong {
        /// Bytes of the node.
        found: usize,
    },
    /// A null node where a trie node must be.
    #[error("null node below the root")]
    NullBelowRoot,
}

/// Where a node's value lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodedValue {
    Inline(Range<usize>),
    Hash(Range<usize>),
}

/// The places of a node's parts in its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DecodedNode {
    Null,
    Node {
        partial: Range<usize>,
        partial_nibbles: usize,
        value: Option<DecodedValue>,
        /// Whether the node is a branch, and so has children.
        is_branch: bool,
        end: usize,
    },
}

/// The offset of each child of a branch, zero if there is none. The byte before it is the child's length.
pub(crate) type ChildOffsets = [u32; 16];

/// Finds the parts of the node in `data`. Puts the offsets of a branch's children into `children`, which is
/// all zeros before. Ignores bytes after the node.
///
/// # Errors
/// [`DecodeError`] if `data` does not begin with a node.
///
/// # Cost
/// A few steps per child, and none per byte of a value.
#[inline]
pub(crate) fn decode(data: &[u8], children: &mut ChildOffsets) -> Result<DecodedNode, DecodeError> {
    if data.len() > MAX_NODE_BYTES {
        return Err(DecodeError::TooLong { found: data.len() });
    }
    let mut input = NodeInput { data, at: 0 };
    let first = input.byte()?;
    if first == NULL_NODE[0] {
        return Ok(DecodedNode::Null);
    }
    let (is_branch, has_value, by_hash, size_bits) = match first >> 4 {
        0b0100..=0b0111 => (false, true, false, 6),
        0b1000..=0b1011 => (true, false, false, 6),
        0b1100..=0b1111 => (true, true, false, 6),
        0b0010 | 0b0011 => (false, true, true, 5),
        0b0001 => (true, true, true, 4),
        _ => return Err(DecodeError::Header { found: first }),
    };
    let partial_nibbles = input.partial_size(first, size_bits)?;
    let partial = input.take(partial_nibbles.div_ceil(2))?;
    if partial_nibbles % 2 == 1 && data[partial.start] > 0x0f {
        return Err(DecodeError::Padding {
            found: data[partial.start],
        });
    }
    let bitmap = if is_branch { input.bitmap()? } else { 0 };
    let value = match (has_value, by_hash) {
        (false, _) => None,
        (true, true) => Some(DecodedValue::Hash(input.take(HASH_LENGTH)?)),
        (true, false) => {
            let length = input.compact()?;
            Some(DecodedValue::Inline(input.take(length)?))
        }
    };
    if is_branch {
        input.children(bitmap, children)?;
    }
    Ok(DecodedNode::Node {
        partial,
        partial_nibbles,
        value,
        is_branch,
        end: input.at,
    })
}

/// The hashes that a node refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReferences {
    /// The nibbles of the node's partial key, one a byte.
    pub partial: Vec<u8>,
    /// The hashes of the children, each with its nibble, in order. Children inside the node have no hash,
    /// and refer to nothing.
    pub children: Vec<(u8, NodeHash)>,
    /// The hash of the value, if the value is a node of its own.
    pub value: Option<NodeHash>,
    /// The place of the value in the node, if the value is not a node of its own.
    pub inline_value: Option<Range<usize>>,
    /// Bytes by which the node is shorter in a compact proof if its value is an item of its own: there
    /// the node has an escape byte, and an empty inline value instead of the hash.
    pub detached_saving: usize,
}

impl NodeReferences {
    /// The references of the encoded node `data`.
    ///
    /// # Errors
    /// [`DecodeError`] if `data` is no node.
    pub fn of(data: &[u8]) -> Result<Self, DecodeError> {
        let mut children = ChildOffsets::default();
        let DecodedNode::Node {
            partial,
            value,
            is_branch,
            partial_nibbles,
            ..
        } = decode(data, &mut children)?
        else {
            return Ok(Self::default());
        };
        let hash = |start: usize| {
            let mut hash = [0; HASH_LENGTH];
            hash.copy_from_slice(&data[start..start + HASH_LENGTH]);
            NodeHash::from(hash)
        };
        // If the value is a hash, the header has fewer bits for the size than with an inline value.
        let by_hash_bits = if is_branch { 4 } else { 5 };
        let detached_saving = header_bytes(partial_nibbles, by_hash_bits) + HASH_LENGTH
            - header_bytes(partial_nibbles, 6)
            - 2;
        let children = (0..).zip(children.map(|offset| offset as usize));
        let by_hash = children
            .filter(|(_, offset)| *offset != 0 && child_length(data, *offset) == HASH_LENGTH);
        let partial = Partial::new(&data[partial], partial_nibbles);
        Ok(Self {
            partial: (0..partial.len()).map(|index| partial.at(index)).collect(),
            children: by_hash
                .map(|(nibble, offset)| (nibble, hash(offset)))
                .collect(),
            value: match &value {
                Some(DecodedValue::Hash(range)) => Some(hash(range.start)),
                _ => None,
            },
            inline_value: match value {
                Some(DecodedValue::Inline(range)) => Some(range),
                _ => None,
            },
            detached_saving,
        })
    }
}

/// Length in bytes of a node's header, whose first byte has `bits` bits for the count of `nibbles`.
pub(crate) fn header_bytes(nibbles: usize, bits: u32) -> usize {
    let most = (1 << bits) - 1;
    match nibbles.checked_sub(most) {
        None => 1,
        Some(rest) => 2 + rest / 255,
    }
}

/// Length in bytes of the child whose bytes begin at `offset`, as [`decode`] found it.
pub(crate) fn child_length(data: &[u8], offset: usize) -> usize {
    usize::from(data[offset - 1] >> 2)
}

struct NodeInput<'a> {
    data: &'a [u8],
    at: usize,
}

impl NodeInput<'_> {
    fn take(&mut self, count: usize) -> Result<Range<usize>, DecodeError> {
        let end = self.expect(count)?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    /// The end of the next `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the input ends before.
    #[inline]
    fn expect(&self, count: usize) -> Result<usize, DecodeError> {
        let end = self.at.saturating_add(count);
        if end > self.data.len() {
            return Err(DecodeError::Truncated {
                expected: end,
                found: self.data.len(),
            });
        }
        Ok(end)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.data[self.take(1)?.start])
    }

    fn partial_size(&mut self, first: u8, bits: u32) -> Result<usize, DecodeError> {
        let most = (1usize << bits) - 1;
        let mut size = usize::from(first) & most;
        if size < most {
            return Ok(size);
        }
        size -= 1;
        loop {
            let more = usize::from(self.byte()?);
            if more < 255 {
                return Ok(size.saturating_add(more + 1));
            }
            // Saturates only far beyond what fits into a node, where addresses have 32 bits.
            size = size.saturating_add(255);
            // Stops reading a count as soon as the node is too short for its nibbles.
            self.expect(size / 2)?;
        }
    }

    fn bitmap(&mut self) -> Result<u16, DecodeError> {
        let range = self.take(2)?;
        let bitmap = u16::from_le_bytes([self.data[range.start], self.data[range.start + 1]]);
        if bitmap == 0 {
            return Err(DecodeError::NoChildren);
        }
        Ok(bitmap)
    }

    fn children(&mut self, bitmap: u16, children: &mut ChildOffsets) -> Result<(), DecodeError> {
        let mut left = bitmap;
        while left != 0 {
            let length = match self.data.get(self.at) {
                // Most children are hashes.
                Some(&HASH_LENGTH_BYTE) => {
                    self.at += 1;
                    HASH_LENGTH
                }
                _ => self.compact()?,
            };
            if length > HASH_LENGTH {
                return Err(DecodeError::ChildTooLong { found: length });
            }
            let range = self.take(length)?;
            let start = Index::new(range.start).ok_or(DecodeError::TooLong { found: range.end })?;
            children[left.trailing_zeros() as usize] = start.bits();
            left &= left - 1;
        }
        Ok(())
    }

    fn compact(&mut self) -> Result<usize, DecodeError> {
        // The error tells a node that ends here from a length of the wrong form.
        let rest = &self.data[self.at..];
        match scale::read_compact(rest) {
            Some((value, used)) => {
                self.at += used;
                Ok(value)
            }
            None if rest.len() < 5 && may_go_on(rest) => Err(DecodeError::Truncated {
                expected: self.data.len() + 1,
                found: self.data.len(),
            }),
            None => Err(DecodeError::Length { at: self.at }),
        }
    }
}

/// Whether `rest` is the beginning of a compact integer that ends after it.
fn may_go_on(rest: &[u8]) -> bool {
    let used = match rest.first().map(|first| first & 0b11) {
        None => return true,
        Some(0b00) => 1,
        Some(0b01) => 2,
        Some(0b10) => 4,
        Some(_) => 5,
    };
    rest.len() < used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(data: &[u8]) -> Result<DecodedNode, DecodeError> {
        super::decode(data, &mut ChildOffsets::default())
    }

    #[test]
    fn leaf_and_branch_parts() {
        // Leaf, three nibbles 1 2 3, value "ab".
        let leaf = [0b0100_0011, 0x01, 0x23, 2 << 2, b'a', b'b'];
        let DecodedNode::Node {
            partial,
            partial_nibbles,
            value,
            is_branch,
            end,
        } = decode(&leaf).expect("a leaf")
        else {
            panic!("not a node")
        };
        assert_eq!((partial, partial_nibbles, end), (1..3, 3, 6));
        assert_eq!(value, Some(DecodedValue::Inline(4..6)));
        assert!(!is_branch);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let mut branch = [0u8; 3 + 32 + 33 + 3].to_vec();
        branch[0] = 0b0001_0000;
        branch[1] = 0b11;
        branch[35] = 32 << 2;
        branch[68] = 2 << 2;
        assert!(decode(&branch).is_ok());
        for length in 0..branch.len() {
            assert!(
                matches!(
                    decode(&branch[..length]),
                    Err(DecodeError::Truncated { .. })
                ),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn malformed_nodes_say_what_is_wrong() {
        assert_eq!(decode(&[0x02]), Err(DecodeError::Header { found: 2 }));
        assert_eq!(
            decode(&[0x41, 0x10, 0]),
            Err(DecodeError::Padding { found: 0x10 })
        );
        assert_eq!(decode(&[0x80, 0, 0]), Err(DecodeError::NoChildren));
        assert_eq!(
            decode(&[0x80, 1, 0, 33 << 2]),
            Err(DecodeError::ChildTooLong { found: 33 })
        );
        // No length of the value, and the first of its two bytes.
        for node in [&[0x40][..], &[0x40, 0b01]] {
            let (expected, found) = (node.len() + 1, node.len());
            let truncated = DecodeError::Truncated { expected, found };
            assert_eq!(decode(node), Err(truncated));
        }
        // 1 in two-byte mode.
        assert_eq!(
            decode(&[0x40, 0b101, 0]),
            Err(DecodeError::Length { at: 1 })
        );
        // A count of nibbles without an end: the node is too short for the nibbles.
        assert_eq!(
            decode(&[0xff; 5000]),
            Err(DecodeError::Truncated {
                expected: 5043,
                found: 5000
            })
        );
    }

    /// The header has a byte for each 255 nibbles, whatever their number.
    #[test]
    fn partial_keys_have_no_limit() {
        for nibbles in [
            1,
            62,
            63,
            64,
            317,
            318,
            319,
            1 << 20,
            (1 << 20) + 1,
            (1 << 22) + 7,
        ] {
            let mut leaf = Vec::new();
            crate::codec::push_header(&mut leaf, crate::codec::Kind::Leaf, nibbles);
            let header = leaf.len();
            assert_eq!(header, header_bytes(nibbles, 6));
            leaf.resize(header + nibbles.div_ceil(2), 0);
            leaf.push(0);
            let Ok(DecodedNode::Node {
                partial,
                partial_nibbles,
                ..
            }) = decode(&leaf)
            else {
                panic!("no node: {nibbles}")
            };
            assert_eq!((partial.start, partial_nibbles), (header, nibbles));
            leaf.truncate(leaf.len() - 2);
            assert!(matches!(decode(&leaf), Err(DecodeError::Truncated { .. })));
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_node_beyond_offsets_is_refused() {
        // Zeros that nothing reads need no memory.
        let found = MAX_NODE_BYTES + 1;
        let node = alloc::vec![0; found];
        assert_eq!(decode(&node), Err(DecodeError::TooLong { found }));
        assert_eq!(decode(&node[..found - 1]), Ok(DecodedNode::Null));
    }
}
