//! Tries as docs/proof-size.md describes them: built from their entries, walked node by node.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Bytes = Vec<u8>;
pub(crate) type Hash = [u8; 32];
/// Hashes, with the lengths of the hashed bytes.
pub(crate) type Set = BTreeMap<Hash, usize>;
/// Values with the state version that wrote them.
pub(crate) type Entries = BTreeMap<Bytes, (Bytes, u64)>;

pub(crate) fn hash(bytes: &[u8]) -> Hash {
    sp_io::hashing::blake2_256(bytes)
}

pub(crate) fn compact(n: usize) -> Bytes {
    codec::Encode::encode(&codec::Compact(u32::try_from(n).unwrap()))
}

pub(crate) fn nibbles(key: &[u8]) -> Bytes {
    key.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect()
}

/// A trie node; children are by nibble.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) bytes: Bytes,
    /// `None` for an inlined node.
    pub(crate) hash: Option<Hash>,
    pub(crate) partial: Bytes,
    /// The value, and whether it is a value node.
    pub(crate) value: Option<(Bytes, bool)>,
    pub(crate) children: BTreeMap<u8, Node>,
}

impl Node {
    /// The root node of a trie.
    pub(crate) fn trie(entries: &Entries) -> Self {
        let entries: Vec<_> = entries
            .iter()
            .map(|(key, value)| (nibbles(key), value))
            .collect();
        let mut root = match entries.as_slice() {
            [] => Self {
                bytes: vec![0],
                ..Self::default()
            },
            entries => Self::new(entries, 0),
        };
        root.hash = Some(hash(&root.bytes));
        root
    }

    /// The node of sorted entries whose keys are equal up to `depth`.
    fn new(entries: &[(Bytes, &(Bytes, u64))], depth: usize) -> Self {
        let (first, last) = (
            &entries[0].0[depth..],
            &entries[entries.len() - 1].0[depth..],
        );
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let mut node = Self {
            partial: first[..common].to_vec(),
            ..Self::default()
        };
        let end = depth + common;
        let mut below: BTreeMap<u8, Vec<_>> = BTreeMap::new();
        for (key, value) in entries {
            match key.get(end) {
                None => node.value = Some((value.0.clone(), value.1 == 1 && value.0.len() >= 33)),
                Some(nibble) => below
                    .entry(*nibble)
                    .or_default()
                    .push((key.clone(), *value)),
            }
        }
        let children = below.into_iter();
        node.children = children
            .map(|(nibble, entries)| (nibble, Self::new(&entries, end + 1)))
            .collect();
        node.bytes = node.encode();
        node.hash = (node.bytes.len() >= 32).then(|| hash(&node.bytes));
        node
    }

    /// The kind's bits of the header, and how many bits are left for the count of nibbles.
    pub(crate) fn kind(&self) -> (u8, u32) {
        match (self.children.is_empty(), &self.value) {
            (true, Some((_, true))) => (0x20, 5),
            (true, _) => (0x40, 6),
            (false, None) => (0x80, 6),
            (false, Some((_, false))) => (0xc0, 6),
            (false, Some((_, true))) => (0x10, 4),
        }
    }

    pub(crate) fn header(&self, (kind, bits): (u8, u32)) -> Bytes {
        let most = 2usize.pow(bits) - 1;
        let Some(mut rest) = self.partial.len().checked_sub(most) else {
            return vec![kind | u8::try_from(self.partial.len()).unwrap()];
        };
        let mut header = vec![kind | u8::try_from(most).unwrap()];
        while rest >= 255 {
            header.push(255);
            rest -= 255;
        }
        header.push(u8::try_from(rest).unwrap());
        header
    }

    fn encode(&self) -> Bytes {
        let mut out = self.header(self.kind());
        let (odd, even) = self.partial.split_at(self.partial.len() % 2);
        out.extend(odd);
        out.extend(even.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
        if !self.children.is_empty() {
            let bitmap = self
                .children
                .keys()
                .fold(0u16, |bits, nibble| bits | 1 << nibble);
            out.extend(bitmap.to_le_bytes());
        }
        match &self.value {
            None => {}
            Some((value, true)) => out.extend(hash(value)),
            Some((value, false)) => out.extend([compact(value.len()), value.clone()].concat()),
        }
        for child in self.children.values() {
            let held = child.hash.map_or(child.bytes.clone(), |hash| hash.to_vec());
            out.extend([compact(held.len()), held].concat());
        }
        out
    }

    pub(crate) fn count(&self, set: &mut Set) {
        if let Some(hash) = self.hash {
            set.insert(hash, self.bytes.len());
        }
    }

    pub(crate) fn walk(&self, key: &[u8], set: &mut Set) -> Option<&(Bytes, bool)> {
        let (key, mut node) = (nibbles(key), self);
        let mut rest = key.as_slice();
        loop {
            node.count(set);
            rest = rest.strip_prefix(node.partial.as_slice())?;
            let Some((nibble, after)) = rest.split_first() else {
                return node.value.as_ref();
            };
            (node, rest) = (node.children.get(nibble)?, after);
        }
    }

    pub(crate) fn successor(
        &self,
        from: &[u8],
        inclusive: bool,
        prefix: usize,
        set: &mut Set,
    ) -> Option<Bytes> {
        let (mut node, mut path, mut passed) = (self, Bytes::new(), Vec::new());
        loop {
            node.count(set);
            let rest = &from[path.len()..];
            let common = rest
                .iter()
                .zip(&node.partial)
                .take_while(|(a, b)| a == b)
                .count();
            let (ours, theirs) = (node.partial.get(common), rest.get(common));
            if ours.is_some() && (theirs.is_none() || ours > theirs) {
                return (path.len() + common >= prefix).then(|| node.leftmost(path, set));
            }
            if ours.is_some() {
                break;
            }
            path.extend(&node.partial);
            let Some(nibble) = from.get(path.len()) else {
                if inclusive && node.value.is_some() {
                    return Some(path);
                }
                passed.push((node, 0, path.len()));
                break;
            };
            passed.push((node, nibble + 1, path.len()));
            let Some(child) = node.children.get(nibble) else {
                break;
            };
            path.push(*nibble);
            node = child;
        }
        while let Some((branch, nibble, length)) = passed.pop() {
            if length < prefix {
                return None;
            }
            if let Some((nibble, child)) = branch.children.range(nibble..).next() {
                path.truncate(length);
                path.push(*nibble);
                return Some(child.leftmost(path, set));
            }
        }
        None
    }

    fn leftmost(&self, mut path: Bytes, set: &mut Set) -> Bytes {
        self.count(set);
        path.extend(&self.partial);
        match (&self.value, self.children.first_key_value()) {
            (None, Some((nibble, child))) => {
                path.push(*nibble);
                child.leftmost(path, set)
            }
            _ => path,
        }
    }

    /// Counts the children that merge, and returns whether the node is live.
    pub(crate) fn settle(&self, path: &[u8], deleted: &BTreeSet<Bytes>, set: &mut Set) -> bool {
        let path = [path, &self.partial].concat();
        let value = self.value.is_some() && !deleted.contains(&path);
        let mut live = Vec::new();
        for (nibble, child) in &self.children {
            if child.settle(&[path.as_slice(), &[*nibble]].concat(), deleted, set) {
                live.push(child);
            }
        }
        if let (false, [child]) = (value, live.as_slice()) {
            child.count(set);
        }
        value || !live.is_empty()
    }
}
