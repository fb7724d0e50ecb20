//! What the block will need for transactions that were executed ahead, loaded before their turns.
//!
//! The block asks for one key after the other, and waits for memory, or for the store, at each of them. The keys of
//! transactions that were executed ahead are known, so it finds them together: once for each key, because what is
//! loaded stays.

use crate::{
    record::{Record, Seen},
    store::{KeyId, Keys, WriteSet},
};
use povmeter::{Accounting, Block, NodeSource};
use std::ops::Range;

/// See the top of the file. Belongs to whoever has the block.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    /// The first transaction that was not looked at.
    next: u32,
    /// For each key, by its number.
    noted: Vec<Noted>,
    /// Keys whose values are needed and not loaded yet, then those of which the path is enough.
    values: Vec<KeyId>,
    paths: Vec<KeyId>,
}

/// What was noted of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Noted {
    Nothing,
    Path,
    Value,
}

/// Most transactions whose keys are loaded together.
const TOGETHER: u32 = 8;

impl Fetch {
    /// The transactions to look at when the turn of `transaction` has come: none, if that was done with an earlier
    /// one.
    pub(crate) fn due(&self, transaction: u32) -> Range<u32> {
        if transaction < self.next {
            return 0..0;
        }
        transaction..transaction.saturating_add(TOGETHER)
    }

    /// Notes the keys of `transaction`, whose nodes it will count or change.
    pub(crate) fn note(&mut self, transaction: u32, record: &Record, writes: &WriteSet) {
        self.next = self.next.max(transaction.saturating_add(1));
        for read in &record.reads {
            match read.seen {
                Seen::Next(_) | Seen::Ask(_) => {}
                // A lower transaction wrote it, so the block need not ask the parent state.
                Seen::Absent | Seen::Value(_) | Seen::Large(_) | Seen::Exists(_)
                    if !read.of_parent => {}
                Seen::Exists(_) => self.note_key(read.key, Noted::Path),
                _ => self.note_key(read.key, Noted::Value),
            }
        }
        for entry in writes.entries() {
            self.note_key(entry.key, Noted::Path);
        }
    }

    fn note_key(&mut self, key: KeyId, needed: Noted) {
        let number = key.index();
        if number >= self.noted.len() {
            self.noted.resize(number + 1, Noted::Nothing);
        }
        let noted = &mut self.noted[number];
        if *noted < needed {
            *noted = needed;
            match needed {
                Noted::Value => self.values.push(key),
                _ => self.paths.push(key),
            }
        }
    }

    /// Loads the nodes of the keys that were noted. An error is left to the call that needs the node.
    pub(crate) fn load<S: NodeSource, A: Accounting>(
        &mut self,
        keys: &Keys,
        block: &mut Block<S, A>,
    ) {
        let Self {
            noted: _,
            next: _,
            values,
            paths,
        } = self;
        let trie_of = |id: &KeyId| keys.key(*id).trie;
        let bytes_of = |id: &KeyId| &keys.key(*id).bytes[..];
        // Nearly always all are of one trie.
        values.sort_by_key(trie_of);
        paths.sort_by_key(trie_of);
        let (mut read, mut changed) = (Vec::new(), Vec::new());
        while let Some(trie) = values.iter().chain(&*paths).map(trie_of).max() {
            let take = |ids: &mut Vec<KeyId>, of_trie: &mut Vec<_>| {
                let first = ids.partition_point(|id| trie_of(id) < trie);
                of_trie.clear();
                of_trie.extend(ids.drain(first..).map(|id| bytes_of(&id)));
            };
            take(values, &mut read);
            take(paths, &mut changed);
            let _ = block.prefetch_for(keys.trie(trie), &read, &changed);
        }
    }
}
