//! A povmeter block in either accounting.

use crate::{
    cache::Source,
    povmeter::{self, ProofSizes},
};
use ::povmeter::{
    Advisory, BlockError, Bytes, Consensus, NodeHash, PooledBlock, RecordedNodes, Removal, Root,
    RootUpdate, SealedBlock, StateVersion, TrieId,
};
use povmeter_overlay::Overlay;

/// A block whose source is the backend at hand.
#[derive(Debug)]
pub(crate) enum Block {
    /// The proof holds the nodes that were read and those that the root needs, as the original's does.
    Reads(PooledBlock<Source, Advisory>),
    /// The proof also holds the nodes that estimates touched.
    Estimates(PooledBlock<Source, Consensus>),
}

/// Runs the same code on the block of either accounting.
macro_rules! either {
    ($block:expr, $inner:ident => $code:expr) => {
        match $block {
            Block::Reads($inner) => $code,
            Block::Estimates($inner) => $code,
        }
    };
}

impl Block {
    /// A block on the state of `parent`. `is_cached` tells whether it is a state of the node's databases.
    pub(crate) fn new(is_cached: bool, parent: Root) -> Self {
        let (pool, source) = povmeter::start_block(is_cached, parent);
        match povmeter::settings().sizes {
            ProofSizes::Upstream | ProofSizes::Replay => {
                let mut block = PooledBlock::new(pool, source, parent, Advisory);
                block.count_roots_in_key_order();
                Self::Reads(block)
            }
            ProofSizes::Estimate => {
                Self::Estimates(PooledBlock::new(pool, source, parent, Consensus))
            }
        }
    }

    pub(crate) fn overlay(&self) -> &Overlay {
        either!(self, block => block.overlay())
    }

    /// Takes over the changes and open transactions of `other`, which may be on another state.
    pub(crate) fn copy_changes(&mut self, other: &Self) {
        either!(self, block => either!(other, other => block.copy_changes(&**other)));
    }

    pub(crate) fn get(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<&[u8]>, BlockError> {
        either!(self, block => block.get(trie, key))
    }

    pub(crate) fn value_hash(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<NodeHash>, BlockError> {
        either!(self, block => block.value_hash(trie, key))
    }

    pub(crate) fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, BlockError> {
        either!(self, block => block.exists(trie, key))
    }

    pub(crate) fn next_key(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, BlockError> {
        either!(self, block => block.next_key(trie, key))
    }

    /// Sets or deletes a value. Refuses keys under which roots of child tries lie.
    pub(crate) fn place(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), BlockError> {
        either!(self, block => match value {
            Some(value) => block.set(trie, key, value),
            None => block.remove(trie, key),
        })
    }

    pub(crate) fn append(&mut self, key: &[u8], element: &[u8]) -> Result<(), BlockError> {
        either!(self, block => block.append(TrieId::Top, key, element))
    }

    pub(crate) fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, BlockError> {
        either!(self, block => block.clear_prefix(trie, prefix, limit, cursor))
    }

    pub(crate) fn root(&mut self, version: StateVersion) -> Result<&RootUpdate, BlockError> {
        either!(self, block => block.root(version))
    }

    pub(crate) fn child_root(
        &mut self,
        child: &[u8],
        version: StateVersion,
    ) -> Result<Root, BlockError> {
        either!(self, block => block.child_root(child, version))
    }

    /// Counts the nodes that the root needs for the changes so far.
    pub(crate) fn estimate(&mut self) -> Result<(), BlockError> {
        either!(self, block => block.proof_size().map(drop))
    }

    pub(crate) fn seal(self, version: StateVersion) -> Result<SealedBlock, BlockError> {
        either!(self, block => block.seal(version).map_err(BlockError::from))
    }

    pub(crate) fn start_transaction(&mut self) {
        either!(self, block => block.start_transaction());
    }

    pub(crate) fn commit_transaction(&mut self) -> Result<(), BlockError> {
        either!(self, block => block.commit_transaction())
    }

    pub(crate) fn rollback_transaction(&mut self) -> Result<(), BlockError> {
        either!(self, block => block.rollback_transaction())
    }

    pub(crate) fn enter_runtime(&mut self) -> Result<(), BlockError> {
        either!(self, block => block.enter_runtime())
    }

    pub(crate) fn exit_runtime(&mut self) -> Result<(), BlockError> {
        either!(self, block => block.exit_runtime().map(drop))
    }

    pub(crate) fn transaction_depth(&self) -> usize {
        either!(self, block => block.transaction_depth())
    }

    pub(crate) fn for_each_recorded(
        &self,
        seen: &mut RecordedNodes,
        look: impl FnMut(&NodeHash, &Bytes),
    ) {
        either!(self, block => block.for_each_recorded(seen, look));
    }

    pub(crate) fn forget_rolled_back(&self, seen: &mut RecordedNodes) {
        either!(self, block => block.forget_rolled_back(seen));
    }
}
