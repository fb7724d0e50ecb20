//! The layout of a loaded node in memory: half a cache line, and one line more for a branch's children.
//!
//! A walk through a large trie waits for memory at each level, so the parts of a node that a walk needs
//! lie together: the encoded bytes are read only to compare a partial key.

use super::ShadowNode;
use crate::{
    decode::{header_bytes, ChildOffsets, DecodedValue},
    index::{Index, OptionalIndex},
    nibbles::Partial,
    DecodeError, NodeId,
};
use core::ops::Range;

/// The place of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Inline {
        start: Index,
        length: Index,
    },
    /// The hash lies at `start`; the value itself is loaded at its first read.
    Hashed {
        start: Index,
        loaded: Option<NodeId>,
    },
}

const INLINED: u8 = 1;
const VALUE_LIVE: u8 = 2;
const INLINE_VALUE: u8 = 4;
const HASHED_VALUE: u8 = 8;
/// The node is in the trie's list of nodes that have lost a live part.
const LISTED: u8 = 16;

/// The offset `at` into loaded bytes, as an index.
///
/// # Errors
/// [`DecodeError::TooLong`] if it is no index.
pub(super) fn offset(at: usize) -> Result<Index, DecodeError> {
    Index::new(at).ok_or(DecodeError::TooLong { found: at })
}

/// A node of a shadow trie.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Node {
    /// The loaded bytes that hold this node.
    pub(super) data: NodeId,
    /// The offset in `data` of an inlined node; the length of any other node, which fills `data`.
    extent: Index,
    value_start: Index,
    /// The length of an inline value, or the id of a value that is a node, once that is loaded.
    value_extent: OptionalIndex,
    partial_nibbles: Index,
    parent: OptionalIndex,
    /// Index of the node's children in the trie's branches.
    branch: OptionalIndex,
    /// Nibble of this node in its parent.
    pub(super) nibble: u8,
    pub(super) live_children: u8,
    flags: u8,
    /// Bytes before the partial key, or [`LONG_HEADER`].
    header: u8,
}

/// Stands for a header of 255 bytes or more, whose length is computed each time.
const LONG_HEADER: u8 = u8::MAX;

impl Node {
    /// The null node, which fills `length` bytes of `data`.
    pub(super) fn null(data: NodeId, length: Index) -> Self {
        Self {
            data,
            extent: length,
            value_start: Index::ZERO,
            value_extent: OptionalIndex::NONE,
            partial_nibbles: Index::ZERO,
            parent: OptionalIndex::NONE,
            branch: OptionalIndex::NONE,
            nibble: 0,
            live_children: 0,
            flags: 0,
            header: 0,
        }
    }

    /// Puts the node below `parent`, at `nibble`.
    pub(super) fn place(&mut self, parent: ShadowNode, nibble: u8) {
        self.parent = OptionalIndex::some(parent.0);
        self.nibble = nibble;
    }

    /// Makes the node a part of its parent's bytes, from `start` on. Such a node has no hash.
    pub(super) fn set_inlined(&mut self, start: Index) {
        self.flags |= INLINED;
        self.extent = start;
    }

    /// Gives the node a partial key of `nibbles` nibbles after `header` bytes, and a live `value`; `base` is
    /// the offset of the node in its data.
    pub(super) fn set_parts(
        &mut self,
        header: usize,
        nibbles: usize,
        value: Option<DecodedValue>,
        base: usize,
    ) -> Result<(), DecodeError> {
        self.partial_nibbles = offset(nibbles)?;
        self.header = u8::try_from(header).unwrap_or(LONG_HEADER);
        let (flag, range) = match value {
            None => return Ok(()),
            Some(DecodedValue::Inline(range)) => (INLINE_VALUE, range),
            Some(DecodedValue::Hash(range)) => (HASHED_VALUE, range),
        };
        self.flags |= flag | VALUE_LIVE;
        self.value_start = offset(base + range.start)?;
        if flag == INLINE_VALUE {
            self.value_extent = OptionalIndex::some(offset(range.len())?);
        }
        Ok(())
    }

    pub(super) fn set_branch(&mut self, branch: Index, children: u8) {
        self.branch = OptionalIndex::some(branch);
        self.live_children = children;
    }

    pub(super) fn set_loaded_value(&mut self, id: NodeId) {
        self.value_extent = OptionalIndex::some(id.0);
    }

    pub(super) fn set_value_live(&mut self, live: bool) {
        if live {
            self.flags |= VALUE_LIVE;
        } else {
            self.flags &= !VALUE_LIVE;
        }
    }

    /// Notes that the node is in the trie's list of nodes that have lost a live part; returns whether it was not
    /// before.
    pub(super) fn list(&mut self) -> bool {
        let new = self.flags & LISTED == 0;
        self.flags |= LISTED;
        new
    }

    /// Marks the value, if there is one, and all `children` as live, and takes the node off the list.
    pub(super) fn revive(&mut self, children: u8) {
        self.flags &= !LISTED;
        self.set_value_live(self.has_value());
        self.live_children = children;
    }

    /// Whether the node is a part of its parent's bytes.
    #[inline]
    pub(super) fn inlined(&self) -> bool {
        self.flags & INLINED != 0
    }

    #[inline]
    pub(super) fn value_live(&self) -> bool {
        self.flags & VALUE_LIVE != 0
    }

    /// Whether the value or a child is live.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.value_live() || self.live_children > 0
    }

    #[inline]
    pub(super) fn has_value(&self) -> bool {
        self.flags & (INLINE_VALUE | HASHED_VALUE) != 0
    }

    #[inline]
    pub(super) fn value(&self) -> Value {
        let (start, extent) = (self.value_start, self.value_extent.get());
        match (self.flags & (INLINE_VALUE | HASHED_VALUE), extent) {
            (INLINE_VALUE, Some(length)) => Value::Inline { start, length },
            (HASHED_VALUE, loaded) => Value::Hashed {
                start,
                loaded: loaded.map(NodeId),
            },
            _ => Value::None,
        }
    }

    #[inline]
    pub(super) fn parent(&self) -> Option<ShadowNode> {
        self.parent.get().map(ShadowNode)
    }

    /// Index of the node's children in the trie's branches.
    #[inline]
    pub(super) fn branch(&self) -> Option<usize> {
        self.branch.get().map(Index::get)
    }

    /// Length in bytes of a node that is not inlined.
    #[inline]
    pub(super) fn stored_length(&self) -> usize {
        self.extent.get()
    }

    /// Where the node begins in its data.
    #[inline]
    pub(super) fn start(&self) -> usize {
        if self.inlined() {
            self.extent.get()
        } else {
            0
        }
    }

    #[inline]
    pub(super) fn partial_nibbles(&self) -> usize {
        self.partial_nibbles.get()
    }

    /// The node's partial key, in the `data` that holds the node.
    #[inline]
    pub(super) fn partial<'t>(&self, data: &'t [u8]) -> Partial<'t> {
        let nibbles = self.partial_nibbles();
        let start = self.start() + self.header_bytes();
        Partial::new(&data[start..start + nibbles.div_ceil(2)], nibbles)
    }

    /// Where the partial key ends in the data.
    pub(super) fn partial_end(&self) -> usize {
        self.start() + self.header_bytes() + self.partial_nibbles().div_ceil(2)
    }

    #[inline]
    fn header_bytes(&self) -> usize {
        if self.header != LONG_HEADER {
            return usize::from(self.header);
        }
        // The bits for the count of nibbles in the first byte of this kind of node.
        let bits = match (self.flags & HASHED_VALUE != 0, self.branch()) {
            (false, _) => 6,
            (true, None) => 5,
            (true, Some(_)) => 4,
        };
        header_bytes(self.partial_nibbles(), bits)
    }

    /// The place in the data of an inline value, or of the hash of a value that is a node.
    pub(super) fn range(start: Index, length: usize) -> Range<usize> {
        start.get()..start.get() + length
    }
}

/// A place for a child in a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildSlot {
    Empty,
    /// Not loaded; its hash or its bytes begin at this offset of the branch's data.
    At(usize),
    Loaded(ShadowNode),
}

/// The bit of a slot that holds a node and not an offset. Nodes and offsets are indices, which are less.
const LOADED: u32 = Index::END;

/// The places for children of a branch.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Branch([u32; 16]);

impl Branch {
    /// The branch with children at these offsets from `base`; zero stands for no child.
    pub(super) fn new(mut offsets: ChildOffsets, base: Index) -> Self {
        let base = base.bits();
        if base > 0 {
            for offset in offsets.iter_mut().filter(|offset| **offset != 0) {
                // The sum is an offset into the bytes that hold the branch, and so an index.
                *offset += base;
            }
        }
        Self(offsets)
    }

    #[inline]
    pub(super) fn slot(&self, nibble: u8) -> ChildSlot {
        match self.0[usize::from(nibble)] {
            0 => ChildSlot::Empty,
            loaded if loaded & LOADED != 0 => {
                ChildSlot::Loaded(ShadowNode(Index::unmarked(loaded)))
            }
            offset => ChildSlot::At(offset as usize),
        }
    }

    pub(super) fn set_loaded(&mut self, nibble: u8, child: ShadowNode) {
        self.0[usize::from(nibble)] = LOADED | child.0.bits();
    }

    /// Number of children.
    pub(super) fn count(&self) -> u8 {
        self.0.iter().map(|slot| u8::from(*slot != 0)).sum()
    }

    /// The nibble of the first child at or after `from`.
    pub(super) fn first_from(&self, from: u8) -> Option<u8> {
        (from..16).find(|nibble| self.0[usize::from(*nibble)] != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_do_not_lie_across_cache_lines() {
        assert_eq!(size_of::<Node>(), 32);
        assert_eq!(size_of::<Branch>(), 64);
    }
}
