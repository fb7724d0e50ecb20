//! The net changes of a block.

use alloc::vec::Vec;
use core::{fmt, ops::Range};
use povmeter_delta_root::Changes;

/// A key and its new value; `None` deletes the key.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// The changes of all tries, with all keys and values in one buffer.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    bytes: Vec<u8>,
    entries: Vec<ChangedEntry>,
    /// By child trie, in order: its storage key, and its entries, which follow those of the top trie.
    children: Vec<(Range<usize>, Range<usize>)>,
    top: usize,
}

/// Where a key and its value lie in the buffer: the value follows the key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChangedEntry {
    key: Range<usize>,
    value: Option<Range<usize>>,
}

impl Changed {
    /// Replaces the content by `changes`.
    pub(crate) fn set(&mut self, changes: &Changes<'_>) {
        self.clear();
        self.push_all(&changes.top);
        self.top = self.entries.len();
        for (name, changes) in &changes.children {
            let name = self.push_bytes(name);
            let start = self.entries.len();
            self.push_all(changes);
            self.children.push((name, start..self.entries.len()));
        }
    }

    /// Removes all changes, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Self {
            bytes,
            entries,
            children,
            top,
        } = self;
        bytes.clear();
        entries.clear();
        children.clear();
        *top = 0;
    }

    /// Keeps memory for up to `most` keys, if there are no changes.
    #[cfg(feature = "std")]
    pub(crate) fn shrink_to(&mut self, most: usize) {
        self.bytes.shrink_to(256 * most);
        self.entries.shrink_to(most);
        self.children.shrink_to(most);
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn push_all(&mut self, changes: &[Change<'_>]) {
        let length = |(key, value): &Change<'_>| key.len() + value.map_or(0, <[u8]>::len);
        self.bytes.reserve(changes.iter().map(length).sum());
        self.entries.reserve(changes.len());
        for (key, value) in changes {
            let key = self.push_bytes(key);
            let value = value.map(|value| self.push_bytes(value));
            self.entries.push(ChangedEntry { key, value });
        }
    }

    fn range(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = Change<'_>> + Clone {
        self.entries[range]
            .iter()
            .map(|ChangedEntry { key, value }| {
                let value = value.clone().map(|value| &self.bytes[value]);
                (&self.bytes[key.clone()], value)
            })
    }

    /// The changes of the top trie, ordered by key.
    pub(crate) fn top(&self) -> impl ExactSizeIterator<Item = Change<'_>> + Clone {
        self.range(0..self.top)
    }

    /// The changed child tries ordered by storage key, each with its changes ordered by key.
    pub(crate) fn children(
        &self,
    ) -> impl ExactSizeIterator<
        Item = (
            &[u8],
            impl ExactSizeIterator<Item = Change<'_>> + Clone + use<'_>,
        ),
    > + Clone {
        self.children
            .iter()
            .map(|(name, range)| (&self.bytes[name.clone()], self.range(range.clone())))
    }
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.children().map(|(name, changes)| {
            let changes: Vec<_> = changes.collect();
            (name, changes)
        });
        let (top, children): (Vec<_>, Vec<_>) = (self.top().collect(), children.collect());
        let mut debug = f.debug_struct("Changed");
        debug.field("top", &top).field("children", &children);
        debug.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_goes_in_comes_out_in_the_place_of_what_was_there() {
        let first = Changes {
            top: vec![(b"long key".as_slice(), Some(b"long value".as_slice()))],
            children: vec![(b"gone", vec![(b"x", None)])],
        };
        let second = Changes {
            top: vec![
                (b"a".as_slice(), Some(b"1".as_slice())),
                (b"b", None),
                (b"c", Some(b"")),
            ],
            children: vec![
                (b"one", vec![(b"k", Some(b"v"))]),
                (b"two", vec![]),
                (b"", vec![(b"", None)]),
            ],
        };
        let mut changed = Changed::default();
        for changes in [&first, &second, &Changes::default(), &second] {
            changed.set(changes);
            assert!(changed.top().eq(changes.top.iter().copied()));
            let children = changed.children().map(|(name, all)| (name, all.collect()));
            let children: Vec<(&[u8], Vec<_>)> = children.collect();
            assert_eq!(children, changes.children);
        }
    }
}
