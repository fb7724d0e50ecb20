//! The places of nodes in their tries, found from the nodes above them.
//!
//! A path can be as long as the partial keys of all nodes above together. So a place does not hold its path: it
//! names the place above, and each partial key is held once. Memory then grows with the bytes of the nodes, whatever
//! a running node sends.

use crate::state::RemoteKey;
use povmeter_delta_root::{NodeHash, NodeReferences, CHILD_ROOT_PREFIX, HASH_LENGTH};
use std::collections::{hash_map::Entry, HashMap};

/// The most nibbles of a path that an error message shows.
const SHOWN: usize = 512;

/// The places of nodes, by hash. If equal nodes lie at several places, one place is kept.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_hash: HashMap<NodeHash, usize>,
    /// None is removed, so that others can name it by its index.
    places: Vec<Place>,
}

/// The place of a trie node or of a value node.
#[derive(Debug)]
struct Place {
    above: Above,
    trie: Trie,
    /// The partial key of the node here, one nibble per byte, once the places below are noted.
    partial: Option<Box<[u8]>>,
}

/// What refers to the node at a place.
#[derive(Clone, Copy, Debug)]
enum Above {
    /// No node of the same trie: here is its root.
    Root,
    /// The node at the place `parent`, whose child this is.
    Parent { parent: usize, nibble: u8 },
    /// The node at the place `parent`, whose value this is.
    ValueOf { parent: usize },
}

/// The trie of a place.
#[derive(Clone, Copy, Debug)]
enum Trie {
    Top(PrefixMatch),
    /// The child trie whose root is the value of the node at the place `root_of`.
    Child {
        root_of: usize,
    },
}

/// How a path in the top trie begins, because the roots of child tries lie below [`CHILD_ROOT_PREFIX`].
#[derive(Clone, Copy, Debug)]
enum PrefixMatch {
    /// With this many nibbles of the prefix, and then the path ends.
    Part(u8),
    Whole,
    No,
}

impl Above {
    fn is_value(self) -> bool {
        matches!(self, Self::ValueOf { .. })
    }
}

impl Trie {
    /// The same trie, for a path longer by these nibbles.
    fn below(self, nibbles: &[u8]) -> Self {
        match self {
            Self::Top(prefix) => Self::Top(prefix.below(nibbles)),
            child @ Self::Child { .. } => child,
        }
    }
}

impl PrefixMatch {
    fn below(self, nibbles: &[u8]) -> Self {
        let Self::Part(mut matched) = self else {
            return self;
        };
        let prefix = CHILD_ROOT_PREFIX.iter();
        let prefix = prefix.flat_map(|byte| [byte >> 4, byte & 15]);
        let mut found = nibbles.iter();
        for expected in prefix.skip(usize::from(matched)) {
            match found.next() {
                None => return Self::Part(matched),
                Some(found) if *found != expected => return Self::No,
                Some(_) => matched += 1,
            }
        }
        Self::Whole
    }
}

impl Places {
    /// Notes the root node of the top trie.
    pub(crate) fn note_root(&mut self, hash: NodeHash) {
        self.note(hash, Above::Root, Trie::Top(PrefixMatch::Part(0)));
    }

    /// A key whose look-up passes the place of the node with this hash, if a known node refers to it: the path,
    /// padded with a zero nibble to whole bytes. The trie need not hold the key.
    pub(crate) fn key(&self, hash: &NodeHash) -> Option<RemoteKey> {
        let place = self.get(hash)?;
        let child = self.child(place.trie);
        Some((
            child.as_deref().map(packed),
            packed(&self.path(place.above)),
        ))
    }

    /// Describes the place of the node with this hash, if a known node refers to it.
    pub(crate) fn describe(&self, hash: &NodeHash) -> Option<String> {
        let place = self.get(hash)?;
        let of_value = if place.above.is_value() {
            "of the value "
        } else {
            ""
        };
        let trie = match self.child(place.trie) {
            None => "the top trie".to_owned(),
            Some(key) => format!("the child trie {}", hex_shortened(&key)),
        };
        let path = hex_shortened(&self.path(place.above));
        Some(format!("{of_value}at the path {path} of {trie}"))
    }

    fn get(&self, hash: &NodeHash) -> Option<&Place> {
        self.by_hash.get(hash).map(|at| &self.places[*at])
    }

    /// The nibbles from the root of the trie to the place below `above`; the whole key of a value node. A chain of
    /// nodes can be millions long, so this is a loop.
    fn path(&self, mut above: Above) -> Vec<u8> {
        let mut reversed = Vec::new();
        loop {
            let parent = match above {
                Above::Root => break,
                Above::ValueOf { parent } => parent,
                Above::Parent { parent, nibble } => {
                    reversed.push(nibble);
                    parent
                }
            };
            let place = &self.places[parent];
            reversed.extend(place.partial.as_deref().unwrap_or_default().iter().rev());
            above = place.above;
        }
        reversed.reverse();
        reversed
    }

    /// The nibbles of the storage key of a child trie; `None` for the top trie.
    fn child(&self, trie: Trie) -> Option<Vec<u8>> {
        let Trie::Child { root_of } = trie else {
            return None;
        };
        let mut key = self.path(Above::ValueOf { parent: root_of });
        key.drain(..key.len().min(2 * CHILD_ROOT_PREFIX.len()));
        Some(key)
    }

    /// Notes a place. Returns whether the node there is new as a trie node, so that its references have to be
    /// noted, too.
    fn note(&mut self, hash: NodeHash, above: Above, trie: Trie) -> bool {
        let place = Place {
            above,
            trie,
            partial: None,
        };
        match self.by_hash.entry(hash) {
            Entry::Vacant(entry) => {
                entry.insert(self.places.len());
                self.places.push(place);
                !above.is_value()
            }
            Entry::Occupied(entry) => {
                let known = &mut self.places[*entry.get()];
                // The same bytes are a value in one place and a node in another.
                let is_new = known.above.is_value() && !above.is_value();
                if is_new {
                    // No place is below that of a value, so none gets another path.
                    *known = place;
                }
                is_new
            }
        }
    }

    /// Whether a known node refers to the node with this hash.
    pub(crate) fn has(&self, hash: &NodeHash) -> bool {
        self.by_hash.contains_key(hash)
    }

    /// Notes the places to which the node `encoded` with this hash refers, if its own place is known. Returns
    /// the hashes of the trie nodes that are new, and that of its value node.
    pub(crate) fn note_below(&mut self, hash: &NodeHash, encoded: &[u8]) -> Vec<NodeHash> {
        let Some(parent) = self.by_hash.get(hash).copied() else {
            return Vec::new();
        };
        let place = &mut self.places[parent];
        if place.above.is_value() || place.partial.is_some() {
            return Vec::new();
        }
        // The trie code refuses bytes that are no node, and names their hash and place.
        let Ok(references) = NodeReferences::of(encoded) else {
            return Vec::new();
        };
        let trie = place.trie.below(&references.partial);
        place.partial = Some(references.partial.into_boxed_slice());
        let mut new = Vec::new();
        for (nibble, child) in references.children {
            let above = Above::Parent { parent, nibble };
            if self.note(child, above, trie.below(&[nibble])) {
                new.push(child);
            }
        }
        if let Some(value) = references.value {
            self.note(value, Above::ValueOf { parent }, trie);
            new.push(value);
        }
        if let (Trie::Top(PrefixMatch::Whole), Some(range)) = (trie, references.inline_value) {
            let root = encoded.get(range).map(<[u8; HASH_LENGTH]>::try_from);
            if let Some(Ok(root)) = root {
                let root = NodeHash::from(root);
                if self.note(root, Above::Root, Trie::Child { root_of: parent }) {
                    new.push(root);
                }
            }
        }
        new
    }
}

/// The bytes of `nibbles`, padded with a zero nibble.
fn packed(nibbles: &[u8]) -> Vec<u8> {
    let pair = |pair: &[u8]| pair[0] << 4 | pair.get(1).copied().unwrap_or_default();
    nibbles.chunks(2).map(pair).collect()
}

/// The beginning of `nibbles` in hexadecimal with 0x.
fn hex_shortened(nibbles: &[u8]) -> String {
    let shown = nibbles.iter().take(SHOWN);
    let digits = shown.filter_map(|nibble| char::from_digit(u32::from(*nibble), 16));
    let text: String = "0x".chars().chain(digits).collect();
    match nibbles.len() > SHOWN {
        true => format!("{text}... ({} nibbles)", nibbles.len()),
        false => text,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter_delta_root::Blake2b256;

    /// A partial key and a value of 32 bytes.
    type Part<'p> = (&'p [u8], Option<[u8; 32]>);

    fn prefix() -> Vec<u8> {
        let bytes = CHILD_ROOT_PREFIX.iter();
        bytes.flat_map(|byte| [byte >> 4, byte & 15]).collect()
    }

    /// A branch with children at the nibbles of `bitmap`. That at 7 has the hash `child`, the others have hashes of
    /// their own.
    fn branch((partial, value): Part<'_>, bitmap: u16, child: NodeHash) -> Vec<u8> {
        let mut node = Vec::new();
        let kind = if value.is_some() { 0xc0 } else { 0x80 };
        match partial.len().checked_sub(63) {
            None => node.push(kind | u8::try_from(partial.len()).unwrap()),
            Some(rest) => {
                node.push(kind | 63);
                node.resize(node.len() + rest / 255, 255);
                node.push(u8::try_from(rest % 255).unwrap());
            }
        }
        let (odd, pairs) = partial.split_at(partial.len() % 2);
        node.extend(odd);
        node.extend(packed(pairs));
        node.extend(bitmap.to_le_bytes());
        if let Some(value) = value {
            node.push(32 << 2);
            node.extend(value);
        }
        for nibble in (0..16_u8).filter(|nibble| bitmap >> nibble & 1 == 1) {
            let mut hash = *child.as_bytes();
            hash[0] ^= nibble ^ 7;
            node.push(32 << 2);
            node.extend(hash);
        }
        node
    }

    /// The places of a chain of branches with these parts, from the root on, each below nibble 7 of the one before.
    /// Returns the hash that the lowest refers to.
    fn chain(parts: &[Part<'_>], bitmap: u16) -> (Places, NodeHash) {
        let lowest = NodeHash::from([9; 32]);
        let (mut hash, mut nodes) = (lowest, Vec::new());
        for part in parts.iter().rev() {
            let node = branch(*part, bitmap, hash);
            hash = Blake2b256::hash(&node);
            nodes.push((hash, node));
        }
        let mut places = Places::default();
        places.note_root(hash);
        for (hash, node) in nodes.iter().rev() {
            assert!(!places.note_below(hash, node).is_empty());
            // What is known is not noted again.
            assert!(places.note_below(hash, node).is_empty());
        }
        (places, lowest)
    }

    /// The nibbles that all places hold together.
    fn held(places: &Places) -> usize {
        let partials = places.places.iter().flat_map(|place| &place.partial);
        partials.map(|partial| partial.len()).sum()
    }

    #[test]
    fn memory_grows_with_the_bytes_of_nodes_and_not_with_their_paths() {
        const LONG: usize = (64 << 10) + 1;
        let partials: Vec<Vec<u8>> = (0..50).map(|number| vec![number % 16; LONG]).collect();
        let parts: Vec<Part<'_>> = partials
            .iter()
            .map(|partial| (&partial[..], None))
            .collect();
        let (places, lowest) = chain(&parts, 0xffff);
        assert_eq!(places.places.len(), 1 + 50 * 16);
        assert_eq!(held(&places), 50 * LONG);
        // The path is right nevertheless.
        let path = partials
            .iter()
            .flat_map(|partial| [partial, &[7][..]].concat());
        let path: Vec<u8> = path.collect();
        assert_eq!(places.key(&lowest).unwrap(), (None, packed(&path)));
        let shown = places.describe(&lowest).unwrap();
        let expected = format!("... ({} nibbles) of the top trie", path.len());
        assert!(shown.ends_with(&expected) && shown.len() < 1000, "{shown}");
    }

    #[test]
    fn roots_of_child_tries_need_no_copies_of_their_keys() {
        const LONG: usize = 64 << 10;
        let first = [&prefix(), &[1; LONG][..]].concat();
        let next = vec![2; LONG + 1];
        let mut parts: Vec<Part<'_>> = vec![(&first, Some([100; 32]))];
        parts.extend((101..150).map(|root| (&next[..], Some([root; 32]))));
        let (places, lowest) = chain(&parts, 0xffff);
        assert_eq!(held(&places), first.len() + 49 * next.len());
        for count in 0..50 {
            let rest = [&[7][..], &next].concat().repeat(count);
            let child = packed(&[&first[prefix().len()..], &rest].concat());
            let root = NodeHash::from([100 + u8::try_from(count).unwrap(); 32]);
            assert_eq!(places.key(&root).unwrap(), (Some(child), Vec::new()));
            let shown = places.describe(&root).unwrap();
            let expected = "at the path 0x of the child trie 0x1111";
            assert!(shown.starts_with(expected) && shown.len() < 1000, "{shown}");
        }
        assert_eq!(places.key(&lowest).unwrap().0, None);
    }

    /// If each node walked up to the root, this would take minutes.
    #[test]
    fn a_long_chain_is_noted_in_one_pass() {
        const NODES: u32 = 200_000;
        let prefix = prefix();
        let root = |number: u32| <[u8; 32]>::try_from(number.to_le_bytes().repeat(8)).unwrap();
        let mut parts: Vec<Part<'_>> = vec![(&prefix, Some(root(0)))];
        parts.extend((1..NODES).map(|number| (&[][..], Some(root(number)))));
        let (places, lowest) = chain(&parts, 1 << 7);
        let (child, key) = places.key(&lowest).unwrap();
        assert_eq!((child, key.len()), (None, 23 + NODES as usize / 2));
    }

    #[test]
    fn child_tries_lie_below_their_prefix_alone() {
        let prefix = prefix();
        assert_eq!((prefix.len(), prefix[14]), (46, 7));
        for (partials, expected) in [
            (&[&prefix[..]][..], Some(&[][..])),
            (&[&prefix, &[1, 2, 3]], Some(&[0x71, 0x23])),
            (&[&prefix[..14], &prefix[15..]], Some(&[])),
            // With a nibble 7 in place of the next one of the prefix.
            (&[&prefix[..3], &prefix[4..]], None),
            (&[&prefix[..45]], None),
            (&[&prefix[1..]], None),
        ] {
            let (last, above) = partials.split_last().unwrap();
            let mut parts: Vec<Part<'_>> = above.iter().map(|partial| (*partial, None)).collect();
            parts.push((last, Some([100; 32])));
            let (places, _) = chain(&parts, 0xffff);
            let found = places.key(&NodeHash::from([100; 32]));
            let expected = expected.map(|child| (Some(child.to_vec()), Vec::new()));
            assert_eq!(found, expected, "{partials:?}");
        }
    }
}
