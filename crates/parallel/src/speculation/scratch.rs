//! The memory of a thread for the transactions that it executes ahead.

use super::first_reads::FirstReads;
use crate::{
    below::Below,
    record::Record,
    store::{KeyId, Keys, LastKeys, Span, WriteSetBuilder},
    update::Kind,
};
use hashbrown::HashTable;
use povmeter_overlay::Overlay;

/// The memory of one thread for its executions ahead.
#[derive(Debug)]
pub(crate) struct Scratch<'k, P> {
    pub(super) keys: LastKeys<'k>,
    /// The changes of the transaction.
    pub(super) overlay: Overlay,
    /// Updates of keys that the overlay did not hold. They have no effect on keys that it holds now.
    pub(super) pending: Vec<Pending>,
    /// The keys of these updates, each with their number.
    updated: HashTable<(KeyId, usize)>,
    pub(super) operands: Vec<u8>,
    /// How many updates were pending at the start of each open transaction.
    pub(super) open: Vec<usize>,
    pub(super) record: Box<Record>,
    /// Memory for the next record.
    pub(crate) spare: Option<Box<Record>>,
    pub(super) first_reads: FirstReads,
    /// Steps through the transaction's own changes.
    pub(super) own_steps: usize,
    pub(crate) below: Below<P>,
    pub(super) builder: WriteSetBuilder,
    /// Keys to which the transaction wrote large values that it had not read.
    pub(super) large: Vec<KeyId>,
    pub(super) value: Vec<u8>,
    pub(super) other: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) key: KeyId,
    pub(super) kind: Kind,
    pub(super) operand: Span,
}

/// Overlays with more memory than this are not kept, because emptying one costs a pass over it.
const KEPT_BYTES: usize = 1 << 20;
/// Tables of more keys than this are not kept, for the same reason.
pub(super) const KEPT_KEYS: usize = 1 << 14;

impl<'k, P> Scratch<'k, P> {
    pub(crate) fn new(keys: &'k Keys, below: Below<P>) -> Self {
        Self {
            keys: LastKeys::new(keys),
            overlay: Overlay::new(),
            pending: Vec::new(),
            updated: HashTable::new(),
            operands: Vec::new(),
            open: Vec::new(),
            record: Box::default(),
            spare: None,
            first_reads: FirstReads::default(),
            own_steps: 0,
            below,
            builder: WriteSetBuilder::default(),
            large: Vec::new(),
            value: Vec::new(),
            other: Vec::new(),
        }
    }

    /// Adds an update.
    pub(super) fn push_pending(&mut self, update: Pending) {
        let key = update.key;
        let entry = self.updated.entry(
            key.hash(),
            |(other, _)| *other == key,
            |(other, _)| other.hash(),
        );
        entry.or_insert((key, 0)).get_mut().1 += 1;
        self.pending.push(update);
    }

    /// Removes the last updates, so that `count` stay.
    pub(super) fn truncate_pending(&mut self, count: usize) {
        for update in self.pending.drain(count.min(self.pending.len())..) {
            let key = update.key;
            let found = self
                .updated
                .find_entry(key.hash(), |(other, _)| *other == key);
            if let Ok(mut found) = found {
                found.get_mut().1 -= 1;
                if found.get().1 == 0 {
                    found.remove();
                }
            }
        }
    }

    /// Whether there is an update of `key`.
    pub(super) fn has_pending(&self, key: KeyId) -> bool {
        self.updated
            .find(key.hash(), |(other, _)| *other == key)
            .is_some()
    }

    /// How many keys there are updates of.
    pub(super) fn updated_count(&self) -> usize {
        self.updated.len()
    }

    /// The keys of which there are updates, each once, in no special order.
    pub(super) fn updated_keys(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.updated.iter().map(|(key, _)| *key)
    }

    /// Clears the memory for the next transaction.
    pub(super) fn begin(&mut self) {
        if self.overlay.memory() > KEPT_BYTES {
            self.overlay = Overlay::new();
        } else {
            self.overlay.reset();
        }
        self.own_steps = 0;
        self.pending.clear();
        if self.updated.capacity() > KEPT_KEYS {
            self.updated = HashTable::new();
        } else {
            self.updated.clear();
        }
        self.operands.clear();
        self.open.clear();
        self.builder.clear();
        self.large.clear();
        self.first_reads.clear();
        self.record.clear();
    }
}
