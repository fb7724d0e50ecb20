//! The multi-version store: what each transaction of a block writes, for transactions above it.
//!
//! ```text
//! position:       0 = what the block changed before, 1 = the first transaction, ...
//! slot:           position -> the write set of its last execution, whether it is an estimate
//! key:            number -> positions that write it (one inline, some sorted, many as bits)
//! read(p, key):   w = the nearest writer of the key below p; none: ask the parent state
//!                 slot w is an estimate: the reader waits
//!                 slot w does not have the key any more: on with the nearest writer below w
//! publish(p, s):  replace the slot, then add and remove p at keys that only one of the two sets has
//! ```
//! A reader may see an index that is ahead of a slot, or behind it. It then gets a value that is not the
//! last one, as if it had read earlier. That is harmless, because every read is compared with the committed
//! value before its transaction is committed.

mod keys;
mod ordered;
mod write_set;
mod writers;

pub(crate) use keys::{HashedKey, KeyId, Keys, ParentValue, TrieNumber};
pub(crate) use write_set::{
    same_bytes, Content, Span, TooLong, WriteSet, WriteSetBuilder, LARGE_BYTES,
};
pub(crate) use writers::index;

use crate::sync::{lock, read, write, RwLock};
use ordered::Ordered;
use std::sync::Arc;
use write_set::Presence;

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct MultiVersion {
    pub(crate) keys: Keys,
    ordered: Ordered,
    slots: Box<[RwLock<Slot>]>,
}

#[derive(Debug, Default)]
struct Slot {
    writes: Option<Arc<WriteSet>>,
    /// The execution was wrong, and the next one will likely write the same keys.
    estimate: bool,
}

/// The nearest writer of a key below a position.
#[derive(Debug)]
pub(crate) enum Nearest {
    /// No transaction writes it.
    Parent,
    /// The transaction at this position will likely write it.
    Estimate(u32),
    /// The transaction at this position writes it.
    Written(u32, Arc<WriteSet>, Content),
}

impl MultiVersion {
    /// A store for `positions`.
    pub(crate) fn new(positions: u32) -> Self {
        Self {
            keys: Keys::default(),
            ordered: Ordered::default(),
            slots: (0..positions)
                .map(|_| RwLock::new(Slot::default()))
                .collect(),
        }
    }

    fn positions(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Replaces what `position` writes, which then is no estimate. `true` if that is anything else than
    /// before.
    ///
    /// Only the thread that executes the transaction may call it.
    pub(crate) fn publish(&self, position: u32, writes: Arc<WriteSet>) -> bool {
        let before = {
            let mut slot = write(&self.slots[index(position)]);
            slot.estimate = false;
            slot.writes.replace(writes.clone())
        };
        let nothing = WriteSet::default();
        let before = before.as_deref().unwrap_or(&nothing);
        let mut changed = false;
        writes.compare(before, |id, presence| {
            changed = true;
            let key = self.keys.key(id);
            match presence {
                Presence::Both => {}
                Presence::Theirs => lock(&key.writers).remove(position),
                Presence::Ours => {
                    let mut writers = lock(&key.writers);
                    let first = writers.below(u32::MAX).is_none();
                    writers.insert(position, self.positions());
                    drop(writers);
                    if first {
                        self.ordered.add(id);
                    }
                }
            }
        });
        changed
    }

    /// Marks the writes of `position` as an estimate. `false` if there are none.
    pub(crate) fn mark_estimate(&self, position: u32) -> bool {
        let mut slot = write(&self.slots[index(position)]);
        slot.estimate = slot.writes.is_some();
        slot.estimate
    }

    /// Whether the writes of `position` are an estimate.
    pub(crate) fn is_estimate(&self, position: u32) -> bool {
        read(&self.slots[index(position)]).estimate
    }

    /// The nearest writer of `key` below `position`.
    pub(crate) fn nearest(&self, position: u32, key: KeyId) -> Nearest {
        self.nearest_of(position, key, false)
    }

    /// As [`Self::nearest`]. If `likely`, what the last execution wrote is taken for what the next one will
    /// write.
    pub(crate) fn nearest_of(&self, position: u32, key: KeyId, likely: bool) -> Nearest {
        let writers = &self.keys.key(key).writers;
        let mut below = position;
        loop {
            let Some(writer) = lock(writers).below(below) else {
                return Nearest::Parent;
            };
            let slot = read(&self.slots[index(writer)]);
            if let Some(writes) = &slot.writes {
                if let Some(content) = writes.find(key) {
                    return match slot.estimate && !likely {
                        true => Nearest::Estimate(writer),
                        false => Nearest::Written(writer, writes.clone(), content),
                    };
                }
            }
            below = writer;
        }
    }

    /// The first key of `trie` after `after` that some transaction has written.
    pub(crate) fn next_written(&self, trie: TrieNumber, after: &[u8]) -> Option<KeyId> {
        self.ordered.next(&self.keys, trie, after)
    }
}
