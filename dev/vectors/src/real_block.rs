//! A block of a public chain, with the part of its parent state that it needs.

use crate::format::{state_version, UnknownVersion};
use crate::hex::Hex;
use povmeter::{Block, BlockError, CompactProof, ProofError, Root, TrieId};
use serde::Deserialize;

/// A block of a public chain: its reads and writes, the proof of what it needs of the parent state, and
/// the roots in the chain's headers.
///
/// The file is made from a replay of the block by the chain's own runtime; the test in
/// `dev/data/tests/small_block.rs` makes it again and compares.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealBlock {
    /// Name of the chain.
    pub chain: String,
    /// Number of the block.
    pub number: u32,
    /// Hash of the block's header.
    pub hash: String,
    version: u8,
    parent_root: Hex,
    root: Hex,
    /// Bytes that sp-state-machine records for the block.
    recorded_bytes: u64,
    compact_proof: Hex,
    /// Keys of the top trie whose values or absence the block reads, ordered.
    reads: Vec<Hex>,
    /// Changes of the top trie, ordered by key.
    changes: Vec<(Hex, Option<Hex>)>,
}

/// The result of executing a [`RealBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealOutcome {
    /// The state root after the block.
    pub root: Root,
    /// Bytes that sp-state-machine's recorder counts.
    pub recorded_bytes: u64,
    /// Bytes of the compact proof of the block.
    pub compact_bytes: u64,
}

/// Why a real block can't be executed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RealBlockError {
    /// The file is not JSON of this form.
    Json(serde_json::Error),
    /// The file names an unknown state version.
    Version(UnknownVersion),
    /// A root is not 32 bytes long.
    RootLength {
        /// Its length in bytes.
        found: usize,
    },
    /// The proof is not one of the parent state.
    Proof(ProofError),
    /// A call on the block failed.
    Block(BlockError),
}

impl From<ProofError> for RealBlockError {
    fn from(error: ProofError) -> Self {
        Self::Proof(error)
    }
}

impl From<BlockError> for RealBlockError {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

impl RealBlock {
    /// The block in the JSON file `text`.
    ///
    /// # Errors
    /// [`RealBlockError::Json`].
    pub fn read(text: &str) -> Result<Self, RealBlockError> {
        serde_json::from_str(text).map_err(RealBlockError::Json)
    }

    /// The result according to the chain's headers and sp-state-machine.
    ///
    /// # Errors
    /// [`RealBlockError::RootLength`].
    pub fn expected(&self) -> Result<RealOutcome, RealBlockError> {
        Ok(RealOutcome {
            root: root(&self.root)?,
            recorded_bytes: self.recorded_bytes,
            compact_bytes: self.compact_proof.0.len() as u64,
        })
    }

    /// Executes the block with nothing but the compact proof.
    ///
    /// # Errors
    /// [`RealBlockError`], among others if the block needs a node that the proof lacks.
    pub fn execute(&self) -> Result<RealOutcome, RealBlockError> {
        let version = state_version(self.version).map_err(RealBlockError::Version)?;
        let parent = root(&self.parent_root)?;
        let nodes = CompactProof::decode(&self.compact_proof.0)?.to_source(parent)?;
        let mut block = Block::new(nodes, parent);
        for key in &self.reads {
            block.get(TrieId::Top, &key.0)?;
        }
        for (key, value) in &self.changes {
            match value {
                Some(value) => block.set(TrieId::Top, &key.0, &value.0)?,
                None => block.remove(TrieId::Top, &key.0)?,
            }
        }
        let recorded_bytes = block.proof_size()?.total_bytes();
        let compact_bytes = block.compact_proof_bytes()?;
        let sealed = block.seal(version).map_err(BlockError::from)?;
        Ok(RealOutcome {
            root: sealed.update().root,
            recorded_bytes,
            compact_bytes,
        })
    }
}

fn root(hex: &Hex) -> Result<Root, RealBlockError> {
    let bytes = <[u8; 32]>::try_from(hex.0.as_slice());
    let bytes = bytes.map_err(|_| RealBlockError::RootLength { found: hex.0.len() })?;
    Ok(Root::from(bytes))
}
