//! A povmeter block on the backend at hand.

use crate::{
    cache::Source,
    database::Database,
    povmeter::{self, ProofSizes},
};
use ::povmeter::{BlockError, Consensus, PooledBlock, Root, TrieId};

/// A block whose source is the backend at hand. Its proof holds the nodes that were read, those that roots need, and
/// those that estimates touched. Without estimates these are the nodes of the original's proof.
pub(crate) type Block = ::povmeter::Block<Source, Consensus>;

/// A block in memory of an earlier one.
pub(crate) type OwnedBlock = PooledBlock<Source, Consensus>;

/// A block on the state of `parent`, which is in `database`; `None` if it is in no database.
pub(crate) fn begin(database: Option<Database>, parent: Root) -> OwnedBlock {
    let (pool, source) = povmeter::start_block(database, parent);
    let mut block = PooledBlock::new(pool, source, parent, Consensus);
    match povmeter::settings().sizes {
        ProofSizes::Upstream => block.count_roots_in_key_order(),
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
