//! All nodes of a state, one after the other: those of the top trie, of its child tries, and values
//! that are nodes.
//!
//! Places come in the order of their paths, so two states can be walked side by side and equal subtries
//! skipped. A path is a sequence of steps; at one node they come in this order:
//!
//! ```text
//! VALUE   to the value node        CHILD_TRIE  to the root of the child trie that the value names
//! 2 + n   to the child, or along the partial key, at nibble n
//! ```

use povmeter_delta_root::{
    Blake2b256, DecodeError, NodeHash, NodeReferences, NodeSource, Root, SourceError,
    CHILD_ROOT_PREFIX,
};

const VALUE: u8 = 0;
const CHILD_TRIE: u8 = 1;
const NIBBLES: u8 = 2;

/// A place in a state where a node belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: Vec<u8>,
    pub(crate) hash: NodeHash,
    /// Number of nodes above the place, in its own trie and in the trie above that.
    pub(crate) depth: u32,
    is_value: bool,
    in_child_trie: bool,
}

/// What is wrong with a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeFault {
    /// The store does not have the node.
    #[error("missing")]
    Missing,
    /// Its bytes have another hash.
    #[error("corrupt: its bytes have the hash {found}")]
    Hash {
        /// Hash of the bytes.
        found: NodeHash,
    },
    /// Its bytes are no node of a trie.
    #[error("not a node: {0}")]
    Decode(#[source] DecodeError),
    /// The database failed.
    #[error("unreadable: {0}")]
    Source(#[source] SourceError),
}

/// The places of a state that are left to visit.
pub(crate) struct Walk<'s, S: ?Sized> {
    source: &'s S,
    /// The next place is the last element.
    left: Vec<Place>,
    /// The path of the prefix of all keys that name child tries.
    child_prefix: Vec<u8>,
}

impl<'s, S: NodeSource + ?Sized> Walk<'s, S> {
    /// Begins at the root node of `root`. The state without entries has no nodes.
    pub(crate) fn new(source: &'s S, root: Root) -> Self {
        let first = Place {
            path: Vec::new(),
            hash: root.node_hash(),
            depth: 0,
            is_value: false,
            in_child_trie: false,
        };
        let nibbles = CHILD_ROOT_PREFIX
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 0xf]);
        Self {
            source,
            left: if root == Root::EMPTY {
                vec![]
            } else {
                vec![first]
            },
            child_prefix: nibbles.map(|nibble| NIBBLES + nibble).collect(),
        }
    }

    /// The next place.
    pub(crate) fn peek(&self) -> Option<&Place> {
        self.left.last()
    }

    /// Skips the next place and all places below it.
    pub(crate) fn skip(&mut self) {
        self.left.pop();
    }

    /// Reads and checks the node at the next place, and goes on to the places below it. Returns the
    /// place and the length of the node. After a fault the walk skips the places below.
    pub(crate) fn enter(&mut self) -> Option<(Place, Result<usize, NodeFault>)> {
        let place = self.left.pop()?;
        let length = self.enter_place(&place);
        Some((place, length))
    }

    fn enter_place(&mut self, place: &Place) -> Result<usize, NodeFault> {
        // The store keys nodes by hash alone.
        let node = self.source.node(&place.hash, (&[], None));
        let node = node.map_err(NodeFault::Source)?.ok_or(NodeFault::Missing)?;
        let found = Blake2b256::hash(&node);
        if found != place.hash {
            return Err(NodeFault::Hash { found });
        }
        if place.is_value {
            return Ok(node.len());
        }
        let references = NodeReferences::of(&node).map_err(NodeFault::Decode)?;
        let mut path = place.path.clone();
        path.extend(references.partial.iter().map(|nibble| NIBBLES + nibble));
        let below = |step: u8, hash: NodeHash| Place {
            path: [path.as_slice(), &[step]].concat(),
            hash,
            depth: place.depth + 1,
            is_value: step == VALUE,
            in_child_trie: place.in_child_trie || step == CHILD_TRIE,
        };
        // In reverse order, because the walk takes the last place first.
        let children = references.children.iter().rev();
        self.left
            .extend(children.map(|(nibble, hash)| below(NIBBLES + nibble, *hash)));
        if let Some(root) = references
            .inline_value
            .and_then(|value| self.child_root(place, &path, &node[value]))
        {
            self.left.push(below(CHILD_TRIE, root.node_hash()));
        }
        if let Some(value) = references.value {
            self.left.push(below(VALUE, value));
        }
        Ok(node.len())
    }

    /// Returns the root of the child trie that the entry `value` at `path` names, if it names one.
    fn child_root(&self, place: &Place, path: &[u8], value: &[u8]) -> Option<Root> {
        if place.in_child_trie || !path.starts_with(&self.child_prefix) {
            return None;
        }
        let root = Root::from(<[u8; 32]>::try_from(value).ok()?);
        (root != Root::EMPTY).then_some(root)
    }
}
