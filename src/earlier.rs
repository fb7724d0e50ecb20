//! Nodes that a block does not count, because an earlier block of the same PoV brought them.

use crate::{Accounting, Block, BlockError, SealedBlock};
use alloc::vec::Vec;
use bytes::Bytes;
use povmeter_delta_root::{Hashing, NodeChange, NodeHash};

/// The nodes that the earlier blocks of a PoV have brought: those in their proofs, and those that they
/// wrote.
///
/// A PoV can hold several blocks, each on the state of the one before, with one proof of the state before
/// the first. A validator that executes the blocks in order from that proof already has these nodes, so
/// the next block does not count them.
///
/// ```
/// use povmeter::{Block, EarlierNodes, StateVersion::V1, TrieId::Top};
/// # use povmeter_store::{MemoryStore, NodeStore};
/// # let mut store = MemoryStore::new();
/// # let mut genesis = Block::new(&store, povmeter::Root::EMPTY);
/// # genesis.set(Top, b"alice", &[7; 40])?;
/// # genesis.set(Top, b"bobby", &[7; 40])?;
/// # store.commit(genesis.seal(V1)?.update())?;
/// let mut block = Block::new(&store, store.root());
/// block.get(Top, b"alice")?;
/// block.set(Top, b"alice", b"paid")?;
/// let sealed = block.seal(V1)?;
/// store.commit(sealed.update())?;
///
/// let mut earlier = EarlierNodes::new();
/// earlier.extend(&sealed);
/// let mut next = Block::new(&store, store.root());
/// next.ignore(&earlier)?;
/// next.get(Top, b"alice")?;
/// assert_eq!(next.proof_size()?.total_bytes(), 0);
/// // The leaf of another key is new.
/// next.get(Top, b"bobby")?;
/// assert_eq!(next.proof_size()?.total_bytes(), 38);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EarlierNodes {
    nodes: Vec<(NodeHash, Bytes)>,
    hashing: Hashing,
}

impl EarlierNodes {
    /// An empty set of nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set of nodes, which hashes those of proofs with `hashing`.
    pub fn with_hashing(hashing: Hashing) -> Self {
        Self {
            nodes: Vec::new(),
            hashing,
        }
    }

    /// Adds the nodes that `sealed` brings. Costs a hash for each node of its proof.
    pub fn extend(&mut self, sealed: &SealedBlock) {
        let hashed = |node: &Bytes| (self.hashing.hash(node), node.clone());
        self.nodes.extend(sealed.proof().nodes().iter().map(hashed));
        let update = sealed.update();
        let shared = |node: NodeChange<'_>| (node.hash, update.nodes.share(node.encoded));
        self.nodes.extend(update.inserted().map(shared));
    }

    /// Number of nodes; a node that several blocks brought counts once for each of them.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl<S, A: Accounting> Block<S, A> {
    /// Loads the nodes of `earlier`. From now on this block does not count them, and its proof does not
    /// hold them. Nodes that it has counted before stay counted, until a rollback takes back their count.
    /// No rollback makes the block count ignored nodes again.
    ///
    /// [`Self::compact_proof_bytes`] fails as long as a node is ignored, because a PoV has one compact proof for
    /// all its blocks.
    ///
    /// # Errors
    /// [`BlockError::Load`] if there are more nodes than a block can load.
    pub fn ignore(&mut self, earlier: &EarlierNodes) -> Result<(), BlockError> {
        self.state.preload(earlier.nodes.iter().cloned())?;
        let table = self.state.table();
        for (hash, _) in &earlier.nodes {
            if let Some(id) = table.find(hash) {
                self.recorder.ignore(id);
            }
        }
        Ok(())
    }
}
