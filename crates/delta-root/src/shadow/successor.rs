//! The next key of a trie.
//!
//! ```text
//! successor(from, bound, prefix):
//!     if bound is exclusive and from is the key that was found last: observe the known path to from
//!     else walk towards from, and keep for each branch passed the next nibble to try
//!         a partial key after the nibbles of from:   the leftmost entry below is the answer
//!         a partial key before them:                 no entry below is the answer
//!         from ends inside a partial key:            the leftmost entry below is the answer
//!         from ends at the end of a partial key:     its value, if bound is inclusive; else its children
//!     then down to the children, or back up: the leftmost entry of the first child from the kept nibble on
//!     no node outside prefix is loaded
//! ```
//! The nodes observed are those that trie-db's iterator loads for the same question.

use super::{cursor::Cursor, Loader, Observer, ShadowNode, ShadowTrie};
use crate::{
    nibbles::{self, Path},
    LoadError, NodeSource, NodeTable,
};
use alloc::vec::Vec;
use core::{cmp::Ordering, mem::take};

/// Whether the key that a search starts from may be its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Inclusive,
    Exclusive,
}

impl ShadowTrie {
    /// The first key at or after `from` (after it, with an exclusive bound) that begins with
    /// `prefix`; `from` has to begin with `prefix`, too.
    pub(crate) fn successor<S: NodeSource>(
        &mut self,
        from: &[u8],
        bound: Bound,
        prefix: &[u8],
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let mut cursor = take(&mut self.cursor);
        let within = nibbles::count(prefix);
        let found = if bound == Bound::Exclusive && cursor.is_at(from) {
            for &at in &cursor.nodes {
                self.observed(at, loader.table, observer);
            }
            cursor.leave(0);
            self.go_back(&mut cursor, within, loader, observer)
        } else {
            cursor.reset();
            self.seek(&mut cursor, (from, bound), within, loader, observer)
        };
        cursor.end(matches!(found, Ok(true)));
        let key = found.and_then(|found| match found {
            true => self.key_of(&cursor.path, loader.table).map(Some),
            false => Ok(None),
        });
        self.cursor = cursor;
        key
    }

    /// Moves `cursor` from the root to the first key at or after `from`, or after it, as `bound` says.
    /// Returns `false` if no such key begins with the first `within` nibbles of `from`.
    fn seek<S: NodeSource>(
        &mut self,
        cursor: &mut Cursor,
        (from, bound): (&[u8], Bound),
        within: usize,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<bool, LoadError> {
        let end = nibbles::count(from);
        let mut at = self.load_root(loader)?;
        loop {
            let depth = cursor.path.len();
            let (node, partial) = self.observed(at, loader.table, observer);
            let (order, common) = partial.compare_at(from, depth);
            if order == Ordering::Greater || (order == Ordering::Equal && common < partial.len()) {
                if depth + common < within {
                    return Ok(false);
                }
                return self.leftmost(cursor, at, loader, observer);
            }
            if order == Ordering::Less {
                break;
            }
            cursor.nodes.push(at);
            cursor.path.push_partial(partial);
            if cursor.path.len() == end {
                if bound == Bound::Inclusive && node.has_value() {
                    return Ok(true);
                }
                cursor.leave(0);
                break;
            }
            let nibble = nibbles::at(from, cursor.path.len());
            cursor.pass(nibble);
            match self.child(at, nibble, cursor.path.as_key(), None, loader)? {
                Some(child) => at = child,
                None => break,
            }
        }
        self.go_back(cursor, within, loader, observer)
    }

    /// Moves `cursor` back to the last branch that has more children, and on to the first key below them.
    /// Returns `false` if there is no such branch, or it ends within the first `within` nibbles of the path.
    fn go_back<S: NodeSource>(
        &mut self,
        cursor: &mut Cursor,
        within: usize,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<bool, LoadError> {
        while let Some((branch, next)) = cursor.back() {
            if cursor.path.len() < within {
                return Ok(false);
            }
            if let Some(nibble) = self.child_from(branch, next) {
                cursor.pass(nibble);
                let prefix = cursor.path.as_key();
                if let Some(child) = self.child(branch, nibble, prefix, None, loader)? {
                    return self.leftmost(cursor, child, loader, observer);
                }
            }
        }
        Ok(false)
    }

    /// Moves `cursor`, whose path leads to `at`, to the first key in the subtrie of `at`.
    fn leftmost<S: NodeSource>(
        &mut self,
        cursor: &mut Cursor,
        mut at: ShadowNode,
        loader: &mut Loader<'_, S>,
        observer: &mut impl Observer,
    ) -> Result<bool, LoadError> {
        // A source that is not verified could hold a cycle of nodes. A node that is met twice on the path
        // down shows it, because no node holds its own hash. Each node is compared with one met before,
        // which a later one replaces after twice as many steps.
        let (mut met, mut steps) = (None, 0u32);
        loop {
            let (node, partial) = self.observed(at, loader.table, observer);
            cursor.nodes.push(at);
            cursor.path.push_partial(partial);
            if node.has_value() {
                return Ok(true);
            }
            if !node.inlined() {
                if met == Some(node.data) {
                    let hash = *loader.table.hash(node.data);
                    loader.table.note_refused();
                    return Err(LoadError::Cycle { hash });
                }
                steps = steps.saturating_add(1);
                if steps.is_power_of_two() {
                    met = Some(node.data);
                }
            }
            let Some(nibble) = self.child_from(at, 0) else {
                return Ok(false);
            };
            cursor.pass(nibble);
            match self.child(at, nibble, cursor.path.as_key(), None, loader)? {
                Some(child) => at = child,
                None => return Ok(false),
            }
        }
    }

    /// The nibble of the first child of `at` at or after nibble `from`.
    fn child_from(&self, at: ShadowNode, from: u8) -> Option<u8> {
        let branch = self.nodes[at.index()].branch()?;
        self.branches[branch].first_from(from)
    }

    fn key_of(&self, path: &Path, table: &mut NodeTable) -> Result<Vec<u8>, LoadError> {
        match path.as_key() {
            (key, None) => Ok(key.to_vec()),
            odd => {
                table.note_refused();
                let path = self.key_path(odd);
                Err(LoadError::NoKey { path })
            }
        }
    }
}
