//! Conversion between a root update and the peer's transaction, a `PrefixedMemoryDB`.
//!
//! A `PrefixedMemoryDB` keys a node by its position and hash:
//! ```text
//! path (whole bytes) ++ odd nibble (high half of one byte, if there is one) ++ hash
//! ```
//! So the positions `12 3_` and `12 30` of one node share a key there: their references are added up,
//! and both come back as `12 30`. A store with such keys, or keyed by hash alone, cannot tell them
//! apart either.

use povmeter::{NodeChange, NodeHash, Root, RootUpdate};
use povmeter_delta_root::Blake2b256;
use sp_core::{Hasher, H256};
use sp_trie::{HashDBT, PrefixedMemoryDB};

/// Why node changes cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodesError {
    /// The null node changes. A `PrefixedMemoryDB` always has it and never counts it.
    #[error("expected changes of nodes that can be counted, found {references} of the null node")]
    NullNode {
        /// References gained or lost.
        references: i32,
    },
    /// A node gains references but has no encoding.
    #[error("expected the encoding of the new node {hash}, found none")]
    NoEncoding {
        /// Hash of the node.
        hash: NodeHash,
    },
    /// The sum of the references at two positions with one key does not fit in an `i32`.
    #[error("expected references of {hash} to add up to 32 bits, found {counted} and {more} more")]
    References {
        /// Hash of the node.
        hash: NodeHash,
        /// References at one position.
        counted: i32,
        /// References at the other position.
        more: i32,
    },
    /// A key is too short to contain a hash.
    #[error("expected a key of at least 32 bytes, found {length}")]
    ShortKey {
        /// Length of the key in bytes.
        length: usize,
    },
    /// The key of a node contains another hash.
    #[error("expected a node with hash {expected}, found one with hash {found}")]
    Hash {
        /// Hash in the key.
        expected: NodeHash,
        /// Hash of the node.
        found: NodeHash,
    },
}

/// Converts a hash to the type of `H`: cuts it if that type is shorter, appends zeros if it is longer. The
/// result is useful only for hashers of 32 bytes.
pub fn out_of<H: Hasher>(hash: &[u8; 32]) -> H::Out {
    let mut out = H::Out::default();
    let bytes = out.as_mut().iter_mut();
    bytes.zip(hash).for_each(|(out, byte)| *out = *byte);
    out
}

/// Converts the nodes of `update` to the form in which sp-state-machine's backend returns them.
///
/// Copies each new node once for each reference that it gains, and hashes nothing.
///
/// # Errors
/// [`NodesError`] if a `PrefixedMemoryDB` cannot express the update. It can express every update
/// that [`povmeter`] makes.
pub fn to_prefixed_memory_db<H: Hasher>(
    update: &RootUpdate,
) -> Result<PrefixedMemoryDB<H>, NodesError> {
    let mut nodes = PrefixedMemoryDB::<H>::default();
    let mut counted_at_most = 0_u64;
    for change in update.nodes.iter() {
        let NodeChange {
            hash, references, ..
        } = change;
        if hash == Root::EMPTY.node_hash() {
            return Err(NodesError::NullNode { references });
        }
        if references > 0 && change.encoded.is_empty() {
            return Err(NodesError::NoEncoding { hash });
        }
        let (key, prefix) = (out_of::<H>(hash.as_bytes()), change.prefix());
        counted_at_most += u64::from(references.unsigned_abs());
        // Up to that count no sum overflows, so the look-up, which takes a third of the time, is skipped.
        if counted_at_most > i32::MAX.unsigned_abs().into() {
            let counted = nodes.raw(&key, prefix).map_or(0, |(_, counted)| counted);
            if counted.checked_add(references).is_none() {
                let more = references;
                return Err(NodesError::References {
                    hash,
                    counted,
                    more,
                });
            }
        }
        for _ in 0..references {
            nodes.emplace(key, prefix, change.encoded.to_vec());
        }
        for _ in references..0 {
            nodes.remove(&key, prefix);
        }
    }
    Ok(nodes)
}

/// Returns the root update from `parent` to `root` with the changes `nodes`; the inverse of
/// [`to_prefixed_memory_db`]. `children` are storage keys and new roots, sorted by storage key.
///
/// Copies and hashes each new node once, because the keys of `nodes` may be wrong.
///
/// # Errors
/// [`NodesError`] if `nodes` are not changes of nodes with Blake2b-256 hashes.
pub fn from_prefixed_memory_db<H: Hasher<Out = H256>>(
    parent: Root,
    root: Root,
    children: Vec<(Vec<u8>, Root)>,
    mut nodes: PrefixedMemoryDB<H>,
) -> Result<RootUpdate, NodesError> {
    let changed = nodes.drain().into_iter();
    let changed = changed.filter(|(_, (_, references))| *references != 0);
    let nodes = changed.map(|(key, (node, references))| change(key, node, references));
    let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    nodes.sort_unstable();
    let nodes = nodes
        .iter()
        .map(|(hash, path, references, encoded)| NodeChange {
            path,
            odd_nibble: None,
            hash: *hash,
            references: *references,
            encoded,
        });
    Ok(RootUpdate {
        parent,
        root,
        children,
        nodes: nodes.collect(),
    })
}

/// A change of one node: hash, path, references, and the encoding if it gains references.
type Changed = (NodeHash, Vec<u8>, i32, Vec<u8>);

/// Converts one entry of a `PrefixedMemoryDB`.
fn change(mut key: Vec<u8>, node: Vec<u8>, references: i32) -> Result<Changed, NodesError> {
    let short = NodesError::ShortKey { length: key.len() };
    let Some((_, hash)) = key.split_last_chunk::<32>() else {
        return Err(short);
    };
    let hash = NodeHash::from(*hash);
    if hash == Root::EMPTY.node_hash() {
        return Err(NodesError::NullNode { references });
    }
    let encoded = if references > 0 { node } else { Vec::new() };
    if references > 0 {
        let (expected, found) = (hash, Blake2b256::hash(&encoded));
        if expected != found {
            return Err(NodesError::Hash { expected, found });
        }
    }
    key.truncate(key.len() - hash.as_bytes().len());
    Ok((hash, key, references, encoded))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sp_core::Blake2Hasher;

    type Nodes = PrefixedMemoryDB<Blake2Hasher>;

    fn changed(
        path: &'static [u8],
        odd_nibble: Option<u8>,
        node: &'static [u8],
        references: i32,
    ) -> NodeChange<'static> {
        NodeChange {
            path,
            odd_nibble,
            hash: Blake2b256::hash(node),
            references,
            encoded: if references > 0 { node } else { &[] },
        }
    }

    fn update(nodes: Vec<NodeChange<'_>>) -> RootUpdate {
        RootUpdate {
            parent: [1; 32].into(),
            root: [2; 32].into(),
            children: vec![(b"pool".to_vec(), Root::EMPTY)],
            nodes: nodes.into_iter().collect(),
        }
    }

    fn there(nodes: Vec<NodeChange<'_>>) -> Result<Nodes, NodesError> {
        to_prefixed_memory_db(&update(nodes))
    }

    fn back(nodes: Nodes) -> Result<RootUpdate, NodesError> {
        let RootUpdate {
            parent,
            root,
            children,
            ..
        } = update(Vec::new());
        from_prefixed_memory_db(parent, root, children, nodes)
    }

    #[test]
    fn there_and_back() {
        let nodes = vec![
            changed(&[], None, b"root", 1),
            changed(&[0x12], None, b"gone", -1),
            changed(&[0x12], None, b"gone thrice", -3),
            changed(&[0x12, 0x34], None, b"new twice", 2),
        ];
        let mut nodes = nodes;
        nodes.sort_by_key(|node| node.hash);
        let prefixed = there(nodes.clone()).unwrap();
        assert_eq!(prefixed.keys().len(), 4);
        assert_eq!(back(prefixed).unwrap(), update(nodes));
    }

    #[test]
    fn an_odd_nibble_comes_back_as_a_byte() {
        let odd = there(vec![changed(&[0x12], Some(0x30), b"node", 1)]).unwrap();
        let found = back(odd).unwrap();
        assert_eq!(
            found,
            update(vec![changed(&[0x12, 0x30], None, b"node", 1)])
        );
        let nodes = || there(found.nodes.iter().collect()).unwrap();
        assert!(nodes() == nodes());
        // Both positions at once.
        let gone = changed(&[0x12, 0x30], None, b"node", -1);
        let moved = vec![changed(&[0x12], Some(0x30), b"node", 1), gone];
        assert_eq!(back(there(moved).unwrap()).unwrap(), update(Vec::new()));
    }

    #[test]
    fn what_can_not_be_expressed_is_an_error() {
        let null = changed(&[], None, &[0], 1);
        let references = 1;
        assert_eq!(
            there(vec![null]).err(),
            Some(NodesError::NullNode { references })
        );
        let mut bare = changed(&[], None, b"node", 1);
        bare.encoded = &[];
        let hash = bare.hash;
        assert_eq!(
            there(vec![bare]).err(),
            Some(NodesError::NoEncoding { hash })
        );
        let most = changed(&[0x12], Some(0x30), b"node", i32::MIN);
        let one = changed(&[0x12, 0x30], None, b"node", -1);
        let hash = one.hash;
        // In this order, because the reverse order would call `remove` 2^31 times.
        let found = there(vec![one, most]).err();
        let (counted, more) = (-1, i32::MIN);
        let expected = NodesError::References {
            hash,
            counted,
            more,
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn foreign_entries_are_errors() {
        let mut nodes = Nodes::default();
        nodes.emplace(H256([7; 32]), (&[0x12], None), b"node".to_vec());
        let (expected, found) = ([7; 32].into(), Blake2b256::hash(b"node"));
        assert_eq!(
            back(nodes).err(),
            Some(NodesError::Hash { expected, found })
        );
        let length = 31;
        let short = change(vec![1; length], Vec::new(), -1);
        assert_eq!(short.err(), Some(NodesError::ShortKey { length }));
        let null = Root::EMPTY.as_bytes().to_vec();
        let references = -2;
        let found = change(null, Vec::new(), references);
        assert_eq!(found.err(), Some(NodesError::NullNode { references }));
    }
}
