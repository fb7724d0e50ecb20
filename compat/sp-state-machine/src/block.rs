//! A povmeter block on the backend at hand.

use crate::{
    cache::Source,
    povmeter::{self, ProofSizes},
};
use ::povmeter::{BlockError, Consensus, PooledBlock, Root, TrieId};

/// A block whose source is the backend at hand. Its proof holds the nodes that were read, those that roots need, and
/// those that estimates touched. Without estimates these are the nodes of the original's proof.
pub(crate) type Block = ::povmeter::Block<Source, Consensus>;

/// A block in memory of an earlier one.
pub(crate) type OwnedBlock = PooledBlock<Source, Consensus>;

/// A block on the state of `parent`. `is_cached` tells whether it is a state of the node's databases.
pub(crate) fn begin(is_cached: bool, parent: Root) -> OwnedBlock {
    let (pool, source) = povmeter::start_block(is_cached, parent);
    let mut block = PooledBlock::new(pool, source, parent, Consensus);
    match povmeter::settings().sizes {
        ProofSizes::Upstream | ProofSizes::Replay => block.count_roots_in_key_order(),
        ProofSizes::Estimate => {}
    }
    block
}

/// Sets or deletes a value.
///
/// # Errors
/// [`BlockError::ChildRootKey`] for a key under which a child trie's root lies.
pub(crate) fn place(
    block: &mut Block,
    trie: TrieId<'_>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), BlockError> {
    match value {
        Some(value) => block.set(trie, key, value),
        None => block.remove(trie, key),
    }
}
