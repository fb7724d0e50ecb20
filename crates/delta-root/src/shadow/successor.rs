//! The next key of a trie.
//!
//! ```text
//! successor(from, bound, prefix):
//!     walk towards from, keeping for each branch passed the next nibble to try
//!         a node's partial key above what from holds: its leftmost entry is the answer
//!         below: nothing in it
//!         from ends at the node: its value (if from itself counts), else its children
//!         from ends inside its partial key: its leftmost entry
//!     then back up: the first child at or after the kept nibble gives its leftmost entry
//!     nothing outside prefix is loaded
//! ```
//! The nodes observed are those that trie-db's iterator loads for the same question.

use super::{Loader, Observer, ShadowNode, ShadowTrie};
use crate::{
    nibbles::{self, Path},
    LoadError, NodeSource,
};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Whether the key that a search starts from may be its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Inclusive,
    Exclusive,
}

/// A branch passed on the path, the nibble to go on with, and the path to the end of its partial key.
struct Passed {
    branch: ShadowNode,
    next: u8,
    depth: usize,
}

/// Branches on the way to a key, rarely more.
const USUAL_BRANCHES: usize = 12;
/// Bytes of the longest keys of most runtimes: two hashes for the item, one and an account for the entry.
const USUAL_KEY: usize = 80;

impl ShadowTrie {
    /// The first key at or after `from` (after it, with an exclusive bound) that begins with
    /// `prefix`; `from` begins with `prefix` too.
    pub(crate) fn successor<S: NodeSource>(
        &mut self,
        from: &[u8],
        bound: Bound,
        prefix: &[u8],
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let within = nibbles::count(prefix);
        let end = nibbles::count(from);
        let mut passed = Vec::with_capacity(USUAL_BRANCHES);
        // Becomes the key that is returned.
        let mut path = Path::with_capacity(from.len().max(USUAL_KEY));
        let mut at = self.load_root(loader)?;
        loop {
            let depth = path.len();
            let (node, partial) = self.observed(at, loader.table, observer);
            let (order, common) = partial.compare_at(from, depth);
            if order == Ordering::Greater || (order == Ordering::Equal && common < partial.len()) {
                if depth + common < within {
                    return Ok(None);
                }
                return self.leftmost(at, path, loader, observer);
            }
            if order == Ordering::Less {
                break;
            }
            path.push_partial(partial);
            if path.len() == end {
                if bound == Bound::Inclusive && node.has_value() {
                    return self.key_of(path).map(Some);
                }
                passed.push(Passed {
                    branch: at,
                    next: 0,
                    depth: end,
                });
                break;
            }
            let nibble = nibbles::at(from, path.len());
            passed.push(Passed {
                branch: at,
                next: nibble + 1,
                depth: path.len(),
            });
            path.push(nibble);
            match self.child(at, nibble, path.as_key(), None, loader)? {
                Some(child) => at = child,
                None => break,
            }
        }
        while let Some(Passed {
            branch,
            next,
            depth,
        }) = passed.pop()
        {
            if depth < within {
                return Ok(None);
            }
            path.truncate(depth);
            if let Some(nibble) = self.child_from(branch, next) {
                path.push(nibble);
                if let Some(child) = self.child(branch, nibble, path.as_key(), None, loader)? {
                    return self.leftmost(child, path, loader, observer);
                }
            }
        }
        Ok(None)
    }

    /// The first key below `at`, to which `path` leads.
    fn leftmost<S: NodeSource>(
        &mut self,
        mut at: ShadowNode,
        mut path: Path,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        // A source that is not verified could hold a cycle of nodes. A node that is met again on
        // the path down is one, since no node holds its own hash: compare with one met before, a
        // later one after twice as many steps.
        let (mut met, mut steps) = (None, 0u32);
        loop {
            let (node, partial) = self.observed(at, loader.table, observer);
            path.push_partial(partial);
            if node.has_value() {
                return self.key_of(path).map(Some);
            }
            if !node.inlined() {
                if met == Some(node.data) {
                    let hash = *loader.table.hash(node.data);
                    return Err(LoadError::Cycle { hash });
                }
                steps = steps.saturating_add(1);
                if steps.is_power_of_two() {
                    met = Some(node.data);
                }
            }
            let Some(nibble) = self.child_from(at, 0) else {
                return Ok(None);
            };
            path.push(nibble);
            match self.child(at, nibble, path.as_key(), None, loader)? {
                Some(child) => at = child,
                None => return Ok(None),
            }
        }
    }

    /// The nibble of the first child of `at` at or after nibble `from`.
    fn child_from(&self, at: ShadowNode, from: u8) -> Option<u8> {
        let branch = self.nodes[at.index()].branch()?;
        self.branches[branch].first_from(from)
    }

    fn key_of(&self, path: Path) -> Result<Vec<u8>, LoadError> {
        path.into_key().map_err(|path| LoadError::NoKey {
            path: self.key_path(path.as_key()),
        })
    }
}
