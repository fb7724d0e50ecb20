//! Storage proofs: as a set of nodes, and compact.

use crate::{size::scale_bytes, unpack::Unpacking};
use alloc::{boxed::Box, vec::Vec};
use bytes::Bytes;
use hash_db::HashDBRef;
use hashbrown::HashMap;
use povmeter_delta_root::{
    compact_bytes, push_compact, read_compact, Blake2b256, DecodeError, Hashing, LayoutV1,
    NodeChange, NodeHash, NodePrefix, NodeSource, Root, RootUpdate, SourceError, CHILD_ROOT_PREFIX,
};
use povmeter_primitives::FastState;
use trie_db::{SeenHashes, Trie, TrieDBBuilder, TrieError};

/// What is wrong with a proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The bytes are not a SCALE list of byte strings.
    #[error("expected {expected} at byte {at} of the proof, found {found} bytes left")]
    Encoding {
        /// What should be at the position.
        expected: &'static str,
        /// The position in the proof, in bytes.
        at: usize,
        /// Bytes left at the position.
        found: usize,
    },
    /// The proof commits to another state.
    #[error("expected a proof of state root {expected}, found one of {found}")]
    WrongRoot {
        /// Root that the caller asked for.
        expected: Root,
        /// Root that the proof's nodes hash to.
        found: Root,
    },
    /// A node that another node of the proof refers to is missing.
    #[error("expected more nodes in the proof: node {missing} is referred to, found the end")]
    Truncated {
        /// Hash of the missing node; zero if a compact proof leaves the hash out.
        missing: NodeHash,
    },
    /// Items after the last trie, or a trie that the top trie does not refer to.
    #[error("expected the end of the proof after {used} items, found {found}")]
    Trailing {
        /// Items that make up the tries.
        used: usize,
        /// Items in the proof.
        found: usize,
    },
    /// A node of the proof is not a trie node.
    #[error("a node of the proof is not a trie node: {0}")]
    Node(DecodeError),
    /// The value under a child trie's root key is not a root.
    #[error("expected a child root of 32 bytes in the proof, found {found} bytes")]
    ChildRoot {
        /// Bytes found.
        found: usize,
    },
    /// The tries in the proof contradict themselves.
    #[error("the tries of the proof are inconsistent")]
    Inconsistent,
}

impl From<Box<TrieError<NodeHash, DecodeError>>> for ProofError {
    fn from(error: Box<TrieError<NodeHash, DecodeError>>) -> Self {
        match *error {
            TrieError::IncompleteDatabase(missing) | TrieError::InvalidStateRoot(missing) => {
                Self::Truncated { missing }
            }
            TrieError::DecoderError(_, error) => Self::Node(error),
            TrieError::ValueAtIncompleteKey(..) | TrieError::InvalidHash(..) => Self::Inconsistent,
        }
    }
}

/// A storage proof: the nodes, each once, in lexicographic order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageProof {
    nodes: Vec<Bytes>,
}

impl StorageProof {
    /// The proof of these nodes.
    pub fn new(nodes: impl IntoIterator<Item = Bytes>) -> Self {
        Self::in_memory(Vec::new(), nodes)
    }

    /// Does what [`Self::new`] does, in `memory`, whose content is replaced.
    pub fn in_memory(mut memory: Vec<Bytes>, nodes: impl IntoIterator<Item = Bytes>) -> Self {
        memory.clear();
        memory.extend(nodes);
        memory.sort_unstable();
        memory.dedup();
        Self { nodes: memory }
    }

    /// Takes the proof apart, and returns the nodes in lexicographic order.
    pub fn into_nodes(self) -> Vec<Bytes> {
        self.nodes
    }

    /// The nodes in lexicographic order.
    pub fn nodes(&self) -> &[Bytes] {
        &self.nodes
    }

    /// Bytes in the unit of sp-trie's recorder: for each node its length and the prefix of the length.
    pub fn recorded_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| scale_bytes(node.len())).sum()
    }

    /// Length of [`Self::encode`].
    pub fn encoded_bytes(&self) -> u64 {
        compact_bytes(self.nodes.len() as u64) + self.recorded_bytes()
    }

    /// The proof in SCALE, as sp-trie encodes it.
    pub fn encode(&self) -> Vec<u8> {
        encode_list(&self.nodes)
    }

    /// The proof that [`Self::encode`] wrote. Nodes are sorted, and duplicates removed.
    ///
    /// # Errors
    /// [`ProofError::Encoding`] if `encoded` is not a SCALE list of byte strings.
    pub fn decode(encoded: &[u8]) -> Result<Self, ProofError> {
        Ok(Self::new(decode_list(encoded)?))
    }

    /// The compact proof, without the hashes that follow from its other nodes: byte for byte what sp-trie
    /// makes of these nodes.
    ///
    /// # Errors
    /// [`ProofError`] if the root node is missing, a node can't be decoded, or a child root does not have
    /// 32 bytes.
    pub fn to_compact(&self, root: Root) -> Result<CompactProof, ProofError> {
        if self.nodes.is_empty() {
            // A block that needed nothing of its parent state.
            return Ok(CompactProof::default());
        }
        let nodes = self.to_source();
        let mut seen = SeenHashes::<LayoutV1>::default();
        let mut items = pack_trie(&nodes, root, &mut seen)?;
        for child_root in child_roots(&nodes, root)? {
            // A node of the top trie may hold a child's root without the child being read.
            if nodes.has(&child_root.node_hash()) {
                items.extend(pack_trie(&nodes, child_root, &mut seen)?);
            }
        }
        Ok(CompactProof { items })
    }

    /// The nodes as a source to execute a block on.
    pub fn to_source(&self) -> ProofNodes {
        let mut nodes = ProofNodes::default();
        for node in &self.nodes {
            nodes.nodes.insert(Blake2b256::hash(node), node.clone());
        }
        nodes
    }
}

fn pack_trie(
    nodes: &ProofNodes,
    root: Root,
    seen: &mut SeenHashes<LayoutV1>,
) -> Result<Vec<Bytes>, ProofError> {
    // Reading is the same in both state versions.
    let root = root.node_hash();
    let trie = TrieDBBuilder::<LayoutV1>::new(nodes, &root).build();
    let items = trie_db::encode_compact_skip_duplicates::<LayoutV1>(&trie, seen)?;
    Ok(items.into_iter().map(Bytes::from).collect())
}

/// The roots of child tries that the proof's top trie holds, in the order of their keys.
fn child_roots(nodes: &ProofNodes, root: Root) -> Result<Vec<Root>, ProofError> {
    let root = root.node_hash();
    let trie = TrieDBBuilder::<LayoutV1>::new(nodes, &root).build();
    let mut roots = Vec::new();
    let mut entries = trie.iter()?;
    if entries.seek(CHILD_ROOT_PREFIX).is_err() {
        // The proof does not hold this part of the top trie.
        return Ok(roots);
    }
    for entry in entries {
        match entry {
            Ok((key, _)) if !key.starts_with(CHILD_ROOT_PREFIX) => break,
            Ok((_, value)) => match <[u8; 32]>::try_from(value.as_slice()) {
                Ok(root) => roots.push(Root::from(root)),
                Err(_) => return Err(ProofError::ChildRoot { found: value.len() }),
            },
            // Entries outside of the proof.
            Err(error) if matches!(*error, TrieError::IncompleteDatabase(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(roots)
}

/// A compact storage proof: nodes in pre-order, without the hashes of children in the proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactProof {
    items: Vec<Bytes>,
}

impl CompactProof {
    /// The proof of these items.
    pub fn new(items: Vec<Bytes>) -> Self {
        Self { items }
    }

    /// The items: nodes without the hashes that follow from other items, and values split off from nodes.
    pub fn items(&self) -> &[Bytes] {
        &self.items
    }

    /// Length of [`Self::encode`].
    pub fn encoded_bytes(&self) -> u64 {
        compact_bytes(self.items.len() as u64)
            + self
                .items
                .iter()
                .map(|item| scale_bytes(item.len()))
                .sum::<u64>()
    }

    /// The proof in SCALE, as sp-trie encodes it.
    pub fn encode(&self) -> Vec<u8> {
        encode_list(&self.items)
    }

    /// The proof that [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`ProofError::Encoding`] if `encoded` is not a SCALE list of byte strings.
    pub fn decode(encoded: &[u8]) -> Result<Self, ProofError> {
        Ok(Self {
            items: decode_list(encoded)?,
        })
    }

    /// The nodes, with every hash computed anew, as a source to execute a block on. A proof without
    /// items gives a source without nodes, whatever the root, because the block needed nothing.
    ///
    /// # Errors
    /// [`ProofError`] if the proof commits to another root, ends early, goes on after its end, or holds
    /// an item that is not a node or a child root that does not have 32 bytes.
    pub fn to_source(&self, root: Root) -> Result<ProofNodes, ProofError> {
        self.to_source_with(root, Hashing::best())
    }

    /// Does what [`Self::to_source`] does, and hashes with `hashing`. The result is wrong if `hashing`
    /// does not compute Blake2b-256.
    ///
    /// # Errors
    /// Those of [`Self::to_source`].
    pub fn to_source_with(&self, root: Root, hashing: Hashing) -> Result<ProofNodes, ProofError> {
        let mut nodes = ProofNodes::default();
        if self.items.is_empty() {
            return Ok(nodes);
        }
        nodes.nodes.reserve(self.items.len());
        let mut unpacking = Unpacking::new(&mut nodes, hashing);
        let (found, mut used) = unpacking.trie(&self.items)?;
        if found != root {
            return Err(ProofError::WrongRoot {
                expected: root,
                found,
            });
        }
        let mut child_roots = child_roots(&nodes, root)?.into_iter();
        while used < self.items.len() {
            let (child, count) = Unpacking::new(&mut nodes, hashing).trie(&self.items[used..])?;
            // Children that the block did not read have a root in the top trie, and no items.
            if !child_roots.any(|root| root == child) {
                return Err(ProofError::Trailing {
                    used,
                    found: self.items.len(),
                });
            }
            used += count;
        }
        Ok(nodes)
    }
}

/// The nodes of a proof, by hash: all that a validator has of the parent state.
#[derive(Clone, Debug, Default)]
pub struct ProofNodes {
    nodes: HashMap<NodeHash, Bytes, FastState>,
}

impl ProofNodes {
    /// Number of distinct nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn has(&self, hash: &NodeHash) -> bool {
        self.nodes.contains_key(hash)
    }

    /// Adds the nodes that `update` inserts, so that a block can be executed on the state after it.
    pub fn extend(&mut self, update: &RootUpdate) {
        let nodes = &update.nodes;
        let shared = |node: NodeChange<'_>| (node.hash, nodes.share(node.encoded));
        self.nodes.extend(update.inserted().map(shared));
    }

    /// Adds a node.
    pub(crate) fn insert(&mut self, hash: NodeHash, node: Bytes) {
        self.nodes.insert(hash, node);
    }
}

impl NodeSource for ProofNodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        Ok(self.nodes.get(hash).cloned())
    }
}

// trie-db packs proofs through this trait.

impl HashDBRef<Blake2b256, Vec<u8>> for ProofNodes {
    fn get(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Option<Vec<u8>> {
        self.nodes.get(hash).map(|node| node.to_vec())
    }

    fn contains(&self, hash: &NodeHash, _: NodePrefix<'_>) -> bool {
        self.has(hash)
    }
}

fn encode_list(items: &[Bytes]) -> Vec<u8> {
    let mut out = Vec::new();
    push_compact(&mut out, items.len());
    for item in items {
        push_compact(&mut out, item.len());
        out.extend_from_slice(item);
    }
    out
}

fn decode_list(encoded: &[u8]) -> Result<Vec<Bytes>, ProofError> {
    let mut input = ProofInput { encoded, at: 0 };
    let count = input.compact("the number of items")?;
    // Reserves no more memory than the input has, because the count may be any number. The list grows beyond that only
    // with items that were read.
    let most = encoded.len() / size_of::<Bytes>();
    let mut items = Vec::with_capacity(count.min(most));
    for _ in 0..count {
        let length = input.compact("the length of an item")?;
        items.push(Bytes::copy_from_slice(input.take(length, "an item")?));
    }
    match encoded.len() - input.at {
        0 => Ok(items),
        found => Err(ProofError::Encoding {
            expected: "the end",
            at: input.at,
            found,
        }),
    }
}

struct ProofInput<'a> {
    encoded: &'a [u8],
    at: usize,
}

impl<'a> ProofInput<'a> {
    fn take(&mut self, length: usize, expected: &'static str) -> Result<&'a [u8], ProofError> {
        let rest = &self.encoded[self.at..];
        let error = ProofError::Encoding {
            expected,
            at: self.at,
            found: rest.len(),
        };
        let taken = rest.get(..length).ok_or(error)?;
        self.at += length;
        Ok(taken)
    }

    fn compact(&mut self, expected: &'static str) -> Result<usize, ProofError> {
        let rest = &self.encoded[self.at..];
        let error = ProofError::Encoding {
            expected,
            at: self.at,
            found: rest.len(),
        };
        let (value, used) = read_compact(rest).ok_or(error)?;
        self.at += used;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_and_damage_is_found() {
        let items = [Bytes::from_static(b"a"), Bytes::from(alloc::vec![7; 100])];
        let encoded = encode_list(&items);
        assert_eq!(decode_list(&encoded).expect("as written"), items);
        for length in 0..encoded.len() {
            assert!(decode_list(&encoded[..length]).is_err(), "{length} bytes");
        }
        let longer = [encoded.as_slice(), &[0]].concat();
        assert!(matches!(
            decode_list(&longer),
            Err(ProofError::Encoding {
                expected: "the end",
                found: 1,
                ..
            })
        ));
        // A list that says it has 2^30 - 1 items.
        assert!(decode_list(&[0xfe, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn sizes_are_lengths() {
        let proof = StorageProof::new([Bytes::from_static(&[0]), Bytes::from(alloc::vec![1; 64])]);
        assert_eq!(proof.encoded_bytes(), proof.encode().len() as u64);
        assert_eq!(proof.recorded_bytes(), 1 + 1 + 2 + 64);
    }
}
