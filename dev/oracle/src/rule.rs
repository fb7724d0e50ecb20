//! The nodes that the counting rule asks for, given the changes at one boundary and no history.

use super::{case::ParentNodes, net::NetChanges};
use povmeter::{Advisory, Block, BlockError, StateVersion, TrieId};
use povmeter_delta_root::CHILD_ROOT_PREFIX;
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
    // The rule counts the deletions left out, because only the peer's trie may get them wrong.
    let left_out = net.left_out().filter(|(child, _)| child.is_none());
    for (key, value) in net.top().chain(left_out.map(|(_, key)| (key, None))) {
        match key.strip_prefix(CHILD_ROOT_PREFIX) {
            None => change(&mut block, TrieId::Top, key, value)?,
            // Deleted when the runtime asked for it, so the changes mention all entries of the child.
            Some(child) if value.is_none() => {
                let mut children = net.children();
                let changes = children.find(|(of, _)| of.storage_key() == child);
                for (key, _) in changes.into_iter().flat_map(|(_, changes)| changes) {
                    block.remove(TrieId::Child(child), key)?;
                }
                block.child_root(child, StateVersion::V1)?;
            }
            // Follows from the changes of the child.
            Some(_) => {}
        }
    }
    for (child, changes) in net.children() {
        for (key, value) in changes {
            change(&mut block, TrieId::Child(child.storage_key()), key, value)?;
        }
    }
    for (child, key) in net.left_out() {
        if let Some(child) = child {
            block.remove(TrieId::Child(child.storage_key()), key)?;
        }
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
