//! Nodes of the new trie, and their parts.
//!
//! They borrow nothing: a new key or value is an index of its change, and an old part is an index of its
//! loaded node. So the next computation can use their memory.

#[cfg(feature = "parallel")]
use super::encode::Reference;
use crate::ShadowNode;
use core::ops::Range;

/// Changes next to each other, by index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The path to a node: the first `shared` nibbles of the key of a change, and one more nibble or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) shared: usize,
    pub(super) change: u32,
    pub(super) more: Option<u8>,
}

impl Place {
    pub(super) fn of(change: u32, shared: usize) -> Self {
        Self {
            shared,
            change,
            more: None,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.shared + usize::from(self.more.is_some())
    }
}

/// The result of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Built {
    Empty,
    /// A loaded node, unchanged.
    Kept(ShadowNode),
    /// A node that is not loaded: its parent, and its nibble there.
    Unloaded(ShadowNode, u8),
    /// Index into the new nodes.
    New(u32),
}

/// The children of a branch, by nibble.
pub(super) type Children = [Built; 16];

/// The children of a leaf.
pub(super) const NO_CHILDREN: Children = [Built::Empty; 16];

/// The value of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewValue {
    None,
    /// The value of a change, inside the node: index of the change.
    Inline(u32),
    /// The value of a change as a node of its own: index into the new values.
    ValueNode(u32),
    /// The value of a loaded node.
    Old(ShadowNode),
}

/// A new value that is a node of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewValueNode {
    /// Index of the change that writes the value.
    pub(super) change: u32,
    /// The loaded node that has the key's old value, if that is a node of its own.
    pub(super) replaces: Option<ShadowNode>,
}

/// The partial key of a new node.
#[derive(Clone, Debug)]
pub(super) enum NewPartial {
    /// The partial key of a loaded node.
    Of(ShadowNode),
    /// A range of the batch's nibbles.
    Nibbles(Range<usize>),
}

/// The parts of a new node.
#[derive(Clone, Debug)]
pub(super) enum Parts {
    /// A loaded leaf with the value of a change.
    Leaf(ShadowNode, NewValue),
    /// A loaded branch with some children replaced: a range of the batch's `others`.
    Branch(ShadowNode, Range<u32>),
    /// `children` is an index into the batch's children, `None` for a leaf.
    New {
        partial: NewPartial,
        value: NewValue,
        children: Option<u32>,
    },
    /// A subtree that was encoded apart.
    #[cfg(feature = "parallel")]
    Encoded(Reference),
}

/// A node of the new trie.
#[derive(Debug)]
pub(super) struct NewNode {
    pub(super) place: Place,
    pub(super) parts: Parts,
    /// The loaded node that was at this place.
    pub(super) replaces: Option<ShadowNode>,
    /// Number of levels of new nodes below this node.
    pub(super) height: u32,
}

/// The most changes of one trie. More changes are refused before a computation.
///
/// A computation makes at most two new nodes for each change, and one for each of fewer than 2^31 loaded
/// nodes. So there are fewer than 2^29 + 2^31 new nodes, and a `u32` can number them.
pub(crate) const MOST_CHANGES: usize = 1 << 28;

/// `count` of changes, or of the nodes that they make, as a `u32`. [`MOST_CHANGES`] keeps it in range.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
