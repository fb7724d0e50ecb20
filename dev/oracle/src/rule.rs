//! The nodes that the counting rule asks for, given the changes at one boundary and no history.

use super::{case::ParentNodes, net::NetChanges};
use povmeter::{Advisory, Block, BlockError, TrieId};
use std::collections::BTreeSet;

/// Returns the nodes that the rule counts for `net` on `parent`, in a block without earlier
/// boundaries.
///
/// # Errors
/// [`BlockError`] if a node of the parent state is missing.
pub(super) fn needed(
    net: &NetChanges,
    parent: &ParentNodes,
) -> Result<BTreeSet<Vec<u8>>, BlockError> {
    let mut block = Block::with_accounting(parent, parent.root(), Advisory);
    for (key, value) in net.top() {
        change(&mut block, TrieId::Top, key, value)?;
    }
    for (child, changes) in net.children() {
        for (key, value) in changes {
            change(&mut block, TrieId::Child(child.storage_key()), key, value)?;
        }
    }
    // The rule counts these deletions, because only the peer's trie may get them wrong.
    for (child, key) in net.left_out() {
        let trie = child.map_or(TrieId::Top, |child| TrieId::Child(child.storage_key()));
        change(&mut block, trie, key, None)?;
    }
    block.proof_size()?;
    let proof = block.recorded_proof();
    Ok(proof.nodes().iter().map(|node| node.to_vec()).collect())
}

fn change(
    block: &mut Block<&ParentNodes, Advisory>,
    trie: TrieId<'_>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), BlockError> {
    match value {
        Some(value) => block.set(trie, key, value),
        None => block.remove(trie, key),
    }
}
