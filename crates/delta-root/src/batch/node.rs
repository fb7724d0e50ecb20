//! Nodes of the new trie, and what they are made of.
//!
//! None of them borrows anything: keys and values are named by the change that they are in, and old
//! parts by the loaded node. So the memory of one computation serves the next.

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

/// Where a node begins: the first `shared` nibbles of the key of a change, and one more.
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
    /// A node that was not visited: the branch above it, and its nibble there.
    Unloaded(ShadowNode, u8),
    /// Index into the new nodes.
    New(u32),
}

/// The children of a branch, by nibble.
pub(super) type Children = [Built; 16];

/// Those of a leaf.
pub(super) const NO_CHILDREN: Children = [Built::Empty; 16];

/// The value of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewValue {
    None,
    /// That of a change, inside the node.
    Inline(u32),
    /// That of a change, a node of its own: index into the new values.
    ValueNode(u32),
    /// That of a loaded node, which has one.
    Old(ShadowNode),
}

/// A new value that is a node of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewValueNode {
    /// The change that it is of.
    pub(super) change: u32,
    /// The loaded node that has the old value of the key.
    pub(super) replaces: Option<ShadowNode>,
}

/// The partial key of a new node.
#[derive(Clone, Debug)]
pub(super) enum NewPartial {
    /// That of a loaded node.
    Of(ShadowNode),
    /// In the batch's nibbles.
    Nibbles(Range<usize>),
}

/// What a new node is made of.
#[derive(Clone, Debug)]
pub(super) enum Parts {
    /// A loaded leaf with the value of a change.
    Leaf(ShadowNode, NewValue),
    /// A loaded branch, some of whose children are others: a range of the batch's.
    Branch(ShadowNode, Range<u32>),
    /// `children` is an index; `None` for a leaf.
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
    /// The loaded node that was at its place.
    pub(super) replaces: Option<ShadowNode>,
    /// Levels of new nodes below.
    pub(super) height: u32,
}

/// The most changes of one trie; more are refused before a computation.
///
/// A computation makes at most two new nodes for each change, and one for each loaded node, of which
/// there are fewer than 2^31. So the numbers of all that it makes are below 2^29 + 2^31.
pub(crate) const MOST_CHANGES: usize = 1 << 28;

/// A number of changes, or an index of what they make. [`MOST_CHANGES`] keeps it in range.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
