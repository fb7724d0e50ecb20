//! Unpacking of compact proofs.
//!
//! ```text
//! items of a trie = in pre-order: node [detached value] items of its omitted children
//! unpack(item):
//!     hashes  = unpack(child) for each omitted child
//!     node    = item with these hashes, and the hash of its value
//!     keep the node under its hash; return the hash
//! ```
//! A stack replaces the recursion, because the sender chooses its depth. Nodes without omitted parts
//! share the memory of the proof; each other node is copied to memory of its own.
//!
//! Why not `trie_db::decode_compact_from_iter`: it encodes every node anew, in memory of its own, which is
//! slow with a validator's allocator.

use crate::proof::{ProofError, ProofNodes};
use alloc::vec::Vec;
use bytes::Bytes;
use povmeter_delta_root::{CompactNode, Hashing, NodeHash, Root};

/// A node whose omitted children are still to come.
struct Waiting<'i> {
    item: &'i Bytes,
    node: CompactNode,
    value: Option<&'i Bytes>,
    /// How many omitted children are to come.
    missing: usize,
    /// Where the hashes of its children begin in [`Unpacking::hashes`].
    first_hash: usize,
}

/// Unpacks tries into the nodes of a proof.
pub(crate) struct Unpacking<'n> {
    nodes: &'n mut ProofNodes,
    hashing: Hashing,
    /// The hashes of children whose parents wait.
    hashes: Vec<NodeHash>,
    /// The node that is being written.
    written: Vec<u8>,
}

impl<'n> Unpacking<'n> {
    pub(crate) fn new(nodes: &'n mut ProofNodes, hashing: Hashing) -> Self {
        Self {
            nodes,
            hashing,
            hashes: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Unpacks the trie at the start of `items`; returns its root and the number of its items.
    pub(crate) fn trie(&mut self, items: &[Bytes]) -> Result<(Root, usize), ProofError> {
        let mut stack: Vec<Waiting<'_>> = Vec::new();
        let mut rest = items.iter();
        let truncated = || ProofError::Truncated {
            missing: NodeHash::default(),
        };
        loop {
            let item = rest.next().ok_or_else(truncated)?;
            let node = CompactNode::of(item).map_err(ProofError::Node)?;
            let value = match node.has_detached_value() {
                true => Some(rest.next().ok_or_else(truncated)?),
                false => None,
            };
            let mut current = Waiting {
                item,
                missing: node.omitted_children(),
                node,
                value,
                first_hash: self.hashes.len(),
            };
            while current.missing == 0 {
                let hash = self.finish(&current);
                let Some(mut parent) = stack.pop() else {
                    return Ok((Root::from(*hash.as_bytes()), items.len() - rest.len()));
                };
                self.hashes.push(hash);
                parent.missing -= 1;
                current = parent;
            }
            stack.push(current);
        }
    }

    /// Keeps a node whose children are all known; returns its hash.
    fn finish(&mut self, waiting: &Waiting<'_>) -> NodeHash {
        let Waiting {
            item,
            node,
            value,
            first_hash,
            ..
        } = waiting;
        let value = value.map(|value| self.keep(value.clone()));
        let whole = match node.as_is() {
            Some(range) => item.slice(range),
            None => {
                self.written.clear();
                let children = &self.hashes[*first_hash..];
                node.expand(item, value.as_ref(), children, &mut self.written);
                Bytes::copy_from_slice(&self.written)
            }
        };
        self.hashes.truncate(*first_hash);
        self.keep(whole)
    }

    fn keep(&mut self, node: Bytes) -> NodeHash {
        let hash = self.hashing.hash(&node);
        self.nodes.insert(hash, node);
        hash
    }
}
