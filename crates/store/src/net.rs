//! The net changes of an update, for stores that key nodes by hash alone.

use crate::StoreError;
use bytes::Bytes;
use povmeter_delta_root::{NodeChange, NodeChanges, NodeHash, Root, RootUpdate};

/// The node of a trie without entries.
pub(crate) const NULL_NODE: &[u8] = &[0];

/// The net change of one node's reference count, summed over all its positions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NetChange {
    /// The node gains `references` references; never zero.
    Gain {
        hash: NodeHash,
        references: u64,
        encoded: Bytes,
    },
    /// The node loses `references` references; never zero.
    Loss { hash: NodeHash, references: u64 },
}

/// Adds up the changes of `update` by hash; the result is sorted by hash. A node that only moves is
/// left out. So is the null node, because every store has it.
///
/// # Errors
/// If the update lacks the encoding of a node that it adds.
pub(crate) fn net_changes(update: &RootUpdate) -> Result<Vec<NetChange>, StoreError> {
    let null_node = Root::EMPTY.node_hash();
    let changes = update.nodes.iter();
    let mut changes: Vec<_> = changes.filter(|node| node.hash != null_node).collect();
    changes.sort_by_key(|node| node.hash);
    changes
        .chunk_by(|a, b| a.hash == b.hash)
        .filter_map(|places| net_change(places, &update.nodes).transpose())
        .collect()
}

/// Adds up the changes of one node. Returns `None` if they cancel out.
fn net_change(
    places: &[NodeChange<'_>],
    all: &NodeChanges,
) -> Result<Option<NetChange>, StoreError> {
    let hash = places[0].hash;
    // This cannot overflow, because that would take 2^32 changes of i32::MIN.
    let references: i64 = places.iter().map(|node| i64::from(node.references)).sum();
    let magnitude = references.unsigned_abs();
    match references.signum() {
        0 => Ok(None),
        -1 => Ok(Some(NetChange::Loss {
            hash,
            references: magnitude,
        })),
        _ => {
            let gained = places
                .iter()
                .find(|node| node.references > 0 && is_encoding(node.encoded));
            let gained = gained.ok_or(StoreError::MissingEncoding { hash })?;
            let encoded = all.share(gained.encoded);
            Ok(Some(NetChange::Gain {
                hash,
                references: magnitude,
                encoded,
            }))
        }
    }
}

/// Whether `encoded` can be the encoding of a changed node. No node is empty, and the null node was
/// filtered out before.
fn is_encoding(encoded: &[u8]) -> bool {
    !encoded.is_empty() && encoded != NULL_NODE
}

/// Net references that the node `hash` gains (above zero) or loses (below zero). `changes` must be
/// sorted by hash.
pub(crate) fn net_references(changes: &[NetChange], hash: &NodeHash) -> i128 {
    match changes
        .binary_search_by_key(hash, |change| *change.hash())
        .map(|at| &changes[at])
    {
        Ok(NetChange::Gain { references, .. }) => i128::from(*references),
        Ok(NetChange::Loss { references, .. }) => -i128::from(*references),
        Err(_) => 0,
    }
}

impl NetChange {
    /// Bytes of the hash, and of the node if it is gained.
    #[cfg(any(feature = "parity-db", feature = "rocksdb"))]
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Gain { encoded, .. } => 32 + encoded.len(),
            Self::Loss { .. } => 32,
        }
    }

    /// Returns the references to the node after the change. The store holds `held` references before
    /// it, and can count to `limit`.
    ///
    /// # Errors
    /// [`StoreError::TooManyReferences`] above `limit`, [`StoreError::MissingReferences`] below zero.
    pub(crate) fn count_after(&self, held: u64, limit: u64) -> Result<u64, StoreError> {
        let hash = *self.hash();
        match *self {
            Self::Gain { references, .. } => {
                let after = held.checked_add(references);
                after
                    .filter(|after| *after <= limit)
                    .ok_or(StoreError::TooManyReferences {
                        hash,
                        gained: references,
                        held,
                        limit,
                    })
            }
            Self::Loss { references, .. } => {
                held.checked_sub(references)
                    .ok_or(StoreError::MissingReferences {
                        hash,
                        lost: references,
                        held,
                    })
            }
        }
    }

    pub(crate) fn hash(&self) -> &NodeHash {
        match self {
            Self::Gain { hash, .. } | Self::Loss { hash, .. } => hash,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter_delta_root::Blake2b256;

    fn change(path: &'static [u8], node: &'static [u8], references: i32) -> NodeChange<'static> {
        NodeChange {
            path,
            odd_nibble: None,
            hash: Blake2b256::hash(node),
            references,
            encoded: if references > 0 { node } else { &[] },
        }
    }

    fn net(nodes: Vec<NodeChange<'_>>) -> Result<Vec<NetChange>, StoreError> {
        net_changes(&RootUpdate {
            parent: Root::EMPTY,
            root: Root::EMPTY,
            children: vec![],
            nodes: nodes.into_iter().collect(),
        })
    }

    #[test]
    fn a_node_that_moves_does_not_appear() {
        let moved = vec![change(&[1], b"node", -1), change(&[2], b"node", 1)];
        assert_eq!(net(moved).unwrap(), []);
    }

    #[test]
    fn places_of_one_node_add_up() {
        let nodes = vec![
            change(&[1], b"gained", -1),
            change(&[1], b"lost", -3),
            change(&[2], b"gained", 2),
            change(&[3], b"gained", 3),
            change(&[3], b"lost", 1),
        ];
        let gained = Blake2b256::hash(b"gained");
        let lost = Blake2b256::hash(b"lost");
        let changes = net(nodes).unwrap();
        let gain = NetChange::Gain {
            hash: gained,
            references: 4,
            encoded: Bytes::from_static(b"gained"),
        };
        assert_eq!(changes.len(), 2);
        assert!(changes.contains(&gain));
        assert!(changes.contains(&NetChange::Loss {
            hash: lost,
            references: 2
        }));
        assert_eq!(net_references(&changes, &gained), 4);
        assert_eq!(net_references(&changes, &lost), -2);
        assert_eq!(net_references(&changes, &Blake2b256::hash(b"other")), 0);
    }

    #[test]
    fn sums_do_not_overflow() {
        let nodes = vec![
            change(&[1], b"node", i32::MAX),
            change(&[2], b"node", i32::MAX),
        ];
        let expected = 2 * u64::from(u32::MAX / 2);
        assert!(
            matches!(net(nodes).unwrap()[..], [NetChange::Gain { references, .. }] if references == expected)
        );
        let nodes = vec![
            change(&[1], b"node", i32::MIN),
            change(&[2], b"node", i32::MIN),
        ];
        assert!(
            matches!(net(nodes).unwrap()[..], [NetChange::Loss { references, .. }] if references == 1 << 32)
        );
    }

    #[test]
    fn the_null_node_is_no_change() {
        assert_eq!(net(vec![change(&[], NULL_NODE, 1)]).unwrap(), []);
        assert_eq!(net(vec![change(&[], NULL_NODE, -1)]).unwrap(), []);
    }
}
