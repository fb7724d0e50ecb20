//! Counts of reads and writes of the parent state, for benchmarks.
//!
//! A read counts only if the block has not changed the key, because otherwise it does not reach the
//! database. Iteration counts the keys that it finds there, also those that the block has changed. A write
//! counts when it is committed. Keys on the whitelist do not count. A new whitelist takes effect at the next
//! reset of the counts.

use crate::machine::{MachineError, StateMachine};
use povmeter::{Accounting, NodeSource, TrieId};
use sp_core::storage::TrackedStorageKey;
use std::collections::HashMap;

/// Length of the key prefixes of [`Accesses::by_prefix`]: the bytes that name pallet and item.
const PREFIX_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    reads: u32,
    writes: u32,
    whitelisted: bool,
}

/// The keys of one trie in the order of their first access.
#[derive(Debug, Default)]
struct Tracked {
    counts: Vec<(Vec<u8>, Count)>,
    places: HashMap<Vec<u8>, usize>,
}

impl Tracked {
    fn count(&mut self, key: &[u8]) -> &mut Count {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                let place = self.counts.len();
                self.places.insert(key.to_vec(), place);
                self.counts.push((key.to_vec(), Count::default()));
                place
            }
        };
        &mut self.counts[place].1
    }
}

/// The accesses by key, and the whitelist of keys that do not count.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    enabled: bool,
    top: Tracked,
    /// Child tries by storage key, in the order of their first access.
    children: Vec<(Vec<u8>, Tracked)>,
    whitelist: Vec<TrackedStorageKey>,
}

impl Accesses {
    pub(crate) fn enable(&mut self) {
        self.enabled = true;
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn read(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if self.enabled {
            let count = self.tracked(trie).count(key);
            count.reads = count.reads.saturating_add(1);
        }
    }

    pub(crate) fn written(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if self.enabled {
            let count = self.tracked(trie).count(key);
            count.writes = count.writes.saturating_add(1);
        }
    }

    fn tracked(&mut self, trie: TrieId<'_>) -> &mut Tracked {
        let child = match trie {
            TrieId::Top => return &mut self.top,
            TrieId::Child(child) => child,
        };
        let found = self.children.iter().position(|(key, _)| key == child);
        let place = found.unwrap_or_else(|| {
            self.children.push((child.to_vec(), Tracked::default()));
            self.children.len() - 1
        });
        &mut self.children[place].1
    }

    /// Resets the counts; the current whitelist takes effect.
    pub(crate) fn reset(&mut self) {
        self.top = Tracked::default();
        self.children.clear();
        for key in std::mem::take(&mut self.whitelist) {
            let trie = key.child_trie_key.as_deref();
            let trie = trie.map_or(TrieId::Top, TrieId::Child);
            *self.tracked(trie).count(&key.key) = Count {
                whitelisted: true,
                ..Count::default()
            };
            self.whitelist.push(key);
        }
    }

    pub(crate) fn whitelist(&self) -> &[TrackedStorageKey] {
        &self.whitelist
    }

    pub(crate) fn set_whitelist(&mut self, whitelist: Vec<TrackedStorageKey>) {
        self.whitelist = whitelist;
    }

    /// The keys that are not on the whitelist, with their counts.
    fn counted(&self) -> impl Iterator<Item = &(Vec<u8>, Count)> {
        let children = self.children.iter().flat_map(|(_, child)| &child.counts);
        let all = self.top.counts.iter().chain(children);
        all.filter(|(_, count)| !count.whitelisted)
    }

    /// Numbers of first reads, repeated reads, first writes, and repeated writes.
    pub(crate) fn totals(&self) -> (u32, u32, u32, u32) {
        let mut totals = (0, 0, 0, 0);
        for (_, count) in self.counted() {
            let (first_read, first_write) = (count.reads.min(1), count.writes.min(1));
            totals.0 += first_read;
            totals.1 += count.reads - first_read;
            totals.2 += first_write;
            totals.3 += count.writes - first_write;
        }
        totals
    }

    /// A row for each key prefix, in the order of first access: the prefix, the keys read, the keys
    /// written, and `false` because it is not on the whitelist.
    pub(crate) fn by_prefix(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        let mut rows: Vec<(Vec<u8>, u32, u32, bool)> = Vec::new();
        for (key, count) in self.counted() {
            let prefix = &key[..key.len().min(PREFIX_BYTES)];
            let (reads, writes) = (count.reads.min(1), count.writes.min(1));
            match rows.iter_mut().find(|row| row.0 == prefix) {
                Some(row) => {
                    row.1 += reads;
                    row.2 += writes;
                }
                None => rows.push((prefix.to_vec(), reads, writes, false)),
            }
        }
        rows
    }
}

impl<S: NodeSource, A: Accounting> StateMachine<S, A> {
    /// Counts a read if it reaches the parent state.
    pub(crate) fn note_read(&mut self, trie: TrieId<'_>, key: &[u8]) {
        let Self {
            accesses, block, ..
        } = self;
        if accesses.is_enabled() && !block.is_changed(trie, key) {
            accesses.read(trie, key);
        }
    }

    /// Counts the reads of the parent state that found `next` as the key after `key`: of `key`, and of each key that
    /// the block deleted, because the search then begins again behind it.
    ///
    /// # Errors
    /// [`MachineError::Block`] if a node can't be loaded.
    pub(crate) fn note_next(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        next: Option<&[u8]>,
    ) -> Result<(), MachineError> {
        if !self.accesses.is_enabled() {
            return Ok(());
        }
        self.accesses.read(trie, key);
        // A key of the parent state before `next` is deleted, or it would be the next one.
        let after = [key, &[0]].concat();
        self.note_keys(trie, &[], &after, next, u64::MAX)
    }

    /// Counts the reads of the parent state by the removal of the keys with a prefix: of each key that it visits, and
    /// of the key that becomes the cursor for the next call.
    ///
    /// # Errors
    /// [`MachineError::Block`] if a node can't be loaded.
    pub(crate) fn note_cleared(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<(), MachineError> {
        let most = limit.map_or(u64::MAX, |limit| u64::from(limit) + 1);
        self.note_keys(trie, prefix, cursor.unwrap_or(prefix), None, most)
    }

    /// Counts a read of each key of the parent state that begins with `prefix`, from `from` on, if it is before
    /// `before`: of the first `most` of them, at least one.
    fn note_keys(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        from: &[u8],
        before: Option<&[u8]>,
        most: u64,
    ) -> Result<(), MachineError> {
        let Self {
            accesses, block, ..
        } = self;
        if !accesses.is_enabled() {
            return Ok(());
        }
        let mut left = most;
        block.peek_parent_keys(trie, prefix, from, |key| {
            if before.is_some_and(|before| key >= before) {
                return false;
            }
            accesses.read(trie, key);
            left = left.saturating_sub(1);
            left > 0
        })?;
        Ok(())
    }

    /// Counts the changes as writes; call it before they are committed.
    pub(crate) fn note_writes(&mut self) {
        let Self {
            block, accesses, ..
        } = self;
        if !accesses.is_enabled() {
            return;
        }
        block.for_each_changed(|trie, key| accesses.written(trie, key));
    }
}
