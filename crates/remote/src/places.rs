//! The places of nodes in their tries, found from the nodes above them.

use povmeter_delta_root::{NodeHash, NodeReferences, CHILD_ROOT_PREFIX, HASH_LENGTH};
use std::{collections::HashMap, fmt, sync::Arc};

/// The place of a trie node or of a value node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Storage key of the child trie; `None` in the top trie.
    pub(crate) child: Option<Arc<[u8]>>,
    /// The path to a trie node, or the whole key of a value node; one nibble per byte.
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

    /// Returns a key whose look-up passes this place: the path, padded with a zero nibble to whole bytes. The
    /// trie need not hold the key.
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

/// The places of nodes, by hash. If equal nodes lie at several places, one place is kept.
#[derive(Debug, Default)]
pub(crate) struct Places(HashMap<NodeHash, Place>);

impl Places {
    /// The place of the node with this hash, if a known node refers to it.
    pub(crate) fn get(&self, hash: &NodeHash) -> Option<&Place> {
        self.0.get(hash)
    }

    /// Notes a place. Returns whether the node there is new as a trie node, so that its references have to be
    /// noted, too.
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

    /// Notes the places to which the node `encoded` with this hash refers, if its own place is known. Returns
    /// the hashes of the trie nodes that are new.
    pub(crate) fn note_below(&mut self, hash: &NodeHash, encoded: &[u8]) -> Vec<NodeHash> {
        let Some(place) = self.0.get(hash).filter(|place| !place.is_value).cloned() else {
            return Vec::new();
        };
        // The trie code refuses bytes that are no node, and names their hash and place.
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
