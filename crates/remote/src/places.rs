//! Where nodes lie: found from the nodes above them.

use povmeter_delta_root::{NodeHash, NodeReferences, CHILD_ROOT_PREFIX, HASH_LENGTH};
use std::{collections::HashMap, fmt, sync::Arc};

/// The place of a node, or of a value that is a node of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Storage key of the child trie; `None` in the top trie.
    pub(crate) child: Option<Arc<[u8]>>,
    /// The path above it, one nibble a byte; of a value the whole key.
    nibbles: Vec<u8>,
    is_value: bool,
}

impl Place {
    /// The place of a root node.
    pub(crate) fn root(child: Option<Arc<[u8]>>) -> Self {
        Self {
            child,
            nibbles: Vec::new(),
            is_value: false,
        }
    }

    /// A key whose look-up passes this place, whether there is such a key or not: the path, filled up with
    /// a zero to whole bytes.
    pub(crate) fn key(&self) -> Vec<u8> {
        let pair = |pair: &[u8]| pair[0] << 4 | pair.get(1).copied().unwrap_or_default();
        self.nibbles.chunks(2).map(pair).collect()
    }

    fn below(&self, partial: &[u8], nibble: Option<u8>) -> Self {
        Self {
            child: self.child.clone(),
            nibbles: [&self.nibbles, partial, nibble.as_slice()].concat(),
            is_value: nibble.is_none(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_value {
            "of the value at "
        } else {
            "at "
        })?;
        f.write_str("the path 0x")?;
        for nibble in &self.nibbles {
            write!(f, "{nibble:x}")?;
        }
        match &self.child {
            None => f.write_str(" of the top trie"),
            Some(key) => write!(f, " of the child trie 0x{}", hex::encode(key)),
        }
    }
}

/// The places of nodes. Where equal nodes lie at several places, one of them is known.
#[derive(Debug, Default)]
pub(crate) struct Places(HashMap<NodeHash, Place>);

impl Places {
    /// The place of the node with this hash, if a known node refers to it.
    pub(crate) fn get(&self, hash: &NodeHash) -> Option<&Place> {
        self.0.get(hash)
    }

    /// Notes a place. Returns whether the node there has to be looked at: whether it is new as a trie node.
    pub(crate) fn note(&mut self, hash: NodeHash, place: Place) -> bool {
        match self.0.get_mut(&hash) {
            None => {
                let looks = !place.is_value;
                self.0.insert(hash, place);
                looks
            }
            // The same bytes are a value in one place and a node in another.
            Some(known) if known.is_value && !place.is_value => {
                *known = place;
                true
            }
            Some(_) => false,
        }
    }

    /// Notes the places that the node `encoded` with this hash refers to, if its own is known. Returns the
    /// hashes that are new.
    pub(crate) fn note_below(&mut self, hash: &NodeHash, encoded: &[u8]) -> Vec<NodeHash> {
        let Some(place) = self.0.get(hash).filter(|place| !place.is_value).cloned() else {
            return Vec::new();
        };
        // What is no node is refused where it is decoded for good, with its hash and place.
        let Ok(references) = NodeReferences::of(encoded) else {
            return Vec::new();
        };
        let mut new = Vec::new();
        let partial = &references.partial;
        for (nibble, child) in &references.children {
            if self.note(*child, place.below(partial, Some(*nibble))) {
                new.push(*child);
            }
        }
        if let Some(value) = references.value {
            self.note(value, place.below(partial, None));
        }
        if let (None, Some(range)) = (&place.child, references.inline_value) {
            let key = place.below(partial, None).key();
            let child = key.strip_prefix(CHILD_ROOT_PREFIX);
            let root = encoded.get(range).map(<[u8; HASH_LENGTH]>::try_from);
            if let (Some(child), Some(Ok(root))) = (child, root) {
                let root = NodeHash::from(root);
                if self.note(root, Place::root(Some(child.into()))) {
                    new.push(root);
                }
            }
        }
        new
    }
}
