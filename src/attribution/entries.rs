//! The recorded nodes, with the reasons to need each of them.

use alloc::vec::Vec;
use core::ops::Range;
use povmeter_delta_root::{NodeHash, TrieId};

/// Why a part of a block needs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// A read passed it.
    Read,
    /// It is the value that was read, stored under its own hash.
    Value,
    /// It is on the path to a changed key.
    Path,
    /// The root computation merges it with the branch above it, below which a key was deleted. Or it is
    /// the null node, for a trie whose last keys were deleted.
    Merge,
}

/// What a recorded node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A trie node.
    Node,
    /// A value stored under its own hash.
    Value,
    /// The null node: a trie without entries.
    Null,
}

/// The class of a recorded node; each has exactly one. [`RecordedEntry::owner`] defines items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// One part needs it for one item, and reads pass it.
    Read,
    /// One part needs it for one item, and no read passes it: it is on the path to a changed key, or
    /// the null node.
    Root,
    /// One part needs it for one item, and only because the root computation merges it.
    Sibling,
    /// One part needs it for one item: the value that it reads.
    Value,
    /// Several parts need it, or one part for several items.
    Shared,
}

/// The owner of a recorded node; see [`RecordedEntry::owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner<T> {
    /// The lowest number among the parts that need it; 0 if none is known.
    pub part: u32,
    /// The item that it is needed for; `None` if it is needed for several.
    pub item: Option<T>,
    /// Its class.
    pub cause: Cause,
    /// Whether other parts need it, too.
    pub several_parts: bool,
}

/// A reason to need a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Want<'a> {
    /// The number of the part, from [`Block::begin_part`](crate::Block::begin_part).
    pub part: u32,
    /// Why the part needs the node.
    pub why: Why,
    /// The trie of the key. Nodes of the top trie on the path to a child trie's root have the child
    /// here.
    pub trie: TrieId<'a>,
    /// The key read, changed or deleted; for a search, where it began or the prefix that was cleared.
    pub key: &'a [u8],
}

/// A [`Want`] with its keys in an arena.
#[derive(Clone, Debug)]
pub(super) struct OwnedWant {
    pub(super) part: u32,
    pub(super) why: Why,
    pub(super) child: Option<Range<usize>>,
    pub(super) key: Range<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct OwnedEntry {
    pub(super) hash: NodeHash,
    pub(super) bytes: u64,
    pub(super) kind: EntryKind,
    /// The child trie's storage key.
    pub(super) child: Option<Vec<u8>>,
    pub(super) path: Vec<u8>,
    /// Its range in `Attribution::wanted_by`.
    pub(super) wants: Range<usize>,
}

/// Every recorded node of a block, each once, with the reasons to need it.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    pub(super) entries: Vec<OwnedEntry>,
    pub(super) wants: Vec<OwnedWant>,
    /// Indices into `wants`, grouped by entry.
    pub(super) wanted_by: Vec<usize>,
    pub(super) keys: Vec<u8>,
    pub(super) parts: u32,
}

impl Attribution {
    /// The recorded nodes, each once, in the order in which they were loaded; in a carrying pool an earlier
    /// block may have loaded them.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = RecordedEntry<'_>> + '_ {
        let whole = self;
        self.entries
            .iter()
            .map(move |entry| RecordedEntry { whole, entry })
    }

    /// How many parts the block had begun, which have the numbers from 1 to this one.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// Bytes of all entries together: the recorded size.
    pub fn total_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    pub(super) fn want(&self, index: usize) -> Want<'_> {
        let OwnedWant {
            part,
            why,
            child,
            key,
        } = &self.wants[index];
        Want {
            part: *part,
            why: *why,
            trie: match child {
                None => TrieId::Top,
                Some(range) => TrieId::Child(&self.keys[range.clone()]),
            },
            key: &self.keys[key.clone()],
        }
    }
}

/// A recorded node; see [`Attribution::entries`].
#[derive(Clone, Copy, Debug)]
pub struct RecordedEntry<'a> {
    whole: &'a Attribution,
    entry: &'a OwnedEntry,
}

impl<'a> RecordedEntry<'a> {
    /// Its hash.
    pub fn hash(&self) -> NodeHash {
        self.entry.hash
    }

    /// Bytes that it adds to the recorded size: its length and the SCALE prefix of the length.
    pub fn bytes(&self) -> u64 {
        self.entry.bytes
    }

    /// Its kind.
    pub fn kind(&self) -> EntryKind {
        self.entry.kind
    }

    /// The trie that it is in; if it is in several, the one that the block opened first.
    pub fn trie(&self) -> TrieId<'a> {
        match &self.entry.child {
            None => TrieId::Top,
            Some(storage_key) => TrieId::Child(storage_key),
        }
    }

    /// The nibbles, one per byte, from the root of its trie to the end of its partial key; for a value
    /// the nibbles of its key.
    pub fn path(&self) -> &'a [u8] {
        &self.entry.path
    }

    /// The reasons to need it, ordered by part, each once. There is at least one, unless the node is needed
    /// only for changes that [`Block::copy_changes`](crate::Block::copy_changes) took over.
    pub fn wants(&self) -> impl ExactSizeIterator<Item = Want<'a>> + 'a {
        let Self { whole, entry } = *self;
        whole.wanted_by[entry.wants.clone()]
            .iter()
            .map(move |&index| whole.want(index))
    }

    /// Its owner. `item_of` returns the item of the state that a want is for; wants with equal results
    /// are for one item.
    pub fn owner<T: PartialEq>(&self, mut item_of: impl FnMut(&Want<'a>) -> T) -> Owner<T> {
        let mut wants = self.wants();
        // A node without notes has no known owner, so it counts as shared.
        let Some(first) = wants.next() else {
            return Owner {
                part: 0,
                item: None,
                cause: Cause::Shared,
                several_parts: false,
            };
        };
        let item = item_of(&first);
        let (mut several_parts, mut several_items) = (false, false);
        let mut why = first.why;
        for want in wants {
            several_parts |= want.part != first.part;
            several_items |= item_of(&want) != item;
            // The reasons are ordered by weight: the first one decides.
            why = why.min(want.why);
        }
        Owner {
            part: first.part,
            cause: match why {
                _ if several_parts || several_items => Cause::Shared,
                Why::Read => Cause::Read,
                Why::Value => Cause::Value,
                Why::Merge if self.entry.kind != EntryKind::Null => Cause::Sibling,
                Why::Path | Why::Merge => Cause::Root,
            },
            item: (!several_items).then_some(item),
            several_parts,
        }
    }
}
