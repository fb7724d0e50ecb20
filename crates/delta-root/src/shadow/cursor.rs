//! Where a search for a next key is, and where the last one ended.

use super::ShadowNode;
use crate::nibbles::Path;
use alloc::vec::Vec;

/// The way from the root to where a search is.
///
/// Who asks for one key after the other, as a runtime that steps through a map does, asks from the key that was found
/// last. The way there is known then, because what a trie has loaded stays as it is. Only the last search in each trie is
/// remembered. A block of 10,000 transactions that make six steps each, and a transfer, takes 330 million instructions in
/// place of 447 (2026-11-26).
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The nodes on the way.
    pub(super) nodes: Vec<ShadowNode>,
    /// The branches among them, but for the last node.
    passed: Vec<Passed>,
    pub(super) path: Path,
    /// Whether they lead to a key that was found.
    at_key: bool,
}

/// A branch on the way.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// The nibble to go on with.
    next: u8,
    /// How many nibbles the path to the end of its partial key has.
    depth: usize,
    /// How many nodes the way to it has, with itself.
    nodes: usize,
}

impl Cursor {
    /// At no key.
    pub(super) fn reset(&mut self) {
        let Self {
            nodes,
            passed,
            path,
            at_key,
        } = self;
        nodes.clear();
        passed.clear();
        path.truncate(0);
        *at_key = false;
    }

    /// Whether it is at `key`, which was found.
    pub(super) fn is_at(&self, key: &[u8]) -> bool {
        self.at_key && self.path.as_key() == (key, None)
    }

    /// Ends the search: the key at the end of the path was `found`, or there is none.
    pub(super) fn end(&mut self, found: bool) {
        self.at_key = found;
    }

    /// Goes on from the end of the partial key of the last node, with its child at `nibble`.
    pub(super) fn pass(&mut self, nibble: u8) {
        self.leave(nibble + 1);
        self.path.push(nibble);
    }

    /// Leaves the last node. The search comes back to its first child at or after `nibble`.
    pub(super) fn leave(&mut self, nibble: u8) {
        self.passed.push(Passed {
            next: nibble,
            depth: self.path.len(),
            nodes: self.nodes.len(),
        });
    }

    /// Goes back to the last branch that was passed, and returns it with the nibble to go on with.
    pub(super) fn back(&mut self) -> Option<(ShadowNode, u8)> {
        let Passed { next, depth, nodes } = self.passed.pop()?;
        self.path.truncate(depth);
        self.nodes.truncate(nodes);
        let branch = *self.nodes.last()?;
        Some((branch, next))
    }
}
