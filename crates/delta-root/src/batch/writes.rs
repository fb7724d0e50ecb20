//! The nodes that a root computation gains and loses.

use crate::{NodeChange, NodeHash, Root};
use alloc::vec::Vec;
use bytes::Bytes;

/// References gained and lost, of all tries of a state.
#[derive(Debug, Default)]
pub(crate) struct Writes(Vec<NodeChange>);

impl Writes {
    /// Notes that `encoded` is stored at a place.
    pub(crate) fn insert(
        &mut self,
        keyspace: &[u8],
        path: &[u8],
        odd_nibble: Option<u8>,
        hash: NodeHash,
        encoded: Bytes,
    ) {
        self.push(keyspace, path, odd_nibble, hash, 1, encoded);
    }

    /// Notes that what was stored at a place is not needed there any more.
    pub(crate) fn remove(
        &mut self,
        keyspace: &[u8],
        path: &[u8],
        odd_nibble: Option<u8>,
        hash: NodeHash,
    ) {
        self.push(keyspace, path, odd_nibble, hash, -1, Bytes::new());
    }

    fn push(
        &mut self,
        keyspace: &[u8],
        path: &[u8],
        odd_nibble: Option<u8>,
        hash: NodeHash,
        references: i32,
        encoded: Bytes,
    ) {
        // The null node is nowhere stored.
        if hash != Root::EMPTY.node_hash() {
            let path = [keyspace, path].concat();
            self.0.push(NodeChange {
                path,
                odd_nibble,
                hash,
                references,
                encoded,
            });
        }
    }

    /// The net changes, ordered by place and hash.
    pub(crate) fn into_changes(mut self) -> Vec<NodeChange> {
        self.0.sort_unstable_by(|a, b| {
            (&a.path, a.odd_nibble, a.hash).cmp(&(&b.path, b.odd_nibble, b.hash))
        });
        self.0.dedup_by(|next, kept| {
            let same = next.prefix() == kept.prefix() && next.hash == kept.hash;
            if same {
                kept.references = kept.references.saturating_add(next.references);
                if kept.encoded.is_empty() {
                    kept.encoded = core::mem::take(&mut next.encoded);
                }
            }
            same
        });
        self.0.retain(|change| change.references != 0);
        for lost in self.0.iter_mut().filter(|change| change.references < 0) {
            lost.encoded = Bytes::new();
        }
        self.0
    }
}
